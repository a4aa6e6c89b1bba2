#include "pp_group/schedule/catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longhaul {
namespace {

int GPipePeak(int, int, int num_microbatches) { return num_microbatches; }
int OneForwardOneBackwardPeak(int stage, int num_stages, int num_microbatches) {
  return std::min(num_stages - stage, num_microbatches);
}
int ZeroBubbleH1Peak(int, int num_stages, int num_microbatches) {
  return std::min(num_stages, num_microbatches);
}

constexpr Schedule kSchedules[] = {
    {"gpipe", GPipe, GPipePeak},
    {"1f1b", OneForwardOneBackward, OneForwardOneBackwardPeak},
    {"zb-h1", ZeroBubbleH1, ZeroBubbleH1Peak},
};

}  // namespace

Program GPipe(int stage, int, int num_microbatches) {
  Program program;
  for (int m = 0; m < num_microbatches; ++m) program.push_back({stage, Op::kForward, m});
  for (int m = 0; m < num_microbatches; ++m) program.push_back({stage, Op::kBackward, m});
  return program;
}

Program OneForwardOneBackward(int stage, int num_stages, int num_microbatches) {
  const int warm_up = std::min(num_stages - 1 - stage, num_microbatches);
  Program program;
  int forward = 0;
  while (forward < warm_up) program.push_back({stage, Op::kForward, forward++});
  for (int backward = 0; backward < num_microbatches; ++backward) {
    if (forward < num_microbatches) program.push_back({stage, Op::kForward, forward++});
    program.push_back({stage, Op::kBackward, backward});
  }
  return program;
}

Program ZeroBubbleH1(int stage, int num_stages, int num_microbatches) {
  const int warm_up = std::min(num_stages - 1 - stage, num_microbatches);
  Program program;
  int forward = 0, weight = 0;
  while (forward < warm_up) program.push_back({stage, Op::kForward, forward++});
  for (int input = 0; input < num_microbatches; ++input) {
    if (forward < num_microbatches) program.push_back({stage, Op::kForward, forward++});
    program.push_back({stage, Op::kInputGradient, input});
    if (input >= stage) program.push_back({stage, Op::kWeightGradient, weight++});
  }
  while (weight < num_microbatches) program.push_back({stage, Op::kWeightGradient, weight++});
  return program;
}

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

PipelineProgram ProgramOf(const Schedule& schedule, int num_stages, int num_microbatches) {
  PipelineProgram program{.ranks = {}, .rank_of_stage = {}, .microbatches = num_microbatches};
  for (int stage = 0; stage < num_stages; ++stage) {
    program.ranks.push_back(schedule.program(stage, num_stages, num_microbatches));
    program.rank_of_stage.push_back(stage);
  }
  return program;
}

}  // namespace longhaul
