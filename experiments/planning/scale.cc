#include "experiments/planning/scale.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/spec/group_timeline.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"
#include "experiments/spec/spec_keys.h"
#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology_file.h"

namespace longhaul::scale {
namespace {

// nullopt: a topology file, or no profile at all.
std::optional<BoundaryLink> LinkOf(const std::string& profile, const RunSpec& run) {
  if (IsTopologyFile(profile)) return std::nullopt;
  const absl::StatusOr<Topology> pair = MeshNamed(profile, 2);
  if (!pair.ok()) return std::nullopt;
  BoundaryLink link = longhaul::LinkOf(*pair, pair->paths.front(), run);
  link.loss = {};  // groups are alike, which draws would not be
  return link;
}

absl::Status ReadScaleTable(const TomlValue& root, const SpecNames& names, ScaleSpec& spec) {
  TableReader r(root, "scale");
  std::string exchange = "shared", between;
  r.Allow("restart_s", &spec.restart_s);
  r.Allow("round_deadline_s", &spec.round_deadline_s);
  r.Allow("exchange", &exchange);
  r.Allow("between", &between);
  r.Allow("mtbf_h", &spec.mtbf_h);
  if (r.status().ok()) {
    r.Within("restart_s", spec.restart_s, 0.0, 1e6, "s");
    r.Check(spec.round_deadline_s > 0, "round_deadline_s",
            fmt::format("is {}; want more than 0 s", spec.round_deadline_s));
    r.OneOf("exchange", exchange, {"shared", "paths"});
    r.Within("mtbf_h", spec.mtbf_h, 0.0, 1e9, "h");
  }
  if (r.status().ok() && !between.empty()) {
    r.Known("between", between, names.profile);
    const auto link = LinkOf(between, spec.run);
    r.Check(link.has_value(), "between", "is a topology file; want a profile's name");
    if (link) spec.between = *link;
  }
  if (exchange == "paths") spec.exchange = ScaleSpec::Exchange::kPaths;
  return r.Finish();
}

// Takes outer.groups out of the tree's hands where it is more than machines could start: the run's
// own reader would refuse it.
absl::StatusOr<std::optional<int64_t>> TakeGroups(TomlValue& root) {
  const TomlValue* found = Find(root, "outer.groups");
  const TomlValue* stages = Find(root, "schedule.stages");
  const auto* groups = found == nullptr ? nullptr : std::get_if<int64_t>(&found->value);
  const auto* s = stages == nullptr ? nullptr : std::get_if<int64_t>(&stages->value);
  if (groups == nullptr || s == nullptr || *s < 1 || *s > kMostStages || *groups < 2) {
    return std::optional<int64_t>();
  }
  if (*groups > kMostGroups) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'outer.groups' is {}; want at most {} in simulated time", found->where,
                    *groups, kMostGroups));
  }
  const int64_t wanted = *groups;
  const int64_t most = std::clamp<int64_t>(kMaxRanks / *s, 1, wanted);
  if (most == wanted) return std::optional<int64_t>();
  TomlValue fits = *found;
  fits.value = most;
  if (absl::Status status = SetByPath(root, "outer.groups", std::move(fits)); !status.ok()) {
    return status;
  }
  return std::optional<int64_t>(wanted);
}

absl::Status CheckRun(const RunSpec& run) {
  if (!run.compute) {
    return absl::InvalidArgumentError(
        "simulated time needs a table [compute]: forward_s, backward_s, optimizer_s");
  }
  if (!OuterPlanOf(run).meets()) {
    return absl::InvalidArgumentError(
        "'outer.inner_steps' is 0: there are no rounds; want at least 1");
  }
  if (!WholeRounds(run.outer)) {
    return absl::InvalidArgumentError(fmt::format(
        "'outer.algorithm' is '{}': simulated rounds end with an exchange of everything "
        "between all groups, which nothing overlaps; want \"diloco\"",
        run.outer.algorithm));
  }
  if (run.schedule.chunks > 1) {
    return absl::InvalidArgumentError(
        fmt::format("'schedule.chunks' is {}: simulated time knows one stage a rank; want 1",
                    run.schedule.chunks));
  }
  return PipelineOf(run).status();
}

}  // namespace

