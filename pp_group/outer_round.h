#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pp_group/local_rank.h"
#include "pp_group/round_keeper.h"

namespace longhaul {

// An outer step of all local ranks together: their deltas are encoded once and exchanged between
// the groups that meet, until an exchange counts; those that would poison the average are left out
// (poison.h); every rank applies the rest.
class OuterRound {
 public:
  // Borrows its arguments. `keeper` null: all groups meet, and their first exchange must be whole.
  // `ranks` by group, then stage; it may change between rounds.
  OuterRound(const TrainSpec& spec, const std::vector<std::unique_ptr<RankState>>& ranks,
             RoundKeeper* keeper, const std::function<absl::Duration()>& now)
      : spec_(spec), ranks_(ranks), keeper_(keeper), now_(now) {}

  // After inner step `step`. Fills the outer part of the ranks' reports. Throws what c10d does;
  // errors of the keeper (round_keeper.h), of codecs.
  absl::Status Run(int64_t step);

  int lowest_member() const { return lowest_member_; }  // of the last round; 0 before it
  const RankState* busy() const { return busy_; }       // at work just now, for error messages

 private:
  absl::Status MeetAndExchange(int64_t step);
  absl::Status ExchangeDeltas();
  void GatherNormsOfStages();
  absl::Status Apply();

  const TrainSpec& spec_;
  const std::vector<std::unique_ptr<RankState>>& ranks_;
  RoundKeeper* const keeper_;
  const std::function<absl::Duration()>& now_;
  // [i]: squared norms of the members' deltas, of local rank i's stage; then of each stage.
  std::vector<std::vector<std::vector<double>>> squared_norms_;
  int lowest_member_ = 0;
  const RankState* busy_ = nullptr;
};

}  // namespace longhaul
