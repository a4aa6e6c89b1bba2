#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/group_timeline.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/slowdowns.h"
#include "experiments/spec/spec.h"
#include "experiments/trace/trace_span.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/schedule/clock.h"

namespace longhaul {

struct Topology;

// When each step of a run would have ended on the links of net.profile and the machine of [compute],
// outer steps included. Torch-free, reads no clock: equal spec and bytes, equal times.
//
// A step is the recursion of P2 over all groups (pp_group/schedule/clock.h), with the bytes that
// messages had in it, over TCP connections whose windows live from step to step
// (pp_group/schedule/wire.h). Groups exchange as the run's own do: the plan says when, everybody
// sends to everybody of a meeting over a path of its own and waits for what it is owed; behind an
// exchange of weights, not of gradients, a group's ranks tell each other norms. Frames that paths lose
// are drawn, by the run's seed and both ranks (pp_group/schedule/frame_loss.h). Where groups come and go,
// the run's script says who does a step, what is slow in it, who meets behind a round, and when who was
// lost is back (spec/group_timeline.h, spec/slowdowns.h); groups wait for each other before they
// exchange, as they do over links, where all of them must know who meets. Not in it: jitter; encoding and
// decoding, hashing and the outer update.
class SimulatedClock {
 public:
  // Bytes are the planned ones (train/traffic.h) until they are set. InvalidArgument: links that have
  // no model (CheckLinks), or a codec that refuses a shape. Errors of PipelineOf, of a topology file.
  static absl::StatusOr<std::unique_ptr<SimulatedClock>> Of(const RunSpec& spec);
  // The same over these links in place of net.profile's: node i is rank i, and there are as many. kNone:
  // as if no path lost a frame, for whoever compares links and not draws.
  enum class Losses { kDrawn, kNone };
  static absl::StatusOr<std::unique_ptr<SimulatedClock>> Of(const RunSpec& spec,
                                                            const Topology& links,
                                                            Losses losses = Losses::kDrawn);
  // The same over links by their nodes, from and to, without messages.
  using Links = std::function<BoundaryLink(int64_t from, int64_t to)>;
  static absl::StatusOr<std::unique_ptr<SimulatedClock>> Of(const RunSpec& spec, Links links);
  // The same run at its start, with planned bytes, and rank r on node nodes[r]: each node once.
  std::unique_ptr<SimulatedClock> Placed(const std::vector<int>& nodes) const;

  // What one message had, headers included, in the step that comes; ranks are those of the run.
  void SetMessageBytes(Direction direction, int64_t from_rank, int64_t to_rank, double bytes);
  // Frames of the last exchange begun in it, to all peers together.
  void SetExchangeBytes(int group, int stage, double frame_bytes);
  // One more step of all ranks; what they and their links did in it is added to `trace`, if there is
  // one, counted from the clock's start. FailedPrecondition: nobody is there behind a round, or one is
  // later than outer.round_deadline_s allows, so that over such links it would be left out, which the
  // training did not do.
  absl::Status Step(std::vector<TraceSpan>* trace = nullptr);

  int64_t step() const { return step_; }
  int groups() const { return static_cast<int>(groups_); }
  // Whether the group did the last step, and was not lost in its outer step.
  bool Did(int group) const { return did_[static_cast<size_t>(group)]; }
  // When the rank that holds this stage was done with the last step; whole microseconds.
  double Seconds(int group, int stage) const;
  double Latest() const;  // of all ranks
  // What a step does not fall short of, over a round on average (LeastStepPeriod; where all groups
  // meet at once, the exchange that takes longest with it).
  double LeastStepSeconds() const;

  // For whoever has many groups that are alike (planning/scale.h): what one of them does, and its costs
  // with the bytes that are set.
  const PipelineProgram& program() const { return program_; }
  const PipelineCosts& costs(int group) const { return nominal_[static_cast<size_t>(group)]; }

 private:
  explicit SimulatedClock(const RunSpec& spec);
  SimulatedClock(const SimulatedClock& other, std::vector<int> nodes);
  BoundaryLink LinkOf(int64_t from_rank, int64_t to_rank) const;
  void Connect();
  absl::Status PlanBytes(const RunSpec& spec);
  Wire WireOf(int64_t from_rank, int64_t to_rank, double bytes) const;
  void Send(const OuterExchange& exchange);
  void Receive(const OuterExchange& exchange);
  void AddSpan(TraceSpan span, double begin_s, double end_s);
  void AddSince(const std::vector<double>& before_s, TraceLane lane, const std::string& what,
                const OuterExchange& exchange = {0, 0, 0});
  void AddPipelines(const std::vector<double>& begun_s);

  // Where groups come and go.
  struct Elastic {
    GroupTimeline timeline;
    Slowdowns slowdowns;
    double round_deadline_s;
    int64_t largest_stage;          // and what each fetches: parameters
    std::vector<int> members = {};  // of the round's outer step
  };
  void Strike(Elastic& elastic);
  Wire OnPath(int64_t from_rank, int64_t to_rank, Wire wire) const;
  absl::Status Meet(Elastic& elastic);
  void EndRound(Elastic& elastic);
  double FetchSeconds(const Elastic& elastic, int64_t group) const;

  const OuterPlan plan_;
  PipelineProgram program_;
  const int64_t ranks_, groups_;             // P, G
  const bool restarts_;                      // net.slow_start_after_idle
  const uint64_t seed_;                      // of the run
  const bool all_meet_;                      // at once, over all parameters
  std::vector<int> nodes_;                   // by rank of the run
  Links links_;                              // by nodes
  std::vector<PipelineCosts> nominal_;       // [G]
  std::vector<PipelineCosts> costs_;         // [G]; of this step, with what slows it
  std::vector<std::vector<double>> tell_s_;  // [G], [P * P]; of several groups
  // Bytes of a message inside of groups, by direction, from and to: ranks of the run.
  std::map<std::tuple<Direction, int64_t, int64_t>, double> messages_;
  // Of a message between peers, by fragment and stage: what goes with the frames, and planned frames.
  struct ExchangeBytes {
    double beside = 0, frames = 0;
  };
  std::map<std::pair<int64_t, int>, ExchangeBytes> exchange_bytes_;
  std::map<std::pair<int, int>, double> told_;  // by group and stage: of this step
  std::unique_ptr<ScheduleClock> clock_;
  std::optional<Elastic> elastic_;
  std::vector<bool> did_;  // [G]
  int64_t step_ = 0;
  std::vector<TraceSpan>* trace_ = nullptr;  // of this step
};

}  // namespace longhaul
