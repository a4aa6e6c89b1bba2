#include "experiments/run/fault_ledger.h"

#include <algorithm>
#include <utility>

#include "experiments/spec/fault_script.h"

namespace longhaul {
namespace {

// Of a fault that has just struck, or has been over for long: its group was lost, or joined.
bool CameOrWent(const FaultRow& fault) {
  if (fault.what == "lost" || fault.recovered_step) return true;
  if ((!fault.said.empty() && fault.said != kByPlan) || fault.group_index < 0) return false;
  return fault.what == "kill" || fault.what == "leave" || fault.what == "stop" ||
         fault.what == "join";
}

}  // namespace

FaultLedger::FaultLedger(const OuterPlan& plan, int64_t stages, std::function<absl::Duration()> now)
    : plan_(plan), stages_(stages), now_(std::move(now)) {}

// The last stage may tell of a step after another stage has told that the group is lost: of one
// before the loss, whose price it then is, or of the very one, which one stage finished for nothing.
bool FaultLedger::TakeStepOfALostGroup(const StepRow& step) {
  for (Struck& fault : faults_) {
    if (!fault.waits || fault.row.what == "join") continue;
    if (fault.row.group_index != step.group_index) continue;
    if (step.step > plan_.EndOfRound(fault.row.step)) continue;
    if (step.step < fault.row.step) {
      int64_t& lost = fault.row.lost_tokens;
      lost = step.outer_synced ? 0 : lost + step.tokens;
      fault.changed = true;
    }
    return true;
  }
  return false;
}

void FaultLedger::SeeStep(const StepRow& step) {
  group_step_[step.group_index] = step.step;
  if (step.stage != stages_ - 1 || TakeStepOfALostGroup(step)) return;
  int64_t& tokens = unsynced_tokens_[step.group_index];
  tokens = step.outer_synced ? 0 : tokens + step.tokens;
  for (Struck& fault : faults_) {
    if (!fault.waits || fault.row.group_index != step.group_index) continue;
    if (step.step <= plan_.EndOfRound(fault.row.step)) continue;
    fault.waits = false;
    fault.changed = true;
    fault.row.recovered_step = step.step;
    fault.row.recovery_s = absl::ToDoubleSeconds(now_() - fault.at);
  }
}

// A group that is lost has lost what it trained since its last outer step.
void FaultLedger::SeeFault(FaultRow fault) {
  fault.number = earlier_ + static_cast<int64_t>(faults_.size());
  if (fault.what == "lost") {
    for (Struck& told : faults_) {
      if (!told.waits || told.row.group_index != fault.group_index) continue;
      told.row.said = fault.said;
      told.changed = true;
      return;
    }
    fault.step = group_step_[fault.group_index] + 1;
  }
  const bool joins = fault.what == "join" && CameOrWent(fault);
  const bool lost = CameOrWent(fault) && !joins;
  if (lost) fault.lost_tokens = std::exchange(unsynced_tokens_[fault.group_index], 0);
  if (lost || joins) {
    ++came_or_went_;
    groups_.insert(fault.group_index);
  }
  faults_.push_back({.row = std::move(fault), .at = now_(), .waits = lost || joins});
}

void FaultLedger::SeeEarlier(std::span<const FaultRow> faults) {
  earlier_ = static_cast<int64_t>(faults.size());
  came_or_went_ += std::count_if(faults.begin(), faults.end(), CameOrWent);
}

std::vector<FaultRow> FaultLedger::TakeChanged() {
  std::vector<FaultRow> rows;
  for (Struck& fault : faults_) {
    if (std::exchange(fault.changed, false)) rows.push_back(fault.row);
  }
  return rows;
}

}  // namespace longhaul
