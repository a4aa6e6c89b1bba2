#include "experiments/planning/plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec_paths.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology_file.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul::plan {
namespace {

constexpr char kPlan[] = "plan";
constexpr size_t kMostLength = 4096;

std::string PairOf(const std::string& forward, const std::string& backward) {
  return forward + " / " + backward;
}

// "a / b"; one name alone is of both directions.
std::pair<std::string, std::string> CodecsOfPair(const std::string& pair) {
  const std::vector<std::string> both = absl::StrSplit(pair, " / ");
  return {both.front(), both.back()};
}

std::vector<std::string> SchedulesFor(const RunSpec& run) {
  std::vector<std::string> names;
  for (const std::string& name : FlushedScheduleNames()) {
    const Schedule schedule = *FindSchedule(name);
    const bool takes =
        schedule.least_chunks <= run.schedule.chunks && run.schedule.chunks <= schedule.most_chunks;
    if (takes) names.push_back(name);
  }
  return names;
}

void ReadLists(TableReader& r, const SpecNames& names, PlanSpec& plan) {
  const RunSpec& run = plan.run;
  plan.schedules = SchedulesFor(run);
  plan.codecs = {PairOf(run.boundary.forward, run.boundary.backward)};
  plan.inner_steps = {run.outer.inner_steps};
  plan.algorithms = {run.outer.algorithm};
  if (std::isfinite(run.compute->memory_gb)) {
    plan.memory_bytes = std::llround(run.compute->memory_gb * 1e9);
  }
  r.Allow("schedules", &plan.schedules);
  r.Allow("codecs", &plan.codecs);
  r.Allow("inner_steps", &plan.inner_steps);
  r.Allow("algorithms", &plan.algorithms);
  r.Allow("outer_codecs", &plan.outer_codecs);
  r.Allow("memory_bytes", &plan.memory_bytes);
  const auto all_known = [&](const char* key, const std::vector<std::string>& list,
                             const std::function<absl::Status(std::string_view)>& known) {
    r.Check(!r.Has(key) || !list.empty(), key, "is empty; want at least one");
    for (const std::string& name : list) r.Known(key, name, known);
  };
  std::vector<std::string> codecs;
  for (std::string& pair : plan.codecs) {
    const auto [forward, backward] = CodecsOfPair(pair);
    pair = PairOf(forward, backward);
    codecs.insert(codecs.end(), {forward, backward});
  }
  all_known("schedules", plan.schedules, [](std::string_view name) -> absl::Status {
    ASSIGN_OR_RETURN(const Schedule schedule, FindSchedule(name));
    if (schedule.ahead == nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("schedule '{}' is never flushed and trains other weights; a plan "
                    "compares {}",
                    name, fmt::join(FlushedScheduleNames(), ", ")));
  });
  all_known("codecs", codecs, names.codec);
  all_known("outer_codecs", plan.outer_codecs, names.codec);
  all_known("algorithms", plan.algorithms,
            [](std::string_view name) { return CheckOuterName(std::string(name)); });
  r.Check(!plan.inner_steps.empty(), "inner_steps", "is empty; want at least one");
  for (const int64_t h : plan.inner_steps) r.Within("inner_steps", h, 0, 10'000, "each");
  if (plan.memory_bytes) r.Check(*plan.memory_bytes > 0, "memory_bytes", "is not above 0");
}

absl::Status ReadPlanTable(const TomlValue& root, const SpecNames& names, PlanSpec& plan) {
  TableReader r(root, kPlan);
  r.Require("target_loss_nat", &plan.target_loss_nat);
  r.Require("curve", &plan.curve);
  r.Require("calibration", &plan.calibrations);
  r.Allow("links", &plan.links);
  plan.price_per_hour = ReadPrices(r, "price_per_hour");
  plan.link_price_per_gb = ReadPrices(r, "link_price_per_gb");
  r.Allow("rank_by", &plan.rank_by);
  r.OneOf("rank_by", plan.rank_by, {"time", "cost"});
  constexpr char kOfPrices[] = "wants plan.price_per_hour beside it, what a node costs";
  r.Check(plan.price_per_hour || !plan.link_price_per_gb, "link_price_per_gb", kOfPrices);
  r.Check(plan.price_per_hour || !plan.by_cost(), "rank_by", kOfPrices);
  if (r.status().ok()) {
    r.Line("curve", plan.curve, kMostLength);
    r.Check(!plan.calibrations.empty(), "calibration", "is empty; want at least one file");
    r.Check(std::isfinite(plan.target_loss_nat) && plan.target_loss_nat > 0, "target_loss_nat",
            "is not above 0 nat");
  }
  ReadLists(r, names, plan);
  return r.Finish();
}

absl::Status Set(TomlValue& root, const std::string& path, auto value) {
  return SetByPath(root, path, TomlValue{std::move(value), "[plan]"});
}

// Seconds of a pass are of a stage: another number of stages shares the same work.
absl::Status ShareCompute(TomlValue& root, const RunSpec& run, int64_t stages) {
  if (run.compute->flops_per_s > 0 || stages == run.stages()) return absl::OkStatus();
  for (const auto& [key, seconds] : {std::pair("compute.forward_s", &run.compute->forward_s),
                                     {"compute.backward_s", &run.compute->backward_s}}) {
    double sum = 0;
    for (const double s : *seconds) sum += s;
    const double each = sum / static_cast<double>(stages);
    RETURN_IF_ERROR(Set(root, key, each));
  }
  return absl::OkStatus();
}

// The tree of one candidate.
absl::StatusOr<TomlValue> TreeOf(const PlanSpec& plan, const std::string& schedule,
                                 const std::string& pair, const std::string& algorithm,
                                 int64_t inner_steps, const std::string& outer_codec) {
  TomlValue root = plan.root;
  const RunSpec& run = plan.run;
  const Schedule found = *FindSchedule(schedule);
  const int64_t chunks =
      std::clamp<int64_t>(run.schedule.chunks, found.least_chunks, found.most_chunks);
  const int64_t stages = run.ranks() * chunks;
  const auto [forward, backward] = CodecsOfPair(pair);
  if (schedule != run.schedule.kind) {
    for (const char* key : {"schedule.depth", "schedule.csv"}) Erase(root, key);
  }
  if (stages != run.stages()) Erase(root, "schedule.cuts");
  if (algorithm != run.outer.algorithm) {
    for (const char* key : {"lr", "momentum", "fragments", "overlap_steps", "mix", "mean",
                            "cluster_groups", "global_every", "global_codec", "warmup_steps"}) {
      Erase(root, std::string("outer.") + key);
    }
  }
  for (absl::Status s :
       {Set(root, "schedule.kind", schedule), Set(root, "schedule.chunks", chunks),
        Set(root, "schedule.stages", stages), Set(root, "boundary.forward", forward),
        Set(root, "boundary.backward", backward), ShareCompute(root, run, stages)}) {
    if (!s.ok()) return s;
  }
  if (run.outer.groups == 1 && inner_steps == 0) return root;
  for (absl::Status s :
       {Set(root, "outer.algorithm", algorithm), Set(root, "outer.inner_steps", inner_steps),
        Set(root, "outer.codec", outer_codec)}) {
    if (!s.ok()) return s;
  }
  return root;
}

// Files that the spec names count from its folder; those of an override, from the working folder.
// NotFound: the first that is not there, by its key.
absl::Status CountFromFolder(const std::string& path, TomlValue& root) {
  for (const std::string key : {"plan.curve", "plan.calibration", "plan.links"}) {
    const TomlValue* found = Find(root, key);
    if (found == nullptr) continue;
    TomlValue copy = *found;
    auto* list = std::get_if<TomlValue::Array>(&copy.value);
    for (TomlValue& value : list == nullptr ? std::span(&copy, 1) : std::span(*list)) {
      auto* name = std::get_if<std::string>(&value.value);
      if (name == nullptr) continue;
      if (key == "plan.links" && !name->ends_with(".json") && !IsTopologyFile(*name)) continue;
      const bool of_spec = value.where.starts_with(path + ":");
      std::error_code error;
      const std::string file = of_spec ? FromFolderOf(path, *name) : *name;
      if (!std::filesystem::exists(file, error)) {
        return absl::NotFoundError(
            fmt::format("{}: '{}' is '{}', and there is no file {}: names {}", value.where, key,
                        Shown(*name), std::filesystem::absolute(file, error).string(),
                        of_spec ? "in [plan] count from the spec's folder"
                                : "on the command line count from the working folder"));
      }
      *name = file;
    }
    RETURN_IF_ERROR(SetByPath(root, key, std::move(copy)));
  }
  return absl::OkStatus();
}

std::string WhatOf(const std::string& schedule, const std::string& pair,
                   const std::string& algorithm, int64_t inner_steps,
                   const std::string& outer_codec) {
  return fmt::format("{}, {}, {} with H = {} and {}", schedule, pair, algorithm, inner_steps,
                     outer_codec);
}

std::vector<std::string> OuterCodecsFor(const PlanSpec& plan, const std::string& algorithm) {
  if (!plan.outer_codecs.empty()) return plan.outer_codecs;
  const OuterRule& rule = *FindOuterRule(algorithm);
  if (algorithm != plan.run.outer.algorithm && !rule.codec.empty())
    return {std::string(rule.codec)};
  return {plan.run.outer.codec};
}

}  // namespace

absl::StatusOr<PlanSpec> ReadPlanSpec(TomlValue root, const SpecNames& names) {
  if (const TomlValue* campaign = Find(root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where + ": this file is a campaign, not a run");
  }
  const TomlValue* table = Find(root, kPlan);
  if (table == nullptr) {
    return absl::InvalidArgumentError(
        root.where + ": no table [plan]; want target_loss_nat, curve and calibration in one");
  }
  const TomlValue* compute = Find(root, "compute");
  if (compute == nullptr || !std::holds_alternative<TomlValue::Table>(compute->value)) {
    return absl::InvalidArgumentError(
        root.where +
        ": no table [compute], the machine that a plan is for; want flops_per_s and mfu, or "
        "forward_s and backward_s");
  }
  PlanSpec plan;
  plan.root = root;
  Erase(plan.root, kPlan);
  const TomlValue* links = Find(root, "plan.links");
  const auto* named = links == nullptr ? nullptr : std::get_if<std::string>(&links->value);
  // A matrix is no profile: the spec's reader is given a name that it knows.
  if (named != nullptr) {
    const std::string profile = named->ends_with(".json") ? "regional" : *named;
    RETURN_IF_ERROR(Set(plan.root, "net.profile", profile));
  }
  for (absl::Status s : {Set(plan.root, "net.clock", std::string("simulated")),
                         Set(plan.root, "net.transport", std::string("loopback"))}) {
    if (!s.ok()) return s;
  }
  ASSIGN_OR_RETURN(RunSpec run, ReadRunSpec(plan.root, names));
  plan.run = std::move(run);
  if (!plan.run.compute->group_speed.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: 'compute.group_speed' is of groups, and a plan puts groups on nodes; want nodes that "
        "are alike",
        Find(root, "compute.group_speed")->where));
  }
  if (plan.run.outer.on_group_loss == "continue") {
    return absl::InvalidArgumentError(
        Find(root, "outer.on_group_loss")->where +
        ": 'outer.on_group_loss' = \"continue\": a plan's groups neither come nor go; want \"end\"");
  }
  RETURN_IF_ERROR(ReadPlanTable(root, names, plan));
  if (plan.links.empty()) plan.links = plan.run.net.profile;
  return plan;
}

