#include "netem/emulators/path_leaf.h"

#include <linux/pkt_sched.h>

#include "netem/emulators/qdisc_message.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr int64_t kNeverReached = 1 << 30;  // frames; netem takes memory only for those inside
// netem with a rate keeps the order of frames whose delays vary; at this one a full frame takes
// 12 ns.
constexpr BitsPerSecond kOrderKeepingRate = Gbit(1000);
constexpr uint64_t kUnreachedBytesPerSecond = 12'500'000'000;  // 100 Gbit/s, as of the classes
constexpr uint32_t kUnreachedBurstBytes = 1 << 20;

uint32_t ChildOf(uint32_t handle) { return TC_H_MAKE(handle, 1); }

}  // namespace

PathLeaf PathLeafOf(const Topology& topology, const PathSpec& path) {
  ImpairmentSpec before = ImpairmentOf(path), behind = before;
  before.jitter_ns = 0;
  before.reorder_prob = 0;
  behind.loss_prob = 0;
  behind.burst_loss.reset();
  behind.corrupt_prob = 0;
  PathLeaf leaf{
      .rate = {.rate = path.rate,
               .impairment = before,
               .limit_packets = path.rate ? PathQueuePackets(topology, path) : kNeverReached},
      .delay = {.rate = std::nullopt,
                .delay_ns = absl::ToInt64Nanoseconds(path.delay),
                .impairment = behind,
                .limit_packets = kNeverReached}};
  if (path.rate && path.jitter_order == JitterOrder::kKeep) leaf.delay.rate = kOrderKeepingRate;
  return leaf;
}

absl::Status BuildPathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf) {
  auto s = PutTokenBucket(netlink, ifindex, LeafParent(slot), LeafHandle(slot),
                          kUnreachedBytesPerSecond, kUnreachedBurstBytes);
  return s.ok() ? ChangePathLeaf(netlink, ifindex, slot, leaf) : s;
}

absl::Status ChangePathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf) {
  const uint32_t rate = LeafHandle(slot, LeafPart::kRate);
  auto s = ReplaceNetem(netlink, ifindex, ChildOf(LeafHandle(slot)), rate, leaf.rate);
  if (!s.ok()) return s;
  return ReplaceNetem(netlink, ifindex, ChildOf(rate), LeafHandle(slot, LeafPart::kDelay),
                      leaf.delay);
}

}  // namespace longhaul
