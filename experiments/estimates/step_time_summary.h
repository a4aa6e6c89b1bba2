#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"
#include "experiments/estimates/table.h"
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
  // anything. Intervals: MedianOfSteps.
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
  int64_t outer_steps = 0;  // measured_s is their mean; the shortest and the longest of them:
  double outer_least_s = 0, outer_most_s = 0;
  // Why times are no prediction's to be judged by: "timing disturbed: ..." (workers outnumber the
  // cores or waited for one, a worker or the emulator did not run), a record that says nothing of
  // that, a run that is not ok; or why there is no prediction.
  std::string note;
};
absl::StatusOr<StepTime> AnalyseStepTime(const Record& record, const RunRow& run,
                                         const RunSpec& spec);

// |ln(measured / P2)| below which P2 counts as confirmed.
constexpr double kAcceptedResidual = 0.10;
// Largest shares of a training in which a worker did not run, its threads waited for a core, or the
// machine's host took of its cores, with which times are no disturbed ones. The second is half of
// what P2 may be off by.
constexpr double kMostStill = 0.01, kMostCoreWait = 0.05, kMostStolen = 0.01;

enum class Residual { kWithin, kBeyond, kNotJudged };
struct ResidualVerdict {
  Residual residual = Residual::kNotJudged;
  std::string text;  // "within 0.10", "beyond 0.10", "no verdict: ..."
};
// Of a residual with its interval, which must lie whole within or beyond kAcceptedResidual: a
// verdict is given only where it could have been the other one. `note`: why none can be given; "".
ResidualVerdict JudgeResidual(const Measured& residual, const std::string& note);
// The same of one run; empty text: there is no prediction.
ResidualVerdict JudgeResidual(const StepTime& t);

// Printed at the end of `run`: step time measured and predicted, bytes by direction and codec; with
// kAll bytes three ways for each pair of ranks.
absl::StatusOr<std::string> StepTimeSummary(const Record& record, int64_t run, const RunSpec& spec,
                                            Detail detail = Detail::kScreen);

// Of payload bytes, scales and headers included. None: nothing crossed.
std::optional<double> BitsPerElement(const CrossingRow& crossing);
// What the path counted over what was predicted.
std::optional<double> PercentOverPrediction(const CrossingRow& crossing);

}  // namespace longhaul
