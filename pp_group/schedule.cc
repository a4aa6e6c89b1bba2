#include "pp_group/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pp_group/schedule_check.h"

namespace longhaul {
namespace {

int GPipePeak(int, int, int num_microbatches) { return num_microbatches; }
int OneForwardOneBackwardPeak(int stage, int num_stages, int num_microbatches) {
  return std::min(num_stages - stage, num_microbatches);
}

constexpr Schedule kSchedules[] = {
    {"gpipe", GPipe, GPipePeak},
    {"1f1b", OneForwardOneBackward, OneForwardOneBackwardPeak},
};

}  // namespace

std::string ToString(const Action& action) {
  return absl::StrCat(action.stage, action.op == Op::kForward ? "F" : "B", action.microbatch);
}

std::string ToString(const Program& program) {
  return absl::StrJoin(program, " ", [](std::string* out, const Action& action) {
    absl::StrAppend(out, ToString(action));
  });
}

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

std::vector<Program> Programs(const Schedule& schedule, int num_stages, int num_microbatches) {
  std::vector<Program> programs;
  for (int stage = 0; stage < num_stages; ++stage) {
    programs.push_back(schedule.program(stage, num_stages, num_microbatches));
  }
  return programs;
}

double BubbleFraction(const std::vector<Program>& programs) {
  absl::StatusOr<Program> order = GlobalOrder(programs);
  if (!order.ok() || order->empty()) return 0;
  const int num_stages = static_cast<int>(programs.size());
  // Finish time of the last action of each stage, and of each (stage, op, micro-batch).
  std::vector<int> stage_end(num_stages, 0);
  std::vector<std::pair<Action, int>> ends;
  auto end_of = [&](int stage, Op op, int microbatch) {
    const auto at = std::find_if(ends.begin(), ends.end(), [&](const auto& end) {
      return end.first == Action{stage, op, microbatch};
    });
    return at == ends.end() ? 0 : at->second;
  };
  for (const Action& action : *order) {
    const int from = action.stage + (action.op == Op::kForward ? -1 : 1);
    const int start = std::max(stage_end[action.stage], end_of(from, action.op, action.microbatch));
    stage_end[action.stage] = start + 1;
    ends.emplace_back(action, start + 1);
  }
  const int makespan = *std::max_element(stage_end.begin(), stage_end.end());
  return 1.0 - static_cast<double>(order->size()) / (static_cast<double>(makespan) * num_stages);
}

}  // namespace longhaul
