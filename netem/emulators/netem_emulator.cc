#include "netem/emulators/build_emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "netem/emulators/netem_routers.h"
#include "netem/emulators/path_leaf.h"
#include "netem/emulators/traffic_control.h"
#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/addressing.h"
#include "netem/nodes/node_setup.h"
#include "netem/topology/access_lines.h"

namespace longhaul {
namespace {

class NetemEmulator : public Emulator {
 public:
  NetemEmulator(Topology topology, EmulatorOptions options, NetNamespace core)
      : topology_(std::move(topology)), options_(std::move(options)), core_(std::move(core)) {}

  EmulatorKind kind() const override { return EmulatorKind::kNetem; }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return options_; }
  int node_netns_fd(int node) const override { return nodes_[node].fd(); }
  std::string_view scheduling() const override { return "kernel"; }
  absl::Status ChangePath(const PathSpec& path) override;
  absl::Status SetCarrier(int from, int to, Carrier carrier) override;
  absl::StatusOr<PathCounters> counters(int from, int to) const override;
  absl::StatusOr<std::vector<LineCounters>> line_counters() const override;
  absl::StatusOr<int64_t> unroutable_drops() const override;
  absl::Duration cpu_time() const override { return absl::ZeroDuration(); }
  Lateness lateness() const override { return {}; }
  absl::Status health() const override;

  absl::Status Build();

 private:
  absl::Status BuildPort(const Port& port);
  absl::StatusOr<VethEnd> BuildSiteOf(const Port& port, const VethEnd& core);
  absl::Status BuildNode(int node, MacKind next_hop);

  // Where a path's leaf is, or (for kDefaultSlot) the class that drops.
  struct Place {
    int netns_fd;
    std::string device;
    int slot;
  };
  const Port& PortTo(int node) const;
  Place PlaceOf(const PathSpec& path) const;
  PathLeaf Leaf(const Topology& topology, const PathSpec& path) const;
  absl::Status ReplaceLeaf(const PathSpec& path, const PathLeaf& leaf);
  absl::StatusOr<QueueCounters> CountersAt(const Place& place) const;

