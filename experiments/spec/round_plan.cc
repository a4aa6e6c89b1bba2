#include "experiments/spec/round_plan.h"

#include <algorithm>
#include <set>

#include "experiments/spec/outer_of_spec.h"

namespace longhaul {
namespace {

// The first multiple of `every` that is at least `step`.
int64_t NextMultiple(int64_t step, int64_t every) { return (step + every - 1) / every * every; }

// Groups that lose the round (first, last], and those that leave or join in it.
struct Changes {
  std::set<int64_t> killed, left, joining;
};

bool Kills(const Fault& f) {
  return f.what == FaultKind::kKill || (f.what == FaultKind::kStop && f.for_s == 0);
}

// `somebody_joined`: at the outer step before `first`.
Changes ChangesIn(const std::vector<Fault>& drawn, const RoundBounds& bounds, int64_t first,
                  int64_t last, bool somebody_joined) {
  Changes changes;
  for (const Fault& f : drawn) {
    if (f.during == FaultMoment::kTransfer && !somebody_joined) continue;
    Strike at = StrikeOf(f, bounds);
    if (at.after_outer) ++at.step;
    if (at.step < first || at.step > last) continue;
    if (Kills(f)) changes.killed.insert(f.where.group);
    if (f.what == FaultKind::kLeave) changes.left.insert(f.where.group);
    if (f.what == FaultKind::kJoin) changes.joining.insert(f.where.group);
  }
  return changes;
}

}  // namespace

Strike StrikeOf(const Fault& fault, const RoundBounds& bounds) {
  Strike at{.step = fault.at_step};
  if (fault.during == FaultMoment::kOuter) {
    at.step = bounds.plan().EndOfRound(fault.at_step);
  }
  if (fault.during == FaultMoment::kTransfer) {
    at.step = bounds.plan().EndOfRound(fault.at_step);
    at.after_outer = true;
    if (at.step >= bounds.steps) return {};  // nobody joins after the last step
  }
  if (fault.during == FaultMoment::kCheckpoint) {
    if (bounds.checkpoint_every == 0) return {};
    at.step = NextMultiple(fault.at_step, bounds.checkpoint_every);
    at.after_outer = true;
    if (at.step >= bounds.steps) return {};  // none is written after the last step
  }
  return at;
}

std::vector<Fault> WithoutKillsOfAbsentGroups(std::vector<Fault> drawn,
                                              const std::vector<RoundPlan>& rounds,
                                              const RoundBounds& bounds) {
  std::erase_if(drawn, [&](const Fault& f) {
    if (f.during != FaultMoment::kTransfer) return false;
    const auto round = std::find_if(rounds.begin(), rounds.end(), [&](const RoundPlan& r) {
      return r.last_step == StrikeOf(f, bounds).step;
    });
    if (round == rounds.end() || round->joiners.empty()) return true;
    const auto has = [&f](const std::vector<int64_t>& groups) {
      return std::find(groups.begin(), groups.end(), f.where.group) != groups.end();
    };
    return !has(round->members) && !has(round->joiners);
  });
  return drawn;
}

std::set<int64_t> AbsentAtFirst(const std::vector<Fault>& drawn, int64_t groups) {
  std::set<int64_t> absent;
  for (int64_t g = 0; g < groups; ++g) {
    const auto first = std::find_if(drawn.begin(), drawn.end(), [g](const Fault& f) {
      return f.where.group == g && (f.what == FaultKind::kLeave || f.what == FaultKind::kJoin);
    });
    if (first != drawn.end() && first->what == FaultKind::kJoin) absent.insert(g);
  }
  return absent;
}

std::vector<RoundPlan> PlanRounds(const std::vector<Fault>& drawn, const RoundBounds& bounds) {
  std::vector<RoundPlan> rounds;
  std::set<int64_t> present, away = AbsentAtFirst(drawn, bounds.groups);
  for (int64_t g = 0; g < bounds.groups; ++g) {
    if (!away.contains(g)) present.insert(g);
  }
  const OuterPlan outer = bounds.plan();
  for (int64_t round = 1; round <= outer.rounds(); ++round) {
    const int64_t first = outer.FirstStepOf(round), last = outer.LastStepOf(round);
    const bool somebody_joined = !rounds.empty() && !rounds.back().joiners.empty();
    const Changes changes = ChangesIn(drawn, bounds, first, last, somebody_joined);
    RoundPlan plan{.round = round, .last_step = last, .members = {}, .joiners = {}, .lost = {}};
    for (const int64_t g : present) {
      const bool left = changes.left.contains(g), killed = changes.killed.contains(g);
      (left || killed ? plan.lost : plan.members).push_back(g);
      if (left) away.insert(g);
      if (killed && !left) plan.joiners.push_back(g);
    }
    for (const int64_t g : changes.joining) {
      if (!present.contains(g) && away.erase(g) > 0) plan.joiners.push_back(g);
    }
    std::sort(plan.joiners.begin(), plan.joiners.end());
    rounds.push_back(plan);
    if (plan.members.empty()) break;
    present = {plan.members.begin(), plan.members.end()};
    present.insert(plan.joiners.begin(), plan.joiners.end());
  }
  return rounds;
}

RoundBounds RoundBoundsOf(const RunSpec& spec) {
  return {.steps = Steps(spec),
          .inner_steps = OuterPlanOf(spec).round_steps(),
          .groups = spec.outer.groups,
          .checkpoint_every = spec.checkpoint.every_steps};
}

}  // namespace longhaul