absl::StatusOr<PlanSpec> ReadPlanSpec(const std::string& path, const std::vector<std::string>& sets,
                                      const SpecNames& names) {
  ASSIGN_OR_RETURN(TomlValue root, ReadTomlFile(path));
  for (const std::string& set : sets) {
    RETURN_IF_ERROR(SetByPath(root, set));
  }
  for (absl::Status s : {CountFromFolder(path, root), CountPathsFromFile(path, root)}) {
    if (!s.ok()) return s;
  }
  return ReadPlanSpec(std::move(root), names);
}

absl::StatusOr<std::vector<Candidate>> CandidatesOf(const PlanSpec& plan, const SpecNames& names,
                                                    std::vector<LeftOut>* left_out) {
  std::vector<Candidate> out;
  std::set<std::string> seen;
  for (const std::string& schedule : plan.schedules) {
    for (const std::string& pair : plan.codecs) {
      for (const std::string& algorithm : plan.algorithms) {
        for (const int64_t asked : plan.inner_steps) {
          // Gradients cross in every step, whatever H the others are tried with.
          const int64_t h = ExchangesGradients(algorithm) ? 0 : asked;
          for (const std::string& codec : OuterCodecsFor(plan, algorithm)) {
            // One group that meets nobody has no outer step to choose.
            const bool alone = plan.run.outer.groups == 1 && h == 0;
            const std::string what = alone ? fmt::format("{}, {}", schedule, pair)
                                           : WhatOf(schedule, pair, algorithm, h, codec);
            if (!seen.insert(what).second) continue;
            ASSIGN_OR_RETURN(const auto tree, TreeOf(plan, schedule, pair, algorithm, h, codec));
            absl::StatusOr<RunSpec> spec = ReadRunSpec(tree, names);
            absl::Status why = spec.status();
            if (why.ok()) why = PipelineOf(*spec).status();
            if (!why.ok()) {
              left_out->push_back({what, std::string(why.message())});
              continue;
            }
            const bool meets = spec->outer.groups > 1 || h > 0;
            out.push_back({*std::move(spec), pair, meets ? codec : ""});
          }
        }
      }
    }
  }
  if (out.empty()) {
    return absl::InvalidArgumentError(fmt::format("[plan] leaves nothing to choose among; {}: {}",
                                                  left_out->front().what, left_out->front().why));
  }
  if (out.size() > kMostCandidates) {
    return absl::InvalidArgumentError(fmt::format(
        "[plan] has {} choices; want at most {}: shorter lists", out.size(), kMostCandidates));
  }
  return out;
}

