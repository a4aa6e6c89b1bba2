// DiLoCo's cells for their figure, beside the planner's own factors.
#include <fmt/format.h>

#include "experiments/report/report_data.h"
#include "planning/simulator/efficiency_terms.h"

namespace longhaul {
namespace {

constexpr double kReplicaFloor = 0.85;  // the planner's, see EtaRLinear

std::vector<std::string> CellRow(const DilocoCell& cell, const Efficiency& e, double parameters) {
  const bool ends = e.eta.interval.has_value() && !e.IsBound();
  const auto number = [](double x) { return fmt::format("{}", x); };
  return {cell.arm, cell.local_batch ? "local-batch-matched" : "global-batch-matched",
          fmt::format("{}", cell.groups), fmt::format("{}", cell.inner_steps), cell.codec,
          cell.boundary, fmt::format("{}", e.seeds), number(e.eta.value),
          ends ? number(e.eta.interval->low) : "", ends ? number(e.eta.interval->high) : "",
          e.eta.bound == Bound::kUpper ? "<=" : "", e.eta.bound == Bound::kLowEnd ? "<=" : "",
          // The planner's alpha has a pole at 10,000 parameters.
          parameters > 3e4 ? number(simulator::EtaH(simulator::Alpha(parameters),
                                                    static_cast<double>(cell.inner_steps),
                                                    simulator::Straggler::kSync))
                           : "",
          number(simulator::EtaRLinear(parameters, cell.groups, kReplicaFloor))};
}

}  // namespace

CsvRows DilocoCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"arm", "batch", "groups", "inner_steps", "codec", "boundary", "seeds", "eta",
                   "eta_low", "eta_high", "bound", "low_bound", "eta_H", "eta_r"}};
  for (const DilocoCell& cell : a.diloco.cells) {
    const ArmResult* arm = FindArm(a, cell.arm);
    if (arm->off) rows.push_back(CellRow(cell, *arm->off, static_cast<double>(a.parameters)));
  }
  return rows;
}

}  // namespace longhaul
