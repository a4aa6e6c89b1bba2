// `schedule best`: all schedules of a spec's ranks, ranked by the step that P2 predicts.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/schedule_best.h"
#include "experiments/estimates/table.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/traffic.h"
#include "netem/topology/topology.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

struct BestOptions {
  std::string spec, links;
  std::vector<std::string> set;
  double forward_ms = 0, backward_ms = 0, memory_mb = 0;
  bool json = false;
};

// What a rank does for one micro-batch, whatever its stages, and once a step.
struct RankCompute {
  double forward_s, backward_s, optimizer_s = 0;
  bool splits = false;  // its stages split the backward pass: W is half of it
};

// A schedule of `spec`'s P ranks.
struct RankedSchedule {
  RunSpec spec;          // with that schedule
  double step_s = 0;     // P2
  double alone_s = 0;    // the same where links take no time
  int activations = 0;   // the most that a rank has live, of 1/chunks of its model each
  int64_t memory = 0;    // of the largest worker, bytes
  int64_t messages = 0;  // of a step, of the rank that sends most
  bool within = true;    // the memory bound
};

// A message's wire on a link.
absl::StatusOr<Wire> WireFor(const std::string& codec, Shape shape, DType dtype,
                             const OneLink& link) {
  const std::optional<double> bytes = MessageBytes(codec, shape, dtype);
  if (!bytes) {
    return absl::InvalidArgumentError(
        fmt::format("codec '{}' takes no tensor of {} x {}", codec, shape.rows, shape.cols));
  }
  return WireOf({*bytes, link.rate_bit_per_s, link.one_way_delay_s});
}

// The spec with another schedule for the same ranks.
RunSpec WithSchedule(const RunSpec& spec, const Schedule& schedule, int64_t chunks, int64_t depth) {
  RunSpec out = spec;
  out.schedule = {
      .kind = std::string(schedule.name),
      .stages = spec.ranks() * chunks,
      .chunks = chunks,
      .depth = depth,
      .cuts = chunks == spec.schedule.chunks ? spec.schedule.cuts : std::vector<int64_t>()};
  out.compute.reset();
  return out;
}

std::vector<RunSpec> Candidates(const RunSpec& spec) {
  constexpr int64_t kMostChunks = 4;
  const int64_t ranks = spec.ranks(), m = spec.train.microbatches;
  std::vector<RunSpec> out;
  for (const std::string& name : FlushedScheduleNames()) {  // others train other weights
    const Schedule schedule = *FindSchedule(name);
    for (int64_t v = schedule.least_chunks;
         v <= std::min<int64_t>(schedule.most_chunks, kMostChunks); ++v) {
      if (ranks * v > spec.model.blocks) break;
      const bool cut = v == spec.schedule.chunks && !spec.schedule.cuts.empty();
      if (!cut && spec.model.blocks % (ranks * v) != 0) continue;
      // Beyond it the first rank has all forwards in flight.
      const int64_t deepest =
          name == "1f1b-deep" && ranks > 1 ? std::max<int64_t>(1, (m - 2) / (ranks - 1) + 1) : 1;
      for (int64_t depth = 1; depth <= deepest; ++depth) {
        RunSpec candidate = WithSchedule(spec, schedule, v, depth);
        if (CheckShape(schedule, ShapeOf(candidate)).ok()) out.push_back(std::move(candidate));
      }
    }
  }
  return out;
}

struct TimedPipeline {
  PipelineProgram program;
  PipelineCosts costs;
};

PipelineCosts LinksForNothing(PipelineCosts costs) {
  std::fill(costs.activations.begin(), costs.activations.end(), Wire{});
  std::fill(costs.gradients.begin(), costs.gradients.end(), Wire{});
  if (costs.tied) costs.tied.emplace();
  return costs;
}

// `spec`'s pipeline, whose every rank has this work, over such links. Bytes are the codecs'; coding takes
// no time. Errors: PipelineOf's; a codec that takes no such tensor.
absl::StatusOr<TimedPipeline> PipelineOver(const RunSpec& spec, const RankCompute& compute,
                                           const OneLink& link) {
  ASSIGN_OR_RETURN(PipelineProgram program, PipelineOf(spec));
  const auto chunks = static_cast<double>(spec.schedule.chunks);
  const double backward_s = compute.backward_s / chunks,
               weight_gradient_s = compute.splits ? backward_s / 2 : 0;
  PipelineCosts costs =
      PipelineCosts::Of(program, {.forward_s = compute.forward_s / chunks,
                                  .backward_s = backward_s,
                                  .input_gradient_s = backward_s - weight_gradient_s,
                                  .weight_gradient_s = weight_gradient_s});
  for (const int rank : program.rank_of_stage) {
    costs.ranks[static_cast<size_t>(rank)].step_s += compute.optimizer_s / chunks;
  }
  const Shape shape = BoundaryShape(spec);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  std::map<std::string, absl::StatusOr<Wire>> known;
  const auto wire_of = [&](const std::string& codec) {
    const auto at = known.find(codec);
    return at != known.end()
               ? at->second
               : known.emplace(codec, WireFor(codec, shape, dtype, link)).first->second;
  };
  for (size_t b = 0; b + 1 < program.rank_of_stage.size(); ++b) {
    if (program.rank_of_stage[b] == program.rank_of_stage[b + 1]) continue;
    const RunSpec::Boundary::Cut codecs = CodecsOf(spec, static_cast<int64_t>(b));
    ASSIGN_OR_RETURN(costs.activations[b], wire_of(codecs.forward));
    ASSIGN_OR_RETURN(costs.gradients[b], wire_of(codecs.backward));
  }
  const bool apart = program.rank_of_stage.front() != program.rank_of_stage.back();
  if (const StageLayout ends = LayoutOf(spec, 0); ends.tied && apart) {
    const auto tied = WireFor("none", {1, static_cast<uint64_t>(ends.tied->end - ends.tied->begin)},
                              DType::kF32, link);
    if (!tied.ok()) return tied.status();
    costs.tied = {*tied, *tied};
  }
  return TimedPipeline{std::move(program), std::move(costs)};
}

