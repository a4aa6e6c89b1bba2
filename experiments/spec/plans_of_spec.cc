#include "experiments/spec/plans_of_spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/spec_keys.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/text_file.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/schedule/check.h"
#include "pp_group/schedule/csv.h"

namespace longhaul {
namespace {

absl::StatusOr<PipelineProgram> FromFile(const RunSpec& spec) {
  const std::string& path = spec.schedule.csv;
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        fmt::format("schedule.csv: {}", std::string(text.status().message())));
  }
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("schedule.csv: {}: {}", path, why));
  };
  const bool comms = text->find("SEND_") != std::string::npos;
  absl::StatusOr<PipelineProgram> read =
      ParseScheduleCsv(*text, comms ? CsvFormat::kComputeComms : CsvFormat::kComputeOnly);
  if (!read.ok()) return bad(std::string(read.status().message()));
  const PipelineProgram& program = *read;
  const PipelineShape want = ShapeOf(spec);
  if (program.num_stages() != want.stages() || program.num_ranks() != want.ranks ||
      program.microbatches != want.microbatches) {
    return bad(fmt::format(
        "is of {} stages on {} ranks and {} micro-batches; schedule.stages = {}, schedule.chunks = "
        "{} and train.microbatches = {} want {}, {} and {}",
        program.num_stages(), program.num_ranks(), program.microbatches, spec.schedule.stages,
        spec.schedule.chunks, spec.train.microbatches, want.stages(), want.ranks,
        want.microbatches));
  }
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    const std::vector<int> held = program.StagesOf(rank);
    if (held.size() != static_cast<size_t>(want.chunks)) {
      return bad(fmt::format("row {} holds {} stages; schedule.chunks = {} wants as many of each",
                             rank + 1, held.size(), want.chunks));
    }
    if (want.chunks == 1 && held.front() != rank) {
      return bad(fmt::format("row {} holds stage {}; with one stage a rank want stage {} there",
                             rank + 1, held.front(), rank));
    }
  }
  for (const absl::Status& s : {CheckProgram(program), CheckMicrobatchOrder(program)}) {
    if (!s.ok()) return bad(std::string(s.message()));
  }
  return read;
}

}  // namespace

PipelineShape ShapeOf(const RunSpec& spec) {
  return {.ranks = static_cast<int>(spec.ranks()),
          .chunks = static_cast<int>(spec.schedule.chunks),
          .microbatches = static_cast<int>(spec.train.microbatches),
          .depth = static_cast<int>(spec.schedule.depth)};
}

RefusedKey RefusedSchedule(const RunSpec& spec) {
  const RunSpec::Schedule& s = spec.schedule;
  if (s.stages % s.chunks != 0) {
    return {"chunks", fmt::format("= {} (stages of a rank) does not divide schedule.stages = {}",
                                  s.chunks, s.stages)};
  }
  const bool csv = s.kind == "csv";
  if (csv && s.csv.empty()) return {"kind", "= \"csv\" needs schedule.csv, the file"};
  if (!csv && !s.csv.empty()) {
    return {"kind",
            fmt::format("= '{}' and schedule.csv: want kind = \"csv\" beside a file", s.kind)};
  }
  const absl::StatusOr<Schedule> schedule = FindSchedule(s.kind);
  if (!schedule.ok()) return {};  // the key's own check names the known ones
  const absl::Status taken = CheckShape(*schedule, ShapeOf(spec));
  if (taken.ok()) return {};
  return {"kind", fmt::format(": {}", std::string(taken.message()))};
}

std::string RefusedWithoutFlush(const RunSpec& spec) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule.kind);
  if (!schedule.ok() || schedule->ahead == nullptr) return "";
  return RefusalWithoutFlush({.tied_head = spec.model.tied_head && spec.schedule.stages > 1,
                              .spread_experts = spec.model.expert_parallel > 1,
                              .outer_overlaps = FindOuterRule(spec.outer.algorithm)->overlaps,
                              .elastic_groups = spec.outer.on_group_loss == "continue",
                              .injected_compute = spec.injected(),
                              .real_links = spec.net.transport == "ucx"});
}

