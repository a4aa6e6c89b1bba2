#include "experiments/spec/group_course.h"

#include <algorithm>
#include <limits>

namespace longhaul {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<int64_t> GroupCourse::Struck::EndsAt() const {
  if (!killed_at || in_outer) return left_at;
  return left_at ? std::min(*left_at, *killed_at) : killed_at;
}

double GroupCourse::Struck::StoppedSeconds() const {
  const std::optional<int64_t> ends_at = EndsAt();
  double seconds = 0;
  for (const Stop& stop : stops) {
    if (!ends_at || stop.step < *ends_at) seconds += stop.seconds;
  }
  return seconds;
}

GroupCourse::GroupCourse(const std::vector<Fault>& drawn, const RoundBounds& bounds,
                         const Rules& rules)
    : bounds_(bounds),
      plan_(bounds.plan()),
      rules_(rules),
      groups_(static_cast<size_t>(bounds.groups)) {
  for (const Fault& fault : drawn) Add(fault);
  for (const int64_t g : AbsentAtFirst(drawn)) groups_[static_cast<size_t>(g)].present = false;
}

void GroupCourse::Add(const Fault& f) {
  Strike at = StrikeOf(f, bounds_);
  if (at.after_outer) ++at.step;
  if (f.where.group < 0 || at.step < 1 || at.step > bounds_.steps) return;
  const bool for_ever = f.what == FaultKind::kStop && f.for_s == 0;
  Struck& struck = struck_[plan_.RoundOf(at.step)][f.where.group];
  if (f.during == FaultMoment::kTransfer) {
    struck.in_transfer = true;
  } else if (f.what == FaultKind::kKill || for_ever) {
    if (struck.killed_at && *struck.killed_at <= at.step) return;
    struck.killed_at = at.step;
    struck.in_outer = f.during == FaultMoment::kOuter;
  } else if (f.what == FaultKind::kStop) {
    struck.stops.push_back({at.step, f.where.stage, f.for_s});
  } else if (f.what == FaultKind::kPoison) {
    struck.poisoned = true;
  } else if (f.what == FaultKind::kLeave) {
    struck.left_at = std::min(at.step, struck.left_at.value_or(at.step));
  } else if (f.what == FaultKind::kJoin) {
    struck.joins = true;
  }
}

void GroupCourse::BeginRound(int64_t round) {
  const auto at = struck_.find(round);
  now_ = at == struck_.end() ? nullptr : &at->second;
  if (now_ != nullptr && taken_over_) {
    for (auto& [group, struck] : at->second) {
      if (!struck.in_transfer) continue;
      struck.killed_at = plan_.FirstStepOf(round);
      struck.in_outer = false;
    }
  }
  killed_in_outer_ = false;
  began_s_ = kNever;
  for (Group& group : groups_) {
    group.arrives_s = kNever;
    if (group.present) began_s_ = std::min(began_s_, group.ready_s);
  }
}

bool GroupCourse::Trains(int64_t group) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  return g.present && !g.sits_out;
}

const GroupCourse::Struck* GroupCourse::StruckOf(int64_t group) const {
  if (now_ == nullptr) return nullptr;
  const auto at = now_->find(group);
  return at == now_->end() ? nullptr : &at->second;
}

void GroupCourse::Arrives(int64_t group, double s) {
  groups_[static_cast<size_t>(group)].arrives_s = s;
}

void GroupCourse::Ends(int64_t group, double s) {
  groups_[static_cast<size_t>(group)].restarts_s = s + rules_.restart_s;
  const Struck* struck = StruckOf(group);
  killed_in_outer_ |= struck != nullptr && struck->in_outer && !struck->left_at;
}

bool GroupCourse::Late(const Group& group) const {
  return group.arrives_s == kNever || group.arrives_s > deadline_s_;
}

GroupCourse::Meeting GroupCourse::Meet() {
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
    const Struck* struck = StruckOf(index);
    meeting.members.push_back(index);
    meeting.poisoned += struck != nullptr && struck->poisoned ? 1 : 0;
    meeting.begins_s = std::max(meeting.begins_s, group.arrives_s);
  }
  if (killed_in_outer_) meeting.begins_s += rules_.peer_deadline_s;
  return meeting;
}

void GroupCourse::EndRound(double end_s, const std::function<double(int64_t)>& fetch_s) {
  taken_over_ = false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const auto index = static_cast<int64_t>(g);
    const Struck* struck = StruckOf(index);
    if (group.present && struck != nullptr && struck->left_at) {
      group.present = false;
      continue;
    }
    if (group.present && !Late(group)) {
      group.ready_s = end_s;
      continue;
    }
    if (!group.present) {
      if (struck == nullptr || !struck->joins) continue;
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
