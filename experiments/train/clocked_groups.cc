#include "experiments/train/clocked_groups.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"

namespace longhaul {

ClockedGroups::ClockedGroups(const RunSpec& spec, const PipelineProgram& program,
                             const std::vector<PipelineCosts>& costs)
    : plan_(OuterPlanOf(spec)),
      groups_(spec.outer.groups),
      ranks_(spec.ranks()),
      round_deadline_s_(spec.outer.round_deadline_s),
      // Who is late ends the run: the training knows of nobody that is.
      course_(ScriptOf(spec), RoundBoundsOf(spec),
              {.restart_s = spec.compute->restart_s,
               .round_deadline_s = std::numeric_limits<double>::infinity(),
               .peer_deadline_s = spec.net.peer_deadline_s}),
      hindrances_(ScriptOf(spec), spec.schedule.stages, spec.model.tied_head,
                  [&](int64_t group, const std::vector<Hindrance>& with) {
                    PipelineCosts own = costs[static_cast<size_t>(group)];
                    for (const Hindrance& h : with) h.On(&own);
                    return StepPeriod(program, own).value_or(0);  // the schedule is proven
                  }) {}

double ClockedGroups::Latest(int64_t group, const TrainingClock& clock) const {
  double latest_s = 0;
  for (int r = 0; r < static_cast<int>(ranks_); ++r) {
    latest_s = std::max(latest_s, clock.Seconds(static_cast<int>(group), r));
  }
  return latest_s;
}

void ClockedGroups::Stop(int64_t group, const GroupCourse::Struck::Stop& stop,
                         TrainingClock* clock) const {
  const auto g = static_cast<int>(group);
  for (int r = 0; r < static_cast<int>(ranks_); ++r) {
    if (stop.stage >= 0 && stop.stage != r) continue;
    clock->WaitUntil(g, r, clock->Seconds(g, r) + stop.seconds);
  }
}

void ClockedGroups::BeforeStep(int64_t step, std::vector<PipelineCosts>* costs,
                               TrainingClock* clock) {
  step_ = step;
  const int64_t round = plan_.RoundOf(step);
  if (plan_.FirstStepOf(round) == step) course_.BeginRound(round);
  for (int64_t group = 0; group < groups_; ++group) {
    const auto g = static_cast<int>(group);
    if (!course_.Trains(group)) clock->Leave(g);
    if (clock->Away(g)) continue;
    if (const GroupCourse::Struck* struck = course_.StruckOf(group)) {
      if (struck->EndsAt() == step) {
        course_.Ends(group, Latest(group, *clock));
        clock->Leave(g);
        continue;
      }
      for (const GroupCourse::Struck::Stop& stop : struck->stops) {
        if (stop.step == step) Stop(group, stop, clock);
      }
    }
    for (const Hindrances::Spell& s : hindrances_.Inside(group)) {
      const auto from = static_cast<int>(s.hindrance.from), to = static_cast<int>(s.hindrance.to);
      if (s.down_s > 0 && s.first == step) {
        clock->HoldLink(g, from, to, clock->Seconds(g, from) + s.down_s);
      }
    }
    for (const Hindrance& h : hindrances_.InStep(group, step)) {
      h.On(&(*costs)[static_cast<size_t>(group)]);
    }
  }
  for (const Hindrances::Spell& s : hindrances_.between()) {
    const auto from = static_cast<int>(s.hindrance.from / ranks_),
               to = static_cast<int>(s.hindrance.to / ranks_),
               rank = static_cast<int>(s.hindrance.from % ranks_);
    if (s.down_s > 0 && s.first == step) {
      clock->HoldPath(rank, from, to, clock->Seconds(from, rank) + s.down_s);
    }
  }
}

Wire ClockedGroups::OnPath(int64_t from_rank, int64_t to_rank, Wire wire) const {
  for (const Hindrances::Spell& s : hindrances_.between()) {
    const bool holds = s.first <= step_ && s.last >= step_;
    if (!holds || s.hindrance.from != from_rank || s.hindrance.to != to_rank) continue;
    wire = s.hindrance.On(wire);
  }
  return wire;
}

void ClockedGroups::Hinder(int64_t group, std::vector<double>* tell_s) const {
  for (const Hindrance& h : hindrances_.InStep(group, step_)) {
    if (h.from < 0 || h.one_way_delay_s < 0) continue;
    (*tell_s)[static_cast<size_t>(h.from * ranks_ + h.to)] = h.one_way_delay_s;
  }
}

absl::StatusOr<std::vector<int>> ClockedGroups::Meet(TrainingClock* clock) {
  int64_t first = -1, last = -1;  // groups at the outer step
  for (int64_t group = 0; group < groups_; ++group) {
    const auto g = static_cast<int>(group);
    if (clock->Away(g)) continue;
    const double now_s = Latest(group, *clock);
    const GroupCourse::Struck* struck = course_.StruckOf(group);
    if (struck != nullptr && struck->in_outer) {
      course_.Ends(group, now_s);
      clock->Leave(g);
      continue;
    }
    course_.Arrives(group, now_s);
    if (first < 0 || now_s < Latest(first, *clock)) first = group;
    if (last < 0 || now_s > Latest(last, *clock)) last = group;
  }
  const int64_t round = plan_.RoundOf(step_);
  const GroupCourse::Meeting meeting = course_.Meet();
  if (meeting.members.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("round {} has no members: nobody holds the weights", round));
  }
  const double late_s = Latest(last, *clock) - Latest(first, *clock);
  if (late_s > round_deadline_s_) {
    return absl::FailedPreconditionError(fmt::format(
        "round {}: on the simulated clock group {} is at the outer step {:.3f} s behind group {}, "
        "and outer.round_deadline_s = {:g} would leave it out, which this training does not do; "
        "want a longer one",
        round, last, late_s, first, round_deadline_s_));
  }
  members_ = meeting.members;
  for (const int64_t m : members_) {
    for (int r = 0; r < static_cast<int>(ranks_); ++r) {
      clock->WaitUntil(static_cast<int>(m), r, meeting.begins_s);
    }
  }
  return std::vector<int>(members_.begin(), members_.end());
}

void ClockedGroups::EndRound(const std::function<double(int64_t)>& fetch_s, TrainingClock* clock) {
  double end_s = 0;
  for (const int64_t m : members_) end_s = std::max(end_s, Latest(m, *clock));
  course_.EndRound(end_s, fetch_s);
  for (int64_t group = 0; group < groups_; ++group) {
    const auto g = static_cast<int>(group);
    if (course_.Trains(group) && clock->Away(g)) clock->Return(g, course_.ready_s(group));
  }
}

}  // namespace longhaul