absl::StatusOr<ScaleSpec> ReadScaleSpec(TomlValue root, const SpecNames& names) {
  if (const TomlValue* campaign = Find(root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where + ": this file is a campaign, not a run");
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> groups, TakeGroups(root));
  TomlValue plain = root;
  Erase(plain, "scale");
  Erase(plain, "fault");
  ASSIGN_OR_RETURN(RunSpec run, ReadRunSpec(plain, names));
  if (groups && !run.outer.schedule.empty()) {
    return absl::InvalidArgumentError(run.outer.schedule_written +
                                      ": 'outer.schedule' is of groups that machines could "
                                      "start; want fewer outer.groups");
  }
  if (groups) run.outer.groups = *groups;
  RETURN_IF_ERROR(CheckRun(run));
  const auto inside = LinkOf(run.net.profile, run);
  if (!inside) {
    return absl::InvalidArgumentError(
        fmt::format("'net.profile' is '{}'; want a profile's name for the links inside of a group, "
                    "and scale.between for those between groups",
                    run.net.profile));
  }
  ScaleSpec spec{.run = std::move(run), .faults = {}, .inside = *inside, .between = *inside};
  spec.restart_s = spec.run.compute->restart_s;
  RETURN_IF_ERROR(ReadScaleTable(root, names, spec));
  ASSIGN_OR_RETURN(std::vector<Fault> faults,
                   ReadFaults(root, {.steps = Steps(spec.run),
                                     .groups = spec.run.outer.groups,
                                     .stages = spec.run.schedule.stages}));
  spec.faults = std::move(faults);
  return spec;
}

absl::StatusOr<GroupPace> GroupPace::Of(const ScaleSpec& spec) {
  GroupPace pace;
  pace.between_ = spec.between;
  pace.exchange_ = spec.exchange;
  pace.restarts_ = spec.run.net.slow_start_after_idle;
  RunSpec one = spec.run;  // every group is alike, but for its speed
  one.outer.groups = 1;
  one.outer.on_group_loss = "end";
  one.compute->group_speed.clear();
  ASSIGN_OR_RETURN(const auto group,
                   SimulatedClock::Of(one, [&](int64_t, int64_t) { return spec.inside; }));
  pace.program_ = group->program();
  pace.costs_ = group->costs(0);
  for (const PipelineCosts::Stage& stage : pace.costs_.stages) {
    pace.compute_s_ +=
        static_cast<double>(one.train.microbatches) * (stage.forward_s + stage.backward_s);
  }
  for (const PipelineCosts::Rank& rank : pace.costs_.ranks) pace.compute_s_ += rank.step_s;
  const int64_t most = pace.largest_stage_ = LargestStage(one);
  if (spec.run.outer.groups > 1) {
    const auto bytes = MessageBytes(one.outer.codec, {1, static_cast<uint64_t>(most)});
    if (!bytes) {
      return absl::InvalidArgumentError(
          fmt::format("codec '{}' takes no tensor of {} x {}", one.outer.codec, 1, most));
    }
    pace.between_.message_bytes = *bytes;
  }
  ASSIGN_OR_RETURN(const double step, StepPeriod(pace.program_, pace.costs_));
  pace.step_s_ = step;
  return pace;
}

double GroupPace::StepSeconds(const std::vector<Slowdown>& slowdowns) {
  std::vector<decltype(Slowdown().Key())> key;
  for (const Slowdown& h : slowdowns) key.push_back(h.Key());
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  PipelineCosts costs = costs_;
  for (const Slowdown& h : slowdowns) h.On(&costs);
  // The schedule is proven by Of.
  return known_[key] = StepPeriod(program_, costs).value_or(step_s_);
}

double GroupPace::Connections(int64_t peers) const {
  return exchange_ == ScaleSpec::Exchange::kShared ? static_cast<double>(peers) : 1;
}

Wire GroupPace::ExchangeWire(int64_t peers) const {
  const double frames = Connections(peers);
  BoundaryLink link = between_;
  link.message_bytes *= frames;
  // What connections that share a line do to each other in its queue is in no model.
  if (frames > 1 || link.control == Wire::Control::kBbr) {
    link.queue_packets = std::numeric_limits<double>::infinity();
  }
  // An exchange of many alike is one wire, which cannot go by segments: BBR is slow start alone there.
  if (link.control == Wire::Control::kBbr) link.control = Wire::Control::kReno;
  Wire wire = ColdWireOf(link, frames);
  wire.restarts = restarts_;
  wire.both_ways = true;
  return wire;
}

