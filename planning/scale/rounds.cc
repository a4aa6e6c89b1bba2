#include "planning/scale/rounds.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/spec/group_course.h"
#include "experiments/spec/hindrances.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"

namespace longhaul::scale {
namespace {

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
        drawn_(Drawn(seed)),
        course_(drawn_, bounds_,
                {.restart_s = spec.restart_s,
                 .round_deadline_s = spec.round_deadline_s,
                 .peer_deadline_s = spec.run.net.peer_deadline_s}),
        hindrances_(drawn_, spec.run.schedule.stages, spec.run.model.tied_head,
                    [&pace](int64_t, const std::vector<Hindrance>& with) {
                      return with.empty() ? pace.step_s() : pace.StepSeconds(with);
                    }) {
    result_.seed = seed;
    result_.faults = static_cast<int64_t>(drawn_.size());
    for (const Fault& f : drawn_) {
      if (f.where.kind == FaultPlace::Kind::kLab) lab_ends_ = std::min(lab_ends_, f.at_step);
    }
    const std::vector<double>& speeds = spec.run.compute->group_speed;
    for (size_t g = 0; g < speeds.size(); ++g) {
      if (speeds[g] != 1) hindrances_.Slow(static_cast<int64_t>(g), 1 / speeds[g]);
    }
  }

  ScaleResult Run() {
    for (round_ = 1; round_ <= plan_.rounds() && result_.ended_early.empty(); ++round_) {
      first_ = plan_.FirstStepOf(round_);
      last_ = plan_.LastStepOf(round_);
      Round();
    }
    Summarise();
    return std::move(result_);
  }

 private:
  std::vector<Fault> Drawn(uint64_t seed) const {
    std::vector<Fault> rules = spec_.faults;
    for (Fault& planned : PlannedFaults(spec_.run)) rules.push_back(std::move(planned));
    if (spec_.mtbf_h > 0) {
      Fault kill;
      kill.where.kind = FaultPlace::Kind::kAnyGroup;
      kill.mean_time_between_steps = std::max(1.0, spec_.mtbf_h * 3600 / pace_.step_s());
      rules.push_back(kill);
    }
    return DrawFaults(rules, {bounds_.steps, bounds_.groups, spec_.run.schedule.stages}, seed);
  }

  int64_t steps() const { return last_ - first_ + 1; }

  // The steps of this round that a group does, when it is at the outer step, and its compute.
  void Train(int64_t group) {
    const GroupCourse::Struck* struck = course_.StruckOf(group);
    const double stopped_s = struck == nullptr ? 0 : struck->StoppedSeconds();
    const std::optional<int64_t> ends_at = struck == nullptr ? std::nullopt : struck->EndsAt();
    double share = 1;  // of the round that it trains
    if (ends_at) share = static_cast<double>(*ends_at - first_) / static_cast<double>(steps());
    const double done_s = course_.ready_s(group) + share * GroupSeconds(group) + stopped_s;
    if (ends_at || (struck != nullptr && struck->in_outer)) {
      course_.Ends(group, done_s);
    } else {
      course_.Arrives(group, done_s);
    }
    result_.compute_s += share * static_cast<double>(steps()) * pace_.compute_s();
  }

  // All steps of this round, nothing ending them.
  double GroupSeconds(int64_t group) {
    const std::vector<Hindrances::Spell>& spells = hindrances_.Inside(group);
    if (spells.empty()) return static_cast<double>(steps()) * pace_.step_s();
    std::set<int64_t> changes{first_};  // steps from which another set of spells holds
    double seconds = 0;
    for (const Hindrances::Spell& spell : spells) {
      if (spell.last < first_ || spell.first > last_) continue;
      changes.insert(std::max(first_, spell.first));
      if (spell.last < last_) changes.insert(spell.last + 1);
      if (spell.first >= first_) seconds += spell.down_s;
    }
    for (auto from = changes.begin(); from != changes.end(); ++from) {
      const auto next = std::next(from);
      const int64_t until = next == changes.end() ? last_ + 1 : *next;
      const std::vector<Hindrance> now = hindrances_.InStep(group, *from);
      seconds += static_cast<double>(until - *from) *
                 (now.empty() ? pace_.step_s() : pace_.StepSeconds(now));
    }
    return seconds;
  }

  void Round() {
    if (lab_ends_ <= last_) {
      result_.ended_early = fmt::format("the lab is killed in step {}", lab_ends_);
      return;
    }
    course_.BeginRound(round_);
    for (int64_t g = 0; g < bounds_.groups; ++g) {
      if (course_.Trains(g)) Train(g);
    }
    const GroupCourse::Meeting meeting = course_.Meet();
    const auto members = static_cast<int64_t>(meeting.members.size());
    const double tokens = static_cast<double>(steps()) * tokens_per_step_;
    result_.tokens_lost += tokens * static_cast<double>(meeting.in_vain);
    if (members == 0) {
      result_.ended_early =
          fmt::format("round {} has no members: nobody holds the weights", round_);
      return;
    }
    const double end_s = members > 1 ? ExchangeEnd(meeting) : meeting.begins_s;
    const int64_t counted = members - meeting.poisoned;
    result_.exchange_s += end_s - meeting.begins_s;
    result_.tokens_counted += tokens * static_cast<double>(counted);
    result_.tokens_lost += tokens * static_cast<double>(meeting.poisoned);
    const double fetch_s = pace_.FetchSeconds(members);
    course_.EndRound(end_s, [fetch_s](int64_t) { return fetch_s; });
    result_.by_round.push_back({.end_s = end_s, .members = counted});
  }

  // Of the slowest hindered path, or of all others.
  double ExchangeEnd(const GroupCourse::Meeting& meeting) {
    const double begin_s = meeting.begins_s;
    const auto peers = static_cast<int64_t>(meeting.members.size()) - 1;
    const auto meets = [&](int64_t rank) {
      const int64_t group = rank / spec_.run.schedule.stages;
      return std::binary_search(meeting.members.begin(), meeting.members.end(), group);
    };
    Connection one = between_;  // of those that share the line
    one.window /= pace_.Connections(peers);
    one.threshold /= pace_.Connections(peers);
    double end_s = Take(pace_.ExchangeWire(peers), begin_s, &between_).arrived;
    for (const Hindrances::Spell& spell : hindrances_.between()) {
      if (spell.last < first_ || spell.first > last_) continue;
      if (!meets(spell.hindrance.from) || !meets(spell.hindrance.to)) continue;
      // Down from the beginning of its step on.
      const double up_s =
          begin_s - static_cast<double>(last_ + 1 - spell.first) * pace_.step_s() + spell.down_s;
      Connection path = one;
      Wire wire = spell.hindrance.On(pace_.ExchangeWire(1));
      wire.both_ways = false;  // what comes the other way is not hindered, and over long before
      const double ready_s = spell.down_s > 0 ? std::max(begin_s, up_s) : begin_s;
      end_s = std::max(end_s, Take(wire, ready_s, &path).arrived);
    }
    return end_s;
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
  const std::vector<Fault> drawn_;
  GroupCourse course_;
  Hindrances hindrances_;
  int64_t lab_ends_ = std::numeric_limits<int64_t>::max();
  int64_t round_ = 1, first_ = 1, last_ = 0;  // steps of this round
  Connection between_;                        // groups: all of them are alike
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
