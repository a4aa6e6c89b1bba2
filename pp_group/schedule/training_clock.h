#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "pp_group/schedule/makespan.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// The same recursion over G groups, each with a pipeline and costs of its own, and over what crosses
// between them. Times count from the start of the first step. Torch-free, no clock: equal calls give
// equal times.
class TrainingClock {
 public:
  // Borrows both; `groups` may change between steps, but for its length.
  TrainingClock(const PipelineProgram& program, const std::vector<PipelineCosts>& groups);

  // One more step of all groups: Actions, then Update. Errors: Timeline's.
  absl::Status Actions();
  void Update();

  // What a stage sends to its peer in another group. It leaves when the stage's rank is free, behind
  // what that rank has sent to the same one before; ranks go on.
  struct PeerMessage {
    int stage, from_group, to_group;
    PipelineCosts::Wire wire;
  };
  Sent Send(int exchange, const PeerMessage& message);
  // Ranks go on when what was sent to them in this exchange is there and their own has left.
  void Receive(int exchange);
  // Each rank of a group tells all others of it something short, and goes on when it has heard from
  // all: delays [P * P], from * P + to, of the group.
  void TellAll(int group, const std::vector<double>& delays_s);

  // A group that is away has no part in steps until it is back: its ranks are free then, all at once,
  // and connections from and to them have carried nothing.
  void Leave(int group) { away_[static_cast<size_t>(group)] = true; }
  void Return(int group, double s);
  bool Away(int group) const { return away_[static_cast<size_t>(group)]; }
  uint64_t Returns(int group) const { return returns_[static_cast<size_t>(group)]; }  // so often
  void WaitUntil(int group, int rank, double s);
  // What a link carries is carried from `s` on: between two ranks of a group; from a rank to its peer.
  void HoldLink(int group, int from_rank, int to_rank, double s);
  void HoldPath(int rank, int from_group, int to_group, double s);

  double Seconds(int group, int rank) const { return groups_[group].clock()[rank]; }
  // What its ranks did in the last step, and what went over its links.
  const Timeline& group(int group) const { return groups_[static_cast<size_t>(group)]; }

 private:
  struct Waits {
    int group, rank;
    double until;
  };
  const PipelineProgram& program_;
  std::vector<Timeline> groups_;
  std::vector<bool> away_;                                      // [G]
  std::vector<uint64_t> returns_;                               // [G]
  std::map<std::tuple<int, int, int>, Connection> wires_used_;  // by rank, from and to
  std::map<int, std::vector<Waits>> under_way_;                 // by exchange
};

}  // namespace longhaul
