#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "experiments/report/report_data.h"

namespace longhaul {

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
