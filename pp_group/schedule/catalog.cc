#include "pp_group/schedule/catalog.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pp_group/schedule/one_stage.h"
#include "pp_group/schedule/several_stages.h"

namespace longhaul {
namespace {

using Shape = PipelineShape;

int Looped(int stage, const Shape& shape) { return stage % shape.ranks; }
int OnV(int stage, const Shape& shape) { return std::min(stage, shape.stages() - 1 - stage); }

int AtMost(int64_t activations, const Shape& shape) {
  return static_cast<int>(
      std::min<int64_t>(activations, int64_t{shape.chunks} * shape.microbatches));
}

int AllAtOnce(int, const Shape& shape) { return shape.chunks * shape.microbatches; }
int DeepPeak(int rank, const Shape& shape, int depth) {
  return AtMost((shape.ranks - 1 - rank) * (int64_t{1} + depth) + 1, shape);
}
int InterleavedPeak(int rank, const Shape& shape) {
  const int64_t round = shape.microbatches / std::max(1, shape.microbatches / shape.ranks);
  return AtMost((shape.chunks - 1) * round + 2 * (shape.ranks - 1 - rank) + 1, shape);
}

constexpr int kAny = 64;
constexpr Schedule kSchedules[] = {
    {"gpipe", 1, 1, Looped,
     [](int rank, const Shape& s) { return GPipe(rank, s.ranks, s.microbatches); }, AllAtOnce,
     nullptr, nullptr, "all forwards, then all backwards", "Huang et al. 2019, arXiv 1811.06965"},
    {"1f1b", 1, 1, Looped,
     [](int rank, const Shape& s) { return OneForwardOneBackward(rank, s.ranks, s.microbatches); },
     [](int rank, const Shape& s) { return DeepPeak(rank, s, 0); }, nullptr, nullptr,
     "one forward, one backward in turn: least memory",
     "PipeDream-flush, Narayanan et al. 2021, arXiv 2006.09503"},
    {"1f1b-deep", 1, 1, Looped,
     [](int rank, const Shape& s) {
       return DeepOneForwardOneBackward(rank, s.ranks, s.microbatches, s.depth);
     },
     [](int rank, const Shape& s) { return DeepPeak(rank, s, s.depth); }, nullptr, nullptr,
     "1F1B with `depth` more micro-batches in flight for each boundary: for long round trips",
     "this project; depth 1 is eager 1F1B, Zhuang et al. 2022, arXiv 2211.05322"},
    {"zb-h1", 1, 1, Looped,
     [](int rank, const Shape& s) { return ZeroBubbleH1(rank, s.ranks, s.microbatches); },
     [](int, const Shape& s) { return AtMost(s.ranks, s); }, nullptr, nullptr,
     "1F1B with weight gradients put off into its bubble", "Qi et al. 2023, arXiv 2401.10241"},
    {"interleaved-1f1b", 2, kAny, Looped, InterleavedOneForwardOneBackward, InterleavedPeak,
     InterleavedRefusal, nullptr,
     "1F1B over several stages a rank: a smaller bubble, more messages",
     "Narayanan et al. 2021, arXiv 2104.04473; torch's order"},
    {"looped-bfs", 2, kAny, Looped, LoopedBreadthFirst, AllAtOnce, nullptr, nullptr,
     "GPipe over several stages a rank, breadth first", "Lamy-Poirier 2022, arXiv 2211.05953"},
    {"zb-v", 2, 2, OnV, ZeroBubbleV, [](int, const Shape& s) { return AtMost(2 * s.ranks, s); },
     nullptr, nullptr, "zero bubble in the shape of a V: the first and the last stage on one rank",
     "Qi et al. 2024, arXiv 2405.15362; torch's order"},
    {"1f1b-async", 1, 1, Looped,
     [](int rank, const Shape& s) { return OneForwardOneBackward(rank, s.ranks, s.microbatches); },
     [](int rank, const Shape& s) { return s.ranks - rank; }, nullptr,
     [](int stage, const Shape& s) { return s.ranks - 1 - stage; },
     "1F1B that is never flushed: no bubble, gradients of older weights",
     "PipeDream with weight stashing, Narayanan et al. 2019; Ajanthan et al. 2025, arXiv 2505.01099"},
};

}  // namespace

absl::StatusOr<Schedule> FindSchedule(std::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name) return schedule;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown schedule '", std::string(name), "'; known: ", absl::StrJoin(ScheduleNames(), ", ")));
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const Schedule& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> FlushedScheduleNames() {
  std::vector<std::string> names;
  for (const Schedule& schedule : kSchedules) {
    if (schedule.ahead == nullptr) names.emplace_back(schedule.name);
  }
  return names;
}

std::string RefusalWithoutFlush(const BesideNoFlush& beside) {
  const char* const why =
      beside.tied_head        ? "a tied head has one matrix on two stages, of different steps"
      : beside.spread_experts ? "experts that are spread over ranks wait for each other in a step"
      : beside.outer_overlaps ? "the outer algorithm overlaps steps; want one that does not"
      : beside.elastic_groups ? "groups that come and go would have no weights of past steps"
      : beside.injected_compute
          ? "injected compute trains nothing, and its steps would be those of 1f1b"
      : beside.real_links
          ? "the engine computes its weights, not its times: over real links steps would last as "
            "those of 1f1b; want net.transport = \"loopback\", with net.clock = \"simulated\""
          : "";
  return *why == '\0' ? "" : absl::StrCat("is never flushed: ", why);
}

absl::Status CheckShape(const Schedule& schedule, const PipelineShape& shape) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", std::string(schedule.name), "' ", why));
  };
  if (shape.ranks < 1 || shape.microbatches < 1 || shape.depth < 0) {
    return refuse(
        absl::StrCat("wants 1 or more ranks and micro-batches, a depth of 0 or more; has ",
                     shape.ranks, ", ", shape.microbatches, ", ", shape.depth));
  }
  if (shape.chunks < schedule.least_chunks || shape.chunks > schedule.most_chunks) {
    const std::string wanted =
        schedule.least_chunks == schedule.most_chunks
            ? absl::StrCat(schedule.least_chunks)
            : absl::StrCat(schedule.least_chunks, " to ", schedule.most_chunks);
    return refuse(
        absl::StrCat("is of ", wanted, " chunks (stages of a rank), not of ", shape.chunks));
  }
  const std::string why = schedule.refusal == nullptr ? "" : schedule.refusal(shape);
  if (why.empty()) return absl::OkStatus();
  return refuse(absl::StrCat("of ", shape.microbatches, " micro-batches ", why));
}

PipelineProgram ProgramOf(const Schedule& schedule, const PipelineShape& shape) {
  PipelineProgram program{.ranks = {}, .rank_of_stage = {}, .microbatches = shape.microbatches};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    program.ranks.push_back(schedule.program(rank, shape));
  }
  for (int stage = 0; stage < shape.stages(); ++stage) {
    program.rank_of_stage.push_back(schedule.rank_of_stage(stage, shape));
    if (schedule.ahead != nullptr) program.ahead.push_back(schedule.ahead(stage, shape));
  }
  return program;
}

PipelineProgram ProgramOf(const Schedule& schedule, int num_ranks, int num_microbatches) {
  return ProgramOf(
      schedule,
      {.ranks = num_ranks, .chunks = schedule.least_chunks, .microbatches = num_microbatches});
}

}  // namespace longhaul