double GroupPace::FetchSeconds(int64_t sources) const {
  return longhaul::FetchSeconds(largest_stage_, sources, between_);
}

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
        timeline_(drawn_, bounds_,
                  {.restart_s = spec.restart_s,
                   .round_deadline_s = spec.round_deadline_s,
                   .peer_deadline_s = spec.run.net.peer_deadline_s}),
        slowdowns_(drawn_, spec.run.schedule.stages, spec.run.model.tied_head,
                   [&pace](int64_t, const std::vector<Slowdown>& with) {
                     return with.empty() ? pace.step_s() : pace.StepSeconds(with);
                   }) {
    result_.seed = seed;
    result_.faults = static_cast<int64_t>(drawn_.size());
    for (const Fault& f : drawn_) {
      if (f.where.kind == FaultPlace::Kind::kLab) lab_ends_ = std::min(lab_ends_, f.at_step);
    }
    const std::vector<double>& speeds = spec.run.compute->group_speed;
    for (size_t g = 0; g < speeds.size(); ++g) {
      if (speeds[g] != 1) slowdowns_.Slow(static_cast<int64_t>(g), 1 / speeds[g]);
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
    const GroupTimeline::RoundFaults* faults = timeline_.FaultsOf(group);
    const double stopped_s = faults == nullptr ? 0 : faults->StoppedSeconds();
    const std::optional<int64_t> ends_at = faults == nullptr ? std::nullopt : faults->EndsAt();
    double share = 1;  // of the round that it trains
    if (ends_at) share = static_cast<double>(*ends_at - first_) / static_cast<double>(steps());
    const double done_s = timeline_.ready_s(group) + share * GroupSeconds(group) + stopped_s;
    if (ends_at || (faults != nullptr && faults->in_outer)) {
      timeline_.Ends(group, done_s);
    } else {
      timeline_.Arrives(group, done_s);
    }
    result_.compute_s += share * static_cast<double>(steps()) * pace_.compute_s();
  }

  // All steps of this round, nothing ending them.
  double GroupSeconds(int64_t group) {
    const std::vector<Slowdowns::Spell>& spells = slowdowns_.Inside(group);
    if (spells.empty()) return static_cast<double>(steps()) * pace_.step_s();
    std::set<int64_t> changes{first_};  // steps from which another set of spells holds
    double seconds = 0;
    for (const Slowdowns::Spell& spell : spells) {
      if (spell.last < first_ || spell.first > last_) continue;
      changes.insert(std::max(first_, spell.first));
      if (spell.last < last_) changes.insert(spell.last + 1);
      if (spell.first >= first_) seconds += spell.down_s;
    }
    for (auto from = changes.begin(); from != changes.end(); ++from) {
      const auto next = std::next(from);
      const int64_t until = next == changes.end() ? last_ + 1 : *next;
      const std::vector<Slowdown> now = slowdowns_.InStep(group, *from);
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
    timeline_.BeginRound(round_);
    for (int64_t g = 0; g < bounds_.groups; ++g) {
      if (timeline_.Trains(g)) Train(g);
    }
    const GroupTimeline::Meeting meeting = timeline_.Meet();
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
    timeline_.EndRound(end_s, [fetch_s](int64_t) { return fetch_s; });
    result_.by_round.push_back({.end_s = end_s, .members = counted});
  }

  // Of the slowest hindered path, or of all others.
  double ExchangeEnd(const GroupTimeline::Meeting& meeting) {
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
    for (const Slowdowns::Spell& spell : slowdowns_.between()) {
      if (spell.last < first_ || spell.first > last_) continue;
      if (!meets(spell.slowdown.from) || !meets(spell.slowdown.to)) continue;
      // Down from the beginning of its step on.
      const double up_s =
          begin_s - static_cast<double>(last_ + 1 - spell.first) * pace_.step_s() + spell.down_s;
      Connection path = one;
      Wire wire = spell.slowdown.On(pace_.ExchangeWire(1));
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
  GroupTimeline timeline_;
  Slowdowns slowdowns_;
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
