#pragma once

#include "absl/status/status.h"
#include "netem/topology.h"

namespace longhaul {

// Makes the nodes' names resolve inside the lab: a hosts file with every node's address in place of
// /etc/hosts, in this mount namespace only. Without it each lookup of an address waits for a name
// server that no node can reach. Call inside a lab (lab.h).
absl::Status NameNodes(const Topology& topology);

}  // namespace longhaul
