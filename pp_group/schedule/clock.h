#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/schedule/wire.h"

namespace longhaul {

// What a pipeline's actions and messages take, in seconds. Letters: S stages, P ranks.
struct PipelineCosts {
  struct Stage {
    double forward_s = 0, backward_s = 0;  // per micro-batch
    double input_gradient_s = 0, weight_gradient_s = 0;
    double Of(Op op) const;
  };
  struct Rank {
    double encode_s = 0;  // per sent message, one after the other, while the rank goes on
    double decode_s = 0;  // per received message, before it can be used
    double step_s = 0;    // per step, after its last action
  };
  std::vector<Stage> stages;                 // [S]
  std::vector<Rank> ranks;                   // [P]
  std::vector<Wire> activations, gradients;  // [S - 1] each, by boundary
  // Behind a step's actions the ranks of the first and the last stage send each other what a tied
  // head wants added, and neither goes on before it has the other's and its own has left.
  struct Tied {
    Wire to_last, to_first;
  };
  std::optional<Tied> tied = std::nullopt;

  // All stages alike, and all boundaries.
  static PipelineCosts Of(const PipelineProgram& program, const Stage& stage,
                          const Wire& wire = {});
};

// How messages share the wires between ranks: one model of a step each.
enum class LinkPolicy {
  kFullDuplex,  // P2: a wire for each ordered pair of ranks, first in, first out
  // P3: whatever a rank is sent follows one another, and the delay holds the wire (the rule of
  // ProtocolNanoGPT's network model). For comparison, as P1.
  kOneAReceiver,
  // P1: the planning simulator's serial slots, communication inside every slot: a sum that StepPeriod
  // has, and no recursion, so no ScheduleClock. Reported, never accepted.
  kSerialSlots,
};

// When G groups of one program end their steps, each with costs of its own, on links that carry their
// messages. Pure arithmetic: nothing is run and no clock is read, so equal calls give equal times. Seconds
// count from the start of the first step; ranks are those of the run, g * P + r.
//
// The event recursion: an action starts when its rank is free and its input has arrived; what it
// makes is encoded behind what was made before, and takes the wire behind what was sent before.
// Steps follow each other without a barrier, and groups wait for each other in exchanges alone.
//
// Of a pipeline without a flush a stage's step is M backwards, each behind the forward of the
// micro-batch that is PipelineProgram::ahead of it; the first step fills the pipeline before. In done()
// and carried() micro-batches from M on are those of later steps. Where a lossy or BBR connection tells
// of a message sooner than was said, that is of use within a step.
class ScheduleClock {
 public:
  // Borrows both; costs may change between steps.
  ScheduleClock(const PipelineProgram& program, std::span<const PipelineCosts> groups,
                LinkPolicy links = LinkPolicy::kFullDuplex);

  // One more step of all groups: the actions, with a tied head's messages behind them, and what a rank
  // then does by itself (step_s). InvalidArgument: a rank waits for what nobody sends, and before which
  // action.
  absl::Status Step();
  absl::Status Actions();
  void Update();

  // A message of an exchange between groups. It leaves when its sender is free, behind what that has
  // sent to the same rank before; ranks go on.
  Sent Send(int exchange, int from, int to, const Wire& wire);
  // Ranks go on when what was sent to them in this exchange is there and their own has left.
  void Receive(int exchange);
  // Each rank of a group tells all others of it something short, and goes on when it has heard from
  // all: delays [P * P], from * P + to, of the group.
  void TellAll(int group, const std::vector<double>& delays_s);

  // A group that is away has no part in steps until it is back: its ranks are free then, all at once,
  // and connections from and to them have carried nothing.
  void Leave(int group) { groups_[static_cast<size_t>(group)].away = true; }
  void Return(int group, double s);
  bool Away(int group) const { return groups_[static_cast<size_t>(group)].away; }
  uint64_t Returns(int group) const { return groups_[static_cast<size_t>(group)].returns; }
  void WaitUntil(int rank, double s);
  // What a rank sends to another one is carried from `s` on.
  void Hold(int from, int to, double s) { connections_[{from, to}].Hold(s); }

  const std::vector<double>& free_s() const { return free_s_; }  // [G * P]: when each rank is free
  double Latest(int group) const;                                // of a group's ranks

  // What each rank did, and when, in the last step.
  struct Done {
    Action action;
    double begin_s, end_s;
  };
  const std::vector<std::vector<Done>>& done() const { return done_; }  // [G * P]
  // What went over a group's links in the last step; of a tied head no message of the program.
  struct Carried {
    int from, to;
    std::optional<Message> message;
    Sent times;
  };
  const std::vector<Carried>& carried(int group) const {
    return groups_[static_cast<size_t>(group)].carried;
  }

 private:
  // When a micro-batch's message is there, by stage and slot: slots are used in turn.
  struct Arrival {
    int64_t microbatch = -1;  // counted over all steps
    double at = 0;
  };
  using Arrivals = std::vector<Arrival>;
  struct Group {
    std::vector<Carried> carried = {};
    Arrivals arrived[2] = {};  // of a pipeline without a flush, between steps
    int64_t steps = 0;         // of it, so far
    bool away = false;
    uint64_t returns = 0;  // so often
  };
  struct Waits {
    int rank;
    double until;
  };
  absl::Status GroupActions(int group);
  Program StepOf(int rank) const;
  double EndOf(int rank, const Action& action);
  void Run(int rank, const Action& action, double end);
  void SendOn(const Message& message, int from, double made);
  void AddTied();
  Sent Carry(const Wire& wire, int from, int to, double ready, std::optional<Message> message);
  void Revise(int from, int to, const Connection& connection);
  Arrival& InputAt(const Message& message);
  void Arrive(const Message& message, double at);
  int64_t Numbered(const Message& message) const;

  const PipelineProgram& program_;
  const std::span<const PipelineCosts> costs_;
  const LinkPolicy links_;
  const int ranks_;                                        // P
  std::vector<Group> groups_;                              // [G]
  std::vector<double> free_s_, encoder_free_s_;            // [G * P]
  std::vector<std::vector<Done>> done_;                    // [G * P]
  std::map<std::pair<int, int>, Connection> connections_;  // from, to; kOneAReceiver: to, to
  std::map<int, std::vector<Waits>> under_way_;            // by exchange
  // Of the group whose actions run.
  int group_ = 0;
  const int slots_;      // of a stage's input
  Arrivals arrived_[2];  // by kind; [S * slots]
};

// The first step of an idle pipeline, until its last rank is done; without a flush it fills the pipeline.
absl::StatusOr<double> Makespan(const PipelineProgram& program, const PipelineCosts& costs);
// What one more step adds once the pipeline is full. kSerialSlots: (M + P - 1) (t_c + S/P (t_x + RTT)
// (1 + 0.05 log2 P)), without a flush P = 1 in its first factor, with the slowest rank and boundary; it knows no tied head, coding or step_s.
absl::StatusOr<double> StepPeriod(const PipelineProgram& program, const PipelineCosts& costs,
                                  LinkPolicy links = LinkPolicy::kFullDuplex);

// What no program of these stages and ranks has a shorter step than, in the steady state: the busiest
// rank, the busiest wire, or the last micro-batch, which goes through all stages and back behind the
// forwards of the others. For whoever searches and need not run what cannot win.
double LeastStepPeriod(const PipelineProgram& program, const PipelineCosts& costs);

// Share of P * makespan in which a rank of an ideal pipeline is idle: F, I and W of one unit, B of
// `backward_units`, no communication time. 0 for a program that does not run.
double BubbleFraction(const PipelineProgram& program, double backward_units = 1);

}  // namespace longhaul
