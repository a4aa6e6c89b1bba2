#include "planning/scale/what_if.h"

#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_split.h"

namespace longhaul::scale {
namespace {

constexpr size_t kMostPoints = 10'000;
constexpr double kLevel = 0.95;

Measured OverSeeds(const std::vector<ScaleResult>& seeds,
                   const std::function<double(const ScaleResult&)>& value) {
  std::vector<double> values;
  for (const ScaleResult& r : seeds) values.push_back(value(r));
  return MeanWithInterval(values, kLevel);
}

absl::StatusOr<Point> PointAt(TomlValue root, const std::vector<Axis>& axes,
                              std::vector<std::string> at, int64_t seeds, const SpecNames& names) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::string set = axes[i].key + "=" + at[i];
    if (absl::Status status = SetByPath(root, set); !status.ok()) return status;
  }
  absl::StatusOr<ScaleSpec> spec = ReadScaleSpec(std::move(root), names);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<GroupPace> pace = GroupPace::Of(*spec);
  if (!pace.ok()) return pace.status();
  Point point{.at = std::move(at),
              .spec = *spec,
              .step_s = pace->step_s(),
              .ideal_goodput = IdealGoodput(*spec, *pace),
              .seeds = {},
              .goodput = {},
              .seconds = {},
              .lost_share = {},
              .utilisation = {}};
  for (int64_t i = 0; i < seeds; ++i) {
    point.seeds.push_back(
        SimulateRounds(point.spec, *pace, static_cast<uint64_t>(spec->run.seed + i)));
    if (point.seeds.size() > 1) point.seeds.back().by_round.clear();
  }
  point.goodput = OverSeeds(point.seeds, [](const auto& r) { return r.goodput(); });
  point.seconds = OverSeeds(point.seeds, [](const auto& r) { return r.seconds; });
  point.utilisation = OverSeeds(point.seeds, [](const auto& r) { return r.utilisation; });
  point.lost_share = OverSeeds(point.seeds, [](const ScaleResult& r) {
    const double all = r.tokens_counted + r.tokens_lost;
    return all > 0 ? r.tokens_lost / all : 0;
  });
  return point;
}

}  // namespace

absl::StatusOr<Axis> ParseAxis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': want KEY=VALUE,VALUE, as scale.mtbf_h=6,24,96", Shown(text)));
  }
  Axis axis{.key = text.substr(0, equals), .values = absl::StrSplit(text.substr(equals + 1), ',')};
  for (const std::string& value : axis.values) {
    if (value.empty()) {
      return absl::InvalidArgumentError(fmt::format("'{}': an empty value", Shown(text)));
    }
  }
  return axis;
}

absl::Status RunWhatIf(const TomlValue& root, const std::vector<Axis>& axes, int64_t seeds,
                       const SpecNames& names, const std::function<void(const Point&)>& seen) {
  size_t points = 1;
  for (const Axis& axis : axes) {
    points *= axis.values.size();
    if (points > kMostPoints) {
      return absl::InvalidArgumentError(
          fmt::format("the lists have more than {} combinations", kMostPoints));
    }
  }
  for (size_t i = 0; i < points; ++i) {
    std::vector<std::string> at(axes.size());
    size_t rest = i;
    for (size_t a = axes.size(); a-- > 0;) {
      at[a] = axes[a].values[rest % axes[a].values.size()];
      rest /= axes[a].values.size();
    }
    absl::StatusOr<Point> point = PointAt(root, axes, std::move(at), seeds, names);
    if (!point.ok()) return point.status();
    if (points > 1) point->seeds.front().by_round.clear();
    seen(*point);
  }
  return absl::OkStatus();
}

}  // namespace longhaul::scale
