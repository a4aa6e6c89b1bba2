#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/schedule/action.h"

namespace longhaul {

// What a whole pipeline does: a program for each of its P ranks, and which rank holds which stage.
struct PipelineProgram {
  std::vector<Program> ranks;      // [P]
  std::vector<int> rank_of_stage;  // [S]
  int microbatches;                // M
  // [S]: micro-batches of later steps that a stage has under way where its step ends. Empty: none, the
  // pipeline is flushed behind each step. Ranks have one stage each then, and `ranks` says what a step
  // computes, in micro-batch order; forwards of that many micro-batches come a step or more sooner.
  std::vector<int> ahead = {};

  int num_ranks() const { return static_cast<int>(ranks.size()); }
  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }
  std::vector<int> StagesOf(int rank) const;  // ascending
  bool HasSplitBackward() const;              // some backward is I and W
  bool flushes() const { return ahead.empty(); }
  // By how many steps the weights are older that a stage takes for a micro-batch, forward and backward,
  // than those that its gradient is subtracted from.
  int StepsLate(int stage, int microbatch) const;
  double Staleness(int stage) const;  // its mean over a step's micro-batches: ahead / M
};

// Reads from the programs who holds which stage and how many micro-batches there are. That a
// program runs to its end is check.h's to prove. InvalidArgument: a stage on two ranks, a rank
// without an action, a stage of 0..S-1 that nobody holds.
absl::StatusOr<PipelineProgram> Assemble(std::vector<Program> ranks);

// A tensor that one stage makes and a neighbour waits for. Communication is derived from the
// actions and stands nowhere else: F of a stage sends an activation to the next stage; B or I sends
// a gradient to the stage before. Between two stages of one rank nothing crosses a wire.
enum class MessageKind { kActivation, kGradient };
struct Message {
  MessageKind kind;
  int from_stage, to_stage;  // neighbours
  int microbatch;
  int boundary() const { return from_stage < to_stage ? from_stage : to_stage; }
  friend bool operator==(const Message&, const Message&) = default;
};

// What an action waits for, and what it makes, where there is a neighbour to wait for or to serve.
std::optional<Message> InputOf(const Action& action, int num_stages);
std::optional<Message> OutputOf(const Action& action, int num_stages);

// A message between two ranks.
struct RankMessage {
  Message message;
  int from_rank, to_rank;
  friend bool operator==(const RankMessage&, const RankMessage&) = default;
};

struct RankCommunication {
  std::vector<RankMessage> sends;     // in the order in which this rank's actions make them
  std::vector<RankMessage> receives;  // in the order in which its actions need them
};

std::vector<RankCommunication> Communication(const PipelineProgram& program);  // [P]

}  // namespace longhaul
