#include "pp_group/schedule/pipeline_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr int kNobody = -1;

}  // namespace

std::vector<int> PipelineProgram::StagesOf(int rank) const {
  std::vector<int> stages;
  for (int s = 0; s < num_stages(); ++s) {
    if (rank_of_stage[s] == rank) stages.push_back(s);
  }
  return stages;
}

// The forward of micro-batch j comes behind the backward of j - ahead - 1, and weights change behind
// every M-th backward.
int PipelineProgram::StepsLate(int stage, int microbatch) const {
  if (flushes()) return 0;
  const int behind = ahead[static_cast<size_t>(stage)] - microbatch;
  return behind <= 0 ? 0 : (behind - 1) / microbatches + 1;
}

double PipelineProgram::Staleness(int stage) const {
  return flushes() ? 0 : static_cast<double>(ahead[static_cast<size_t>(stage)]) / microbatches;
}

bool PipelineProgram::HasSplitBackward() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Program& program) {
    return std::any_of(program.begin(), program.end(), [](const Action& action) {
      return action.op == Op::kInputGradient || action.op == Op::kWeightGradient;
    });
  });
}

absl::StatusOr<PipelineProgram> Assemble(std::vector<Program> ranks) {
  size_t actions = 0;
  for (const Program& program : ranks) actions += program.size();
  PipelineProgram out{.ranks = std::move(ranks), .rank_of_stage = {}, .microbatches = 0};
  for (int rank = 0; rank < out.num_ranks(); ++rank) {
    if (out.ranks[rank].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("schedule: rank ", rank, " does nothing"));
    }
    for (const Action& action : out.ranks[rank]) {
      const auto where = [&] {
        return absl::StrCat("schedule: rank ", rank, ", action ", ToString(action));
      };
      // Each number below a stage or a micro-batch needs an action of its own: larger ones are
      // wrong.
      for (const int number : {action.stage, action.microbatch}) {
        if (number < 0 || static_cast<size_t>(number) >= actions) {
          return absl::InvalidArgumentError(
              absl::StrCat(where(), ": number out of range; there are ", actions, " actions"));
        }
      }
      if (action.stage >= out.num_stages()) out.rank_of_stage.resize(action.stage + 1, kNobody);
      int& holder = out.rank_of_stage[action.stage];
      if (holder != kNobody && holder != rank) {
        return absl::InvalidArgumentError(
            absl::StrCat(where(), ": rank ", holder, " holds that stage too"));
      }
      holder = rank;
      out.microbatches = std::max(out.microbatches, action.microbatch + 1);
    }
  }
  for (int s = 0; s < out.num_stages(); ++s) {
    if (out.rank_of_stage[s] == kNobody) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule: nobody holds stage ", s, " of ", out.num_stages()));
    }
  }
  return out;
}

std::optional<Message> InputOf(const Action& action, int num_stages) {
  if (action.op == Op::kForward && action.stage > 0) {
    return Message{MessageKind::kActivation, action.stage - 1, action.stage, action.microbatch};
  }
  if (MakesInputGradient(action.op) && action.stage + 1 < num_stages) {
    return Message{MessageKind::kGradient, action.stage + 1, action.stage, action.microbatch};
  }
  return std::nullopt;
}

std::optional<Message> OutputOf(const Action& action, int num_stages) {
  if (action.op == Op::kForward && action.stage + 1 < num_stages) {
    return Message{MessageKind::kActivation, action.stage, action.stage + 1, action.microbatch};
  }
  if (MakesInputGradient(action.op) && action.stage > 0) {
    return Message{MessageKind::kGradient, action.stage, action.stage - 1, action.microbatch};
  }
  return std::nullopt;
}

std::vector<RankCommunication> Communication(const PipelineProgram& program) {
  std::vector<RankCommunication> out(program.ranks.size());
  const auto add = [&](const std::optional<Message>& message, std::vector<RankMessage>& to) {
    if (!message) return;
    const int from_rank = program.rank_of_stage[message->from_stage];
    const int to_rank = program.rank_of_stage[message->to_stage];
    if (from_rank != to_rank) to.push_back({*message, from_rank, to_rank});
  };
  for (size_t rank = 0; rank < out.size(); ++rank) {
    for (const Action& action : program.ranks[rank]) {
      add(InputOf(action, program.num_stages()), out[rank].receives);
      add(OutputOf(action, program.num_stages()), out[rank].sends);
    }
  }
  return out;
}

}  // namespace longhaul
