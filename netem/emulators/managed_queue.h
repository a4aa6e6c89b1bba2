#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"
#include "netem/kernel/netlink.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A rate with a managed queue before it, as the root of a device: sch_tbf and below it sch_codel or
// sch_fq_codel. It stands on a device without netem: netem above a queue that drops by itself
// counts wrong. `limit_packets`: of the queue. FailedPrecondition: the kernel lacks one of them.
absl::Status PutManagedQueue(const Netlink& netlink, int ifindex, BitsPerSecond rate,
                             int64_t limit_packets, const QueueManagement& aqm, int mtu);

// Of the managed queue at the root of the device; `name` and `is_up` are the caller's to fill in.
absl::StatusOr<LineCounters> ReadManagedQueue(const Netlink& netlink, int ifindex);

}  // namespace longhaul