// All schedules of the table that P ranks, M micro-batches and the model's blocks admit, each with up
// to four chunks and every depth that says something else; those within `memory_bound` first, by
// step time. `memory` says what a worker takes.
absl::StatusOr<std::vector<RankedSchedule>> RankSchedules(
    const RunSpec& spec, const RankCompute& compute, const OneLink& link,
    std::optional<int64_t> memory_bound, const std::function<int64_t(const RunSpec&)>& memory) {
  std::vector<RankedSchedule> out;
  for (RunSpec& candidate : Candidates(spec)) {
    ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOver(candidate, compute, link));
    const PipelineProgram& program = pipeline.program;
    const absl::StatusOr<double> step_s = StepPeriod(program, pipeline.costs);
    const absl::StatusOr<double> alone_s = StepPeriod(program, LinksForNothing(pipeline.costs));
    if (!step_s.ok()) return step_s.status();
    if (!alone_s.ok()) return alone_s.status();
    RankedSchedule ranked{.spec = candidate, .step_s = *step_s, .alone_s = *alone_s};
    for (const Program& own : program.ranks) {
      ranked.activations = std::max(ranked.activations, PeakActivations(own));
    }
    for (const RankCommunication& rank : Communication(program)) {
      ranked.messages = std::max(ranked.messages, static_cast<int64_t>(rank.sends.size()));
    }
    ranked.memory = memory(candidate);
    ranked.within = !memory_bound || ranked.memory <= *memory_bound;
    out.push_back(std::move(ranked));
  }
  std::stable_sort(out.begin(), out.end(), [](const RankedSchedule& a, const RankedSchedule& b) {
    const auto key = [](const RankedSchedule& r) {  // equal steps differ in their last bits
      return std::tuple(!r.within, std::llround(r.step_s * 1e9), r.memory);
    };
    return key(a) < key(b);
  });
  return out;
}

// Of a rank, whatever its stages: the options', or those that the spec injects, added up over them.
absl::StatusOr<RankCompute> ComputeOf(const RunSpec& spec, const BestOptions& o) {
  const absl::StatusOr<std::string> engine = EngineOf(spec.model, spec.train);
  RankCompute compute{.forward_s = o.forward_ms / 1e3,
                      .backward_s = o.backward_ms / 1e3,
                      .splits = !spec.compute && engine.ok() && *engine == "aten"};
  if (spec.compute) compute.optimizer_s = spec.compute->optimizer_s * double(spec.schedule.chunks);
  if (o.forward_ms == 0 && o.backward_ms == 0 && spec.compute) {
    double forward_s = 0, backward_s = 0;
    for (const PipelineCosts::Stage& stage : StageSeconds(spec)) {
      forward_s += stage.forward_s;
      backward_s += stage.backward_s;
    }
    compute.forward_s = forward_s / static_cast<double>(spec.ranks());
    compute.backward_s = backward_s / static_cast<double>(spec.ranks());
    return compute;
  }
  for (const auto& [option, value] :
       {std::pair("--forward-ms", o.forward_ms), {"--backward-ms", o.backward_ms}}) {
    if (value > 0 && value < 1e9) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} is {:g}; a schedule is judged by what a rank takes for a micro-batch: give both "
        "--forward-ms and --backward-ms (a record has them), or a table [compute] in the spec",
        option, value));
  }
  return compute;
}

nlohmann::ordered_json RankedJson(const RankedSchedule& r) {
  return {{"kind", r.spec.schedule.kind},
          {"chunks", r.spec.schedule.chunks},
          {"stages", r.spec.schedule.stages},
          {"depth", r.spec.schedule.depth},
          {"step_s", r.step_s},
          {"without_links_s", r.alone_s},
          {"peak_activations", r.activations},
          {"worker_bytes", r.memory},
          {"messages_per_step", r.messages},
          {"within_memory", r.within}};
}

