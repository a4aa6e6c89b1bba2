#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/report/report_data.h"

namespace longhaul {

bool HasSimulatedClock(const ReportedExperiment& e);  // any of its runs

// Training loss along each run that counts (the last of an arm and seed that ended), in at most 200
// points a run: run, arm, role, seed, tokens (all groups together, at the end of the point's
// steps), loss_nat (mean over the point's steps and over groups), steps, and of runs with a simulated
// clock simulated_s, when the last of them would have ended for all, and message_bytes, what the
// run's messages had by then. Losses that are not finite are left out: the curve ends there.
absl::StatusOr<CsvRows> TrainingCsv(const Record& record, const ReportedExperiment& e);

// How far the uncompressed runs lie from the fitted reference curve: arm, role, seed, budget,
// loss_nat, fitted_nat, residual_nat, and the residual less the mean of its seed's reference runs,
// within_seed_nat: what the curve's shape misses. Controls are not fitted. Empty without a curve.
CsvRows ResidualsCsv(const CampaignAnalysis& a);

// What an arm changes and what it sends, and how long that takes, beside its q.
struct ArmOnTheWire {
  std::string arm;
  // "boundary.forward: none -> int4-b64-h64", against the reference at D0; seed and length aside.
  std::vector<std::string> changes;
  struct Direction {
    double bits_per_element = 0;  // from payload bytes; 0: nothing was recorded
    std::optional<double> nmse_mean = std::nullopt,
                          nmse_max = std::nullopt;  // nullopt: not sampled
  } forward, backward, outer;
  // Between groups, of all ranks together, headers included; mean over the arm's runs. 0: none.
  double outer_bytes = 0;
  // When the last step would have ended by the simulated clock, mean over the arm's runs.
  std::optional<double> simulated_s = std::nullopt;
};
absl::StatusOr<std::vector<ArmOnTheWire>> ArmsOnTheWire(const Record& record,
                                                        const CampaignAnalysis& a);
CsvRows WireCsv(const std::vector<ArmOnTheWire>& arms);

// Keys whose values differ between two resolved specs, as "key: this -> that"; "-" for a missing
// key. Left out: seed, train.tokens, train.steps.
std::vector<std::string> ChangesInWords(const std::string& from_toml, const std::string& to_toml);

}  // namespace longhaul
