#pragma once

#include "absl/status/status.h"
#include "netem/gateway/gateway.h"
#include "netem/kernel/posix.h"
#include "netem/topology/topology.h"

namespace longhaul {

// Frames of this MTU at most: the relay ends every connection, so that no packet of this length
// leaves the host.
inline constexpr int kGatewayMtu = 65520;

// OK where this longhaul was built with what a relay needs; else what lacks.
absl::Status CheckRelay();

// The relay of a gateway, a process of its own in the host's namespaces. It takes the nodes' gw0
// from the lab at the other end of `lab`, answers for each once the forwards to that node listen,
// and returns when that end is closed. TCP, UDP and, where the host's net.ipv4.ping_group_range
// allows it, ICMP echoes; each connection of a node is one of this process's.
int RunRelay(const GatewaySpec& spec, const Topology& topology, Fd lab);

}  // namespace longhaul
