#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pp_group/local_rank.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/state/round_keeper.h"

namespace longhaul {

// What the local ranks exchange with the other groups, when the plan says so. Of an exchange: what
// each rank has is encoded once and sent to the groups that meet, until an exchange counts; those
// that would poison the average are left out (poison.h); every rank applies the rest. Between two
// steps and between two actions, an exchange that is in flight advances without waiting.
class OuterRound {
 public:
  // Borrows its arguments. `keeper` null: all groups meet, and their first exchange must be whole.
  // `ranks` by group, then stage; it may change between rounds.
  OuterRound(const TrainSpec& spec, const std::vector<std::unique_ptr<RankState>>& ranks,
             RoundKeeper* keeper, const std::function<absl::Duration()>& now)
      : spec_(spec),
        plan_(spec.outer, spec.steps, spec.groups, spec.seed),
        ranks_(ranks),
        keeper_(keeper),
        now_(now) {}

  // Before the inner update of `step`: gradients become what the groups agree on, where they cross.
  // These four fill the outer part of the ranks' reports; they throw what c10d does; errors of the
  // keeper (round_keeper.h), of codecs.
  absl::Status AverageGradients(int64_t step);
  // After inner step `step`: applies what is due, begins what comes next.
  absl::Status Run(int64_t step);
  absl::Status Advance();
  // Nothing is on its way any more: of what is in flight after `step` the averages are here, for a
  // checkpoint or until they are due.
  absl::Status Drain(int64_t step);
  // The ranks' state is that of a checkpoint of `step`.
  void Restored(int64_t step) { averaged_ = plan_.InFlightAfter(step); }

  const OuterPlan& plan() const { return plan_; }
  int lowest_member() const { return lowest_member_; }  // of the last exchange; 0 before it
  const RankState* busy() const { return busy_; }       // at work just now, for error messages

 private:
  // All local ranks begin, then all finish what crosses between groups in a step.
  template <typename First, typename Second>
  absl::Status OnAll(int64_t step, First begin, Second finish);
  // From `start` until now the rank was at work on an exchange, or waited for it.
  void Count(RankState& state, absl::Duration start, RankSpan::Kind kind, const char* doing,
             const OuterExchange& exchange) const;
  absl::Status Begin(const OuterExchange& e);
  absl::Status MeetAndExchange(const OuterExchange& e);
  void Send(const OuterExchange& e);
  absl::Status Receive(const OuterExchange& e);
  absl::Status Average(const OuterExchange& e);
  void GatherNormsOfStages(const OuterExchange& e);
  absl::Status Apply(const OuterExchange& e);
  void TellDelta(size_t local_rank, const OuterExchange& e);

  const TrainSpec& spec_;
  const OuterPlan plan_;
  const std::vector<std::unique_ptr<RankState>>& ranks_;
  RoundKeeper* const keeper_;
  const std::function<absl::Duration()>& now_;
  std::vector<OuterExchange> sent_;      // and not yet received by all
  std::vector<OuterExchange> averaged_;  // and not yet applied
  // [i]: squared norms of the members' deltas, of local rank i's stage; then of each stage.
  std::vector<std::vector<std::vector<double>>> squared_norms_;
  // Norms of the members' deltas on average, by fragment and local rank: from Average to Apply.
  std::map<std::pair<int64_t, size_t>, double> member_norms_;
  int lowest_member_ = 0;
  const RankState* busy_ = nullptr;
};

}  // namespace longhaul
