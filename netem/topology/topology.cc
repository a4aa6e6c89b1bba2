#include "netem/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

constexpr int kMaxNodes = 10000;
constexpr int kMinMtu = 576;    // the least an IPv4 host must take
constexpr int kMaxMtu = 65000;  // a TAP frame must fit one 64 KiB read

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(message); }

// Outside of these a figure is a slip of the pen, and products of them would leave 64 bits.
constexpr absl::Duration kMaxTime = absl::Hours(1);
constexpr double kMaxQueueBdp = 1e6;
constexpr int64_t kMaxQueuePackets = 1 << 30;  // netem keeps 32 bits

absl::Status CheckTime(const std::string& where, absl::Duration time) {
  if (time >= absl::ZeroDuration() && time <= kMaxTime) return absl::OkStatus();
  return Invalid(
      fmt::format("{} is {}: want 0 to an hour", where, std::string(absl::FormatDuration(time))));
}

absl::Status CheckBurstLoss(const std::string& where, const PathSpec& path) {
  if (!path.burst_loss) return absl::OkStatus();
  const BurstLoss& b = *path.burst_loss;
  for (double p : {b.to_bad, b.to_good, b.loss_bad, b.loss_good}) {
    if (!(p >= 0 && p <= 1)) {
      return Invalid(fmt::format("{}: burst loss: {} is no probability in [0, 1]", where, p));
    }
  }
  if (path.loss_prob != 0) {
    return Invalid(where + ": loss and burst loss are both given; want one of them");
  }
  if (MeanLoss(path) >= 1) return Invalid(where + ": burst loss: every packet would be lost");
  return absl::OkStatus();
}

// What needs a rate of the path's own to wait for.
absl::Status CheckOwnQueue(const std::string& where, const PathSpec& path) {
  if (path.rate) return absl::OkStatus();
  if (path.aqm.kind != QueueManagement::Kind::kDropTail) {
    return Invalid(where +
                   ": aqm: without a rate of its own no queue forms; give it rate_mbit, or "
                   "the access line access_aqm");
  }
  if (path.jitter_order == JitterOrder::kKeep) return absl::OkStatus();
  return Invalid(where + ": jitter_order: without a rate frames overtake each other anyway");
}

// By the names in small letters, those of IPv4 included, the nodes that have them.
using NamesTaken = std::map<std::string, std::string>;

absl::Status CheckNode(const NodeSpec& node, int index, int mtu, NamesTaken& names) {
  const std::string where = fmt::format("node {} '{}'", index, node.name);
  RETURN_IF_ERROR(CheckNodeName(where, node.name));
  const std::string small = InSmallLetters(node.name);
  for (const std::string& taken : {small, small + ".v4"}) {
    const auto [other, is_new] = names.emplace(taken, node.name);
    if (is_new) continue;
    if (other->second == node.name) return Invalid(where + ": the name is given twice");
    return Invalid(
        fmt::format("{}: a lookup cannot keep it apart from node '{}' ({}); rename one of "
                    "them",
                    where, other->second,
                    taken == InSmallLetters(other->second) && taken == small
                        ? "upper and lower case are the same"
                        : "NAME.v4 is the node NAME by IPv4"));
  }
  return node.access ? CheckAccess(where, *node.access, mtu) : absl::OkStatus();
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
    RETURN_IF_ERROR(CheckRate(where + ": rate", *path.rate));
  }
  RETURN_IF_ERROR(CheckTime(where + ": delay", path.delay));
  RETURN_IF_ERROR(CheckTime(where + ": jitter", path.jitter));
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.share == nullptr) continue;
    const double share = figure.ShareOf(path);
    if (!(share >= 0 && share <= 1)) {
      return Invalid(
          fmt::format("{}{} is {}: want a probability in [0, 1]", where, figure.called, share));
    }
    if (share > 0 && !figure.without_delay.empty() && path.delay == absl::ZeroDuration()) {
      return Invalid(
          fmt::format("{}{}: without a delay {}", where, figure.called, figure.without_delay));
    }
  }
  if (!(path.queue_bdp > 0 && path.queue_bdp <= kMaxQueueBdp)) {
    return Invalid(fmt::format("{}: queue is {} bandwidth-delay products: want more than 0", where,
                               path.queue_bdp));
  }
  RETURN_IF_ERROR(CheckQueue(where, path.queue, path.rate, topology.mtu));
  RETURN_IF_ERROR(CheckManagement(where, path.aqm));
  RETURN_IF_ERROR(CheckOwnQueue(where, path));
  RETURN_IF_ERROR(CheckBurstLoss(where, path));
  const int64_t packets = path.rate ? PathQueuePackets(topology, path) : 0;
  if (packets <= kMaxQueuePackets) return absl::OkStatus();
  return Invalid(fmt::format("{}: the queue holds {} packets: want at most {}", where, packets,
                             kMaxQueuePackets));
}

}  // namespace

