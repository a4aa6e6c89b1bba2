#include "netem/emulators/qdisc_message.h"

#include <fmt/format.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <algorithm>

namespace longhaul {

absl::Status PutQdisc(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                      const char* kind, const std::function<void(nl_msg*)>& options) {
  nl_msg* message = nlmsg_alloc();
  nlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, RTM_NEWQDISC, 0, NLM_F_CREATE | NLM_F_REPLACE);
  tcmsg target{};
  target.tcm_ifindex = ifindex;
  target.tcm_parent = parent;
  target.tcm_handle = handle;
  nlmsg_append(message, &target, sizeof target, NLMSG_ALIGNTO);
  nla_put_string(message, TCA_KIND, kind);
  nlattr* nest = nla_nest_start(message, TCA_OPTIONS);
  options(message);
  nla_nest_end(message, nest);
  const int e = nl_send_sync(netlink.socket(), message);  // frees the message
  if (e >= 0) return absl::OkStatus();
  const absl::Status s = NetlinkStatus(fmt::format("put {} on device {}", kind, ifindex), e);
  if (!absl::IsNotFound(s)) return s;
  return absl::FailedPreconditionError(
      fmt::format("this kernel has no sch_{}; load the module or use --emulator tap", kind));
}

absl::Status PutTokenBucket(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                            uint64_t bytes_per_second, uint32_t burst_bytes) {
  return PutQdisc(netlink, ifindex, parent, handle, "tbf", [&](nl_msg* message) {
    tc_tbf_qopt parameters{};
    parameters.limit = burst_bytes;  // of a queue that another one replaces at once
    parameters.rate.linklayer = TC_LINKLAYER_ETHERNET;
    parameters.rate.rate = static_cast<uint32_t>(std::min<uint64_t>(bytes_per_second, ~0u));
    nla_put(message, TCA_TBF_PARMS, sizeof parameters, &parameters);
    nla_put_u32(message, TCA_TBF_BURST, burst_bytes);
    if (bytes_per_second >> 32) nla_put_u64(message, TCA_TBF_RATE64, bytes_per_second);
  });
}

}  // namespace longhaul