namespace {

constexpr int kMostNodes = 64;
// Steps that are timed, and as many before them that fill the pipeline and open windows: whole rounds,
// sixteen steps at least; of pairs that are drawn, eight rounds.
constexpr int64_t kLeastSteps = 16;
constexpr int64_t kRoundsOfPairs = 8;
constexpr int64_t kMostSteps = 20'000;

int64_t TimedSteps(const RunSpec& spec) {
  int64_t round = std::max<int64_t>(1, spec.outer.inner_steps);
  if (spec.outer.global_every) round *= *spec.outer.global_every;
  if (!AllMeet(spec.outer.algorithm)) round *= kRoundsOfPairs;
  return (kLeastSteps + round - 1) / round * round;
}

// Of a step on average over the second of two equal windows.
absl::StatusOr<double> StepSeconds(SimulatedClock& clock, const RunSpec& spec) {
  const int64_t timed = TimedSteps(spec);
  double filled = 0;
  for (int64_t step = 1; step <= 2 * timed; ++step) {
    RETURN_IF_ERROR(clock.Step());
    if (step == timed) filled = clock.Latest();
  }
  return (clock.Latest() - filled) / static_cast<double>(timed);
}

// Links with equal figures, and prices if they count, have equal numbers.
std::vector<int> LinkKinds(const Topology& links, const RunSpec& spec, const Prices* prices) {
  const size_t n = links.nodes.size();
  std::map<std::tuple<double, double, double, bool, double>, int> kinds;
  std::vector<int> out(n * n, -1);
  for (const PathSpec& path : links.paths) {
    const BoundaryLink link = LinkOf(links, path, spec);
    const int next = static_cast<int>(kinds.size());
    const size_t at = static_cast<size_t>(path.from) * n + static_cast<size_t>(path.to);
    out[at] = kinds
                  .try_emplace({link.rate_bit_per_s, link.one_way_delay_s, link.queue_packets,
                                link.whole_buffers, prices != nullptr ? prices->per_byte[at] : 0},
                               next)
                  .first->second;
  }
  return out;
}

// All links as fast and as near as the best of them.
Topology BestLinks(Topology links) {
  absl::Duration delay = absl::InfiniteDuration();
  std::optional<BitsPerSecond> rate = BitsPerSecond{0};
  for (const PathSpec& path : links.paths) {
    delay = std::min(delay, path.delay);
    rate = !path.rate || !rate ? std::nullopt : std::optional(std::max(*rate, *path.rate));
  }
  for (PathSpec& path : links.paths) {
    path.delay = delay;
    path.rate = rate;
  }
  return links;
}

// `prices` null: nothing costs. `by_cost`: the best placement is the cheapest.
absl::Status Place(const Topology& links, const Prices* prices, bool by_cost, PlanRow& row) {
  RunSpec spec = row.choice.spec;
  const int64_t steps = 2 * TimedSteps(spec);
  if (steps > kMostSteps) {
    return absl::InvalidArgumentError(
        fmt::format("rounds of {} steps: want at most {} steps to look at", spec.outer.inner_steps,
                    kMostSteps / 2));
  }
  spec.train.tokens.reset();
  spec.train.steps = steps + 1;  // the last step of a run exchanges all that is left
  // Places are compared by their links, not by what was lost on them in one run.
  ASSIGN_OR_RETURN(const auto clock,
                   SimulatedClock::Of(spec, links, SimulatedClock::Losses::kNone));
  ASSIGN_OR_RETURN(const auto alike,
                   SimulatedClock::Of(spec, BestLinks(links), SimulatedClock::Losses::kNone));
  row.least_step_s = alike->LeastStepSeconds();
  std::vector<SentBytes> sent;
  if (prices != nullptr) {
    ASSIGN_OR_RETURN(sent, SentInSteps(spec, steps / 2, steps));
  }
  // Seconds in which the nodes cost as much as the traffic of a step.
  const auto of_traffic = [&](const std::vector<int>& nodes) {
    return by_cost ? TrafficCost(*prices, sent, nodes) / prices->nodes_per_second : 0;
  };
  PlacementProblem problem{
      .nodes = static_cast<int>(spec.workers()),
      .ranks_of_group = static_cast<int>(spec.ranks()),
      .groups_alike = AllMeet(spec.outer.algorithm),
      .link_kind = LinkKinds(links, spec, by_cost ? prices : nullptr),
      .seconds = [&](const std::vector<int>& nodes) -> absl::StatusOr<double> {
        ASSIGN_OR_RETURN(const double seconds, StepSeconds(*clock->Placed(nodes), spec));
        return seconds + of_traffic(nodes);
      },
      .least_seconds =
          [&](const std::vector<int>& nodes) {
            return clock->Placed(nodes)->LeastStepSeconds() + of_traffic(nodes);
          }};
  ASSIGN_OR_RETURN(row.placement, BestPlacement(problem));
  row.step_s = row.placement.seconds - of_traffic(row.placement.nodes);
  if (prices == nullptr) return absl::OkStatus();
  for (const SentBytes& one : sent) row.sent_bytes += one.per_step;
  row.traffic_cost = TrafficCost(*prices, sent, row.placement.nodes);
  row.compute_cost = row.step_s * prices->nodes_per_second;
  return absl::OkStatus();
}

}  // namespace