std::string InSmallLetters(std::string_view name) {
  std::string small(name);
  for (char& c : small) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return small;
}

absl::Status CheckNodeName(const std::string& where, const std::string& name) {
  RETURN_IF_ERROR(CheckName(where, name));
  const std::string small = InSmallLetters(name);
  if (small == "localhost" || small == "localhost.localdomain" || small.ends_with(".localhost")) {
    return Invalid(where + ": localhost is every node's own name");
  }
  bool is_number = true;
  for (size_t begin = 0; begin <= small.size();) {
    const size_t end = std::min(small.find('.', begin), small.size());
    const std::string_view label = std::string_view(small).substr(begin, end - begin);
    if (label.empty()) return Invalid(where + ": a dot at the end, or two in a row");
    const bool hexadecimal = label.starts_with("0x");
    is_number =
        is_number && label.find_first_not_of(hexadecimal ? "0123456789abcdef" : "0123456789",
                                             hexadecimal ? 2 : 0) == label.npos;
    begin = end + 1;
  }
  if (!is_number) return absl::OkStatus();
  return Invalid(
      fmt::format("{}: a number, which programs read as an IPv4 address; give it a letter, as n{}",
                  where, name));
}

absl::Status Validate(const Topology& topology) {
  if (topology.nodes.empty()) return Invalid("topology: no nodes");
  if (topology.nodes.size() > kMaxNodes) {
    return Invalid(fmt::format("topology: {} nodes: at most {}", topology.nodes.size(), kMaxNodes));
  }
  if (topology.mtu < kMinMtu || topology.mtu > kMaxMtu) {
    return Invalid(fmt::format("topology: mtu {}: want {} to {}", topology.mtu, kMinMtu, kMaxMtu));
  }
  NamesTaken names;
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    auto s = CheckNode(topology.nodes[i], static_cast<int>(i), topology.mtu, names);
    if (!s.ok()) return s;
  }
  RETURN_IF_ERROR(CheckSites(topology));
  std::set<std::pair<int, int>> pairs;
  for (const PathSpec& path : topology.paths) {
    RETURN_IF_ERROR(CheckPath(topology, path));
    if (!pairs.insert({path.from, path.to}).second) {
      return Invalid(fmt::format("path {} > {}: given twice", topology.nodes[path.from].name,
                                 topology.nodes[path.to].name));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePath(const Topology& topology, const PathSpec& path) {
  return CheckPath(topology, path);
}

namespace {

std::string PathName(const Topology& topology, const PathSpec& path) {
  return fmt::format("path {} > {}", topology.nodes[path.from].name, topology.nodes[path.to].name);
}

double DroppedShare(const PathSpec& path) {
  if (!path.burst_loss) return path.loss_prob;
  const BurstLoss& b = *path.burst_loss;
  const double turns = b.to_bad + b.to_good;
  const double bad = turns > 0 ? b.to_bad / turns : 0;  // share of packets that meet the bad state
  return bad * b.loss_bad + (1 - bad) * b.loss_good;
}

}  // namespace

ImpairmentSpec ImpairmentOf(const PathSpec& path) {
  return {path.loss_prob, absl::ToInt64Nanoseconds(path.jitter), path.jitter_shape, path.burst_loss,
          path.rare};
}

double MeanLoss(const PathSpec& path) {
  const double dropped = DroppedShare(path);
  return dropped + (1 - dropped) * path.rare.corrupt_prob;
}

void SetRateTrace(PathSpec& path, std::shared_ptr<const RateTrace> trace, int mtu) {
  if (path.rate_trace == nullptr) path.rate_before_trace = path.rate;
  path.rate = trace == nullptr ? path.rate_before_trace : std::optional(MeanRate(*trace, mtu));
  if (trace == nullptr) path.rate_before_trace.reset();
  path.rate_trace = std::move(trace);
}

bool IsServedByEvents(const PathSpec& path) {
  return path.rate &&
         (path.rate_trace != nullptr || path.aqm.kind != QueueManagement::Kind::kDropTail);
}

std::string WhyTapAlone(const Topology& topology) {
  for (const PathSpec& path : topology.paths) {
    for (const PathFigure& figure : PathFigureTable()) {
      if (figure.tap_alone.empty() || !figure.IsGiven(path)) continue;
      return fmt::format("{}: {}: {}, or use the tap emulator (--emulator tap)",
                         PathName(topology, path), figure.word, figure.tap_alone);
    }
  }
  return "";
}

std::string_view ToString(QueueManagement::Kind kind) {
  switch (kind) {
    case QueueManagement::Kind::kDropTail:
      break;
    case QueueManagement::Kind::kCodel:
      return "codel";
    case QueueManagement::Kind::kFqCodel:
      return "fq_codel";
  }
  return "droptail";
}

std::optional<QueueManagement::Kind> QueueManagementNamed(std::string_view name) {
  using Kind = QueueManagement::Kind;
  for (Kind kind : {Kind::kDropTail, Kind::kCodel, Kind::kFqCodel}) {
    if (name == ToString(kind)) return kind;
  }
  return std::nullopt;
}

std::string MissingPathsText(const Topology& topology) {
  std::set<std::pair<int, int>> there;
  for (const PathSpec& path : topology.paths) there.insert({path.from, path.to});
  constexpr int kShown = 4;
  std::string apart, one_way;
  int count_apart = 0, count_one_way = 0;
  const auto add = [](std::string& text, int& count, const std::string& pair) {
    if (++count <= kShown) text += (text.empty() ? "" : ", ") + pair;
  };
  const int n = static_cast<int>(topology.nodes.size());
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      const bool out = there.contains({i, j}), back = there.contains({j, i});
      const std::string& a = topology.nodes[i].name;
      const std::string& b = topology.nodes[j].name;
      if (!out && !back) add(apart, count_apart, fmt::format("{} and {}", a, b));
      if (out != back) {
        add(one_way, count_one_way, fmt::format("{} > {}", out ? a : b, out ? b : a));
      }
    }
  }
  const auto line = [](std::string_view what, const std::string& pairs, int count,
                       std::string_view means) {
    if (count == 0) return std::string();
    const std::string more = count > kShown ? fmt::format(" and {} more", count - kShown) : "";
    return fmt::format("{}: {}{}; {}\n", what, pairs, more, means);
  };
  return line("no path between", apart, count_apart,
              "a connection there fails at once with 'No route to host'") +
         line("a path one way only", one_way, count_one_way,
              "datagrams arrive, no answer returns, and TCP fails at once");
}

