// Whatever stands in a spec file, a campaign file or a `--set`: it is refused in one line, or every
// figure lies within its bounds and the resolved text reads back to itself.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_keys.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

void Demand(bool holds) {
  if (!holds) __builtin_trap();
}

void ExpectOneLine(const absl::Status& status) {
  const std::string message(status.message());
  Demand(absl::IsInvalidArgument(status));
  Demand(!message.empty() && message.size() < 3000);
  Demand(std::none_of(message.begin(), message.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

void ExpectWithinBounds(const RunSpec& spec, const SpecNames& names) {
  Demand(Steps(spec) >= 1 && TrainTokens(spec) >= 1 && TrainTokens(spec) <= kMaxTokens);
  Demand(spec.train.warmup_steps <= Steps(spec));
  Demand(spec.schedule.stages * spec.outer.groups <= kMaxRanks);
  const std::string text = ToToml(spec);
  const auto root = ParseToml(text, "again");
  Demand(root.ok());
  const auto again = ReadRunSpec(*root, names);
  Demand(again.ok() && ToToml(*again) == text);
}

void ReadAs(const TomlValue& root) {
  static const SpecNames names = CatalogNames();
  if (!IsCampaign(root)) {
    const absl::StatusOr<RunSpec> spec = ReadRunSpec(root, names);
    if (!spec.ok()) return ExpectOneLine(spec.status());
    return ExpectWithinBounds(*spec, names);
  }
  const absl::StatusOr<CampaignSpec> campaign = ReadCampaign(root, names);
  if (!campaign.ok()) return ExpectOneLine(campaign.status());
  Demand(PlanText(*campaign, {}).size() > campaign->arms.size());
  for (const PlannedRun& run : campaign->runs) {
    if (run.seed == campaign->seeds.front()) ExpectWithinBounds(run.spec, names);
  }
}

void ReadFile(const std::string& text) {
  const absl::StatusOr<TomlValue> root = ParseToml(text, "spec.toml");
  if (!root.ok()) return ExpectOneLine(root.status());
  ReadAs(*root);
}

// Each line is a `--set` over a spec that can be run.
void ReadSets(const std::string& base, const std::string& lines) {
  TomlValue root = *ParseToml(base, "spec.toml");
  for (size_t at = 0; at < lines.size();) {
    const size_t next = std::min(lines.find('\n', at), lines.size());
    const absl::Status set = SetByPath(root, lines.substr(at, next - at));
    if (!set.ok()) ExpectOneLine(set);
    at = next + 1;
  }
  ReadAs(root);
}

}  // namespace
}  // namespace longhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace longhaul;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes + 1), size - 1);
  switch (bytes[0] % 5) {
    case 0:
      ReadFile(text);
      break;
    case 1:
      ReadFile(text + "\n" + kRunToml);
      break;
    case 2:
      ReadFile(kOneArmToml + text + "\n" + kArmsToml + "rows = 64\n");
      break;
    case 3:
      ReadSets(kRunToml, text);
      break;
    default:
      ReadSets(std::string(kOneArmToml) + kArmsToml + "rows = 64\n", text);
  }
  return 0;
}
