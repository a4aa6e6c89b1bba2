#pragma once

#include <string>

#include "absl/status/status.h"
#include "netem/emulator.h"
#include "netem/topology/topology.h"

namespace longhaul {

// What a lab resolves beside its nodes' names.
struct OtherNames {
  IpVersions ip = IpVersions::kIpv4;  // kBoth: the nodes' IPv6 addresses too, IPv4 first
  std::string hosts;                  // lines of its hosts file
  std::string resolver;               // its resolv.conf; "": every other name fails at once
};

// Makes the nodes' names resolve inside the lab, in this mount namespace only: a hosts file with
// every node's address in place of /etc/hosts, and a resolv.conf. Without one of its own that names a
// name server at 127.0.0.1, where none listens, so that every other name fails at once: the host's
// servers are out of reach, and a lookup would wait for them for 10 to 20 s. Call inside a lab
// (lab.h).
absl::Status NameNodes(const Topology& topology, const OtherNames& others = {});

}  // namespace longhaul
