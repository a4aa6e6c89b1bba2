#include "netem/emulators/netem_routers.h"

#include <fmt/format.h>
#include <linux/pkt_sched.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "netem/emulators/managed_queue.h"
#include "netem/emulators/path_leaf.h"
#include "netem/kernel/posix.h"
#include "netem/nodes/node_setup.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

absl::Status PrepareRouter(const std::vector<std::string>& devices, IpVersions ip) {
  auto s = PrepareNamespace();
  if (s.ok()) s = WriteFile("/proc/sys/net/ipv4/ip_forward", "1");
  if (!s.ok() || ip == IpVersions::kIpv4) return s;
  s = EnableIpv6(devices);
  return s.ok() ? WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", "1") : s;
}

absl::StatusOr<int> BringUp(const Netlink& netlink, const std::string& device) {
  auto index = netlink.DeviceIndex(device);
  if (!index.ok()) return index;
  auto s = OffloadsOff(device);
  if (s.ok()) s = netlink.SetUp(device);
  if (!s.ok()) return s;
  return index;
}

// A route to a node over a device, its next hop known without asking.
absl::Status RouteTo(const Netlink& netlink, int node, const std::string& device,
                     const std::string& next_mac, IpVersions ip) {
  const std::string address = NodeAddress(node), address6 = NodeAddress6(node);
  auto s = netlink.AddNeighbour(device, address, next_mac);
  if (s.ok()) s = netlink.AddRoute(address + "/32", device, "");
  if (!s.ok() || ip == IpVersions::kIpv4) return s;
  s = netlink.AddNeighbour(device, address6, next_mac);
  return s.ok() ? netlink.AddRoute(address6 + "/128", device, "") : s;
}

absl::Status RouteElsewhere(const Netlink& netlink, const std::string& device,
                            const std::string& next_mac, IpVersions ip) {
  auto s = netlink.AddNeighbour(device, kGatewayAddress, next_mac);
  if (s.ok()) s = netlink.AddRoute("0.0.0.0/0", device, kGatewayAddress);
  if (!s.ok() || ip == IpVersions::kIpv4) return s;
  s = netlink.AddNeighbour(device, kGatewayAddress6, next_mac);
  return s.ok() ? netlink.AddRoute(kNodeNetwork6, device, kGatewayAddress6) : s;
}

// A class for the frames of a path, and what the path is made of below it.
absl::Status AddPath(const Topology& topology, const Netlink& netlink, int ifindex, int slot,
                     const FlowKey& flow, const PathSpec& path, const EmulatorOptions& options) {
  auto s = AddPassage(netlink, ifindex, topology.mtu, slot, {flow}, options.ip);
  PathLeaf leaf = PathLeafOf(topology, path);
  leaf.delay.seed = Impairment::PathSeed(options.seed, path.from, path.to);
  return s.ok() ? BuildPathLeaf(netlink, ifindex, slot, leaf) : s;
}

absl::Status BuildCorePort(const Topology& topology, const Netlink& netlink, const Port& port,
                           const EmulatorOptions& options) {
  const std::string device = CoreDevice(port);
  ASSIGN_OR_RETURN(auto index, BringUp(netlink, device));
  const std::string next =
      MacText(port.access == nullptr ? MacKind::kNode : MacKind::kWan, port.first);
  auto s = AddClassifier(netlink, index, topology.mtu);
  for (int node : port.nodes) {
    if (s.ok()) s = RouteTo(netlink, node, device, next, options.ip);
  }
  for (const PathSpec& path : topology.paths) {
    if (!s.ok()) break;
    if (!std::binary_search(port.nodes.begin(), port.nodes.end(), path.to)) continue;
    if (InOneSite(topology, path.from, path.to)) continue;
    FlowKey flow{NodeAddressValue(path.from), std::nullopt};
    if (port.shared) flow.destination = NodeAddressValue(path.to);
    s = AddPath(topology, netlink, index, LeafSlot(topology, port, path), flow, path, options);
  }
  return s;
}

// What comes from outside the site has its path behind it.
absl::Status BuildSwitchPort(const Topology& topology, const Netlink& netlink, int node,
                             const EmulatorOptions& options) {
  const std::string device = SwitchDevice(node);
  ASSIGN_OR_RETURN(auto index, BringUp(netlink, device));
  auto s = RouteTo(netlink, node, device, MacText(MacKind::kNode, node), options.ip);
  if (s.ok()) s = AddClassifier(netlink, index, topology.mtu);
  std::vector<FlowKey> outside;
  for (const PathSpec& path : topology.paths) {
    if (!s.ok() || path.to != node) continue;
    const FlowKey flow{NodeAddressValue(path.from), std::nullopt};
    if (InOneSite(topology, path.from, node)) {
      s = AddPath(topology, netlink, index, path.from, flow, path, options);
    } else {
      outside.push_back(flow);
    }
  }
  if (!s.ok()) return s;
  return AddPassage(netlink, index, topology.mtu, static_cast<int>(topology.nodes.size()), outside,
                    options.ip);
}

}  // namespace

