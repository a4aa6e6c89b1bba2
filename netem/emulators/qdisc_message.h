#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "netem/kernel/netlink.h"

struct nl_msg;

namespace longhaul {

// Creates or changes one queueing discipline: its kind and place, and what `options` puts into
// TCA_OPTIONS. FailedPrecondition: the kernel has none of that kind; `kind` is in the message.
absl::Status PutQdisc(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                      const char* kind, const std::function<void(nl_msg*)>& options);

// sch_tbf: a rate in bytes/s, of which `burst_bytes` may go at once.
absl::Status PutTokenBucket(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                            uint64_t bytes_per_second, uint32_t burst_bytes);

}  // namespace longhaul
