#include "experiments/spec/group_timeline.h"

#include <algorithm>
#include <limits>

namespace longhaul {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<int64_t> GroupTimeline::RoundFaults::EndsAt() const {
  if (!killed_at || in_outer) return left_at;
  return left_at ? std::min(*left_at, *killed_at) : killed_at;
}

double GroupTimeline::RoundFaults::StoppedSeconds() const {
  const std::optional<int64_t> ends_at = EndsAt();
  double seconds = 0;
  for (const Stop& stop : stops) {
    if (!ends_at || stop.step < *ends_at) seconds += stop.seconds;
  }
  return seconds;
}

GroupTimeline::GroupTimeline(const std::vector<Fault>& drawn, const RoundBounds& bounds,
                             const Rules& rules)
    : bounds_(bounds),
      plan_(bounds.plan()),
      rules_(rules),
      groups_(static_cast<size_t>(bounds.groups)) {
  for (const Fault& fault : drawn) Add(fault);
  for (const int64_t g : AbsentAtFirst(drawn)) groups_[static_cast<size_t>(g)].present = false;
}

void GroupTimeline::Add(const Fault& f) {
  Strike at = StrikeOf(f, bounds_);
  if (at.after_outer) ++at.step;
  if (f.where.group < 0 || at.step < 1 || at.step > bounds_.steps) return;
  const bool for_ever = f.what == FaultKind::kStop && f.for_s == 0;
  RoundFaults& faults = faults_[plan_.RoundOf(at.step)][f.where.group];
  if (f.during == FaultMoment::kTransfer) {
    faults.in_transfer = true;
  } else if (f.what == FaultKind::kKill || for_ever) {
    if (faults.killed_at && *faults.killed_at <= at.step) return;
    faults.killed_at = at.step;
    faults.in_outer = f.during == FaultMoment::kOuter;
  } else if (f.what == FaultKind::kStop) {
    faults.stops.push_back({at.step, f.where.stage, f.for_s});
  } else if (f.what == FaultKind::kPoison) {
    faults.poisoned = true;
  } else if (f.what == FaultKind::kLeave) {
    faults.left_at = std::min(at.step, faults.left_at.value_or(at.step));
  } else if (f.what == FaultKind::kJoin) {
    faults.joins = true;
  }
}

void GroupTimeline::BeginRound(int64_t round) {
  const auto at = faults_.find(round);
  now_ = at == faults_.end() ? nullptr : &at->second;
  if (now_ != nullptr && taken_over_) {
    for (auto& [group, faults] : at->second) {
      if (!faults.in_transfer) continue;
      faults.killed_at = plan_.FirstStepOf(round);
      faults.in_outer = false;
    }
  }
  killed_in_outer_ = false;
  began_s_ = kNever;
  for (Group& group : groups_) {
    group.arrives_s = kNever;
    if (group.present) began_s_ = std::min(began_s_, group.ready_s);
  }
}

bool GroupTimeline::Trains(int64_t group) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  return g.present && !g.sits_out;
}

const GroupTimeline::RoundFaults* GroupTimeline::FaultsOf(int64_t group) const {
  if (now_ == nullptr) return nullptr;
  const auto at = now_->find(group);
  return at == now_->end() ? nullptr : &at->second;
}

void GroupTimeline::Arrives(int64_t group, double s) {
  groups_[static_cast<size_t>(group)].arrives_s = s;
}

void GroupTimeline::Ends(int64_t group, double s) {
  groups_[static_cast<size_t>(group)].restarts_s = s + rules_.restart_s;
  const RoundFaults* faults = FaultsOf(group);
  killed_in_outer_ |= faults != nullptr && faults->in_outer && !faults->left_at;
}

bool GroupTimeline::Late(const Group& group) const {
  return group.arrives_s == kNever || group.arrives_s > deadline_s_;
}

GroupTimeline::Meeting GroupTimeline::Meet() {
  double first_s = kNever;
  for (const Group& group : groups_) first_s = std::min(first_s, group.arrives_s);
  deadline_s_ = first_s + rules_.round_deadline_s;
  Meeting meeting;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (!group.present) continue;
    if (Late(group)) {
      meeting.in_vain += group.sits_out ? 0 : 1;
      continue;
    }
    const auto index = static_cast<int64_t>(g);
    const RoundFaults* faults = FaultsOf(index);
    meeting.members.push_back(index);
    meeting.poisoned += faults != nullptr && faults->poisoned ? 1 : 0;
    meeting.begins_s = std::max(meeting.begins_s, group.arrives_s);
  }
  if (killed_in_outer_) meeting.begins_s += rules_.peer_deadline_s;
  return meeting;
}

void GroupTimeline::EndRound(double end_s, const std::function<double(int64_t)>& fetch_s) {
  taken_over_ = false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const auto index = static_cast<int64_t>(g);
    const RoundFaults* faults = FaultsOf(index);
    if (group.present && faults != nullptr && faults->left_at) {
      group.present = false;
      continue;
    }
    if (group.present && !Late(group)) {
      group.ready_s = end_s;
      continue;
    }
    if (!group.present) {
      if (faults == nullptr || !faults->joins) continue;
      group.present = true;
      group.restarts_s = began_s_ + rules_.restart_s;
    } else if (group.arrives_s != kNever) {
      group.restarts_s = group.arrives_s;
    }
    taken_over_ = true;
    group.ready_s = std::max(end_s, group.restarts_s) + fetch_s(index);
    group.sits_out = group.ready_s - end_s > rules_.round_deadline_s;
  }
}

}  // namespace longhaul
