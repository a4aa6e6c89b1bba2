#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"
#include "netem/kernel/netlink.h"
#include "netem/topology/impairment.h"
#include "netem/topology/units.h"

struct nl_msg;

namespace longhaul {

// Creates or changes one queueing discipline: its kind and place, and what `options` puts into
// TCA_OPTIONS. FailedPrecondition: the kernel has none of that kind; `kind` is in the message.
absl::Status PutQdisc(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                      const char* kind, const std::function<void(nl_msg*)>& options);

// sch_tbf: a rate in bytes/s, of which `burst_bytes` may go at once.
absl::Status PutTokenBucket(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                            uint64_t bytes_per_second, uint32_t burst_bytes);

// One netem queueing discipline.
struct NetemSpec {
  std::optional<BitsPerSecond> rate;
  int64_t delay_ns = 0;
  ImpairmentSpec impairment = {};
  int64_t limit_packets = 0;  // netem's own: what waits for its delay and its rate together
  // Of its draws, from here on; kernels before 6.6 draw from their own, and say nothing of it.
  std::optional<uint64_t> seed = std::nullopt;
};

// Creates or changes netem at `parent` (TC_H_ROOT or an HTB class) of a device. libnl knows only an
// old part of netem.
absl::Status ReplaceNetem(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                          const NetemSpec& spec);

inline constexpr uint64_t kUnreachedBytesPerSecond = 12'500'000'000;  // 100 Gbit/s

// HTB 1: as a classifier by address only, at a rate nobody reaches. Its default class 1:1
// drops everything: without one HTB would send unclassified frames on unshaped.
absl::Status AddClassifier(const Netlink& netlink, int ifindex, int mtu);

// Frames by the IPv4 addresses of nodes, in host byte order, and by the IPv6 addresses that end in
// them.
struct FlowKey {
  uint32_t source;
  std::optional<uint32_t> destination;  // nullopt: any
};

// One class for all of these flows, which nothing holds back before it has a leaf.
absl::Status AddPassage(const Netlink& netlink, int ifindex, int mtu, int slot,
                        const std::vector<FlowKey>& flows, IpVersions ip);

// A leaf has up to three queueing disciplines, one below the other (path_leaf.h).
enum class LeafPart : uint8_t { kTop, kDelay, kRate };
uint32_t LeafHandle(int slot, LeafPart part = LeafPart::kTop);
// The kernel numbers the queueing disciplines of a device with 16 bits.
inline constexpr int kMaxLeaves = 21'000;
uint32_t LeafParent(int slot);
inline constexpr int kDefaultSlot = -1;  // the class that drops

struct QueueCounters {
  int64_t packets = 0;
  int64_t bytes = 0;
  int64_t drops = 0;
  int64_t backlog_bytes = 0;
};
// NotFound: no queueing discipline with this handle on the device.
absl::StatusOr<QueueCounters> ReadCounters(const Netlink& netlink, int ifindex, uint32_t handle);

}  // namespace longhaul