absl::Status BestSchedule(const BestOptions& o) {
  ASSIGN_OR_RETURN(const RunSpec read, LoadRunSpec(o.spec, o.set, CatalogNames()));
  RunSpec spec = read;
  spec.net.transport = "ucx";  // workers of their own, whatever the file says
  const std::string profile = o.links.empty() ? spec.net.profile : o.links;
  ASSIGN_OR_RETURN(const OneLink link, LinkOfProfile(profile));
  ASSIGN_OR_RETURN(const RankCompute compute, ComputeOf(spec, o));
  if (!(o.memory_mb >= 0 && o.memory_mb < 1e9)) {
    return absl::InvalidArgumentError(
        fmt::format("--memory-mb is {:g}; want 0 to 1e9", o.memory_mb));
  }
  const auto bound =
      o.memory_mb > 0 ? std::optional(static_cast<int64_t>(o.memory_mb * 1e6)) : std::nullopt;
  ASSIGN_OR_RETURN(const auto ranked,
                   RankSchedules(spec, compute, link, bound, [](const RunSpec& candidate) {
                     return PlanResources(candidate).worker_bytes;
                   }));
  if (o.json) {
    nlohmann::ordered_json all = {{"schema", "longhaul.schedule-best/1"},
                                  {"profile", profile},
                                  {"ranks", spec.ranks()},
                                  {"microbatches", spec.train.microbatches},
                                  {"schedules", nlohmann::ordered_json::array()}};
    for (const RankedSchedule& r : ranked) all["schedules"].push_back(RankedJson(r));
    fmt::print("{}\n", all.dump(2));
    return absl::OkStatus();
  }
  fmt::print(
      "{} ranks, M = {}, over '{}'; a rank's forward {:g} ms, backward {:g} ms{} a micro-batch\nBy "
      "P2, the steady state; coding takes no time in it. Memory: of the largest worker, as planned "
      "before a run.\n",
      spec.ranks(), spec.train.microbatches, profile, 1e3 * compute.forward_s,
      1e3 * compute.backward_s, compute.splits ? " (W half of it)" : " (not split)");
  Table table{.columns = ColumnsOf("schedule | chunks | depth | step, s | without links | live | "
                                   "worker, MB | messages | ")};
  for (const RankedSchedule& r : ranked) {
    const bool deep = r.spec.schedule.kind == "1f1b-deep";
    table.Add({r.spec.schedule.kind, fmt::format("{}", r.spec.schedule.chunks),
               deep ? fmt::format("{}", r.spec.schedule.depth) : "-",
               fmt::format("{:.4g}", r.step_s), fmt::format("{:.4g}", r.alone_s),
               r.spec.schedule.chunks > 1
                   ? fmt::format("{}/{}", r.activations, r.spec.schedule.chunks)
                   : fmt::format("{}", r.activations),
               fmt::format("{:.1f}", static_cast<double>(r.memory) / 1e6),
               fmt::format("{}", r.messages), r.within ? "" : "over the bound"});
  }
  fmt::print("{}", GridText(table));
  if (ranked.empty() || !ranked.front().within) {
    return absl::ResourceExhaustedError(fmt::format(
        "no schedule of {} ranks stays within --memory-mb {:g}", spec.ranks(), o.memory_mb));
  }
  const RunSpec::Schedule& best = ranked.front().spec.schedule;
  fmt::print("\nbest: --set schedule.kind={} --set schedule.stages={} --set schedule.chunks={}{}\n",
             best.kind, best.stages, best.chunks,
             best.kind == "1f1b-deep" ? fmt::format(" --set schedule.depth={}", best.depth) : "");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OneLink> LinkOfProfile(const std::string& profile) {
  std::string known;
  for (const Profile& p : Profiles()) {
    if (p.name == profile) {
      return OneLink{static_cast<double>(p.rate.value), absl::ToDoubleSeconds(p.rtt) / 2};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
  }
  return absl::InvalidArgumentError(fmt::format("'{}' is no profile; known: {}", profile, known));
}

void AddScheduleBest(CLI::App& schedule, int* exit_status) {
  auto best = std::make_shared<BestOptions>();
  CLI::App* b = schedule.add_subcommand(
      "best", "Rank all schedules for a spec's ranks by the step that P2 predicts");
  b->footer("Example:\n  longhaul schedule best experiments/specs/shaped.toml --links regional");
  b->add_option("spec", best->spec, kSpecHelp)->required();
  b->add_option("--set", best->set, kSetHelp);
  b->add_option("--links", best->links, "Link profile, in place of net.profile");
  b->add_option("--forward-ms", best->forward_ms,
                "Forward time of a micro-batch on a rank [default: from [compute]]");
  b->add_option("--backward-ms", best->backward_ms,
                "Backward time of a micro-batch on a rank [default: from [compute]]");
  b->add_option("--memory-mb", best->memory_mb, "Most memory of a worker; 0: no bound");
  b->add_flag("--json", best->json, kJsonHelp);
  b->callback(Calling(BestSchedule, best, exit_status));
}

}  // namespace longhaul
