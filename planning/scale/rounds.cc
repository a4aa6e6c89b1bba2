#include "planning/scale/rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"
#include "planning/scale/hindrances.h"

namespace longhaul::scale {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What strikes one group in one round.
struct Struck {
  std::optional<int64_t> killed_at;  // step
  bool in_outer = false;             // of the kill
  bool leaves = false, joins = false, poisoned = false;
  double stopped_s = 0;
};

class Simulation {
 public:
  Simulation(const ScaleSpec& spec, GroupPace& pace, uint64_t seed)
      : spec_(spec),
        pace_(pace),
        bounds_{.steps = Steps(spec.run),
                .inner_steps = OuterPlanOf(spec.run).round_steps(),
                .groups = spec.run.outer.groups,
                .checkpoint_every = spec.run.checkpoint.every_steps},
        plan_(bounds_.plan()),
        tokens_per_step_(static_cast<double>(spec.run.train.batch_rows * spec.run.model.context)),
        groups_(static_cast<size_t>(bounds_.groups)),
        hindrances_(spec, pace) {
    result_.seed = seed;
    Script(seed);
  }

  ScaleResult Run() {
    for (first_ = 1; first_ <= bounds_.steps && result_.ended_early.empty();) {
      last_ = plan_.EndOfRound(first_);
      Round();
      first_ = last_ + 1;
    }
    Summarise();
    return std::move(result_);
  }

 private:
  struct Group {
    bool present = true;
    double ready_s = 0;     // when it can begin the next round
    double arrives_s = 0;   // at this round's outer step; kNever: it does not
    double restarts_s = 0;  // when it could begin to fetch, of one that lost this round
    bool sits_out = false;  // would be later than the deadline again: waits for the round's end
  };

  // Which group is struck in which round: a fault's step says it, and its moment.
  void Script(uint64_t seed) {
    std::vector<Fault> rules = spec_.faults;
    for (Fault& planned : PlannedFaults(spec_.run)) rules.push_back(std::move(planned));
    if (spec_.mtbf_h > 0) {
      Fault kill;
      kill.where.kind = FaultPlace::Kind::kAnyGroup;
      kill.mean_time_between_steps = std::max(1.0, spec_.mtbf_h * 3600 / pace_.step_s());
      rules.push_back(kill);
    }
    const FaultBounds bounds{bounds_.steps, bounds_.groups, spec_.run.schedule.stages};
    std::map<int64_t, FaultKind> first_word;
    for (const Fault& f : DrawFaults(rules, bounds, seed)) {
      ++result_.faults;
      Add(f);
      if (f.what == FaultKind::kLeave || f.what == FaultKind::kJoin) {
        first_word.emplace(f.where.group, f.what);
      }
    }
    // Who joins before its first leave was not there when the run began.
    for (const auto& [group, what] : first_word) {
      if (what == FaultKind::kJoin) groups_[static_cast<size_t>(group)].present = false;
    }
  }

  void Add(const Fault& f) {
    if (f.where.kind == FaultPlace::Kind::kLab) {
      lab_ends_ = std::min(lab_ends_, f.at_step);
      return;
    }
    Strike at = StrikeOf(f, bounds_);
    if (at.after_outer) ++at.step;
    if (at.step < 1 || at.step > bounds_.steps) return;
    if (hindrances_.Add(f)) return;
    Struck& struck = struck_[RoundOf(at.step)][f.where.group];
    const bool for_ever = f.what == FaultKind::kStop && f.for_s == 0;
    if (f.what == FaultKind::kKill || for_ever) {
      if (struck.killed_at && *struck.killed_at <= at.step) return;
      struck.killed_at = at.step;
      struck.in_outer = f.during == FaultMoment::kOuter;
    }
    if (f.what == FaultKind::kStop) struck.stopped_s += f.for_s;
    if (f.what == FaultKind::kPoison) struck.poisoned = true;
    if (f.what == FaultKind::kLeave) struck.leaves = true;
    if (f.what == FaultKind::kJoin) struck.joins = true;
  }

  int64_t RoundOf(int64_t step) const { return plan_.RoundOf(step); }
  int64_t steps() const { return last_ - first_ + 1; }

  // One group's steps of this round: when it is at the outer step, and its compute.
  void Train(int64_t index, Group& group, const Struck& struck) {
    if (group.sits_out) return;
    const double nominal_s = static_cast<double>(steps()) * pace_.step_s();
    const double all_s = hindrances_.RoundSeconds(index, first_, last_).value_or(nominal_s);
    double share = 1;  // of the round that it trains
    group.arrives_s = group.ready_s + all_s + struck.stopped_s;
    if (struck.killed_at) {
      if (!struck.in_outer) {
        share = static_cast<double>(*struck.killed_at - first_) / static_cast<double>(steps());
      }
      killed_in_outer_ |= struck.in_outer;
      group.restarts_s = group.ready_s + share * all_s + spec_.restart_s;
      if (struck.in_outer) group.restarts_s += struck.stopped_s;
      group.arrives_s = kNever;
    }
    result_.compute_s += share * static_cast<double>(steps()) * pace_.compute_s();
  }

