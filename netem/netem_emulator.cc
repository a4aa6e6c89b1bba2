#include "netem/netem_emulator.h"

#include <fmt/format.h>
#include <linux/pkt_sched.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "netem/addressing.h"
#include "netem/netlink.h"
#include "netem/netns.h"
#include "netem/node_setup.h"
#include "netem/posix.h"
#include "netem/queue_limits.h"
#include "netem/traffic_control.h"

namespace longhaul {
namespace {

// No node's name starts with '@', so these never clash.
constexpr char kCoreName[] = "@core";
std::string SiteName(const NodeSpec& node) { return "@" + node.name; }
std::string CoreDevice(int node) { return fmt::format("c{}", node); }
std::string MacText(MacKind kind, int node) { return ToString(MacOf(kind, node)); }

NetemSpec PathLeaf(const Topology& topology, const PathSpec& path) {
  return {.rate = path.rate,
          .delay_ns = absl::ToInt64Nanoseconds(path.delay),
          .jitter_ns = absl::ToInt64Nanoseconds(path.jitter),
          .loss_prob = path.loss_prob,
          .limit_packets = PathLimitPackets(topology, path)};
}

class NetemEmulator : public Emulator {
 public:
  NetemEmulator(Topology topology, EmulatorOptions options, NetNamespace core)
      : topology_(std::move(topology)), options_(std::move(options)), core_(std::move(core)) {}

  EmulatorKind kind() const override { return EmulatorKind::kNetem; }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return options_; }
  int node_netns_fd(int node) const override { return nodes_[node].fd(); }
  std::string_view scheduling() const override { return "kernel"; }
  absl::StatusOr<PathCounters> counters(int from, int to) const override;
  absl::StatusOr<int64_t> unroutable_drops() const override;
  absl::Status health() const override;

  absl::Status Build();

 private:
  absl::Status BuildNode(int node);
  absl::Status BuildSite(int node);
  absl::Status BuildCorePort(const Netlink& netlink, int node);
  absl::StatusOr<QueueCounters> CoreCounters(int to, int slot) const;

