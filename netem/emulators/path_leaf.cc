#include "netem/emulators/path_leaf.h"

#include <linux/pkt_sched.h>

#include <algorithm>

#include "base/status_macros.h"
#include "netem/emulators/traffic_control.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr int64_t kNeverReached = 1 << 30;  // frames; netem takes memory only for those inside
// netem with a rate keeps the order of frames whose delays vary; at this one a full frame takes
// 12 ns.
constexpr BitsPerSecond kOrderKeepingRate = Gbit(1000);
constexpr uint32_t kUnreachedBurstBytes = 1 << 20;

uint32_t ChildOf(uint32_t handle) { return TC_H_MAKE(handle, 1); }

}  // namespace

PathLeaf PathLeafOf(const Topology& topology, const PathSpec& path) {
  PathLeaf leaf{.delay = {.rate = std::nullopt,
                          .delay_ns = absl::ToInt64Nanoseconds(path.delay),
                          .impairment = ImpairmentOf(path),
                          .limit_packets = kNeverReached},
                .rate = {.rate = path.rate, .limit_packets = kNeverReached}};
  if (path.rate) leaf.rate.limit_packets = PathQueuePackets(topology, path);
  if (path.rate && path.jitter_order == JitterOrder::kKeep) leaf.delay.rate = kOrderKeepingRate;
  return leaf;
}

absl::Status BuildPathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf) {
  auto s = PutTokenBucket(netlink, ifindex, LeafParent(slot), LeafHandle(slot),
                          kUnreachedBytesPerSecond, kUnreachedBurstBytes);
  return s.ok() ? ChangePathLeaf(netlink, ifindex, slot, leaf) : s;
}

absl::Status ChangePathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf) {
  const uint32_t delay = LeafHandle(slot, LeafPart::kDelay);
  auto s = ReplaceNetem(netlink, ifindex, ChildOf(LeafHandle(slot)), delay, leaf.delay);
  if (!s.ok()) return s;
  return ReplaceNetem(netlink, ifindex, ChildOf(delay), LeafHandle(slot, LeafPart::kRate),
                      leaf.rate);
}

absl::StatusOr<PathCounters> ReadPathLeaf(const Netlink& netlink, int ifindex, int slot) {
  ASSIGN_OR_RETURN(auto all, ReadCounters(netlink, ifindex, LeafHandle(slot)));
  ASSIGN_OR_RETURN(auto queue, ReadCounters(netlink, ifindex, LeafHandle(slot, LeafPart::kRate)));
  return PathCounters{.packets = all.packets,
                      .bytes = all.bytes,
                      .device_bytes = all.bytes,  // offloads are off
                      .drops_queue = queue.drops,
                      .drops_loss = std::max<int64_t>(0, all.drops - queue.drops),
                      .held_bytes = all.backlog_bytes};
}

}  // namespace longhaul
