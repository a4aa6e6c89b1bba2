#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/command/schedule_best.h"
#include "experiments/command/schedule_cuts.h"
#include "experiments/estimates/schedule_picture.h"
#include "experiments/estimates/table.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/pipeline_of_spec.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/stage_seconds.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

struct ShowOptions {
  std::string name, csv, links, svg;
  int64_t stages = 4, microbatches = 8, chunks = 0, depth = 1;
  double forward_ms = 20, backward_ms = 40, message_kb = 131;
};

struct BestOptions {
  std::string spec, links;
  std::vector<std::string> set;
  double forward_ms = 0, backward_ms = 0, memory_mb = 0;
  bool json = false;
};

struct CutsOptions {
  std::string spec, from, times, save;
  std::vector<std::string> set;
  int64_t run = 0, stages = 0;
};

absl::Status PositiveOption(const char* option, double value) {
  if (value > 0 && value < 1e9) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {:g}; want more than 0 and less than 1e9", option, value));
}

// Of the pipeline alone: what a program is, without a model.
absl::StatusOr<RunSpec> ShapeSpec(const ShowOptions& o) {
  constexpr int64_t kMostStages = 1024, kMostActions = 1 << 16;
  if (o.stages < 1 || o.stages > kMostStages || o.microbatches < 1 ||
      o.stages * o.microbatches > kMostActions) {
    return absl::InvalidArgumentError(fmt::format(
        "-S {} -M {}: want 1 to {} stages, 1 or more micro-batches and a product of at most {}",
        o.stages, o.microbatches, kMostStages, kMostActions));
  }
  RunSpec spec{};
  spec.schedule = {.kind = o.name, .stages = o.stages, .chunks = o.chunks, .depth = o.depth};
  spec.schedule.csv = o.csv;
  spec.train.microbatches = o.microbatches;
  spec.train.batch_rows = o.microbatches;
  const bool is_csv = o.name == "csv";
  if (is_csv == o.csv.empty()) {
    return absl::InvalidArgumentError("a file is read as: schedule show csv --csv FILE");
  }
  if (spec.schedule.chunks == 0) {
    spec.schedule.chunks = 1;
    if (!is_csv) {
      const absl::StatusOr<Schedule> schedule = FindSchedule(o.name);
      if (!schedule.ok()) return schedule.status();
      spec.schedule.chunks = schedule->least_chunks;
    }
  }
  if (spec.schedule.chunks < 1 || o.stages % spec.schedule.chunks != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--chunks {} (stages of a rank) does not divide -S {}", spec.schedule.chunks, o.stages));
  }
  return spec;
}