  Topology topology_;
  EmulatorOptions options_;
  NetNamespace core_;
  std::vector<Port> ports_;
  std::vector<NetNamespace> nodes_;
  std::vector<NetNamespace> sites_;       // only of ports with an access line
  std::set<std::pair<int, int>> down_;    // paths in an outage
  std::map<int, NetNamespace> switches_;  // by the first node of a port that has one
};

absl::Status NetemEmulator::BuildNode(int node, MacKind next_hop) {
  return InNamespace(nodes_[node].fd(), [&] {
    RETURN_IF_ERROR(OffloadsOff(kNodeDevice));
    return PrepareNode(topology_, node, MacText(next_hop, node), options_);
  });
}

// The site's router and, where nodes share it, the switch before it. Returns the end that the
// node of a site without a switch is to be connected to.
absl::StatusOr<VethEnd> NetemEmulator::BuildSiteOf(const Port& port, const VethEnd& core) {
  ASSIGN_OR_RETURN(auto site, NetNamespace::Create(SiteSpaceName(topology_, port)));
  const int site_fd = site.fd();
  sites_.push_back(std::move(site));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  const VethEnd lan{site_fd, kLan, MacText(MacKind::kLan, port.first)};
  const VethEnd wan{site_fd, kWan, MacText(MacKind::kWan, port.first)};
  RETURN_IF_ERROR(netlink.CreateVeth(wan, core, topology_.mtu));
  if (!port.shared) return lan;
  ASSIGN_OR_RETURN(auto joint, NetNamespace::Create(SwitchSpaceName(topology_, port)));
  const int fd = joint.fd();
  switches_.emplace(port.first, std::move(joint));
  const VethEnd up{fd, kSwitchUp, MacText(MacKind::kSwitch, port.first)};
  RETURN_IF_ERROR(netlink.CreateVeth(up, lan, topology_.mtu));
  return lan;
}

absl::Status NetemEmulator::BuildPort(const Port& port) {
  const VethEnd core{core_.fd(), CoreDevice(port), MacText(MacKind::kCore, port.first)};
  VethEnd far = core;
  MacKind next_hop = MacKind::kCore;
  if (port.access != nullptr) {
    ASSIGN_OR_RETURN(auto lan, BuildSiteOf(port, core));
    far = lan;
    next_hop = MacKind::kLan;
  }
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  for (int node : port.nodes) {
    if (port.shared) {
      far = {switches_.at(port.first).fd(), SwitchDevice(node), MacText(MacKind::kLan, node)};
    }
    const VethEnd own{nodes_[node].fd(), kNodeDevice, MacText(MacKind::kNode, node)};
    RETURN_IF_ERROR(netlink.CreateVeth(own, far, topology_.mtu));
    RETURN_IF_ERROR(BuildNode(node, next_hop));
  }
  if (port.access == nullptr) return absl::OkStatus();
  auto s = InNamespace(sites_.back().fd(), [&] { return BuildSite(topology_, port, options_.ip); });
  if (!s.ok() || !port.shared) return s;
  return InNamespace(switches_.at(port.first).fd(),
                     [&] { return BuildSwitch(topology_, port, options_); });
}

absl::Status NetemEmulator::Build() {
  for (const NodeSpec& node : topology_.nodes) {
    ASSIGN_OR_RETURN(auto space, NetNamespace::Create(node.name));
    nodes_.push_back(std::move(space));
  }
  ports_ = PortsOf(topology_);
  for (const Port& port : ports_) {
    if (auto s = BuildPort(port); !s.ok()) {
      return absl::Status(s.code(), fmt::format("node {}: {}", topology_.nodes[port.first].name,
                                                std::string(s.message())));
    }
  }
  return InNamespace(core_.fd(), [&] { return BuildCore(topology_, ports_, options_); });
}

const Port& NetemEmulator::PortTo(int node) const {
  return *std::find_if(ports_.begin(), ports_.end(), [&](const Port& port) {
    return std::binary_search(port.nodes.begin(), port.nodes.end(), node);
  });
}

NetemEmulator::Place NetemEmulator::PlaceOf(const PathSpec& path) const {
  const Port& port = PortTo(path.to);
  if (InOneSite(topology_, path.from, path.to)) {
    return {switches_.at(port.first).fd(), SwitchDevice(path.to), path.from};
  }
  return {core_.fd(), CoreDevice(port), LeafSlot(topology_, port, path)};
}

absl::StatusOr<QueueCounters> NetemEmulator::CountersAt(const Place& place) const {
  absl::StatusOr<QueueCounters> result = QueueCounters{};
  auto s = InNamespace(place.netns_fd, [&] {
    ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
    ASSIGN_OR_RETURN(auto index, netlink.DeviceIndex(place.device));
    result = ReadCounters(netlink, index, LeafHandle(place.slot));
    return result.status();
  });
  if (!s.ok()) return s;
  return result;
}

PathLeaf NetemEmulator::Leaf(const Topology& topology, const PathSpec& path) const {
  PathLeaf leaf = PathLeafOf(topology, path);
  if (down_.contains({path.from, path.to})) leaf.delay.impairment = {.loss_prob = 1};
  return leaf;
}

absl::Status NetemEmulator::ReplaceLeaf(const PathSpec& path, const PathLeaf& leaf) {
  const Place place = PlaceOf(path);
  return InNamespace(place.netns_fd, [&] {
    ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
    ASSIGN_OR_RETURN(auto index, netlink.DeviceIndex(place.device));
    return ChangePathLeaf(netlink, index, place.slot, leaf);
  });
}

// OK where the kernel can be these links.
absl::Status CheckKernelCan(const Topology& topology) {
  const std::string why = WhyTapAlone(topology);
  if (!why.empty()) return absl::InvalidArgumentError(why);
  for (const Port& port : PortsOf(topology)) {
    if (port.nodes.size() * topology.nodes.size() <= kMaxLeaves) continue;
    return absl::InvalidArgumentError(fmt::format(
        "node {}: {} nodes behind one line, of {}: the kernel takes a product of {} at most; use "
        "the tap emulator (--emulator tap)",
        topology.nodes[port.first].name, port.nodes.size(), topology.nodes.size(), kMaxLeaves));
  }
  return absl::OkStatus();
}

absl::Status NetemEmulator::ChangePath(const PathSpec& path) {
  ASSIGN_OR_RETURN(auto changed, WithPath(topology_, path));
  RETURN_IF_ERROR(CheckKernelCan(changed));
  RETURN_IF_ERROR(ReplaceLeaf(path, Leaf(changed, path)));
  // Figures of paths alone: ports_ points into the sites and nodes, which stay.
  topology_.paths = std::move(changed.paths);
  return absl::OkStatus();
}

absl::Status NetemEmulator::SetCarrier(int from, int to, Carrier carrier) {
  const PathSpec* path = FindPath(topology_, from, to);
  if (path == nullptr) return NoPath(from, to);
  if (carrier == Carrier::kDown) {
    down_.insert({from, to});
  } else {
    down_.erase({from, to});
  }
  return ReplaceLeaf(*path, Leaf(topology_, *path));
}

absl::StatusOr<PathCounters> NetemEmulator::counters(int from, int to) const {
  const PathSpec* path = FindPath(topology_, from, to);
  if (path == nullptr) return NoPath(from, to);
  const Place place = PlaceOf(*path);
  absl::StatusOr<PathCounters> counters = PathCounters{};
  auto s = InNamespace(place.netns_fd, [&] {
    ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
    ASSIGN_OR_RETURN(auto index, netlink.DeviceIndex(place.device));
    counters = ReadPathLeaf(netlink, index, place.slot);
    return counters.status();
  });
  if (!s.ok()) return s;
  return counters;
}

absl::StatusOr<std::vector<LineCounters>> NetemEmulator::line_counters() const {
  std::vector<LineCounters> lines;
  auto site = sites_.begin();
  for (const Port& port : ports_) {
    if (port.access == nullptr) continue;
    const int site_fd = (site++)->fd();
    for (bool is_up : {true, false}) {
      auto s = InNamespace(site_fd, [&] {
        auto line = ReadLine(port, is_up);
        if (line.ok()) lines.push_back(*std::move(line));
        return line.status();
      });
      if (!s.ok()) return s;
    }
  }
  NameLines(topology_, lines);
  return lines;
}

absl::StatusOr<int64_t> NetemEmulator::unroutable_drops() const {
  int64_t drops = 0;
  const auto add = [&](const Place& place) {
    auto leaf = CountersAt(place);
    if (leaf.ok()) drops += leaf->drops;
    return leaf.status();
  };
  for (const Port& port : ports_) {
    RETURN_IF_ERROR(add({core_.fd(), CoreDevice(port), kDefaultSlot}));
    if (!port.shared) continue;
    for (int node : port.nodes) {
      auto s = add({switches_.at(port.first).fd(), SwitchDevice(node), kDefaultSlot});
      if (!s.ok()) return s;
    }
  }
  return drops;
}

absl::Status NetemEmulator::health() const {
  // In the namespace of `netns_fd`, the devices of `nodes`.
  const auto check = [&](int netns_fd, const std::vector<std::pair<std::string, int>>& devices) {
    return InNamespace(netns_fd, [&] {
      ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
      for (const auto& [device, node] : devices) {
        if (auto index = netlink.DeviceIndex(device); !index.ok()) {
          return absl::UnavailableError(fmt::format("netem: the link of node {} is gone: {}",
                                                    topology_.nodes[node].name,
                                                    std::string(index.status().message())));
        }
      }
      return absl::OkStatus();
    });
  };
  std::vector<std::pair<std::string, int>> in_core;
  for (const Port& port : ports_) {
    in_core.emplace_back(CoreDevice(port), port.first);
    if (!port.shared) continue;
    std::vector<std::pair<std::string, int>> in_switch;
    for (int node : port.nodes) in_switch.emplace_back(SwitchDevice(node), node);
    RETURN_IF_ERROR(check(switches_.at(port.first).fd(), in_switch));
  }
  return check(core_.fd(), in_core);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Emulator>> BuildNetemEmulator(const Topology& topology,
                                                             const EmulatorOptions& options) {
  RETURN_IF_ERROR(CheckKernelCan(topology));
  ASSIGN_OR_RETURN(auto core, NetNamespace::Create(kCoreName));
  auto emulator = std::make_unique<NetemEmulator>(topology, options, std::move(core));
  RETURN_IF_ERROR(emulator->Build());
  return emulator;
}

}  // namespace longhaul
