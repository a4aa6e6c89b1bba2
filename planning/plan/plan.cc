#include "planning/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_split.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"
#include "planning/plan/link_matrix.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul::plan {
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

double LatestSecond(const SimulatedClock& clock, const RunSpec& spec) {
  double latest = 0;
  for (int g = 0; g < spec.outer.groups; ++g) {
    for (int s = 0; s < spec.stages(); ++s) latest = std::max(latest, clock.Seconds(g, s));
  }
  return latest;
}

// Of a step on average over the second of two equal windows.
absl::StatusOr<double> StepSeconds(SimulatedClock& clock, const RunSpec& spec) {
  const int64_t timed = TimedSteps(spec);
  double filled = 0;
  for (int64_t step = 1; step <= 2 * timed; ++step) {
    if (absl::Status s = clock.Step(); !s.ok()) return s;
    if (step == timed) filled = LatestSecond(clock, spec);
  }
  return (LatestSecond(clock, spec) - filled) / static_cast<double>(timed);
}

// Links with equal figures have equal numbers.
std::vector<int> LinkKinds(const Topology& links, const RunSpec& spec) {
  const size_t n = links.nodes.size();
  std::map<std::tuple<double, double, double, bool>, int> kinds;
  std::vector<int> out(n * n, -1);
  for (const PathSpec& path : links.paths) {
    const BoundaryLink link = LinkOf(links, path, spec);
    const int next = static_cast<int>(kinds.size());
    out[static_cast<size_t>(path.from) * n + static_cast<size_t>(path.to)] =
        kinds
            .try_emplace(
                {link.rate_bit_per_s, link.one_way_delay_s, link.queue_packets, link.whole_buffers},
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

absl::Status Place(const Topology& links, PlanRow& row) {
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
  const auto clock = SimulatedClock::Of(spec, links, SimulatedClock::Losses::kNone);
  if (!clock.ok()) return clock.status();
  const auto alike = SimulatedClock::Of(spec, BestLinks(links), SimulatedClock::Losses::kNone);
  if (!alike.ok()) return alike.status();
  row.least_step_s = (*alike)->LeastStepSeconds();
  PlacementProblem problem{.nodes = static_cast<int>(spec.workers()),
                           .ranks_of_group = static_cast<int>(spec.ranks()),
                           .groups_alike = AllMeet(spec.outer.algorithm),
                           .link_kind = LinkKinds(links, spec),
                           .seconds =
                               [&](const std::vector<int>& nodes) {
                                 return StepSeconds(*(*clock)->Placed(nodes), spec);
                               },
                           .least_seconds =
                               [&](const std::vector<int>& nodes) {
                                 return (*clock)->Placed(nodes)->LeastStepSeconds();
                               }};
  absl::StatusOr<Placement> placement = BestPlacement(problem);
  if (placement.ok()) row.placement = *std::move(placement);
  return placement.status();
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

absl::StatusOr<Plan> PlaceChoices(const PlanSpec& spec, const SpecNames& names,
                                  const WorkerBytes& worker_bytes) {
  Plan plan{.links = {}, .rows = {}, .left_out = {}};
  if (spec.run.workers() > kMostNodes) {
    return absl::InvalidArgumentError(
        fmt::format("{} workers: a plan places at most {}", spec.run.workers(), kMostNodes));
  }
  absl::StatusOr<Topology> links =
      ReadLinkMatrix(spec.links, static_cast<int>(spec.run.workers()), &plan.link_notes);
  if (!links.ok()) return links.status();
  plan.links = *std::move(links);
  const auto candidates = CandidatesOf(spec, names, &plan.left_out);
  if (!candidates.ok()) return candidates.status();
  for (const Candidate& candidate : *candidates) {
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
  for (PlanRow& row : plan.rows) {
    if (absl::Status s = Place(plan.links, row); !s.ok()) return s;
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
