#include "netem/lab_control/path_change.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "netem/topology/figure_text.h"
#include "netem/topology/path_figure_table.h"

namespace longhaul {
namespace {

absl::Status BadValue(std::string_view key, std::string_view value, std::string_view want) {
  return absl::InvalidArgumentError(fmt::format("{}={}: want {}", key, value, want));
}

absl::Status SetCarrier(std::string_view value, PathChange& change) {
  if (value != "up" && value != "down") return BadValue("carrier", value, "up or down");
  change.carrier = value == "up" ? Carrier::kUp : Carrier::kDown;
  return absl::OkStatus();
}

absl::Status SetOutage(std::string_view value, PathChange& change) {
  ASSIGN_OR_RETURN(const auto time, ReadTime("outage", value));
  if (time <= absl::ZeroDuration()) return BadValue("outage", value, "more than 0");
  change.outage = time;
  return absl::OkStatus();
}

absl::Status Assign(std::string_view key, std::string_view value, int mtu, PathChange& change) {
  if (const PathFigure* figure = PathFigureOf(key)) {
    return SetFigure(*figure, value, mtu, change.path);
  }
  if (key == "carrier") return SetCarrier(value, change);
  if (key == "outage") return SetOutage(value, change);
  std::string known;
  for (const PathFigure& figure : PathFigureTable()) known += fmt::format("{} ", figure.word);
  return absl::InvalidArgumentError(
      fmt::format("unknown key '{}'; known: {}carrier outage", key, known));
}

}  // namespace

absl::StatusOr<std::vector<std::pair<int, int>>> SelectPaths(const Topology& topology,
                                                             std::string_view selector) {
  if (selector == "*") selector = "*>*";
  const size_t arrow = selector.find('>');
  if (arrow == std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("path '{}': want 'a>b', 'a<>b' for both directions, or '*' for all", selector));
  }
  const bool both = arrow > 0 && selector[arrow - 1] == '<';
  const std::string_view from = selector.substr(0, both ? arrow - 1 : arrow);
  const std::string_view to = selector.substr(arrow + 1);
  for (std::string_view end : {from, to}) {
    bool known = end == "*";
    for (const NodeSpec& node : topology.nodes) known = known || node.name == end;
    if (!known) return absl::NotFoundError(fmt::format("no node '{}' in this lab", end));
  }
  const auto is = [&](int node, std::string_view name) {
    return name == "*" || topology.nodes[node].name == name;
  };
  std::vector<std::pair<int, int>> pairs;
  for (const PathSpec& path : topology.paths) {
    if ((is(path.from, from) && is(path.to, to)) ||
        (both && is(path.from, to) && is(path.to, from))) {
      pairs.emplace_back(path.from, path.to);
    }
  }
  if (pairs.empty()) {
    return absl::NotFoundError(fmt::format("no path '{}' in this lab", selector));
  }
  return pairs;
}

absl::StatusOr<PathChange> ApplyAssignments(const PathSpec& path,
                                            const std::vector<std::string>& assignments, int mtu) {
  PathChange change{.path = path};
  for (const std::string& word : assignments) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format("'{}': want KEY=VALUE", word));
    }
    const std::string_view text = word;
    if (auto s = Assign(text.substr(0, equals), text.substr(equals + 1), mtu, change); !s.ok())
      return s;
  }
  return change;
}

absl::Status CheckSchedule(const Topology& topology) {
  Topology now = topology;
  for (const ScheduledChange& change : topology.changes) {
    const auto wrong = [&](const absl::Status& why) {
      return absl::Status(why.code(), fmt::format("{}:{}: {}", topology.profile, change.line,
                                                  std::string(why.message())));
    };
    if (change.figures.empty()) {
      return wrong(absl::InvalidArgumentError("'set': want KEY=VALUE words, as `net set` takes"));
    }
    const auto pairs = SelectPaths(now, change.path);
    if (!pairs.ok()) return wrong(pairs.status());
    for (const auto& [from, to] : *pairs) {
      const auto changed = ApplyAssignments(*FindPath(now, from, to), change.figures, now.mtu);
      if (!changed.ok()) return wrong(changed.status());
      auto next = WithPath(now, changed->path);
      if (!next.ok()) return wrong(next.status());
      now = *std::move(next);
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
