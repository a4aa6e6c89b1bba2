#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology.h"

namespace longhaul {

enum class EmulatorKind { kNetem, kTap };
std::string_view ToString(EmulatorKind kind);

// What the kernel counted on one ordered path since it was built.
struct PathCounters {
  int64_t packets = 0;
  int64_t bytes = 0;
  int64_t drops_queue = 0;  // tail drops
  int64_t drops_loss = 0;   // drops asked for by loss_prob (netem: cannot be told apart, all here)
};

// The links of one topology, built in the caller's network and mount namespaces: call it inside a
// private lab (lab.h) or as root. One interface, two implementations, one acceptance suite.
// Destruction removes everything that was built. Thread safety: none; one owner.
class Emulator {
 public:
  virtual ~Emulator() = default;
  virtual EmulatorKind kind() const = 0;
  virtual const Topology& topology() const = 0;

  // Open file descriptor of node i's network namespace; owned by the emulator.
  virtual int node_netns_fd(int node) const = 0;

  virtual absl::StatusOr<PathCounters> counters(int from, int to) const = 0;

  // Scheduling class of the emulating thread, "kernel" for netem; for records.
  virtual std::string_view scheduling() const = 0;
};

// Tries the kernel with a scratch device: netem where it works, tap where the kernel has no
// sch_netem. Anything else is an error that says what was tried.
absl::StatusOr<EmulatorKind> ProbeEmulatorKind();

// Builds and shapes. InvalidArgument: Validate(topology) fails. FailedPrecondition or
// PermissionDenied: what is missing and what to do about it. Nothing is left behind on error.
absl::StatusOr<std::unique_ptr<Emulator>> BuildEmulator(EmulatorKind kind,
                                                        const Topology& topology);

// "10.0.<i / 250>.<2 + ...>": the IPv4 address of node i's net0, the same in both emulators.
std::string NodeAddress(int node);

}  // namespace longhaul
