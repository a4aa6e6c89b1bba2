// Which arms are cells of the table M x H x outer codec.
#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_cells.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

int64_t IntegerAt(const TomlValue& spec, std::string_view path, int64_t otherwise) {
  const TomlValue* found = Find(spec, path);
  const auto* value = found == nullptr ? nullptr : std::get_if<int64_t>(&found->value);
  return value == nullptr ? otherwise : *value;
}

std::string TextAt(const TomlValue& spec, std::string_view path) {
  const TomlValue* found = Find(spec, path);
  const auto* value = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return value == nullptr ? "none" : *value;
}

absl::StatusOr<TomlValue> SpecOf(const ArmResult& arm) {
  if (arm.outcomes.empty()) return absl::NotFoundError("no run");
  return ParseToml(arm.outcomes.front().run.spec_toml, arm.arm);
}

int64_t GlobalRows(const TomlValue& spec) {
  return IntegerAt(spec, "train.batch_rows", 0) * IntegerAt(spec, "outer.groups", 1);
}

// The spec of an arm that has its reference's global batch and differs from it by such keys alone.
std::optional<TomlValue> OuterSpecOf(const CampaignAnalysis& a, const ArmResult& arm,
                                     bool (*may_differ)(std::string_view)) {
  if (arm.role != Role::kArm || arm.changes.empty()) return std::nullopt;
  const bool only = std::all_of(arm.changes.begin(), arm.changes.end(),
                                [&](const SpecChange& c) { return may_differ(c.key); });
  const ArmResult* reference = FindArm(a, arm.reference);
  if (!only || reference == nullptr) return std::nullopt;
  const auto spec = SpecOf(arm), base = SpecOf(*reference);
  if (!spec.ok() || !base.ok() || GlobalRows(*spec) != GlobalRows(*base)) return std::nullopt;
  return *spec;
}

// A spec of before that key is DiLoCo's.
std::string AlgorithmOf(const TomlValue& spec) {
  const std::string algorithm = TextAt(spec, "outer.algorithm");
  return algorithm == "none" ? "diloco" : algorithm;
}

}  // namespace

std::vector<DilocoCell> FindDilocoCells(const CampaignAnalysis& a) {
  std::vector<DilocoCell> cells;
  for (const ArmResult& arm : a.arms) {
    const auto spec = OuterSpecOf(a, arm, IsOuterCellKey);
    // Another algorithm between the groups is no cell of DiLoCo's.
    if (!spec || AlgorithmOf(*spec) != "diloco") continue;
    DilocoCell cell;
    cell.arm = arm.arm;
    cell.local_batch = arm.reference != kD0Reference;
    cell.groups = IntegerAt(*spec, "outer.groups", 1);
    cell.inner_steps = IntegerAt(*spec, "outer.inner_steps", 0);
    cell.codec = TextAt(*spec, "outer.codec");
    if (cell.inner_steps < 1) continue;
    if (arm.crossings > 0) {
      cell.boundary =
          fmt::format("{} / {}, S = {}", arm.forward_codec, arm.backward_codec, arm.stages);
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

std::vector<OuterArm> FindOuterArms(const CampaignAnalysis& a) {
  const auto may_differ = [](std::string_view key) {
    return IsOuterCellKey(key) || key == "train.lr";
  };
  std::vector<OuterArm> out;
  for (const ArmResult& arm : a.arms) {
    const auto spec = OuterSpecOf(a, arm, may_differ);
    if (!spec || arm.reference != kD0Reference || arm.crossings > 0 ||
        IntegerAt(*spec, "outer.groups", 1) < 2)
      continue;
    const bool cell = std::any_of(a.diloco.cells.begin(), a.diloco.cells.end(),
                                  [&](const DilocoCell& c) { return c.arm == arm.arm; });
    if (cell) continue;
    out.push_back({.arm = arm.arm,
                   .algorithm = AlgorithmOf(*spec),
                   .codec = TextAt(*spec, "outer.codec"),
                   .groups = IntegerAt(*spec, "outer.groups", 1),
                   .inner_steps = std::max<int64_t>(1, IntegerAt(*spec, "outer.inner_steps", 0))});
  }
  return out;
}

}  // namespace longhaul
