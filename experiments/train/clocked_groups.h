#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/group_course.h"
#include "experiments/spec/hindrances.h"
#include "experiments/spec/spec.h"
#include "pp_group/schedule/training_clock.h"

namespace longhaul {

// A run's fault script on a simulated clock whose groups come and go: who does a step, what is slow in
// it, who meets behind a round, and when who was lost is back. Groups wait for each other before they
// exchange, as they do over links, where all of them must know who meets.
class ClockedGroups {
 public:
  // `costs`: of each group, with planned bytes.
  ClockedGroups(const RunSpec& spec, const PipelineProgram& program,
                const std::vector<PipelineCosts>& costs);

  // Before each step of the clock, in turn from 1. Adds what hinders to the step's `costs`.
  void BeforeStep(int64_t step, std::vector<PipelineCosts>* costs, TrainingClock* clock);
  // What hinders a path between two groups in this step; and how long ranks of a group [P * P] hear
  // from each other.
  Wire OnPath(int64_t from_rank, int64_t to_rank, Wire wire) const;
  void Hinder(int64_t group, std::vector<double>* tell_s) const;

  // Behind the steps of a round: the members of its outer step, who are all there. FailedPrecondition:
  // nobody is, or one is later than outer.round_deadline_s allows, so that over such links it would
  // be left out, which the training did not do.
  absl::StatusOr<std::vector<int>> Meet(TrainingClock* clock);
  // When they have exchanged. `fetch_s`: what a group takes to have the weights from them.
  void EndRound(const std::function<double(int64_t group)>& fetch_s, TrainingClock* clock);

 private:
  double Latest(int64_t group, const TrainingClock& clock) const;
  void Stop(int64_t group, const GroupCourse::Struck::Stop& stop, TrainingClock* clock) const;

  const OuterPlan plan_;
  const int64_t groups_, ranks_;  // G, P
  const double round_deadline_s_;
  GroupCourse course_;
  const Hindrances hindrances_;
  int64_t step_ = 0;
  std::vector<int64_t> members_;
};

}  // namespace longhaul
