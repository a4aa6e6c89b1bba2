#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"
#include "netem/emulators/traffic_control.h"
#include "netem/kernel/netlink.h"
#include "netem/nodes/addressing.h"
#include "netem/topology/topology.h"

namespace longhaul {

// The namespaces of the netem emulator and what stands in each of them.
//
//   node  net0 ------------------------ cN  core     no access line
//   node  net0 -- lan  site  wan ------ cN  core     its own
//   node  net0 -- pI                                 a site's, shared: the switch joins its nodes
//   node  net0 -- pJ  switch  up -- lan  site  wan ------ cN  core
//
// Uplink and downlink are netem on wan and lan. A path is a leaf of core's device toward the node
// it leads to, or, between nodes of one site, of the switch's port toward that node.

// What hangs on one of core's devices: a lone node, or the nodes of a site.
struct Port {
  int first;                 // the lowest node; it gives the devices their names and addresses
  std::vector<int> nodes;    // ascending
  const AccessSpec* access;  // null: none; owned by the topology
  bool shared;               // a site: with a switch
};
std::vector<Port> PortsOf(const Topology& topology);

// Names of namespaces; no node's name starts with '@' or has a ':'.
inline constexpr char kCoreName[] = "@core";
std::string SiteSpaceName(const Topology& topology, const Port& port);
std::string SwitchSpaceName(const Topology& topology, const Port& port);
std::string CoreDevice(const Port& port);  // "c7"
std::string SwitchDevice(int node);        // "p7"
inline constexpr char kSwitchUp[] = "up";
inline constexpr char kLan[] = "lan";
inline constexpr char kWan[] = "wan";
std::string MacText(MacKind kind, int node);

// Each inside its namespace, once its devices are there. `port` has what the function needs.
absl::Status BuildCore(const Topology& topology, const std::vector<Port>& ports,
                       const EmulatorOptions& options);
absl::Status BuildSite(const Topology& topology, const Port& port, IpVersions ip);
absl::Status BuildSwitch(const Topology& topology, const Port& port,
                         const EmulatorOptions& options);

// Inside the site's namespace: what the line of `port` did in one direction, without its name.
absl::StatusOr<LineCounters> ReadLine(const Port& port, bool is_up);

// The path's class on its device: leaves are numbered by source, and on the device of a site by the
// node it leads to as well.
int LeafSlot(const Topology& topology, const Port& to, const PathSpec& path);

}  // namespace longhaul
