#include "netem/topology/access_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr size_t kMaxNameBytes = 48;  // a file name under /run/netns, and readable in a table
constexpr double kMaxQueueBdp = 1e6;
// Outside of these a figure is a slip of the pen, and products of them would leave 64 bits.
constexpr BitsPerSecond kMinRate = Mbit(0.001);
constexpr BitsPerSecond kMaxRate = Gbit(1000);
// The kernel numbers the classes of a device with 16 bits, and a site's device has one for each
// pair of a source and a node behind it.
constexpr size_t kMaxClasses = 65'000;

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(message); }

}  // namespace

std::optional<int> LineOf(const Topology& topology, int node) {
  const NodeSpec& spec = topology.nodes[node];
  if (spec.site) return *spec.site;
  if (!spec.access) return std::nullopt;
  return static_cast<int>(topology.sites.size()) + node;
}

const AccessSpec* LineBefore(const Topology& topology, int node) {
  const NodeSpec& spec = topology.nodes[node];
  if (spec.site) return &topology.sites[*spec.site].access;
  return spec.access ? &*spec.access : nullptr;
}

int LineCount(const Topology& topology) {
  return static_cast<int>(topology.sites.size() + topology.nodes.size());
}

bool InOneSite(const Topology& topology, int a, int b) {
  return topology.nodes[a].site && topology.nodes[a].site == topology.nodes[b].site;
}

const AccessSpec* UplinkOf(const Topology& topology, const PathSpec& path) {
  return InOneSite(topology, path.from, path.to) ? nullptr : LineBefore(topology, path.from);
}

const AccessSpec* DownlinkOf(const Topology& topology, const PathSpec& path) {
  return InOneSite(topology, path.from, path.to) ? nullptr : LineBefore(topology, path.to);
}

absl::Status CheckRate(const std::string& where, BitsPerSecond rate) {
  if (rate >= kMinRate && rate <= kMaxRate) return absl::OkStatus();
  return Invalid(fmt::format("{} is {} Mbit/s: want more than 0 ({} to {})", where, InMbit(rate),
                             InMbit(kMinRate), InMbit(kMaxRate)));
}

absl::Status CheckQueue(const std::string& where, const std::optional<QueueDepth>& queue,
                        const std::optional<BitsPerSecond>& rate, int mtu) {
  if (!queue) return absl::OkStatus();
  using Unit = QueueDepth::Unit;
  const auto frame = static_cast<double>(FrameBytes(mtu));
  double least = 0, most = 1e9;
  const char* unit = "packets";
  switch (queue->unit) {
    case Unit::kPackets:
      least = 1;
      break;
    case Unit::kBytes:
      least = frame;
      most = 1e12;
      unit = "bytes";
      break;
    case Unit::kMilliseconds:
      least = rate ? frame * 8e3 / rate->value : 0;
      unit = "ms";
      break;
    case Unit::kBdp:
      most = kMaxQueueBdp;
      unit = "bandwidth-delay products";
      break;
  }
  if (queue->amount > 0 && queue->amount >= least && queue->amount <= most) {
    return absl::OkStatus();
  }
  return Invalid(fmt::format("{}: queue is {} {}: want at least one packet{}, at most {:g}", where,
                             queue->amount, unit,
                             least > 0 ? fmt::format(" ({:.4g} {})", least, unit) : "", most));
}

absl::Status CheckManagement(const std::string& where, const QueueManagement& aqm) {
  if (aqm.ecn && aqm.kind == QueueManagement::Kind::kDropTail) {
    return Invalid(where + ": ecn: a drop-tail queue marks nothing; want aqm codel or fq_codel");
  }
  constexpr absl::Duration kLeast = absl::Microseconds(1), kMost = absl::Minutes(1);
  for (const auto& [name, time] :
       {std::pair("aqm_target", aqm.target), std::pair("aqm_interval", aqm.interval)}) {
    if (time >= kLeast && time <= kMost) continue;
    return Invalid(fmt::format("{}: {} is {}: want {} to {}", where, name,
                               absl::FormatDuration(time), absl::FormatDuration(kLeast),
                               absl::FormatDuration(kMost)));
  }
  if (aqm.target < aqm.interval) return absl::OkStatus();
  return Invalid(fmt::format("{}: aqm_target is {}: want less than aqm_interval, {}", where,
                             absl::FormatDuration(aqm.target), absl::FormatDuration(aqm.interval)));
}

absl::Status CheckName(const std::string& where, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid(
        fmt::format("{}: name of {} bytes: want 1 to {}", where, name.size(), kMaxNameBytes));
  }
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain || name[0] == '.' || name[0] == '-') {
      return Invalid(
          fmt::format("{}: want letters, digits, '-', '_' and '.', not '-' or '.' first", where));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAccess(const std::string& where, const AccessSpec& access, int mtu) {
  auto s = CheckRate(where + ": access.up", access.up);
  if (s.ok()) s = CheckRate(where + ": access.down", access.down);
  if (s.ok())
    s = CheckQueue(where + ": access", access.queue, std::min(access.up, access.down), mtu);
  if (s.ok()) s = CheckManagement(where + ": access", access.aqm);
  return s;
}

absl::Status CheckSites(const Topology& topology) {
  const size_t count = topology.sites.size();
  std::vector<size_t> members(count, 0);
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const NodeSpec& node = topology.nodes[i];
    if (!node.site) continue;
    const std::string where = fmt::format("node {} '{}'", i, node.name);
    if (*node.site < 0 || *node.site >= static_cast<int>(count)) {
      return Invalid(fmt::format("{}: no site {}; there are {}", where, *node.site, count));
    }
    if (node.access) return Invalid(where + ": has an access line of its own and a site's");
    ++members[*node.site];
  }
  std::set<std::string> names;
  for (size_t s = 0; s < count; ++s) {
    const SiteSpec& site = topology.sites[s];
    const std::string where = fmt::format("site '{}'", site.name);
    RETURN_IF_ERROR(CheckName(where, site.name));
    if (!names.insert(site.name).second) return Invalid(where + ": the name is given twice");
    RETURN_IF_ERROR(CheckAccess(where, site.access, topology.mtu));
    if (members[s] == 0) return Invalid(where + ": no node is behind its line");
    if (members[s] * topology.nodes.size() > kMaxClasses) {
      return Invalid(fmt::format("{}: {} of {} nodes: their product is at most {}", where,
                                 members[s], topology.nodes.size(), kMaxClasses));
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
