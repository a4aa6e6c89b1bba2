#include "netem/topology.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>

namespace longhaul {
namespace {

constexpr int kMaxNodes = 10000;
constexpr size_t kMaxNameBytes = 48;  // a file name under /run/netns, and readable in a table
constexpr int kMinMtu = 576;          // the least an IPv4 host must take
constexpr int kMaxMtu = 65000;        // a TAP frame must fit one 64 KiB read

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(message); }

bool IsUsableRate(BitsPerSecond rate) { return std::isfinite(rate.value) && rate.value > 0; }

absl::Status CheckRate(const std::string& where, BitsPerSecond rate) {
  if (IsUsableRate(rate)) return absl::OkStatus();
  return Invalid(fmt::format("{} is {} Mbit/s: want more than 0", where, InMbit(rate)));
}

absl::Status CheckTime(const std::string& where, absl::Duration time) {
  if (time >= absl::ZeroDuration() && time < absl::InfiniteDuration()) return absl::OkStatus();
  return Invalid(fmt::format("{} is {}: want 0 or more, and finite", where,
                             std::string(absl::FormatDuration(time))));
}

absl::Status CheckNode(const NodeSpec& node, int index, std::set<std::string>& names) {
  const std::string where = fmt::format("node {} '{}'", index, node.name);
  if (node.name.empty() || node.name.size() > kMaxNameBytes) {
    return Invalid(
        fmt::format("{}: name of {} bytes: want 1 to {}", where, node.name.size(), kMaxNameBytes));
  }
  for (char c : node.name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain || node.name[0] == '.' || node.name[0] == '-') {
      return Invalid(
          fmt::format("{}: want letters, digits, '-', '_' and '.', not '-' or '.' first", where));
    }
  }
  if (!names.insert(node.name).second) return Invalid(where + ": the name is given twice");
  if (!node.access) return absl::OkStatus();
  if (auto s = CheckRate(where + ": access.up", node.access->up); !s.ok()) return s;
  return CheckRate(where + ": access.down", node.access->down);
}

absl::Status CheckPath(const Topology& topology, const PathSpec& path) {
  const int n = static_cast<int>(topology.nodes.size());
  for (int end : {path.from, path.to}) {
    if (end < 0 || end >= n) {
      return Invalid(fmt::format("path {} > {}: no node {}; there are {} (0 to {})", path.from,
                                 path.to, end, n, n - 1));
    }
  }
  const std::string where =
      fmt::format("path {} > {}", topology.nodes[path.from].name, topology.nodes[path.to].name);
  if (path.from == path.to) return Invalid(where + ": leads from a node to itself");
  if (path.rate) {
    if (auto s = CheckRate(where + ": rate", *path.rate); !s.ok()) return s;
  }
  if (auto s = CheckTime(where + ": delay", path.delay); !s.ok()) return s;
  if (auto s = CheckTime(where + ": jitter", path.jitter); !s.ok()) return s;
  if (!(path.loss_prob >= 0 && path.loss_prob < 1)) {
    return Invalid(
        fmt::format("{}: loss is {}: want a probability in [0, 1)", where, path.loss_prob));
  }
  if (!(path.queue_bdp > 0) || !std::isfinite(path.queue_bdp)) {
    return Invalid(fmt::format("{}: queue is {} bandwidth-delay products: want more than 0", where,
                               path.queue_bdp));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Topology& topology) {
  if (topology.nodes.empty()) return Invalid("topology: no nodes");
  if (topology.nodes.size() > kMaxNodes) {
    return Invalid(fmt::format("topology: {} nodes: at most {}", topology.nodes.size(), kMaxNodes));
  }
  if (topology.mtu < kMinMtu || topology.mtu > kMaxMtu) {
    return Invalid(fmt::format("topology: mtu {}: want {} to {}", topology.mtu, kMinMtu, kMaxMtu));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    auto s = CheckNode(topology.nodes[i], static_cast<int>(i), names);
    if (!s.ok()) return s;
  }
  std::set<std::pair<int, int>> pairs;
  for (const PathSpec& path : topology.paths) {
    if (auto s = CheckPath(topology, path); !s.ok()) return s;
    if (!pairs.insert({path.from, path.to}).second) {
      return Invalid(fmt::format("path {} > {}: given twice", topology.nodes[path.from].name,
                                 topology.nodes[path.to].name));
    }
  }
  return absl::OkStatus();
}

const PathSpec* FindPath(const Topology& topology, int from, int to) {
  for (const PathSpec& path : topology.paths) {
    if (path.from == from && path.to == to) return &path;
  }
  return nullptr;
}

absl::Duration NominalRtt(const Topology& topology, const PathSpec& path) {
  const PathSpec* back = FindPath(topology, path.to, path.from);
  return path.delay + (back == nullptr ? path.delay : back->delay);
}

absl::StatusOr<Topology> UniformTopology(std::string_view profile, int nodes) {
  if (nodes < 1 || nodes > kMaxNodes) {
    return Invalid(fmt::format("{} nodes: want 1 to {}", nodes, kMaxNodes));
  }
  std::string known;
  for (const Profile& p : Profiles()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
    if (p.name != profile) continue;
    Topology topology{.profile = std::string(profile), .nodes = {}, .paths = {}};
    for (int i = 0; i < nodes; ++i) {
      topology.nodes.push_back({.name = fmt::format("w{}", i), .access = std::nullopt});
      for (int j = 0; j < nodes; ++j) {
        if (i == j) continue;
        topology.paths.push_back({.from = i,
                                  .to = j,
                                  .rate = p.rate,
                                  .delay = p.rtt / 2,
                                  .jitter = absl::ZeroDuration()});
      }
    }
    return topology;
  }
  return absl::NotFoundError(fmt::format("profile '{}' is unknown; known: {}", profile, known));
}

}  // namespace longhaul