std::string MacText(MacKind kind, int node) { return ToString(MacOf(kind, node)); }
std::string CoreDevice(const Port& port) { return fmt::format("c{}", port.first); }
std::string SwitchDevice(int node) { return fmt::format("p{}", node); }

std::string SiteSpaceName(const Topology& topology, const Port& port) {
  const NodeSpec& first = topology.nodes[port.first];
  return port.shared ? "@site:" + topology.sites[*first.site].name : "@" + first.name;
}

std::string SwitchSpaceName(const Topology& topology, const Port& port) {
  return "@lan:" + topology.sites[*topology.nodes[port.first].site].name;
}

std::vector<Port> PortsOf(const Topology& topology) {
  std::vector<Port> ports;
  std::vector<int> of_site(topology.sites.size(), -1);
  for (int i = 0; i < static_cast<int>(topology.nodes.size()); ++i) {
    const auto& site = topology.nodes[i].site;
    if (site && of_site[*site] >= 0) {
      ports[of_site[*site]].nodes.push_back(i);
      continue;
    }
    if (site) of_site[*site] = static_cast<int>(ports.size());
    ports.push_back({i, {i}, LineBefore(topology, i), site.has_value()});
  }
  return ports;
}

int LeafSlot(const Topology& topology, const Port& to, const PathSpec& path) {
  const auto place = std::lower_bound(to.nodes.begin(), to.nodes.end(), path.to) - to.nodes.begin();
  return path.from + static_cast<int>(place) * static_cast<int>(topology.nodes.size());
}

absl::Status BuildCore(const Topology& topology, const std::vector<Port>& ports,
                       const EmulatorOptions& options) {
  std::vector<std::string> devices;
  for (const Port& port : ports) devices.push_back(CoreDevice(port));
  RETURN_IF_ERROR(PrepareRouter(devices, options.ip));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  for (const Port& port : ports) {
    RETURN_IF_ERROR(BuildCorePort(topology, netlink, port, options));
  }
  return absl::OkStatus();
}

absl::Status BuildSite(const Topology& topology, const Port& port, IpVersions ip) {
  RETURN_IF_ERROR(PrepareRouter({kLan, kWan}, ip));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  for (const auto& [device, rate] :
       {std::pair{kLan, port.access->down}, std::pair{kWan, port.access->up}}) {
    ASSIGN_OR_RETURN(auto index, BringUp(netlink, device));
    const int64_t limit = AccessQueuePackets(topology, port.first, rate);
    const QueueManagement& aqm = port.access->aqm;
    auto s = aqm.kind == QueueManagement::Kind::kDropTail
                 ? ReplaceNetem(netlink, index, TC_H_ROOT, LeafHandle(0),
                                {.rate = rate, .limit_packets = limit})
                 : PutManagedQueue(netlink, index, rate, limit, aqm, topology.mtu);
    if (!s.ok()) return s;
  }
  const MacKind inside = port.shared ? MacKind::kSwitch : MacKind::kNode;
  absl::Status s = RouteElsewhere(netlink, kWan, MacText(MacKind::kCore, port.first), ip);
  for (int node : port.nodes) {
    if (s.ok()) s = RouteTo(netlink, node, kLan, MacText(inside, port.first), ip);
  }
  return s;
}

absl::StatusOr<LineCounters> ReadLine(const Port& port, bool is_up) {
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  ASSIGN_OR_RETURN(auto index, netlink.DeviceIndex(is_up ? kWan : kLan));
  absl::StatusOr<LineCounters> line = LineCounters{};
  if (port.access->aqm.kind == QueueManagement::Kind::kDropTail) {
    ASSIGN_OR_RETURN(auto queue, ReadCounters(netlink, index, LeafHandle(0)));
    line->packets = queue.packets;
    line->drops_queue = queue.drops;
  } else {
    line = ReadManagedQueue(netlink, index);
  }
  if (line.ok()) line->is_up = is_up;
  return line;
}

absl::Status BuildSwitch(const Topology& topology, const Port& port,
                         const EmulatorOptions& options) {
  std::vector<std::string> devices = {kSwitchUp};
  for (int node : port.nodes) devices.push_back(SwitchDevice(node));
  RETURN_IF_ERROR(PrepareRouter(devices, options.ip));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  if (auto up = BringUp(netlink, kSwitchUp); !up.ok()) return up.status();
  auto s = RouteElsewhere(netlink, kSwitchUp, MacText(MacKind::kLan, port.first), options.ip);
  for (int node : port.nodes) {
    if (s.ok()) s = BuildSwitchPort(topology, netlink, node, options);
  }
  return s;
}

}  // namespace longhaul
