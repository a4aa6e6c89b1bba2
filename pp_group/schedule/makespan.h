#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/schedule/wire.h"

namespace longhaul {

// What a pipeline's actions and messages take, in seconds. Pure arithmetic: nothing is run.
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
  using Wire = longhaul::Wire;               // one boundary in one direction
  std::vector<Stage> stages;                 // [S]
  std::vector<Rank> ranks;                   // [P]
  std::vector<Wire> activations, gradients;  // [S - 1] each, by boundary
  // Behind a step's actions the ranks of the first and the last stage send each other what a tied
  // head wants added, and neither goes on before it has the other's and its own has left.
  struct Tied {
    Wire to_last, to_first;
  };
  std::optional<Tied> tied = std::nullopt;
};

enum class Wires {
  kFullDuplex,    // one for each ordered pair of ranks, first in, first out
  kOneAReceiver,  // whatever a rank is sent follows one another, and the delay holds the wire
};

// The event recursion: an action starts when its rank is free and its input has arrived; what it
// makes is encoded behind what was made before, and takes the wire behind what was sent before.
// Steps follow each other without a barrier. Borrows both arguments; costs may change between steps.
class Timeline {
 public:
  Timeline(const PipelineProgram& program, const PipelineCosts& costs, Wires wires);

  // One more step. When each rank ends it, counted from the start of the first step.
  // InvalidArgument: a rank waits for what nobody sends, and before which action.
  absl::StatusOr<std::vector<double>> Step();
  // Its two parts: the actions, with a tied head's messages behind them, and what a rank then does
  // by itself (step_s). What ranks wait for between or behind them: WaitUntil.
  absl::Status Actions();
  void Update();
  void WaitUntil(int rank, double s);
  // All ranks are free at `s`, on connections that have carried nothing.
  void Restart(double s);
  // What a rank sends to another one is carried from `s` on.
  void HoldLink(int from, int to, double s) { Used(from, to).Hold(s); }
  const std::vector<double>& clock() const { return clock_; }  // [P]: when each rank is free

  // What each rank did, and when, in the last step.
  struct Done {
    Action action;
    double begin_s, end_s;
  };
  const std::vector<std::vector<Done>>& done() const { return done_; }  // [P]
  // What went over links in the last step; of a tied head no message of the program.
  struct Carried {
    int from, to;  // ranks
    std::optional<Message> message;
    Sent times;
  };
  const std::vector<Carried>& carried() const { return carried_; }

 private:
  double EndOf(int rank, const Action& action) const;
  void Run(int rank, const Action& action, double end);
  void Send(const Message& message, int from, double made);
  void AddTied();
  Connection& Used(int from, int to) {
    return wires_used_[static_cast<size_t>(from) * program_.ranks.size() + static_cast<size_t>(to)];
  }
  Sent Take(const PipelineCosts::Wire& wire, int from, int to, double ready);
  void Revise(int from, int to, const Connection& connection);
  double& Arrival(const Message& message);
  double Arrival(const Message& message) const;

  const PipelineProgram& program_;
  const PipelineCosts& costs_;
  const Wires wires_;
  std::vector<double> clock_, encoder_free_;  // [P]
  std::vector<Connection> wires_used_;        // [P * P], from * P + to; kOneAReceiver: [to]
  std::vector<double> arrived_[2];            // by kind; [S * M]
  std::vector<std::vector<Done>> done_;       // [P]
  std::vector<Carried> carried_;
};

// The first step of an idle pipeline, until its last rank is done.
absl::StatusOr<double> Makespan(const PipelineProgram& program, const PipelineCosts& costs,
                                Wires wires = Wires::kFullDuplex);
// What one more step adds once the pipeline is full.
absl::StatusOr<double> StepPeriod(const PipelineProgram& program, const PipelineCosts& costs,
                                  Wires wires = Wires::kFullDuplex);

// What no program of these stages and ranks has a shorter step than, in the steady state: the busiest
// rank, the busiest wire, or the last micro-batch, which goes through all stages and back behind the
// forwards of the others. For whoever searches and need not run what cannot win.
double LeastStepPeriod(const PipelineProgram& program, const PipelineCosts& costs);

// Share of P * makespan in which a rank of an ideal pipeline is idle: F, I and W of one unit, B of
// `backward_units`, no communication time. 0 for a program that does not run.
double BubbleFraction(const PipelineProgram& program, double backward_units = 1);

}  // namespace longhaul
