#include "pp_group/schedule_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// Micro-batches of one direction in the order in which a stage handles them.
std::vector<int> OrderOf(const Program& program, Op op) {
  std::vector<int> order;
  for (const Action& action : program) {
    if (action.op == op) order.push_back(action.microbatch);
  }
  return order;
}

absl::Status CheckStage(const Program& program, int stage, size_t num_microbatches) {
  std::vector<int> forwards(num_microbatches, 0), backwards(num_microbatches, 0);
  for (const Action& action : program) {
    const std::string where =
        absl::StrCat("schedule: stage ", stage, ", action ", ToString(action));
    if (action.stage != stage) return absl::InvalidArgumentError(where + ": of another stage");
    const size_t m = static_cast<size_t>(action.microbatch);
    if (action.microbatch < 0 || m >= num_microbatches) {
      return absl::InvalidArgumentError(where + ": no such micro-batch");
    }
    int& count = (action.op == Op::kForward ? forwards : backwards)[m];
    if (++count > 1) return absl::InvalidArgumentError(where + ": runs twice");
    if (action.op == Op::kBackward && forwards[m] == 0) {
      return absl::InvalidArgumentError(where + ": before its forward");
    }
  }
  for (size_t m = 0; m < num_microbatches; ++m) {
    if (forwards[m] == 0 || backwards[m] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("schedule: stage ", stage, ": no ",
                                                     forwards[m] == 0 ? "forward" : "backward",
                                                     " of micro-batch ", m));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFifo(const std::vector<Program>& programs, Op op) {
  for (size_t s = 0; s + 1 < programs.size(); ++s) {
    if (OrderOf(programs[s], op) != OrderOf(programs[s + 1], op)) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule: stages ", s, " and ", s + 1, " run their ",
                       op == Op::kForward ? "forwards" : "backwards",
                       " in different orders; the channel between them is first in, first out"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSchedule(const std::vector<Program>& programs) {
  const size_t num_microbatches =
      programs.empty() ? 0 : OrderOf(programs.front(), Op::kForward).size();
  for (size_t s = 0; s < programs.size(); ++s) {
    if (absl::Status status = CheckStage(programs[s], static_cast<int>(s), num_microbatches);
        !status.ok()) {
      return status;
    }
  }
  for (Op op : {Op::kForward, Op::kBackward}) {
    if (absl::Status status = CheckFifo(programs, op); !status.ok()) return status;
  }
  return GlobalOrder(programs).status();
}

absl::StatusOr<Program> GlobalOrder(const std::vector<Program>& programs) {
  const int num_stages = static_cast<int>(programs.size());
  // Messages are FIFO per direction, so counting the finished actions of a neighbour is enough.
  std::vector<size_t> next(num_stages, 0), forwards(num_stages, 0), backwards(num_stages, 0);
  auto ready = [&](int s) {
    if (next[s] == programs[s].size()) return false;
    if (programs[s][next[s]].op == Op::kForward) return s == 0 || forwards[s - 1] > forwards[s];
    return s == num_stages - 1 || backwards[s + 1] > backwards[s];
  };
  Program order;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < num_stages; ++s) {
      if (!ready(s)) continue;
      const Action& action = programs[s][next[s]++];
      ++(action.op == Op::kForward ? forwards : backwards)[s];
      order.push_back(action);
      moved = true;
    }
  }
  std::string stuck;
  for (int s = 0; s < num_stages; ++s) {
    if (next[s] < programs[s].size()) absl::StrAppend(&stuck, " ", ToString(programs[s][next[s]]));
  }
  if (!stuck.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: deadlock, stages wait at", stuck));
  }
  return order;
}

int PeakActivations(const Program& program) {
  int live = 0, peak = 0;
  for (const Action& action : program) {
    live += action.op == Op::kForward ? 1 : -1;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace longhaul
