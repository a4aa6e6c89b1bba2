#include "experiments/spec/round_plan.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/spec/plans_of_spec.h"

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

using GroupsFrom = RunSpec::Outer::GroupsFrom;
constexpr size_t kMostEntries = 1024;

absl::Status Bad(const TomlValue& at, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: 'outer.schedule' {}", at.where, what));
}

absl::Status ReadEntries(const TomlValue& given, std::vector<GroupsFrom>* entries) {
  constexpr char kWant[] = "want pairs of a step and a number of groups, as [[0, 2], [200, 4]]";
  const auto* list = std::get_if<TomlValue::Array>(&given.value);
  if (list == nullptr || list->empty()) return Bad(given, fmt::format("is no list; {}", kWant));
  if (list->size() > kMostEntries) {
    return Bad(given, fmt::format("has {} entries; want at most {}", list->size(), kMostEntries));
  }
  for (const TomlValue& entry : *list) {
    const auto* pair = std::get_if<TomlValue::Array>(&entry.value);
    const bool two = pair != nullptr && pair->size() == 2;
    const auto* step = two ? std::get_if<int64_t>(&(*pair)[0].value) : nullptr;
    const auto* groups = two ? std::get_if<int64_t>(&(*pair)[1].value) : nullptr;
    if (step == nullptr || groups == nullptr) {
      return Bad(entry, fmt::format("has an entry that is no pair of whole numbers; {}", kWant));
    }
    entries->push_back({.step = *step, .groups = *groups});
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const TomlValue& at, const RunSpec& spec, const GroupsFrom& entry,
                        const GroupsFrom* before) {
  const RunSpec::Outer& outer = spec.outer;
  const auto bad = [&](const std::string& what) {
    return Bad(at, fmt::format("[{}, {}]: {}", entry.step, entry.groups, what));
  };
  if (before == nullptr && entry.step != 0) return bad("the first step must be 0");
  if (before != nullptr && entry.step <= before->step) {
    return bad(fmt::format("its step is not after the one before it, {}", before->step));
  }
  if (entry.step < 0 || entry.step >= Steps(spec)) {
    return bad(fmt::format("want a step below the run's {}", Steps(spec)));
  }
  if (!OuterPlanOf(spec).EndsRound(entry.step)) {
    return bad(
        fmt::format("groups come and go at outer steps: want a multiple of "
                    "outer.inner_steps = {}",
                    outer.inner_steps));
  }
  if (entry.groups < std::max<int64_t>(1, outer.min_groups) || entry.groups > outer.groups) {
    return bad(fmt::format("want outer.min_groups = {} to outer.groups = {} groups",
                           outer.min_groups, outer.groups));
  }
  if (before != nullptr && entry.groups == before->groups) {
    return bad("as many groups as before: leave the entry out");
  }
  return absl::OkStatus();
}

Fault Planned(FaultKind what, int64_t group, int64_t step, const std::string& written) {
  Fault fault;
  fault.what = what;
  fault.where = {.kind = FaultPlace::Kind::kGroup, .group = group};
  fault.at_step = step;
  fault.planned = true;
  fault.written = written;
  return fault;
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

std::set<int64_t> AbsentAtFirst(const std::vector<Fault>& drawn) {
  std::set<int64_t> absent, told;
  for (const Fault& f : drawn) {
    if (f.what != FaultKind::kLeave && f.what != FaultKind::kJoin) continue;
    const bool first = told.insert(f.where.group).second;
    if (first && f.what == FaultKind::kJoin) absent.insert(f.where.group);
  }
  return absent;
}

std::vector<RoundPlan> PlanRounds(const std::vector<Fault>& drawn, const RoundBounds& bounds) {
  std::vector<RoundPlan> rounds;
  std::set<int64_t> present, away = AbsentAtFirst(drawn);
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

absl::Status ReadGroupSchedule(const TomlValue& root, RunSpec& spec) {
  const TomlValue* given = Find(root, "outer.schedule");
  if (given == nullptr) return absl::OkStatus();
  if (spec.outer.on_group_loss != "continue" || spec.outer.inner_steps < 1) {
    return Bad(*given,
               "has groups that come and go; want outer.on_group_loss = \"continue\" and "
               "outer.inner_steps of at least 1");
  }
  std::vector<GroupsFrom> entries;
  RETURN_IF_ERROR(ReadEntries(*given, &entries));
  int64_t most = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    RETURN_IF_ERROR(CheckEntry(*given, spec, entries[i], i == 0 ? nullptr : &entries[i - 1]));
    most = std::max(most, entries[i].groups);
  }
  if (most < spec.outer.groups) {
    return Bad(*given, fmt::format("has {} groups at most, and outer.groups is {}: a group that is "
                                   "never there is none",
                                   most, spec.outer.groups));
  }
  spec.outer.schedule = std::move(entries);
  spec.outer.schedule_written = given->where;
  return absl::OkStatus();
}

SpecLines GroupScheduleLines(const RunSpec& spec) {
  std::string text;
  for (const GroupsFrom& entry : spec.outer.schedule) {
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", entry.step, entry.groups);
  }
  if (text.empty()) return {};
  return {{"outer", "schedule", fmt::format("[{}]", text)}};
}

absl::Status CheckFaults(const RunSpec& spec) {
  std::vector<Fault> all = spec.faults;
  for (Fault& planned : PlannedFaults(spec)) all.push_back(std::move(planned));
  const bool simulated = spec.simulated_clock();
  for (const Fault& fault : all) {
    const bool link = fault.where.kind == FaultPlace::Kind::kLink;
    const bool lab = fault.where.kind == FaultPlace::Kind::kLab;
    const auto refuse = [&fault](std::string_view why) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: '{}' {}", fault.written,
          fault.planned ? "outer.schedule, a " + std::string(ToString(fault.what)) : "fault", why));
    };
    if ((lab || (link && !simulated)) && spec.net.transport == "loopback") {
      return refuse(
          "strikes a link or the lab; net.transport = \"loopback\" has neither (with net.clock = "
          "\"simulated\" it has links)");
    }
    const bool ends = fault.for_steps > 0 || fault.for_s > 0;
    if (simulated && fault.what == FaultKind::kLinkDown && !ends) {
      return refuse("lasts for ever, and nothing would arrive; want for_s or for_steps");
    }
    const bool checkpoints = spec.checkpoint.every_steps > 0;
    const bool at_one =
        fault.what == FaultKind::kDiskFull || fault.during == FaultMoment::kCheckpoint;
    if (at_one && !checkpoints) {
      return refuse(
          "strikes a checkpoint; want checkpoint.every_steps of at least 1, and no simulated clock");
    }
    const bool planned = fault.what == FaultKind::kJoin || fault.what == FaultKind::kLeave;
    if (planned && !spec.checkpoint.from.empty() && spec.net.transport != "loopback") {
      return refuse(
          "comes or goes by plan; over links a run with checkpoint.from begins with all groups, "
          "whatever its step: take it out, or net.transport = \"loopback\"");
    }
    if (fault.during == FaultMoment::kTransfer && spec.outer.joiner_source != "swarm") {
      return refuse("strikes a swarm's transfer; want outer.joiner_source = \"swarm\"");
    }
    if (fault.what == FaultKind::kPoison && spec.outer.groups == 1) {
      return refuse("poisons the average of one group; want outer.groups of at least 2");
    }
    if (spec.outer.on_group_loss != "continue") {
      return refuse("is of a run that goes on; want outer.on_group_loss = \"continue\"");
    }
  }
  return absl::OkStatus();
}

std::vector<Fault> PlannedFaults(const RunSpec& spec) {
  std::vector<Fault> planned;
  const std::vector<GroupsFrom>& entries = spec.outer.schedule;
  const std::string& written = spec.outer.schedule_written;
  for (size_t i = 1; i < entries.size(); ++i) {
    const GroupsFrom &was = entries[i - 1], &is = entries[i];
    for (int64_t g = was.groups; g < is.groups; ++g) {
      planned.push_back(Planned(FaultKind::kJoin, g, is.step, written));
    }
    for (int64_t g = is.groups; g < was.groups; ++g) {
      planned.push_back(Planned(FaultKind::kLeave, g, is.step + 1, written));
    }
  }
  return planned;
}

}  // namespace longhaul
