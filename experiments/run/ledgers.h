#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "experiments/record/count_events.h"
#include "experiments/record/record_rows.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// Adds what the crossings had counted in the steps before a run was resumed to what they have
// counted since: messages, bytes, times and hashes (a hash is a sum over messages). The
// prediction is for the whole run already and stays. A kernel's count that one part lacks is
// unknown for both.
// Rows that `since` lacks are added to it.
void AddEarlierCounts(std::span<const CrossingRow> earlier, std::vector<CrossingRow>& since);
// The same of one row with the same source, destination and direction.
void AddCounts(const CrossingRow& earlier, CrossingRow& row);

// What the ranks of a run have told of their crossings, as rows. A rank whose group is started anew
// counts from nothing again: what its lives before had told last is added. Of a life that was lost
// that is what had crossed when its last outer step was taken.
class CrossingLedger {
 public:
  // `ranks`: of a group.
  CrossingLedger(int64_t ranks, std::string outer_codec)
      : ranks_(ranks), outer_codec_(std::move(outer_codec)) {}

  void Observe(CrossingCount count);

  // By source, destination and direction; of what the sender saw, but a joiner's state, of which
  // the joiner tells. The receiver's side of the others is no row.
  std::vector<CrossingRow> Rows() const { return Sum(last_); }
  // The same when the checkpoint of this step was written, by all that have told of it.
  std::vector<CrossingRow> RowsAt(int64_t checkpoint) const;
  void Forget(int64_t checkpoint) { at_.erase(checkpoint); }

 private:
  // Rank, life, kind, peer; kind of tensor, stage.
  using Key = std::tuple<int64_t, int64_t, CrossingKind, int64_t, std::string, int64_t>;
  using Counts = std::map<Key, CrossingCount>;

  CrossingRow RowOf(const CrossingCount& count) const;
  std::vector<CrossingRow> Sum(const Counts& counts) const;

  const int64_t ranks_;
  const std::string outer_codec_;
  Counts last_;
  std::map<int64_t, Counts> at_;  // by checkpoint
};

// The faults of one run and their price: what a group lost with each, and when it was back.
class FaultLedger {
 public:
  // `stages`: the last one's rows count.
  FaultLedger(const OuterPlan& plan, int64_t stages, std::function<absl::Duration()> now);

  void SeeStep(const StepRow& step);
  // "lost" is what the lab sees of a loss; where the worker has told of it, it is the same fault.
  void SeeFault(FaultRow fault);
  // Faults of the run before it was resumed.
  void SeeEarlier(std::span<const FaultRow> faults);

  // The rows that are new or have changed since the last call.
  std::vector<FaultRow> TakeChanged();
  // How often, in the whole run.
  int64_t groups_came_or_went() const { return came_or_went_; }
  // Which, since it was resumed.
  const std::set<int64_t>& groups() const { return groups_; }

 private:
  struct InjectedFault {
    FaultRow row;
    absl::Duration at;
    bool waits = false;  // for the group to be back
    bool changed = true;
  };

  bool TakeStepOfALostGroup(const StepRow& step);

  const OuterPlan plan_;
  const int64_t stages_;
  const std::function<absl::Duration()> now_;
  std::vector<InjectedFault> faults_;           // by number, without the earlier ones
  std::map<int64_t, int64_t> unsynced_tokens_;  // by group, since its last outer step
  std::map<int64_t, int64_t> group_step_;       // by group, the last one seen
  int64_t earlier_ = 0;                         // numbers taken before it was resumed
  std::vector<FaultRow> planned_;               // of outer.schedule, before it was resumed
  int64_t came_or_went_ = 0;
  std::set<int64_t> groups_;
};

}  // namespace longhaul