std::string ListOf(const std::vector<int>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

absl::Status ShowSchedule(const ShowOptions& o) {
  for (const auto& [option, value] : {std::pair("--forward-ms", o.forward_ms),
                                      {"--backward-ms", o.backward_ms},
                                      {"--message-kb", o.message_kb}}) {
    if (absl::Status s = PositiveOption(option, value); !s.ok()) return s;
  }
  const absl::StatusOr<RunSpec> spec = ShapeSpec(o);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<PipelineProgram> program = PipelineOf(*spec);
  if (!program.ok()) return program.status();
  PipelineCosts costs = UnitCosts(*program);
  std::string times = "F 1, B 2, I 1, W 1; links take no time";
  std::string step;
  if (!o.links.empty()) {
    const absl::StatusOr<OneLink> link = LinkOfProfile(o.links);
    if (!link.ok()) return link.status();
    const auto chunks = static_cast<double>(spec->schedule.chunks);
    Pipeline p{spec->schedule.kind, program->microbatches, {}, {}, {}};
    p.program = *program;
    p.stages.assign(program->rank_of_stage.size(),
                    {.forward_s = o.forward_ms / 1e3 / chunks,
                     .backward_s = o.backward_ms / 1e3 / chunks,
                     .weight_gradient_s = o.backward_ms / 1e3 / chunks / 2});
    p.forward.assign(program->rank_of_stage.size() - 1,
                     {o.message_kb * 1e3, link->rate_bit_per_s, link->one_way_delay_s});
    p.backward = p.forward;
    const absl::StatusOr<double> predicted = PredictStepSeconds(p);
    if (!predicted.ok()) return predicted.status();
    costs = CostsOf(p, *program);
    times = fmt::format(
        "a rank's F {:g} ms, B {:g} ms (I and W half each), messages of {:g} kB over '{}' ({:g} "
        "Mbit/s, {:g} ms round trip)",
        o.forward_ms, o.backward_ms, o.message_kb, o.links, link->rate_bit_per_s / 1e6,
        2e3 * link->one_way_delay_s);
    step = fmt::format("step by P2, in the steady state: {:.4g} s; of it compute {:.4g} s\n",
                       *predicted, program->microbatches * (o.forward_ms + o.backward_ms) / 1e3);
  }
  const std::string title = fmt::format(
      "{}: S = {}, {} ranks, M = {}{}", o.name, program->num_stages(), program->num_ranks(),
      program->microbatches, o.name == "1f1b-deep" ? fmt::format(", depth {}", o.depth) : "");
  const absl::StatusOr<SchedulePicture> picture =
      DrawSchedule(*program, costs, title + "; " + times);
  if (!picture.ok()) return picture.status();
  std::vector<int> peaks, sends;
  for (const Program& own : program->ranks) peaks.push_back(PeakActivations(own));
  for (const RankCommunication& rank : Communication(*program)) {
    sends.push_back(static_cast<int>(rank.sends.size()));
  }
  fmt::print("{}\n{}\n\n{}\n", title, times, picture->text);
  fmt::print("bubble where links take no time: {:.4g} with F 1 and B 2\n",
             BubbleFraction(*program, /*backward_units=*/2));
  fmt::print("most activations live, by rank: {}{}\n", ListOf(peaks),
             spec->schedule.chunks > 1
                 ? fmt::format(", of 1/{} of the rank's model each", spec->schedule.chunks)
                 : "");
  fmt::print("messages sent in a step, by rank: {}\n{}", ListOf(sends), step);
  if (const auto found = FindSchedule(o.name); found.ok()) {
    fmt::print("{} ({})\n", found->what, found->source);
  }
  return o.svg.empty() ? absl::OkStatus() : WriteWholeFile(o.svg, picture->svg);
}

// Of a rank, whatever its stages: the options', or those that the spec injects, added up over them.
absl::StatusOr<RankCompute> ComputeOf(const RunSpec& spec, const BestOptions& o) {
  const absl::StatusOr<std::string> engine = EngineOf(ToModelSpec(spec), ToComputeSpec(spec));
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
  const absl::StatusOr<RunSpec> read = LoadRunSpec(o.spec, o.set, CatalogNames());
  if (!read.ok()) return read.status();
  RunSpec spec = *read;
  spec.net.transport = "ucx";  // workers of their own, whatever the file says
  const std::string profile = o.links.empty() ? spec.net.profile : o.links;
  const absl::StatusOr<OneLink> link = LinkOfProfile(profile);
  if (!link.ok()) return link.status();
  const absl::StatusOr<RankCompute> compute = ComputeOf(spec, o);
  if (!compute.ok()) return compute.status();
  if (!(o.memory_mb >= 0 && o.memory_mb < 1e9)) {
    return absl::InvalidArgumentError(
        fmt::format("--memory-mb is {:g}; want 0 to 1e9", o.memory_mb));
  }
  const auto bound =
      o.memory_mb > 0 ? std::optional(static_cast<int64_t>(o.memory_mb * 1e6)) : std::nullopt;
  const auto ranked = RankSchedules(spec, *compute, *link, bound, [](const RunSpec& candidate) {
    return PlanResources(candidate).worker_bytes;
  });
  if (!ranked.ok()) return ranked.status();
  if (o.json) {
    nlohmann::ordered_json all = {{"schema", "longhaul.schedules/1"},
                                  {"profile", profile},
                                  {"ranks", spec.ranks()},
                                  {"microbatches", spec.train.microbatches},
                                  {"schedules", nlohmann::ordered_json::array()}};
    for (const RankedSchedule& r : *ranked) all["schedules"].push_back(RankedJson(r));
    fmt::print("{}\n", all.dump(2));
    return absl::OkStatus();
  }
  fmt::print(
      "{} ranks, M = {}, over '{}'; a rank's forward {:g} ms, backward {:g} ms{} a micro-batch\nBy "
      "P2, the steady state; coding takes no time in it. Memory: of the largest worker, as planned "
      "before a run.\n",
      spec.ranks(), spec.train.microbatches, profile, 1e3 * compute->forward_s,
      1e3 * compute->backward_s, compute->splits ? " (W half of it)" : " (not split)");
  Table table{.columns = ColumnsOf("schedule | chunks | depth | step, s | without links | live | "
                                   "worker, MB | messages | ")};
  for (const RankedSchedule& r : *ranked) {
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
  if (ranked->empty() || !ranked->front().within) {
    return absl::ResourceExhaustedError(fmt::format(
        "no schedule of {} ranks stays within --memory-mb {:g}", spec.ranks(), o.memory_mb));
  }
  const RunSpec::Schedule& best = ranked->front().spec.schedule;
  fmt::print("\nbest: --set schedule.kind={} --set schedule.stages={} --set schedule.chunks={}{}\n",
             best.kind, best.stages, best.chunks,
             best.kind == "1f1b-deep" ? fmt::format(" --set schedule.depth={}", best.depth) : "");
  return absl::OkStatus();
}

absl::Status ChooseCuts(const CutsOptions& o) {
  // The spec may name stages that do not divide its blocks, which is what cuts are for.
  const absl::StatusOr<RunSpec> spec = LoadRunSpec(o.spec, o.set, CatalogNames());
  if (!spec.ok()) return spec.status();
  const int64_t stages = o.stages == 0 ? spec->stages() : o.stages;
  if (stages < 1 || stages > spec->model.blocks) {
    return absl::InvalidArgumentError(
        fmt::format("--stages is {}; want 1 to model.blocks = {}", stages, spec->model.blocks));
  }
  if (o.from.empty() == o.times.empty()) {
    return absl::InvalidArgumentError(
        "seconds of each block: --from RESULTS, of a run that measured them, or --times FILE");
  }
  const absl::StatusOr<BlockSeconds> blocks = o.times.empty()
                                                  ? MeasuredBlockSeconds(o.from, o.run, *spec)
                                                  : ReadBlockSeconds(o.times, *spec);
  if (!blocks.ok()) return blocks.status();
  if (!o.save.empty()) {
    if (absl::Status s = WriteWholeFile(o.save, TextOf(*blocks)); !s.ok()) return s;
  }
  const std::vector<int64_t> cuts = BalancedCuts(blocks->seconds, stages);
  fmt::print("{} blocks by {}{}\n", blocks->seconds.size(), blocks->source,
             blocks->blocks_of_stage == 1
                 ? ""
                 : fmt::format(", in stages of up to {}, whose blocks share their time alike; of "
                               "each block its own: a run with schedule.stages = {}",
                               blocks->blocks_of_stage, blocks->seconds.size()));
  Table table{.columns = {"stage", "blocks", "seconds a step"}};
  double all = 0, slowest = 0;
  for (int64_t s = 0; s < stages; ++s) {
    const int64_t begin = s == 0 ? 0 : cuts[static_cast<size_t>(s) - 1];
    const int64_t end = s + 1 == stages ? spec->model.blocks : cuts[static_cast<size_t>(s)];
    double own = 0;
    for (int64_t b = begin; b < end; ++b) own += blocks->seconds[static_cast<size_t>(b)];
    all += own;
    slowest = std::max(slowest, own);
    table.Add({s, fmt::format("{} to {}", begin, end - 1), Cell(own, "{:.4g}")});
  }
  fmt::print("{}\nthe slowest stage takes {:.4g} of an even share\n", GridText(table),
             slowest * static_cast<double>(stages) / all);
  if (stages > 1) {
    fmt::print("--set schedule.stages={} --set 'schedule.cuts=[{}]'\n", stages,
               fmt::join(cuts, ", "));
  }
  return absl::OkStatus();
}

}  // namespace

void AddScheduleCommand(CLI::App& app, int* exit_status) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "a schedule drawn; schedules ranked for links; where to cut");
  schedule->require_subcommand(1);
  auto show = std::make_shared<ShowOptions>();
  CLI::App* s = schedule->add_subcommand("show", "one step of a schedule as text and SVG");
  s->add_option("name", show->name, "a name of the table, or csv")->required();
  s->add_option("-S,--stages", show->stages, "stages of the model")->capture_default_str();
  s->add_option("-M,--microbatches", show->microbatches, "of a step")->capture_default_str();
  s->add_option("--chunks", show->chunks, "stages of a rank (default: the fewest it is made for)");
  s->add_option("--depth", show->depth, "of 1f1b-deep")->capture_default_str();
  s->add_option("--csv", show->csv, "torch's CSV, for the name csv");
  s->add_option("--links", show->links, "a link profile: the step that P2 predicts over it");
  s->add_option("--forward-ms", show->forward_ms, "of a rank and micro-batch, with --links")
      ->capture_default_str();
  s->add_option("--backward-ms", show->backward_ms, "the same")->capture_default_str();
  s->add_option("--message-kb", show->message_kb, "of a tensor that crosses")
      ->capture_default_str();
  s->add_option("--svg", show->svg, "write the drawing to this file");
  s->callback(Calling(ShowSchedule, show, exit_status));
  auto best = std::make_shared<BestOptions>();
  CLI::App* b = schedule->add_subcommand(
      "best", "all schedules of a spec's ranks, ranked by the step that P2 predicts");
  b->add_option("spec", best->spec, "the run's TOML file")->required();
  b->add_option("--set", best->set, "override, e.g. --set train.microbatches=16");
  b->add_option("--links", best->links, "a profile in place of net.profile");
  b->add_option("--forward-ms", best->forward_ms,
                "of a rank and micro-batch (default: what [compute] says)");
  b->add_option("--backward-ms", best->backward_ms, "the same");
  b->add_option("--memory-mb", best->memory_mb, "the most that a worker may take; 0: no bound");
  b->add_flag("--json", best->json, "for programs");
  b->callback(Calling(BestSchedule, best, exit_status));
  auto cuts = std::make_shared<CutsOptions>();
  CLI::App* c = schedule->add_subcommand(
      "cuts", "where stages begin so that the slowest takes least, by measured seconds of blocks");
  c->add_option("spec", cuts->spec, "the run's TOML file")->required();
  c->add_option("--set", cuts->set, "override, e.g. --set model.blocks=12");
  c->add_option("-S,--stages", cuts->stages, "stages to cut into (default: the spec's)");
  c->add_option("--from", cuts->from,
                "results folder of a run of the same model, best one with a stage for each block");
  c->add_option("--run", cuts->run, "a run of it (default: the last)");
  c->add_option("--times", cuts->times, "or a file: block,seconds");
  c->add_option("--save", cuts->save, "write what was measured to such a file");
  c->callback(Calling(ChooseCuts, cuts, exit_status));
}

}  // namespace longhaul
