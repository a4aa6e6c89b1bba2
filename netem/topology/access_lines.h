#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "netem/topology/topology.h"

namespace longhaul {

// Access lines by number: site s has line s, the own line of node i is sites.size() + i. nullopt:
// the node is behind none.
std::optional<int> LineOf(const Topology& topology, int node);
int LineCount(const Topology& topology);
const AccessSpec* LineBefore(const Topology& topology, int node);  // null: none

// The line that a path crosses when it leaves its node, and the one before the node it leads to.
// Null: none, as between nodes of one site.
const AccessSpec* UplinkOf(const Topology& topology, const PathSpec& path);
const AccessSpec* DownlinkOf(const Topology& topology, const PathSpec& path);

// Whether two nodes are behind one site's line.
bool InOneSite(const Topology& topology, int a, int b);

// InvalidArgument: an access line's figures; `where` stands in the message.
absl::Status CheckAccess(const std::string& where, const AccessSpec& access, int mtu);

// The parts of Validate that a line and a path have in common.
absl::Status CheckRate(const std::string& where, BitsPerSecond rate);
// `rate`: of what the queue waits for; nullopt: nothing, and a depth in ms is not checked.
absl::Status CheckQueue(const std::string& where, const std::optional<QueueDepth>& queue,
                        const std::optional<BitsPerSecond>& rate, int mtu);
absl::Status CheckManagement(const std::string& where, const QueueManagement& aqm);
absl::Status CheckName(const std::string& where, const std::string& name);
absl::Status CheckSites(const Topology& topology);

}  // namespace longhaul
