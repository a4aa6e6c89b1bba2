#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// The one interface of every node.
inline constexpr char kNodeDevice[] = "net0";

// Settings a namespace gets whatever its role; call inside it. IPv6 off (duplicate-address
// detection leaves addresses tentative for a second or two), reverse-path filter off, `lo` up.
absl::Status PrepareNamespace();

// IPv6 on devices of a namespace that PrepareNamespace has prepared, before they are up: no
// addresses but those that are given, and nothing sent that nobody asked for.
absl::Status EnableIpv6(const std::vector<std::string>& devices);
bool KernelHasIpv6();

// A node's own settings, inside its namespace and before any traffic: address, default route, no
// route to nodes that it has no path to, pinned neighbour, TCP buffers wide enough for rate x RTT, no
// metrics kept between connections, and what `options` chooses. `gateway_mac` is that of the next hop.
absl::Status PrepareNode(const Topology& topology, int node, const std::string& gateway_mac,
                         const EmulatorOptions& options);

// tso, gso and gro off on a device of the calling thread's namespace, so that the next hop sees
// frames of the MTU.
absl::Status OffloadsOff(const std::string& device);

// Reads one offload: ETHTOOL_GTSO, ETHTOOL_GGSO or ETHTOOL_GGRO.
absl::StatusOr<bool> GetOffload(const std::string& device, uint32_t ethtool_command);

}  // namespace longhaul
