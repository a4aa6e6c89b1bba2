#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"
#include "experiments/record/record.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Measured and predicted step time of one run, from its record alone.
struct StepTime {
  int64_t run = 0;
  std::string arm, profile, schedule;
  int64_t stages = 1, groups = 1, microbatches = 1;
  // Median over the steady inner steps (no outer sync, the first tenth left out) of the mean wall
  // time of all workers; where groups meet in every step (data parallel, H = 1), of those. No step
  // is steady in a run that was too short: measured_steps is 0 then, and nothing else here says
  // anything. Intervals: MedianOfSteps (median_interval.h).
  Measured measured_s;
  int64_t measured_steps = 0;
  bool meets_every_step = false;  // predictions are then the pipeline's and outer_predicted_s
  // Mean over the groups. nullopt: one process or no links, nothing to predict.
  std::optional<double> p2_s, p1_s, p3_s;
  // P2 with parts of it for nothing, so that differences say where a step goes: compute_s, the mean
  // worker's own; alone_s adds what the schedule makes stages wait for each other; coded_s adds
  // encoding and decoding; P2 adds the links. The rest of measured_s is not explained. With p2_s.
  double compute_s = 0, alone_s = 0, coded_s = 0;
  Measured residual;             // ln(measured / P2)
  Measured compute_utilisation;  // forward + backward + optimizer over wall, mean of workers
  // Per outer step, mean over workers: measured, and 8 kappa b / R + RTT/2 of the largest message.
  std::optional<double> outer_measured_s, outer_predicted_s;
  // "timing disturbed": workers outnumber the cores, so compute times hold waiting for a core.
  std::string note;
};
absl::StatusOr<StepTime> AnalyseStepTime(const Record& record, const RunRow& run,
                                         const RunSpec& spec);

// |ln(measured / P2)| below which P2 counts as confirmed.
constexpr double kAcceptedResidual = 0.10;
std::string_view ResidualVerdict(const StepTime& t);  // not judged where timing was disturbed

// Printed at the end of `run`: step time measured and predicted, bytes three ways per crossing.
absl::StatusOr<std::string> StepTimeSummary(const Record& record, int64_t run, const RunSpec& spec);

}  // namespace longhaul
