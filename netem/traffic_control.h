#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/netlink.h"
#include "netem/units.h"

namespace longhaul {

// One netem queueing discipline.
struct NetemSpec {
  std::optional<BitsPerSecond> rate;
  int64_t delay_ns = 0;
  int64_t jitter_ns = 0;  // standard deviation of a normal distribution
  double loss_prob = 0;
  int64_t limit_packets = 0;  // delay line and queue together
};

// Creates or changes netem at `parent` (TC_H_ROOT or an HTB class) of a device. libnl knows only an
// old part of netem, so the message is written by hand.
absl::Status ReplaceNetem(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                          const NetemSpec& spec);

// HTB 1: as a classifier by source address only, at a rate nobody reaches. Its default class 1:1
// drops everything: without one HTB would send unclassified frames on unshaped.
absl::Status AddClassifier(const Netlink& netlink, int ifindex, int mtu);

// Class for frames of `source` (IPv4, host byte order), with a netem leaf whose handle is
// LeafHandle(slot).
absl::Status AddSource(const Netlink& netlink, int ifindex, int mtu, int slot, uint32_t source,
                       const NetemSpec& spec);

uint32_t LeafHandle(int slot);
uint32_t LeafParent(int slot);
inline constexpr int kDefaultSlot = -1;  // the class that drops

struct QueueCounters {
  int64_t packets = 0;
  int64_t bytes = 0;
  int64_t drops = 0;
  int64_t backlog_packets = 0;
};
// NotFound: no queueing discipline with this handle on the device.
absl::StatusOr<QueueCounters> ReadCounters(const Netlink& netlink, int ifindex, uint32_t handle);

}  // namespace longhaul