  void Round() {
    const auto at = struck_.find(RoundOf(first_));
    static const std::map<int64_t, Struck> kNone;
    const std::map<int64_t, Struck>& struck = at == struck_.end() ? kNone : at->second;
    const auto of = [&](int64_t g) {
      const auto found = struck.find(g);
      return found == struck.end() ? Struck() : found->second;
    };
    if (lab_ends_ <= last_) {
      result_.ended_early = fmt::format("the lab is killed in step {}", lab_ends_);
      return;
    }
    killed_in_outer_ = false;
    double earliest_s = kNever, began_s = kNever;
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.arrives_s = kNever;
      if (!group.present) continue;
      began_s = std::min(began_s, group.ready_s);
      Train(static_cast<int64_t>(g), group,
            struck.empty() ? Struck() : of(static_cast<int64_t>(g)));
      earliest_s = std::min(earliest_s, group.arrives_s);
    }
    Meet(earliest_s + spec_.round_deadline_s, struck);
    if (!result_.ended_early.empty()) return;
    for (const auto& [g, s] : struck) {
      Group& group = groups_[static_cast<size_t>(g)];
      if (!s.joins || group.present) continue;
      group.present = true;
      const double came_s = std::max(end_s_, began_s + spec_.restart_s);
      group.ready_s = came_s + pace_.FetchSeconds(members_);
    }
    for (const auto& [g, s] : struck) {
      if (s.leaves && !s.joins) groups_[static_cast<size_t>(g)].present = false;
    }
  }

  // The outer step: who is in it, when it ends, and who takes over the weights after it.
  void Meet(double deadline_s, const std::map<int64_t, Struck>& struck) {
    const double tokens = static_cast<double>(steps()) * tokens_per_step_;
    const auto is = [&](size_t g, bool Struck::*what) {
      const auto found = struck.find(static_cast<int64_t>(g));
      return found != struck.end() && found->second.*what;
    };
    const auto late = [&](const Group& group) {
      return group.arrives_s == kNever || group.arrives_s > deadline_s;
    };
    double last_s = 0;
    int64_t there = 0, counted = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      if (!group.present) continue;
      if (late(group) || is(g, &Struck::leaves)) {
        result_.tokens_lost += group.sits_out ? 0 : tokens;
        continue;
      }
      ++there;
      last_s = std::max(last_s, group.arrives_s);
      counted += is(g, &Struck::poisoned) ? 0 : 1;
    }
    members_ = there;
    if (there == 0) {
      result_.ended_early =
          fmt::format("round {} has no members: nobody holds the weights", RoundOf(first_));
      return;
    }
    if (killed_in_outer_) last_s += spec_.run.net.peer_deadline_s;
    end_s_ = last_s;
    if (there > 1) {
      Connection one = between_;  // of those that share the line
      one.window /= pace_.Connections(there - 1);
      one.threshold /= pace_.Connections(there - 1);
      end_s_ = std::max(hindrances_.ExchangeEnd(first_, last_, last_s, one),
                        Take(pace_.ExchangeWire(there - 1), last_s, &between_).arrived);
    }
    result_.exchange_s += end_s_ - last_s;
    result_.tokens_counted += tokens * static_cast<double>(counted);
    result_.tokens_lost += tokens * static_cast<double>(there - counted);
    const double fetch_s = pace_.FetchSeconds(there);
    for (Group& group : groups_) {
      if (!group.present) continue;
      if (!late(group)) {
        group.ready_s = end_s_;
        continue;
      }
      if (group.arrives_s != kNever) group.restarts_s = group.arrives_s;
      group.ready_s = std::max(end_s_, group.restarts_s) + fetch_s;
      group.sits_out = group.ready_s - end_s_ > spec_.round_deadline_s;
    }
    result_.by_round.push_back({.end_s = end_s_, .members = counted});
  }

  void Summarise() {
    ScaleResult& r = result_;
    r.rounds = static_cast<int64_t>(r.by_round.size());
    if (r.by_round.empty()) return;
    r.seconds = r.by_round.back().end_s;
    std::vector<double> lengths;
    double before = 0;
    for (const RoundResult& round : r.by_round) {
      lengths.push_back(round.end_s - before);
      before = round.end_s;
    }
    std::sort(lengths.begin(), lengths.end());
    const auto quantile = [&](double q) {
      return lengths[static_cast<size_t>(q * static_cast<double>(lengths.size() - 1))];
    };
    r.round_mean_s = r.seconds / static_cast<double>(lengths.size());
    r.round_p50_s = quantile(0.5);
    r.round_p95_s = quantile(0.95);
    r.round_max_s = lengths.back();
    const auto workers = static_cast<double>(spec_.run.schedule.stages * bounds_.groups);
    r.utilisation = r.compute_s / (r.seconds * workers);
  }

  const ScaleSpec& spec_;
  GroupPace& pace_;
  const RoundBounds bounds_;
  const OuterPlan plan_;
  const double tokens_per_step_;  // of a group
  std::vector<Group> groups_;
  Hindrances hindrances_;
  std::map<int64_t, std::map<int64_t, Struck>> struck_;  // by round, then group
  int64_t lab_ends_ = std::numeric_limits<int64_t>::max();
  int64_t first_ = 1, last_ = 0;  // steps of this round
  int64_t members_ = 0;
  double end_s_ = 0;
  Connection between_;  // groups: all of them are alike
  bool killed_in_outer_ = false;
  ScaleResult result_;
};

}  // namespace

ScaleResult SimulateRounds(const ScaleSpec& spec, GroupPace& pace, uint64_t seed) {
  return Simulation(spec, pace, seed).Run();
}

double IdealGoodput(const ScaleSpec& spec, const GroupPace& pace) {
  return static_cast<double>(TokensPerStep(spec.run)) / pace.step_s();
}

}  // namespace longhaul::scale
