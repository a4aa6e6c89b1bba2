#include "experiments/planning/prices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/spec/link_time.h"
#include "experiments/train/traffic.h"
#include "netem/lab_control/path_change.h"

namespace longhaul::plan {
namespace {

constexpr double kMostPrice = 1e6;
constexpr double kSecondsPerHour = 3600, kBytesPerGb = 1e9;

absl::Status Bad(const PriceList& list, const std::string& key, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{}: 'plan.{}' {}", list.where, key, why));
}

// Sets every path that a selector names; `stars` of its ends are '*', so that special ones come last.
absl::Status SetPaths(const PriceList& list, const Topology& links, int stars,
                      std::vector<std::optional<double>>& price) {
  const size_t n = links.nodes.size();
  std::map<std::pair<int, int>, std::string> by;
  for (const auto& [selector, value] : list.by_name) {
    const auto count = std::count(selector.begin(), selector.end(), '*');
    if ((selector == "*" ? 2 : count) != stars) continue;
    const auto paths = SelectPaths(links, selector);
    if (!paths.ok()) return Bad(list, "link_price_per_gb", std::string(paths.status().message()));
    for (const auto& [from, to] : *paths) {
      const auto [first, added] = by.try_emplace({from, to}, selector);
      if (!added) {
        return Bad(list, "link_price_per_gb",
                   fmt::format("has two prices of path {}>{}: '{}' and '{}'",
                               links.nodes[static_cast<size_t>(from)].name,
                               links.nodes[static_cast<size_t>(to)].name, first->second, selector));
      }
      price[static_cast<size_t>(from) * n + static_cast<size_t>(to)] = value;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> NodesPerHour(const PriceList& list, const Topology& links) {
  if (list.each) return *list.each * static_cast<double>(links.nodes.size());
  double sum = 0;
  std::vector<std::string> unknown;
  for (const auto& [name, price] : list.by_name) unknown.push_back(name);
  for (const NodeSpec& node : links.nodes) {
    const auto found = list.by_name.find(node.name);
    if (found == list.by_name.end()) {
      return Bad(
          list, "price_per_hour",
          fmt::format("has no price of node '{}'; want one of each, or one number", node.name));
    }
    sum += found->second;
    std::erase(unknown, node.name);
  }
  if (!unknown.empty()) {
    return Bad(list, "price_per_hour",
               fmt::format("names '{}', and links have no such node", Shown(unknown.front())));
  }
  return sum;
}

}  // namespace

std::optional<PriceList> ReadPrices(TableReader& r, const std::string& key) {
  const TomlValue* value = r.Value(key);
  if (value == nullptr) return std::nullopt;
  PriceList list{.where = value->where};
  const auto take = [&](const TomlValue& of, const std::string& name) {
    const auto* real = std::get_if<double>(&of.value);
    const auto* whole = std::get_if<int64_t>(&of.value);
    const std::string what = name.empty() ? "" : fmt::format("of '{}' ", Shown(name));
    if (real == nullptr && whole == nullptr) {
      r.Fail(key, fmt::format("{}is {}; want a number", what, KindName(of)));
      return 0.0;
    }
    const double price = real != nullptr ? *real : static_cast<double>(*whole);
    r.Check(price >= 0 && price <= kMostPrice, key,
            fmt::format("{}is {}; want 0 to {:g}", what, TomlNumber(price), kMostPrice));
    return price;
  };
  const auto* table = std::get_if<TomlValue::Table>(&value->value);
  if (table == nullptr) {
    list.each = take(*value, "");
    return list;
  }
  for (const auto& [name, of] : *table) list.by_name[name] = take(of, name);
  return list;
}

absl::StatusOr<Prices> PricesOf(const PriceList& per_hour, const std::optional<PriceList>& per_gb,
                                const Topology& links) {
  ASSIGN_OR_RETURN(const double hourly, NodesPerHour(per_hour, links));
  if (!(hourly > 0)) {
    return Bad(per_hour, "price_per_hour", "is 0 of every node; want one that costs something");
  }
  const size_t n = links.nodes.size();
  std::vector<std::optional<double>> per_path(n * n);
  if (!per_gb || per_gb->each) {
    std::fill(per_path.begin(), per_path.end(), per_gb ? *per_gb->each : 0);
  } else {
    for (const int stars : {2, 1, 0}) {
      RETURN_IF_ERROR(SetPaths(*per_gb, links, stars, per_path));
    }
  }
  Prices prices{.nodes_per_second = hourly / kSecondsPerHour,
                .per_byte = std::vector<double>(n * n)};
  for (const PathSpec& path : links.paths) {
    const size_t at = static_cast<size_t>(path.from) * n + static_cast<size_t>(path.to);
    if (!per_path[at]) {
      return Bad(*per_gb, "link_price_per_gb",
                 fmt::format("has no price of path {}>{}; want one, or '*' of all others",
                             links.nodes[static_cast<size_t>(path.from)].name,
                             links.nodes[static_cast<size_t>(path.to)].name));
    }
    prices.per_byte[at] = *per_path[at] / kBytesPerGb;
  }
  return prices;
}

absl::StatusOr<std::vector<SentBytes>> SentInSteps(const RunSpec& spec, int64_t first,
                                                   int64_t last) {
  std::map<std::pair<int64_t, int64_t>, double> bytes;
  for (const auto& [done, sign] : {std::pair(first, 1.0), {last, -1.0}}) {
    ASSIGN_OR_RETURN(const auto crossings, PlanCrossings(spec, done));
    for (const PlannedCrossing& crossing : crossings) {
      const std::optional<double> each = MessageBytes(crossing);
      if (!each) {
        return absl::InvalidArgumentError(
            fmt::format("codec '{}' refuses a tensor of this run", crossing.codec));
      }
      bytes[{crossing.src_rank, crossing.dst_rank}] +=
          sign * *each * static_cast<double>(crossing.messages());
    }
  }
  std::vector<SentBytes> sent;
  for (const auto& [ranks, sum] : bytes) {
    sent.push_back(
        {ranks.first, ranks.second, kWireFactor * sum / static_cast<double>(last - first)});
  }
  return sent;
}

double TrafficCost(const Prices& prices, std::span<const SentBytes> sent,
                   const std::vector<int>& nodes) {
  const auto n = static_cast<size_t>(std::llround(std::sqrt(prices.per_byte.size())));
  double cost = 0;
  for (const SentBytes& one : sent) {
    const auto from = static_cast<size_t>(nodes[static_cast<size_t>(one.from_rank)]);
    const auto to = static_cast<size_t>(nodes[static_cast<size_t>(one.to_rank)]);
    cost += one.per_step * prices.per_byte[from * n + to];
  }
  return cost;
}

}  // namespace longhaul::plan
