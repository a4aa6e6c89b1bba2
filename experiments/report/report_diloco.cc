// DiLoCo's cells for their figure, beside the planner's own factors.
#include <fmt/format.h>

#include "experiments/report/report_data.h"
#include "planning/simulator/efficiency_terms.h"

namespace longhaul {
namespace {

constexpr double kReplicaFloor = 0.85;  // the planner's, see EtaRLinear

}  // namespace

CsvRows DilocoCsv(const CampaignAnalysis& a) {
  Table table{.columns =
                  ForPrograms("arm | batch | groups | inner_steps | codec | boundary | seeds | "
                              "eta,eta_low,eta_high | bound | low_bound | eta_H | eta_r")};
  const double parameters = static_cast<double>(a.parameters);
  for (const DilocoCell& cell : a.diloco.cells) {
    const ArmResult* arm = FindArm(a, cell.arm);
    if (!arm->off) continue;
    const Measured& eta = arm->off->eta;
    std::optional<double> eta_h;
    if (parameters > 3e4) {  // the planner's alpha has a pole at 10,000 parameters
      eta_h = simulator::EtaH(simulator::Alpha(parameters), static_cast<double>(cell.inner_steps),
                              simulator::Straggler::kSync);
    }
    table.Add({cell.arm, cell.local_batch ? "local-batch-matched" : "global-batch-matched",
               cell.groups, cell.inner_steps, cell.codec, cell.boundary, arm->off->seeds, eta,
               eta.bound == Bound::kUpper ? "<=" : "", eta.bound == Bound::kLowEnd ? "<=" : "",
               eta_h, simulator::EtaRLinear(parameters, cell.groups, kReplicaFloor)});
  }
  return CsvRowsOf(table);
}

}  // namespace longhaul
