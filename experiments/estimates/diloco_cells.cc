// Which arms are cells of the table M x H x outer codec.
#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_cells.h"
#include "experiments/spec/toml_tree.h"

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

}  // namespace

std::vector<DilocoCell> FindDilocoCells(const CampaignAnalysis& a) {
  std::vector<DilocoCell> cells;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm || arm.changes.empty()) continue;
    const bool only_outer = std::all_of(arm.changes.begin(), arm.changes.end(),
                                        [](const SpecChange& c) { return IsOuterCellKey(c.key); });
    const ArmResult* reference = FindArm(a, arm.reference);
    if (!only_outer || reference == nullptr) continue;
    const auto spec = SpecOf(arm), base = SpecOf(*reference);
    if (!spec.ok() || !base.ok() || GlobalRows(*spec) != GlobalRows(*base)) continue;
    // Another algorithm between the groups is no cell of DiLoCo's; a spec of before that key is one.
    const std::string algorithm = TextAt(*spec, "outer.algorithm");
    if (algorithm != "diloco" && algorithm != "none") continue;
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

}  // namespace longhaul
