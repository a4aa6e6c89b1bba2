#include "experiments/command/campaign_estimates.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/run/reader.h"
#include "experiments/spec/spec_changes.h"

namespace longhaul {
namespace {

using nlohmann::json;

// The document that `longhaul _measure WORDS` answers with.
absl::StatusOr<json> Ask(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), "_measure");
  ASSIGN_OR_RETURN(const ReaderAnswer answer, AskReader(std::move(words), input));
  json document = json::parse(answer.output, nullptr, /*allow_exceptions=*/false);
  if (answer.status == 0 && document.is_object()) return document;
  return absl::InternalError(fmt::format(
      "the reader ended with status {} and no answer; what it said stands above", answer.status));
}

// "": none.
std::string ErrorOf(const json& document) { return document.value("error", ""); }

// A number that JSON has none for is a text.
std::optional<double> RealOf(const json& value) {
  if (value.is_string()) return std::strtod(value.get<std::string>().c_str(), nullptr);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

EstimateRow EstimateOf(const json& row) {
  return {.arm = row["arm"],
          .evaluation = row["evaluation"],
          .quantity = row["quantity"],
          .unit = row["unit"],
          .value = RealOf(row["value"]),
          .low = RealOf(row["low"]),
          .high = RealOf(row["high"]),
          .level = RealOf(row["level"]),
          .method = row["method"],
          .seeds = row["seeds"],
          .note = row["note"]};
}

// Every arm once: the seeds differ in nothing else.
json DesignOf(const CampaignSpec& campaign) {
  json arms = json::array();
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front()) break;
    arms.push_back({{"name", run.arm},
                    {"role", ToString(run.role)},
                    {"stages", run.spec.schedule.stages},
                    {"crossings", CompressedCrossings(run.spec)},
                    {"has_q", HasQ(campaign, run)},
                    {"spec", ToToml(run.spec)}});
  }
  return {{"name", campaign.name},
          {"seeds", campaign.seeds.size()},
          {"primary", campaign.primary},
          {"assumed",
           {{"sigma_nat", campaign.assumed_sigma_nat},
            {"rho", campaign.assumed_rho},
            {"slope_nat", campaign.assumed_slope_nat}}},
          {"arms", std::move(arms)}};
}

}  // namespace

absl::StatusOr<DesignForecast> ForecastFor(const CampaignSpec& campaign,
                                           const std::string& results) {
  ASSIGN_OR_RETURN(const json answer, Ask({"forecast", results}, DesignOf(campaign).dump()));
  if (const std::string error = ErrorOf(answer); !error.empty()) {
    if (answer.at("missing").get<bool>()) return DesignForecast{.missing = error};
    return absl::FailedPreconditionError(error);
  }
  return DesignForecast{.text = answer.at("text"),
                        .advice = answer.at("advice"),
                        .primary_resolvable = answer.at("primary_resolvable")};
}

absl::StatusOr<std::string> EstimateCampaign(Record& record, int64_t experiment, Detail detail) {
  std::vector<std::string> words = {"estimates", record.folder(), std::to_string(experiment)};
  if (detail == Detail::kAll) words.emplace_back("--everything");
  ASSIGN_OR_RETURN(const json answer, Ask(std::move(words)));
  if (const std::string error = ErrorOf(answer); !error.empty()) {
    return absl::FailedPreconditionError(error);
  }
  std::vector<EstimateRow> rows;
  for (const json& row : answer.at("estimates")) rows.push_back(EstimateOf(row));
  RETURN_IF_ERROR(record.SetEstimates(experiment, rows));
  return answer.at("table").get<std::string>();
}

const LossRow* LossTable::Find(const std::string& arm, int64_t seed) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const LossRow& row) {
    return row.arm == arm && row.seed == seed;
  });
  return found == rows.end() ? nullptr : &*found;
}

absl::StatusOr<LossTable> ReadLossTable(const std::string& path) {
  ASSIGN_OR_RETURN(const json answer, Ask({"losses", path}));
  if (const std::string error = ErrorOf(answer); !error.empty()) {
    return absl::InvalidArgumentError(error);
  }
  LossTable out{path, answer.at("sha256"), {}};
  for (const json& row : answer.at("rows")) {
    out.rows.push_back({row["line"], row["arm"], row["codecs"], row["stages"], row["seed"],
                        row["train_tokens"], row["off"], RealOf(row["on"]),
                        RealOf(row["untrained_price"])});
  }
  return out;
}

}  // namespace longhaul
