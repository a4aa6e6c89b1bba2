#include "netem/emulators/traffic_control.h"

#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/class.h>
#include <netlink/route/classifier.h>
#include <netlink/route/cls/u32.h>
#include <netlink/route/link.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/qdisc/htb.h>
#include <netlink/route/tc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/status_macros.h"
#include "netem/kernel/netlink_objects.h"
#include "netem/nodes/addressing.h"

namespace longhaul {
namespace {

constexpr uint32_t kHtbBufferBytes = 200'000;
constexpr uint32_t kHtbQuantumBytes = 60'000;  // else the kernel logs that it is big
constexpr uint32_t kHtbHandle = TC_H_MAKE(1u << 16, 0);
constexpr uint16_t kLeafMajorBase = 0x100;
constexpr size_t kMessageBytes = 1 << 15;  // the jitter table is 8 KiB of it
// Of the addresses in an IPv4 and an IPv6 header.
constexpr int kSourceOffset = 12, kDestinationOffset = 16;
constexpr int kSourceOffset6 = 8, kDestinationOffset6 = 24;

// netem reads a table as draws of a distribution, 8192 standing for the jitter that was asked for.
constexpr int kEntries = 4096;

const std::vector<int16_t>& NormalTable() {
  static const std::vector<int16_t> table = [] {
    std::vector<int16_t> entries;
    double x = -4;  // the inverse of the normal CDF by walking up to each quantile
    for (int i = 0; i < kEntries; ++i) {
      const double quantile = (i + 0.5) / kEntries;
      while (0.5 * std::erfc(-x / std::sqrt(2.0)) < quantile) x += 1e-4;
      entries.push_back(static_cast<int16_t>(std::clamp(x * 8192, -32768.0, 32767.0)));
    }
    return entries;
  }();
  return table;
}

// netem is uniform by itself, but a change keeps the table that it has.
const std::vector<int16_t>& UniformTable() {
  static const std::vector<int16_t> table = [] {
    std::vector<int16_t> entries;
    for (int i = 0; i < kEntries; ++i) {
      entries.push_back(static_cast<int16_t>(std::lround(8192 * (2 * (i + 0.5) / kEntries - 1))));
    }
    return entries;
  }();
  return table;
}

using Qdisc = NetlinkObject<rtnl_qdisc, rtnl_qdisc_put>;
using Class = NetlinkObject<rtnl_class, rtnl_class_put>;
using Filter = NetlinkObject<rtnl_cls, rtnl_cls_put>;
using Cache = NetlinkObject<nl_cache, nl_cache_free>;

// rtnl_tc_set_kind must come before any setter of that kind.
absl::Status Describe(rtnl_tc* tc, int ifindex, uint32_t parent, const char* kind) {
  rtnl_tc_set_ifindex(tc, ifindex);
  rtnl_tc_set_parent(tc, parent);
  const int e = rtnl_tc_set_kind(tc, kind);
  return e < 0 ? NetlinkStatus(fmt::format("tc kind {}", kind), e) : absl::OkStatus();
}

absl::Status AddClass(const Netlink& netlink, int ifindex, int mtu, uint32_t handle) {
  const Class entry(rtnl_class_alloc());
  RETURN_IF_ERROR(Describe(TC_CAST(entry.get()), ifindex, kHtbHandle, "htb"));
  rtnl_tc_set_handle(TC_CAST(entry.get()), handle);
  rtnl_tc_set_mtu(TC_CAST(entry.get()), mtu + 100);
  rtnl_htb_set_rate64(entry.get(), kUnreachedBytesPerSecond);
  rtnl_htb_set_ceil64(entry.get(), kUnreachedBytesPerSecond);
  rtnl_htb_set_rbuffer(entry.get(), kHtbBufferBytes);
  rtnl_htb_set_cbuffer(entry.get(), kHtbBufferBytes);
  rtnl_htb_set_quantum(entry.get(), kHtbQuantumBytes);
  const int e = rtnl_class_add(netlink.socket(), entry.get(), NLM_F_CREATE | NLM_F_EXCL);
  if (e < 0) return NetlinkStatus(fmt::format("add class {:x} on device {}", handle, ifindex), e);
  return absl::OkStatus();
}

// Four words: the network's three, and the IPv4 address.
void AddKey6(rtnl_cls* filter, uint32_t address, int offset) {
  for (size_t i = 0; i < kNodePrefix6.size(); i += 4) {
    const uint32_t word = static_cast<uint32_t>(kNodePrefix6[i]) << 24 | kNodePrefix6[i + 1] << 16 |
                          kNodePrefix6[i + 2] << 8 | kNodePrefix6[i + 3];
    rtnl_u32_add_key_uint32(filter, word, 0xffffffff, offset + static_cast<int>(i), 0);
  }
  rtnl_u32_add_key_uint32(filter, address, 0xffffffff,
                          offset + static_cast<int>(kNodePrefix6.size()), 0);
}

absl::Status AddFilter(const Netlink& netlink, int ifindex, const FlowKey& flow, IpVersion ip,
                       uint32_t classid) {
  const Filter filter(rtnl_cls_alloc());
  RETURN_IF_ERROR(Describe(TC_CAST(filter.get()), ifindex, kHtbHandle, "u32"));
  const bool is_ipv6 = ip == IpVersion::kIpv6;
  rtnl_cls_set_prio(filter.get(), is_ipv6 ? 2 : 1);  // a protocol has its own
  rtnl_cls_set_protocol(filter.get(), is_ipv6 ? ETH_P_IPV6 : ETH_P_IP);
  if (is_ipv6) {
    AddKey6(filter.get(), flow.source, kSourceOffset6);
    if (flow.destination) AddKey6(filter.get(), *flow.destination, kDestinationOffset6);
  } else {
    rtnl_u32_add_key_uint32(filter.get(), flow.source, 0xffffffff, kSourceOffset, 0);
    if (flow.destination) {
      rtnl_u32_add_key_uint32(filter.get(), *flow.destination, 0xffffffff, kDestinationOffset, 0);
    }
  }
  rtnl_u32_set_classid(filter.get(), classid);
  rtnl_u32_set_cls_terminal(filter.get());
  const int e = rtnl_cls_add(netlink.socket(), filter.get(), NLM_F_CREATE);
  if (e < 0) return NetlinkStatus(fmt::format("add filter on device {}", ifindex), e);
  return absl::OkStatus();
}

}  // namespace

absl::Status PutQdisc(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                      const char* kind, const std::function<void(nl_msg*)>& options) {
  nl_msg* message = nlmsg_alloc_size(kMessageBytes);
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

uint32_t LeafParent(int slot) { return TC_H_MAKE(1u << 16, static_cast<uint32_t>(slot + 2)); }

uint32_t LeafHandle(int slot, LeafPart part) {
  constexpr int kParts = 3;
  return static_cast<uint32_t>(kLeafMajorBase + kParts * (slot + 2) + static_cast<int>(part)) << 16;
}

namespace {

// TCA_NETEM_PRNG_SEED of kernels from 6.6 on, which older headers do not have; older kernels skip it.
constexpr int kPrngSeed = TCA_NETEM_SLOT_DIST + 1;

uint32_t Fraction(double probability) {
  return static_cast<uint32_t>(std::llround(probability * std::numeric_limits<uint32_t>::max()));
}

void PutImpairment(nl_msg* message, const ImpairmentSpec& spec) {
  nla_put(message, TCA_NETEM_JITTER64, sizeof spec.jitter_ns, &spec.jitter_ns);
  if (spec.jitter_ns > 0) {
    const auto& table = spec.jitter_shape == JitterShape::kNormal ? NormalTable() : UniformTable();
    nla_put(message, TCA_NETEM_DELAY_DIST, static_cast<int>(table.size() * sizeof table[0]),
            table.data());
  }
  // Always sent: without the attribute netem keeps what it had.
  const tc_netem_reorder reorder{Fraction(spec.rare.reorder_prob), 0};
  nla_put(message, TCA_NETEM_REORDER, sizeof reorder, &reorder);
  const tc_netem_corrupt corrupt{Fraction(spec.rare.corrupt_prob), 0};
  nla_put(message, TCA_NETEM_CORRUPT, sizeof corrupt, &corrupt);
  if (!spec.burst_loss) return;
  tc_netem_gemodel model{};
  model.p = Fraction(spec.burst_loss->to_bad);
  model.r = Fraction(spec.burst_loss->to_good);
  model.h = Fraction(1 - spec.burst_loss->loss_bad);
  model.k1 = Fraction(spec.burst_loss->loss_good);
  nlattr* nest = nla_nest_start(message, TCA_NETEM_LOSS);
  nla_put(message, NETEM_LOSS_GE, sizeof model, &model);
  nla_nest_end(message, nest);
}

}  // namespace

absl::Status ReplaceNetem(const Netlink& netlink, int ifindex, uint32_t parent, uint32_t handle,
                          const NetemSpec& spec) {
  return PutQdisc(netlink, ifindex, parent, handle, "netem", [&](nl_msg* message) {
    tc_netem_qopt bare{};  // comes first and is no attribute
    bare.limit = static_cast<uint32_t>(spec.limit_packets);
    bare.loss = Fraction(spec.impairment.loss_prob);
    bare.gap = spec.impairment.rare.reorder_prob > 0 ? 1 : 0;  // every packet may be the one
    nlmsg_append(message, &bare, sizeof bare, NLA_ALIGNTO);
    nla_put(message, TCA_NETEM_LATENCY64, sizeof spec.delay_ns, &spec.delay_ns);
    PutImpairment(message, spec.impairment);
    if (spec.seed) nla_put_u64(message, kPrngSeed, *spec.seed);
    // Always sent: a missing rate would keep the old one.
    const uint64_t bytes_per_second =
        spec.rate ? static_cast<uint64_t>(std::llround(spec.rate->value / 8)) : 0;
    tc_netem_rate rate{};
    rate.rate = static_cast<uint32_t>(std::min<uint64_t>(bytes_per_second, ~0u));
    if (bytes_per_second >> 32) {
      nla_put(message, TCA_NETEM_RATE64, sizeof bytes_per_second, &bytes_per_second);
    }
    nla_put(message, TCA_NETEM_RATE, sizeof rate, &rate);
  });
}

absl::Status AddClassifier(const Netlink& netlink, int ifindex, int mtu) {
  const Qdisc root(rtnl_qdisc_alloc());
  RETURN_IF_ERROR(Describe(TC_CAST(root.get()), ifindex, TC_H_ROOT, "htb"));
  rtnl_tc_set_handle(TC_CAST(root.get()), kHtbHandle);
  rtnl_htb_set_defcls(root.get(), kDefaultSlot + 2);
  const int e = rtnl_qdisc_add(netlink.socket(), root.get(), NLM_F_CREATE | NLM_F_EXCL);
  if (e < 0) return NetlinkStatus(fmt::format("put htb on device {}", ifindex), e);
  RETURN_IF_ERROR(AddClass(netlink, ifindex, mtu, LeafParent(kDefaultSlot)));
  return ReplaceNetem(netlink, ifindex, LeafParent(kDefaultSlot), LeafHandle(kDefaultSlot),
                      {.rate = std::nullopt, .impairment = {.loss_prob = 1}, .limit_packets = 1});
}

absl::Status AddPassage(const Netlink& netlink, int ifindex, int mtu, int slot,
                        const std::vector<FlowKey>& flows, IpVersions ip) {
  RETURN_IF_ERROR(AddClass(netlink, ifindex, mtu, LeafParent(slot)));
  for (const FlowKey& flow : flows) {
    auto s = AddFilter(netlink, ifindex, flow, IpVersion::kIpv4, LeafParent(slot));
    if (s.ok() && ip == IpVersions::kBoth) {
      s = AddFilter(netlink, ifindex, flow, IpVersion::kIpv6, LeafParent(slot));
    }
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<QueueCounters> ReadCounters(const Netlink& netlink, int ifindex, uint32_t handle) {
  nl_cache* all = nullptr;
  if (int e = rtnl_qdisc_alloc_cache(netlink.socket(), &all); e < 0) {
    return NetlinkStatus("list queueing disciplines", e);
  }
  const Cache cache(all);
  const Qdisc found(rtnl_qdisc_get(all, ifindex, handle));
  if (found == nullptr) {
    return absl::NotFoundError(
        fmt::format("no queueing discipline {:x} on device {}", handle, ifindex));
  }
  const auto stat = [&](rtnl_tc_stat which) {
    return static_cast<int64_t>(rtnl_tc_get_stat(TC_CAST(found.get()), which));
  };
  return QueueCounters{stat(RTNL_TC_PACKETS), stat(RTNL_TC_BYTES), stat(RTNL_TC_DROPS),
                       stat(RTNL_TC_BACKLOG)};
}

}  // namespace longhaul
