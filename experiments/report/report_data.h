#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/timing_findings.h"
#include "experiments/record/record.h"

namespace longhaul {

// Everything one section of the report shows, read once.
struct ReportedExperiment {
  ExperimentRow row;
  std::string folder;  // name of its folder beside index.html, "1-smoke"
  std::vector<RunRow> runs;
  std::string mixed_files;  // where a file held different things in two of them; "": nowhere
  std::optional<CampaignAnalysis> campaign;
  std::vector<StepTime> step_times;      // of the runs that have steps
  std::optional<TimingFindings> timing;  // of a timing grid
};
absl::StatusOr<ReportedExperiment> ReadExperiment(const Record& record, const ExperimentRow& row);

// What the figures are drawn from; report/plots/ reads these columns.
CsvRows CurveCsv(const CampaignAnalysis& a);   // name, value
CsvRows FitCsv(const CampaignAnalysis& a);     // the curve from its first budget to its last
CsvRows LossesCsv(const CampaignAnalysis& a);  // one row per run that has a final loss
CsvRows ArmsCsv(const CampaignAnalysis& a);    // one row per arm and evaluation
CsvRows JointCsv(const CampaignAnalysis& a);   // one row per codec and evaluation
CsvRows DepthCsv(const CampaignAnalysis& a);   // points of each depth model's curve
// In report_curves.cc: one row per cell of M, H and outer codec, with what a planner assumes.
CsvRows DilocoCsv(const CampaignAnalysis& a);
Table StepTimesTable(const std::vector<StepTime>& times);  // and of the page

// "within 0.10", "beyond 0.10" or "no verdict" in its colour.
Cell ResidualBadge(const ResidualVerdict& verdict);

// Which points no other one beats: none has both figures at most as large and one of them smaller.
struct LossAt {
  double cost, loss_nat;
};
std::vector<bool> ParetoFront(const std::vector<LossAt>& points);

// What each arm of a campaign ends at and costs, means over its runs: arm, role, seeds, loss_nat (held
// out, codec off) with its t interval, and time_s (of the simulated clock, at the end), message_bytes
// (all that crossed), memory_bytes (of the largest rank, as planned), each with whether the arm is on
// the front of the loss over it. Arms and references that have a loss; an empty cell: not known.
absl::StatusOr<CsvRows> ParetoCsv(const Record& record, const CampaignAnalysis& a);

}  // namespace longhaul
