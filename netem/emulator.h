#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology/topology.h"

namespace longhaul {

enum class EmulatorKind { kNetem, kTap };
std::string_view ToString(EmulatorKind kind);

// What the kernel or the emulator counted on one ordered path since it was built.
struct PathCounters {
  int64_t packets = 0;       // delivered: MTU frames (a whole TSO frame counts its segments)
  int64_t bytes = 0;         // as on a wire: Ethernet, IP and TCP headers for every MTU frame
  int64_t device_bytes = 0;  // as the nodes' devices count them: a TSO frame's headers once
  int64_t drops_queue = 0;   // tail drops
  int64_t drops_loss = 0;    // drops asked for: loss, an outage
  int64_t drops_aqm = 0;     // by queue management, of the path's own queue or a line's (tap)
  int64_t ecn_marks = 0;     // CE set instead of a drop, likewise
  int64_t held_bytes = 0;    // inside just now: delay line and queues (netem: the path's own)
};

// What an access line's queues did in one direction, whichever path a frame was on.
struct LineCounters {
  std::string name;   // of its node or site
  bool is_up = true;  // else down
  int64_t packets = 0, drops_queue = 0, drops_aqm = 0, ecn_marks = 0;
};

// A path that is kDown loses everything that arrives; what is inside goes on.
enum class Carrier { kUp, kDown };

// How far behind its own schedule an emulator delivered. A late frame is a wrong link.
struct Lateness {
  int64_t frames = 0;       // delivered (a TSO frame counts once)
  int64_t late_frames = 0;  // more than 1 ms late
  absl::Duration max;
  // A frame was delivered so long after its time; before it: less than 0.
  void Delivered(absl::Duration late) {
    ++frames;
    late_frames += late > absl::Milliseconds(1);
    max = std::max(max, late);
  }
  absl::Duration lead;  // frames may leave so much before their time (wake_lead.h)
};

enum class IpVersion { kIpv4, kIpv6 };
enum class IpVersions { kIpv4, kBoth };

// Choices of a run beside its topology; each is recorded (HostFacts).
struct EmulatorOptions {
  std::string congestion_control;     // of the nodes; "": what a new namespace starts with
  bool slow_start_after_idle = true;  // Linux's own default
  uint64_t seed = 1;                  // of loss and jitter; netem takes one from Linux 6.6 on
  // kBoth, of a kernel that has IPv6: nodes have NodeAddress6 beside NodeAddress.
  IpVersions ip = IpVersions::kIpv4;
};

// How long a call waits for the emulating thread, which answers between two frames.
inline constexpr absl::Duration kAnswerDeadline = absl::Seconds(1);

// The links of one topology, built in the caller's network and mount namespaces: call it inside a
// private lab (lab.h) or as root. One interface, two implementations, one acceptance suite.
// Destruction removes everything that was built. Thread safety: none; one owner.
class Emulator {
 public:
  virtual ~Emulator() = default;
  virtual EmulatorKind kind() const = 0;
  virtual const Topology& topology() const = 0;
  virtual const EmulatorOptions& options() const = 0;

  // Gives an existing path new figures while traffic flows: nothing is lost, and what is inside
  // keeps the time it was given. topology() then has the new ones. InvalidArgument: bad figures, or
  // the pair has no path.
  virtual absl::Status ChangePath(const PathSpec& path) = 0;
  // An outage begins or ends.
  virtual absl::Status SetCarrier(int from, int to, Carrier carrier) = 0;

  // Open file descriptor of node i's network namespace; owned by the emulator.
  virtual int node_netns_fd(int node) const = 0;

  virtual absl::StatusOr<PathCounters> counters(int from, int to) const = 0;

  // Both directions of every access line, in the order of the first nodes
  // behind them: up, down, up, down ..
  virtual absl::StatusOr<std::vector<LineCounters>> line_counters() const = 0;

  // Frames that belong to no path (unknown or foreign address, no IP) and were dropped.
  virtual absl::StatusOr<int64_t> unroutable_drops() const = 0;

  // Scheduling class of the emulating thread, "kernel" for netem; for records.
  virtual std::string_view scheduling() const = 0;

  // CPU time of the emulating thread and its punctuality so far; both zero for netem, where the
  // kernel does the work in everybody's time and tells nothing.
  virtual absl::Duration cpu_time() const = 0;
  virtual Lateness lateness() const = 0;

  // OK while the links work. Otherwise what broke: a device deleted, a namespace gone, the
  // emulating thread ended by an error. DeadlineExceeded: the emulating thread has not answered for
  // kAnswerDeadline; counters() say so too, lateness() and cpu_time() are zero then.
  virtual absl::Status health() const = 0;
};

// Gives the counters of all lines, in the order of Emulator::line_counters, the names of theirs.
void NameLines(const Topology& topology, std::vector<LineCounters>& lines);

// Frames of a node that its kernel gave up before the emulator read them: the ring between the two
// was full, which an overloaded machine makes of a burst. Loss that nobody asked for.
absl::StatusOr<int64_t> UnreadDrops(const Emulator& emulator, int node);

// Tries the kernel with a scratch device: netem where it works, tap where the kernel has no
// sch_netem. Anything else is an error that says what was tried.
absl::StatusOr<EmulatorKind> ProbeEmulatorKind();

// InvalidArgument, with what to do about it.
absl::Status KernelLacksNetem();

// `forced`, or tap for links that only it can be (WhyTapAlone), or what the kernel can.
// KernelLacksNetem where netem is forced and there is none.
absl::StatusOr<EmulatorKind> ChooseEmulatorKind(const std::optional<EmulatorKind>& forced,
                                                const Topology& topology);

// Builds and shapes. InvalidArgument: Validate(topology) fails. FailedPrecondition or
// PermissionDenied: what is missing and what to do about it. Nothing is left behind on error.
absl::StatusOr<std::unique_ptr<Emulator>> BuildEmulator(EmulatorKind kind, const Topology& topology,
                                                        const EmulatorOptions& options = {});

// "10.0.<i / 250>.<2 + i % 250>": the IPv4 address of node i's net0, the same in both emulators.
std::string NodeAddress(int node);
// "fd6c:6f6e:6768::a00:2": its IPv6 address, which ends in the IPv4 one; the network is one of those
// that everybody may take (RFC 4193), "longh" in letters.
std::string NodeAddress6(int node);

}  // namespace longhaul