const PathSpec* FindPath(const Topology& topology, int from, int to) {
  // Where it is in a full mesh in order, as most are.
  const size_t guess =
      from * (topology.nodes.size() - 1) + static_cast<size_t>(to > from ? to - 1 : to);
  if (guess < topology.paths.size() && topology.paths[guess].from == from &&
      topology.paths[guess].to == to) {
    return &topology.paths[guess];
  }
  for (const PathSpec& path : topology.paths) {
    if (path.from == from && path.to == to) return &path;
  }
  return nullptr;
}

absl::Status NoPath(int from, int to) {
  return absl::NotFoundError(fmt::format("no path from node {} to node {}", from, to));
}

absl::StatusOr<Topology> WithPath(const Topology& topology, const PathSpec& path) {
  RETURN_IF_ERROR(ValidatePath(topology, path));
  Topology changed = topology;
  for (PathSpec& old : changed.paths) {
    if (old.from != path.from || old.to != path.to) continue;
    old = path;
    return changed;
  }
  return NoPath(path.from, path.to);
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
  if (const std::string why = WhyNoLinks(profile); !why.empty()) return absl::NotFoundError(why);
  return absl::NotFoundError(fmt::format("profile '{}' is unknown; known: {}", profile, known));
}

std::string WhyNoLinks(std::string_view name) {
  const std::filesystem::path file(name);
  const std::string kind = InSmallLetters(file.extension().string());
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    const bool is_file = name.find('/') != name.npos || kind == ".csv" || kind == ".json" ||
                         kind == ".toml" || kind == ".yml" || kind == ".yaml";
    return is_file ? fmt::format("{}: there is no such file", name) : "";
  }
  if (kind == ".csv") {
    return fmt::format(
        "{0}: a matrix alone has no rates; write a topology file (.toml) with [matrix], "
        "csv = \"{0}\" and rate_mbit, and give that file",
        name);
  }
  if (kind == ".json") {
    return fmt::format(
        "{}: links are read from a topology file (.toml); JSON of `longhaul net probe` "
        "is for `longhaul plan --links`",
        name);
  }
  return fmt::format("{}: not a topology file, whose name ends in .toml", name);
}

}  // namespace longhaul