  Topology topology_;
  EmulatorOptions options_;
  NetNamespace core_;
  std::vector<NetNamespace> nodes_;
  std::vector<NetNamespace> sites_;  // only of nodes with an access line
};

absl::Status NetemEmulator::BuildNode(int node) {
  const NodeSpec& spec = topology_.nodes[node];
  auto space = NetNamespace::Create(spec.name);
  if (!space.ok()) return space.status();
  const int node_fd = space->fd();
  nodes_.push_back(*std::move(space));
  auto netlink = Netlink::Open();
  if (!netlink.ok()) return netlink.status();
  VethEnd own{node_fd, kNodeDevice, MacText(MacKind::kNode, node)};
  VethEnd core{core_.fd(), CoreDevice(node), MacText(MacKind::kCore, node)};
  MacKind next_hop = MacKind::kCore;
  if (spec.access) {
    auto site = NetNamespace::Create(SiteName(spec));
    if (!site.ok()) return site.status();
    const int site_fd = site->fd();
    sites_.push_back(*std::move(site));
    next_hop = MacKind::kLan;
    const VethEnd lan{site_fd, "lan", MacText(MacKind::kLan, node)};
    const VethEnd wan{site_fd, "wan", MacText(MacKind::kWan, node)};
    auto s = netlink->CreateVeth(own, lan, topology_.mtu);
    if (s.ok()) s = netlink->CreateVeth(wan, core, topology_.mtu);
    if (s.ok()) s = InNamespace(site_fd, [&] { return BuildSite(node); });
    if (!s.ok()) return s;
  } else if (auto s = netlink->CreateVeth(own, core, topology_.mtu); !s.ok()) {
    return s;
  }
  return InNamespace(node_fd, [&] {
    if (auto s = OffloadsOff(kNodeDevice); !s.ok()) return s;
    return PrepareNode(node, MacText(next_hop, node), options_);
  });
}

absl::Status NetemEmulator::BuildSite(int node) {
  auto s = PrepareNamespace();
  if (s.ok()) s = WriteFile("/proc/sys/net/ipv4/ip_forward", "1");
  if (!s.ok()) return s;
  auto netlink = Netlink::Open();
  if (!netlink.ok()) return netlink.status();
  const AccessSpec& access = *topology_.nodes[node].access;
  for (const auto& [device, rate] : {std::pair{"lan", access.down}, std::pair{"wan", access.up}}) {
    auto index = netlink->DeviceIndex(device);
    if (!index.ok()) return index.status();
    s = OffloadsOff(device);
    if (s.ok()) s = netlink->SetUp(device);
    if (s.ok()) {
      s = ReplaceNetem(*netlink, *index, TC_H_ROOT, LeafHandle(0),
                       {.rate = rate, .limit_packets = AccessLimitPackets(topology_, node, rate)});
    }
    if (!s.ok()) return s;
  }
  const std::string address = NodeAddress(node);
  s = netlink->AddNeighbour("lan", address, MacText(MacKind::kNode, node));
  if (s.ok()) s = netlink->AddRoute(address + "/32", "lan", "");
  if (s.ok()) s = netlink->AddNeighbour("wan", kGatewayAddress, MacText(MacKind::kCore, node));
  if (s.ok()) s = netlink->AddRoute("0.0.0.0/0", "wan", kGatewayAddress);
  return s;
}

absl::Status NetemEmulator::BuildCorePort(const Netlink& netlink, int node) {
  const std::string device = CoreDevice(node);
  const std::string address = NodeAddress(node);
  const MacKind next = topology_.nodes[node].access ? MacKind::kWan : MacKind::kNode;
  auto index = netlink.DeviceIndex(device);
  if (!index.ok()) return index.status();
  auto s = OffloadsOff(device);
  if (s.ok()) s = netlink.SetUp(device);
  if (s.ok()) s = netlink.AddNeighbour(device, address, MacText(next, node));
  if (s.ok()) s = netlink.AddRoute(address + "/32", device, "");
  if (s.ok()) s = AddClassifier(netlink, *index, topology_.mtu);
  for (const PathSpec& path : topology_.paths) {
    if (!s.ok()) break;
    if (path.to != node) continue;
    s = AddSource(netlink, *index, topology_.mtu, path.from, NodeAddressValue(path.from),
                  PathLeaf(topology_, path));
  }
  return s;
}

absl::Status NetemEmulator::Build() {
  const int n = static_cast<int>(topology_.nodes.size());
  for (int i = 0; i < n; ++i) {
    if (auto s = BuildNode(i); !s.ok()) {
      return absl::Status(
          s.code(), fmt::format("node {}: {}", topology_.nodes[i].name, std::string(s.message())));
    }
  }
  return InNamespace(core_.fd(), [&] {
    auto s = PrepareNamespace();
    if (s.ok()) s = WriteFile("/proc/sys/net/ipv4/ip_forward", "1");
    if (!s.ok()) return s;
    auto netlink = Netlink::Open();
    if (!netlink.ok()) return netlink.status();
    for (int i = 0; i < n; ++i) {
      if (s = BuildCorePort(*netlink, i); !s.ok()) break;
    }
    return s;
  });
}

absl::StatusOr<QueueCounters> NetemEmulator::CoreCounters(int to, int slot) const {
  absl::StatusOr<QueueCounters> result = QueueCounters{};
  auto s = InNamespace(core_.fd(), [&] {
    auto netlink = Netlink::Open();
    if (!netlink.ok()) return netlink.status();
    auto index = netlink->DeviceIndex(CoreDevice(to));
    if (!index.ok()) return index.status();
    result = ReadCounters(*netlink, *index, LeafHandle(slot));
    return result.status();
  });
  if (!s.ok()) return s;
  return result;
}

absl::StatusOr<PathCounters> NetemEmulator::counters(int from, int to) const {
  const PathSpec* path = FindPath(topology_, from, to);
  if (path == nullptr) {
    return absl::NotFoundError(fmt::format("no path from node {} to node {}", from, to));
  }
  auto leaf = CoreCounters(to, from);
  if (!leaf.ok()) return leaf.status();
  PathCounters counters{leaf->packets, leaf->bytes, 0, 0};
  (path->loss_prob > 0 ? counters.drops_loss : counters.drops_queue) = leaf->drops;
  return counters;
}

absl::StatusOr<int64_t> NetemEmulator::unroutable_drops() const {
  int64_t drops = 0;
  for (size_t i = 0; i < topology_.nodes.size(); ++i) {
    auto leaf = CoreCounters(static_cast<int>(i), kDefaultSlot);
    if (!leaf.ok()) return leaf.status();
    drops += leaf->drops;
  }
  return drops;
}

absl::Status NetemEmulator::health() const {
  return InNamespace(core_.fd(), [&] {
    auto netlink = Netlink::Open();
    if (!netlink.ok()) return netlink.status();
    for (size_t i = 0; i < topology_.nodes.size(); ++i) {
      auto index = netlink->DeviceIndex(CoreDevice(static_cast<int>(i)));
      if (!index.ok()) {
        return absl::UnavailableError(fmt::format("netem: the link of node {} is gone: {}",
                                                  topology_.nodes[i].name,
                                                  std::string(index.status().message())));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Emulator>> BuildNetemEmulator(const Topology& topology,
                                                             const EmulatorOptions& options) {
  auto core = NetNamespace::Create(kCoreName);
  if (!core.ok()) return core.status();
  auto emulator = std::make_unique<NetemEmulator>(topology, options, *std::move(core));
  if (auto s = emulator->Build(); !s.ok()) return s;
  return emulator;
}

absl::StatusOr<EmulatorKind> ProbeEmulatorKind() {
  // In a namespace of its own, which takes the scratch device with it.
  auto scratch = NetNamespace::Create(fmt::format("@probe-{}", getpid()));
  if (!scratch.ok()) return scratch.status();
  absl::Status tried;
  auto s = InNamespace(scratch->fd(), [&] {
    auto netlink = Netlink::Open();
    if (!netlink.ok()) return netlink.status();
    auto made = netlink->CreateVeth({scratch->fd(), "probe0", MacText(MacKind::kNode, 0)},
                                    {scratch->fd(), "probe1", MacText(MacKind::kNode, 1)}, 1500);
    if (!made.ok()) return made;
    auto index = netlink->DeviceIndex("probe0");
    if (!index.ok()) return index.status();
    tried = ReplaceNetem(*netlink, *index, TC_H_ROOT, LeafHandle(0),
                         {.rate = Mbit(100), .delay_ns = 1, .limit_packets = 100});
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  if (tried.ok()) return EmulatorKind::kNetem;
  if (absl::IsNotFound(tried)) return EmulatorKind::kTap;
  return absl::Status(tried.code(), fmt::format("probing for netem on a scratch device: {}",
                                                std::string(tried.message())));
}

}  // namespace longhaul
