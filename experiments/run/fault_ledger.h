#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "experiments/record/record_rows.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

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
  struct Struck {
    FaultRow row;
    absl::Duration at;
    bool waits = false;  // for the group to be back
    bool changed = true;
  };

  bool TakeStepOfALostGroup(const StepRow& step);

  const OuterPlan plan_;
  const int64_t stages_;
  const std::function<absl::Duration()> now_;
  std::vector<Struck> faults_;                  // by number, without the earlier ones
  std::map<int64_t, int64_t> unsynced_tokens_;  // by group, since its last outer step
  std::map<int64_t, int64_t> group_step_;       // by group, the last one seen
  int64_t earlier_ = 0;                         // rows before it was resumed
  int64_t came_or_went_ = 0;
  std::set<int64_t> groups_;
};

}  // namespace longhaul
