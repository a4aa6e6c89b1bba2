#include "experiments/command/schedule_best.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/time/time.h"
#include "experiments/spec/pipeline_of_spec.h"
#include "experiments/train/traffic.h"
#include "netem/topology/topology.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

constexpr BoundaryLink kNoLink = {0, std::numeric_limits<double>::infinity(), 0};

absl::StatusOr<BoundaryLink> LinkFor(const std::string& codec, Shape shape, DType dtype,
                                     const OneLink& link) {
  const std::optional<double> bytes = MessageBytes(codec, shape, dtype);
  if (!bytes) {
    return absl::InvalidArgumentError(
        fmt::format("codec '{}' takes no tensor of {} x {}", codec, shape.rows, shape.cols));
  }
  return BoundaryLink{*bytes, link.rate_bit_per_s, link.one_way_delay_s};
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
  for (const std::string& name : ScheduleNames()) {
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

Pipeline LinksForNothing(Pipeline p) {
  std::fill(p.forward.begin(), p.forward.end(), kNoLink);
  std::fill(p.backward.begin(), p.backward.end(), kNoLink);
  if (p.tied) p.tied = {kNoLink, kNoLink};
  return p;
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

absl::StatusOr<Pipeline> PipelineOver(const RunSpec& spec, const RankCompute& compute,
                                      const OneLink& link) {
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  if (!program.ok()) return program.status();
  const auto chunks = static_cast<double>(spec.schedule.chunks);
  Pipeline p{spec.schedule.kind, program->microbatches, {}, {}, {}};
  p.stages.assign(static_cast<size_t>(spec.stages()),
                  {.forward_s = compute.forward_s / chunks,
                   .backward_s = compute.backward_s / chunks,
                   .weight_gradient_s = compute.splits ? compute.backward_s / chunks / 2 : 0,
                   .optimizer_s = compute.optimizer_s / chunks});
  const Shape shape = BoundaryShape(spec);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  std::map<std::string, absl::StatusOr<BoundaryLink>> known;
  const auto link_of = [&](const std::string& codec) {
    const auto at = known.find(codec);
    return at != known.end()
               ? at->second
               : known.emplace(codec, LinkFor(codec, shape, dtype, link)).first->second;
  };
  for (size_t b = 0; b + 1 < program->rank_of_stage.size(); ++b) {
    const RunSpec::Boundary::Cut codecs = CodecsOf(spec, static_cast<int64_t>(b));
    const bool crosses = program->rank_of_stage[b] != program->rank_of_stage[b + 1];
    const auto there = crosses ? link_of(codecs.forward) : kNoLink;
    const auto back = crosses ? link_of(codecs.backward) : kNoLink;
    if (!there.ok()) return there.status();
    if (!back.ok()) return back.status();
    p.forward.push_back(*there);
    p.backward.push_back(*back);
  }
  const bool apart = program->rank_of_stage.front() != program->rank_of_stage.back();
  if (const StageLayout ends = LayoutOf(spec, 0); ends.tied && apart) {
    const auto tied = LinkFor("none", {1, static_cast<uint64_t>(ends.tied->end - ends.tied->begin)},
                              DType::kF32, link);
    if (!tied.ok()) return tied.status();
    p.tied = {*tied, *tied};
  }
  p.program = *std::move(program);
  return p;
}

absl::StatusOr<std::vector<RankedSchedule>> RankSchedules(
    const RunSpec& spec, const RankCompute& compute, const OneLink& link,
    std::optional<int64_t> memory_bound, const std::function<int64_t(const RunSpec&)>& memory) {
  std::vector<RankedSchedule> out;
  for (RunSpec& candidate : Candidates(spec)) {
    const absl::StatusOr<Pipeline> pipeline = PipelineOver(candidate, compute, link);
    if (!pipeline.ok()) return pipeline.status();
    const absl::StatusOr<double> step_s = PredictStepSeconds(*pipeline);
    const absl::StatusOr<double> alone_s = PredictStepSeconds(LinksForNothing(*pipeline));
    if (!step_s.ok()) return step_s.status();
    if (!alone_s.ok()) return alone_s.status();
    RankedSchedule ranked{.spec = candidate, .step_s = *step_s, .alone_s = *alone_s};
    for (const Program& own : pipeline->program->ranks) {
      ranked.activations = std::max(ranked.activations, PeakActivations(own));
    }
    for (const RankCommunication& rank : Communication(*pipeline->program)) {
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

}  // namespace longhaul
