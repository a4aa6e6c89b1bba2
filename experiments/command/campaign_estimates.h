#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/table.h"
#include "experiments/record/record.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// What `measure` asks of the reader (python/longhaul/commands/measuring.py), which estimates; the engine alone writes the
// record.

// The resolution forecast printed before a campaign.
struct DesignForecast {
  std::string text = {};
  std::vector<std::string> advice = {};  // a line for each arm that will have no eta
  bool primary_resolvable = false;  // 0.5 % per crossing in the primary contrast with 80 % power
  // Where the Python of this machine lacks a package: which, and how it is installed. Nothing else is said then.
  std::string missing = {};
};
// results: folder of the record, which need not be there; a pilot in it tells the noise.
absl::StatusOr<DesignForecast> ForecastFor(const CampaignSpec& campaign,
                                           const std::string& results);

// Estimates a campaign from its record, writes the estimates into it and returns the table that people read.
// FailedPrecondition: runs of other files, or a Python that lacks a package.
absl::StatusOr<std::string> EstimateCampaign(Record& record, int64_t experiment, Detail detail);

// A losses.csv as reports write it: every final loss of a campaign, by arm and seed.
struct LossRow {
  int64_t line;
  std::string arm, codecs;
  int64_t stages, seed, train_tokens;
  double off;  // nat, held out
  std::optional<double> on;
  std::optional<double> untrained_price;  // nat
};
struct LossTable {
  std::string path, sha256;
  std::vector<LossRow> rows;  // none twice
  const LossRow* Find(const std::string& arm, int64_t seed) const;
};
// InvalidArgument, with file and line: not such a file, an arm and seed twice.
absl::StatusOr<LossTable> ReadLossTable(const std::string& path);

}  // namespace longhaul
