#include "experiments/command/untrained_prices.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/price/untrained_price.h"
#include "experiments/run/branches.h"
#include "experiments/run/machine_limits.h"

namespace longhaul {
namespace {

// Rows of the arms of one seed that a price can be of, and their specs.
struct Priceable {
  std::vector<int64_t> runs;
  std::vector<RunSpec> specs;
};

Priceable ArmsOfSeed(const CampaignSpec& campaign, int64_t seed,
                     const std::map<std::string, int64_t>& ended) {
  Priceable arms;
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != seed || run.reference != kD0Reference || !HasQ(campaign, run)) continue;
    const auto row = ended.find(run.arm);
    if (row == ended.end() || CodecText(run.spec).forward == "none") continue;
    arms.runs.push_back(row->second);
    arms.specs.push_back(run.spec);
  }
  return arms;
}

absl::Status PriceSeed(Record& record, const RunSpec& reference, const std::string& weights,
                       const Priceable& arms) {
  ASSIGN_OR_RETURN(const auto prices,
                   PriceUntrained(reference, weights, arms.specs, CoresAllowed()));
  for (size_t i = 0; i < arms.runs.size(); ++i) {
    const std::optional<UntrainedPrice>& price = prices[i];
    if (!price) continue;
    const std::string text =
        fmt::format("{} {} {}", price->nat, price->standard_error_nat, price->rows);
    if (absl::Status s = record.AddFacts(arms.runs[i], {{kUntrainedPriceFact, text}}); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PriceReferences(Record& record, int64_t experiment, const CampaignSpec& campaign,
                             std::FILE* out) {
  ASSIGN_OR_RETURN(const std::vector<RunRow> rows, record.Runs(experiment));
  std::map<int64_t, std::map<std::string, int64_t>> ended;  // by seed and arm
  for (const RunRow& row : rows) {
    if (row.status == RunStatus::kOk) ended[row.seed][row.arm] = row.id;
  }
  for (const PlannedRun& reference : campaign.runs) {
    if (reference.arm != kD0Reference) continue;
    const std::string weights = WeightsFolder(record.folder(), reference);
    std::error_code ignored;
    if (weights.empty() || !std::filesystem::exists(weights, ignored)) continue;
    const Priceable arms = ArmsOfSeed(campaign, reference.seed, ended[reference.seed]);
    if (!arms.runs.empty()) {
      const absl::Status priced = PriceSeed(record, reference.spec, weights, arms);
      if (!priced.ok()) {
        fmt::print(out, "no untrained price of seed {}: {}\n", reference.seed,
                   std::string(priced.message()));
      }
    }
    std::filesystem::remove_all(weights, ignored);
    std::filesystem::remove(std::filesystem::path(weights).parent_path(), ignored);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
