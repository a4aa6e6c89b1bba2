#pragma once

#include "absl/status/status.h"
#include "netem/topology/topology.h"

namespace longhaul {

// Makes the nodes' names resolve inside the lab, in this mount namespace only: a hosts file with
// every node's address in place of /etc/hosts, and a resolv.conf that names a name server at
// 127.0.0.1, where none listens, so that every other name fails at once. The host's own servers are
// out of reach: a lookup would wait for them for 10 to 20 s. Call inside a lab (lab.h).
absl::Status NameNodes(const Topology& topology);

}  // namespace longhaul