absl::StatusOr<PipelineProgram> PipelineOf(const RunSpec& spec) {
  if (!spec.schedule.csv.empty()) return FromFile(spec);
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule.kind);
  if (!schedule.ok()) return schedule.status();
  const PipelineShape shape = ShapeOf(spec);
  RETURN_IF_ERROR(CheckShape(*schedule, shape));
  return ProgramOf(*schedule, shape);
}

std::string StalenessOf(const RunSpec& spec) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule.kind);
  if (!schedule.ok() || schedule->ahead == nullptr) return "";
  const absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  std::vector<std::string> stages;
  for (int s = 0; program.ok() && s < program->num_stages(); ++s) {
    stages.push_back(fmt::format("{:g}", program->Staleness(s)));
  }
  return fmt::format("{}", fmt::join(stages, " "));
}

std::vector<int> RanksOfStages(const RunSpec& spec) {
  std::vector<int> ranks(static_cast<size_t>(spec.stages()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (spec.schedule.chunks == 1) return ranks;
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  return program.ok() ? std::move(program->rank_of_stage) : ranks;
}

OuterPlan OuterPlanOf(const RunSpec& spec) {
  return OuterPlan(spec.outer, Steps(spec), spec.outer.groups, static_cast<uint64_t>(spec.seed));
}

void TakeOuterDefaults(TableReader& r, RunSpec& spec) {
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  if (rule != nullptr && !r.Has("lr")) spec.outer.lr = rule->lr;
  if (rule != nullptr && !r.Has("momentum")) spec.outer.momentum = rule->momentum;
  if (rule != nullptr && !r.Has("codec")) spec.outer.codec = rule->codec;
  const bool meets = ExchangesGradients(spec.outer.algorithm) || spec.outer.inner_steps > 0;
  if (spec.outer.codec.empty() && !meets) spec.outer.codec = "none";
}

void CheckOuterTable(TableReader& r, const RunSpec& spec) {
  const RunSpec::Outer& outer = spec.outer;
  const absl::Status figures = CheckOuterFigures(spec.outer, spec.model.blocks, outer.groups);
  r.Check(figures.ok(), "algorithm",
          fmt::format("= \"{}\": {}", outer.algorithm, std::string(figures.message())));
  const bool data_parallel = ExchangesGradients(outer.algorithm);
  r.Check(!data_parallel || outer.inner_steps == 0, "inner_steps",
          fmt::format("must be 0 with outer.algorithm = \"{}\": its groups meet in every step",
                      outer.algorithm));
  r.Check(data_parallel || outer.groups == 1 || outer.inner_steps >= 1, "inner_steps",
          fmt::format("must be at least 1 with outer.groups = {}", outer.groups));
  r.Check((!data_parallel && outer.inner_steps == 0) || !outer.codec.empty(), "codec",
          fmt::format("is missing (a choice: 'none' sends the {} lossless)",
                      data_parallel ? "gradients" : "outer delta"));
  r.Check(outer.on_group_loss == "end" || (!data_parallel && outer.inner_steps >= 1),
          "on_group_loss",
          "= \"continue\" needs outer steps, at which groups come and go: outer.inner_steps >= 1");
  r.Check(outer.on_group_loss == "end" || WholeRounds(spec.outer), "on_group_loss",
          "= \"continue\": groups come and go when all are equal; want an algorithm in which "
          "all meet, outer.fragments = 1, outer.overlap_steps = 0 and outer.mix = 0");
  r.Check(outer.joiner_source == "member" || outer.on_group_loss == "continue", "joiner_source",
          "= \"swarm\" is for groups that join: it needs outer.on_group_loss = \"continue\"");
  r.Check(outer.joiner_source == "swarm" || std::isinf(outer.joiner_up_mbit), "joiner_up_mbit",
          "is a swarm's; want outer.joiner_source = \"swarm\"");
  r.Check(outer.min_groups <= outer.groups, "min_groups",
          fmt::format("= {} with outer.groups = {}", outer.min_groups, outer.groups));
  r.Check(
      outer.on_group_loss == "end" || spec.schedule.chunks == 1, "on_group_loss",
      "= \"continue\": groups that come and go have one stage a rank; want schedule.chunks = 1");
  r.Check(spec.workers() <= kMaxRanks, "groups",
          fmt::format("= {} with schedule.stages = {}; want a product of at most {} ranks",
                      outer.groups, spec.schedule.stages, kMaxRanks));
}

}  // namespace longhaul