std::optional<BothWays> PairBytes(const RunSpec& spec, const std::string& pair) {
  const std::vector<std::string> both = absl::StrSplit(pair, " / ");
  const Shape shape = BoundaryShape(spec);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  const auto there = MessageBytes(both.front(), shape, dtype);
  const auto back = MessageBytes(both.back(), shape, dtype);
  if (!there || !back) return std::nullopt;
  return BothWays{*there, *back};
}

double Parameters(const RunSpec& spec) {
  double sum = 0;
  for (int64_t s = 0; s < spec.stages(); ++s) {
    for (const ParameterSlot& slot : LayoutOf(spec, s).slots) {
      sum += static_cast<double>(slot.elements());
    }
  }
  return sum;
}

absl::StatusOr<Plan> PlaceChoices(const PlanSpec& spec, const SpecNames& names, Topology links,
                                  const WorkerBytes& worker_bytes) {
  Plan plan{.links = std::move(links), .rows = {}, .left_out = {}};
  if (spec.run.workers() > kMostNodes) {
    return absl::InvalidArgumentError(
        fmt::format("{} workers: a plan places at most {}", spec.run.workers(), kMostNodes));
  }
  ASSIGN_OR_RETURN(const auto candidates, CandidatesOf(spec, names, &plan.left_out));
  for (const Candidate& candidate : candidates) {
    PlanRow row{.choice = candidate};
    row.worker_bytes = worker_bytes(candidate.spec);
    row.within = !spec.memory_bytes || row.worker_bytes <= *spec.memory_bytes;
    plan.rows.push_back(std::move(row));
  }
  if (std::none_of(plan.rows.begin(), plan.rows.end(), [](const PlanRow& r) { return r.within; })) {
    const auto least = std::min_element(
        plan.rows.begin(), plan.rows.end(),
        [](const PlanRow& a, const PlanRow& b) { return a.worker_bytes < b.worker_bytes; });
    return absl::ResourceExhaustedError(fmt::format(
        "no choice stays within {:.4g} MB a worker: the smallest, {} with {}, takes {:.4g} MB",
        1e-6 * static_cast<double>(*spec.memory_bytes), least->choice.spec.schedule.kind,
        least->choice.codec, 1e-6 * static_cast<double>(least->worker_bytes)));
  }
  std::optional<Prices> prices;
  if (spec.price_per_hour) {
    ASSIGN_OR_RETURN(prices, PricesOf(*spec.price_per_hour, spec.link_price_per_gb, plan.links));
  }
  for (PlanRow& row : plan.rows) {
    RETURN_IF_ERROR(Place(plan.links, prices ? &*prices : nullptr, spec.by_cost(), row));
  }
  return plan;
}

