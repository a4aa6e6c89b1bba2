#include "netem/emulators/managed_queue.h"

#include <fmt/format.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/handlers.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "base/status_macros.h"
#include "netem/emulators/traffic_control.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr uint32_t kRateHandle = 0x10u << 16;
constexpr uint32_t kQueueHandle = 0x20u << 16;
constexpr double kBurstSeconds = 1e-3;  // what a late timer may make up for

absl::Status PutRate(const Netlink& netlink, int ifindex, BitsPerSecond rate, int mtu) {
  const auto frame = static_cast<uint32_t>(FrameBytes(mtu));
  const auto bytes_per_second = static_cast<uint64_t>(std::llround(rate.value / 8));
  const auto burst = static_cast<uint32_t>(
      std::max(2.0 * frame, static_cast<double>(bytes_per_second) * kBurstSeconds));
  return PutTokenBucket(netlink, ifindex, TC_H_ROOT, kRateHandle, bytes_per_second, burst);
}

// What a dump of queueing disciplines says of one of them.
struct Sought {
  int ifindex;
  std::optional<LineCounters> found = std::nullopt;
};

LineCounters CountersOf(std::string_view kind, nlattr* const* attributes) {
  LineCounters counters;
  nlattr* stats[TCA_STATS_MAX + 1] = {};
  gnet_stats_basic basic{};
  gnet_stats_queue queue{};
  if (attributes[TCA_STATS2] != nullptr &&
      nla_parse_nested(stats, TCA_STATS_MAX, attributes[TCA_STATS2], nullptr) == 0) {
    if (stats[TCA_STATS_BASIC] != nullptr) nla_memcpy(&basic, stats[TCA_STATS_BASIC], sizeof basic);
    if (stats[TCA_STATS_QUEUE] != nullptr) nla_memcpy(&queue, stats[TCA_STATS_QUEUE], sizeof queue);
  }
  counters.packets = basic.packets;
  nlattr* more = stats[TCA_STATS_APP] != nullptr ? stats[TCA_STATS_APP] : attributes[TCA_XSTATS];
  if (more != nullptr && kind == "codel") {
    tc_codel_xstats x{};
    nla_memcpy(&x, more, sizeof x);
    counters.drops_queue = x.drop_overlimit;
    counters.ecn_marks = x.ecn_mark;
  } else if (more != nullptr) {
    tc_fq_codel_xstats x{};
    nla_memcpy(&x, more, sizeof x);
    counters.drops_queue = x.qdisc_stats.drop_overlimit;
    counters.ecn_marks = x.qdisc_stats.ecn_mark;
  }
  // The kernel adds up both kinds of drops.
  counters.drops_aqm = std::max<int64_t>(0, int64_t{queue.drops} - counters.drops_queue);
  return counters;
}

int TakeQdisc(nl_msg* message, void* argument) {
  auto& sought = *static_cast<Sought*>(argument);
  tcmsg place{};
  nlattr* attributes[TCA_MAX + 1] = {};
  if (nlmsg_parse(nlmsg_hdr(message), sizeof place, attributes, TCA_MAX, nullptr) < 0) {
    return NL_SKIP;
  }
  memcpy(&place, nlmsg_data(nlmsg_hdr(message)), sizeof place);
  const bool it_is = place.tcm_ifindex == sought.ifindex && place.tcm_handle == kQueueHandle;
  if (!it_is || attributes[TCA_KIND] == nullptr) return NL_OK;
  sought.found = CountersOf(nla_get_string(attributes[TCA_KIND]), attributes);
  return NL_OK;
}

}  // namespace

absl::Status PutManagedQueue(const Netlink& netlink, int ifindex, BitsPerSecond rate,
                             int64_t limit_packets, const QueueManagement& aqm, int mtu) {
  RETURN_IF_ERROR(PutRate(netlink, ifindex, rate, mtu));
  const auto target_us = static_cast<uint32_t>(absl::ToInt64Microseconds(aqm.target));
  const auto interval_us = static_cast<uint32_t>(absl::ToInt64Microseconds(aqm.interval));
  const auto limit = static_cast<uint32_t>(limit_packets);
  const bool by_flow = aqm.kind == QueueManagement::Kind::kFqCodel;
  const uint32_t parent = TC_H_MAKE(kRateHandle, 1);
  return PutQdisc(
      netlink, ifindex, parent, kQueueHandle, by_flow ? "fq_codel" : "codel", [&](nl_msg* message) {
        const uint32_t ecn = aqm.ecn ? 1 : 0;
        if (!by_flow) {
          nla_put_u32(message, TCA_CODEL_TARGET, target_us);
          nla_put_u32(message, TCA_CODEL_INTERVAL, interval_us);
          nla_put_u32(message, TCA_CODEL_LIMIT, limit);
          nla_put_u32(message, TCA_CODEL_ECN, ecn);
          return;
        }
        nla_put_u32(message, TCA_FQ_CODEL_TARGET, target_us);
        nla_put_u32(message, TCA_FQ_CODEL_INTERVAL, interval_us);
        nla_put_u32(message, TCA_FQ_CODEL_LIMIT, limit);
        nla_put_u32(message, TCA_FQ_CODEL_ECN, ecn);
        nla_put_u32(message, TCA_FQ_CODEL_QUANTUM, static_cast<uint32_t>(FrameBytes(mtu)));
      });
}

absl::StatusOr<LineCounters> ReadManagedQueue(const Netlink& netlink, int ifindex) {
  Sought sought{ifindex};
  nl_cb* callbacks = nl_cb_alloc(NL_CB_DEFAULT);
  nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, TakeQdisc, &sought);
  tcmsg all{};
  all.tcm_ifindex = ifindex;
  int e = nl_send_simple(netlink.socket(), RTM_GETQDISC, NLM_F_DUMP, &all, sizeof all);
  if (e >= 0) e = nl_recvmsgs(netlink.socket(), callbacks);
  nl_cb_put(callbacks);
  if (e < 0) return NetlinkStatus("list queueing disciplines", e);
  if (sought.found) return *sought.found;
  return absl::NotFoundError(fmt::format("no managed queue on device {}", ifindex));
}

}  // namespace longhaul