Topology PlacedLinks(const Plan& plan, const PlanRow& row) {
  Topology out = plan.links;
  std::vector<int> rank_of(row.placement.nodes.size());
  for (size_t r = 0; r < row.placement.nodes.size(); ++r) {
    out.nodes[r] = plan.links.nodes[static_cast<size_t>(row.placement.nodes[r])];
    rank_of[static_cast<size_t>(row.placement.nodes[r])] = static_cast<int>(r);
  }
  for (PathSpec& path : out.paths) {
    path.from = rank_of[static_cast<size_t>(path.from)];
    path.to = rank_of[static_cast<size_t>(path.to)];
  }
  return out;
}

std::string TopologyToml(const Topology& links) {
  std::string text;
  for (const NodeSpec& node : links.nodes) {
    text += fmt::format("[[node]]\nname = {}\n", TomlQuote(node.name));
  }
  for (const PathSpec& path : links.paths) {
    text += fmt::format("[[path]]\nfrom = {}\nto = {}\ndelay_ms = {}\n",
                        TomlQuote(links.nodes[static_cast<size_t>(path.from)].name),
                        TomlQuote(links.nodes[static_cast<size_t>(path.to)].name),
                        TomlNumber(absl::ToDoubleMilliseconds(path.delay)));
    if (path.rate) {
      text += fmt::format("rate_mbit = {}\n", TomlNumber(InMbit(*path.rate)));
      if (path.queue && path.queue->unit == QueueDepth::Unit::kPackets) {
        text += fmt::format("queue_packets = {:.0f}\n", path.queue->amount);
      }
    }
  }
  return text;
}

RunSpec TimedRun(const PlanRow& row, const std::string& links) {
  RunSpec spec = row.choice.spec;
  RunSpec::Compute slept;
  slept.optimizer_s = spec.compute->optimizer_s;
  for (const PipelineCosts::Stage& stage : StageSeconds(spec)) {
    slept.forward_s.push_back(stage.forward_s);
    slept.backward_s.push_back(stage.backward_s);
  }
  spec.compute = slept;
  spec.net.clock = "";
  spec.net.transport = "ucx";
  spec.net.profile = links;
  spec.train.tokens.reset();
  spec.train.steps = 3 * TimedSteps(spec);
  spec.train.warmup_steps = 1;
  return spec;
}

RunSpec ReferenceOf(const RunSpec& run) {
  RunSpec base = run;
  base.train.batch_rows = run.train.batch_rows * run.outer.groups;
  base.schedule = {.kind = "1f1b", .stages = 1};
  base.boundary = {.forward = "none", .backward = "none"};
  base.outer = {};
  base.compute.reset();
  base.net = {.transport = "loopback", .profile = ""};
  return base;
}

}  // namespace longhaul::plan
