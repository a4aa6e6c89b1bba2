#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pp_group/data/corpus.h"
#include "pp_group/injected_compute.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/optimizer/adamw_spec.h"
#include "pp_group/outer/outer_hooks.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/rank_span.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/state/channel_state.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/state/round_keeper.h"

namespace longhaul {

class LocalPipelines;
class OuterRound;
class SharedSums;
class Subspace;
struct RankState;
struct StageFlats;

// Letters (README.md): S stages, G groups, M micro-batches, B rows, T tokens of a row, D width,
// V vocab, N parameters of a stage, H inner steps.
struct TrainSpec {
  ModelSpec model;
  int stages;            // S
  int groups;            // G
  std::string schedule;  // a name of ScheduleNames(); not read where there is `program`
  int64_t microbatches;  // M, divides batch_rows
  int64_t batch_rows;    // B rows per group and inner step
  int64_t steps;         // inner steps of the whole run
  AdamWSpec inner;
  OuterSpec outer;
  uint64_t seed;  // initial weights, data order, codec noise of the outer delta
  // The blocks with which stages 1, 2, ... begin; empty: S divides the blocks, stages are equal.
  std::vector<int64_t> cuts = {};
  // A stage's gradient is zero where the activation that it came for was, before it is sent.
  bool mask_gradients = false;
  // Rank of the subspace that the residual stream is held to, and in whose coordinates boundaries
  // send (subspace.h); 0: none.
  int64_t subspace = 0;
  // Boundaries (between stages b and b + 1) whose activations cross on a channel for each sample, so
  // that codecs keep what they remember by sample, over epochs. A micro-batch is one row then.
  std::vector<int> sample_boundaries = {};
  // Boundaries send tensors as they are: ranks of this process have one tensor for both ends of each.
  bool exact_boundaries = false;
  // Compute that is slept instead of done (injected_compute.h): step times over real links without
  // the machine that they are about. There is no loss, no evaluation and no checkpoint then.
  std::optional<InjectedCompute> compute = std::nullopt;
  ComputeSpec stage_compute = {};  // what stages compute on, and in which dtype
  // Weights to start from in place of the seed's: fills a stage's flat buffer ([flat_elements] f32,
  // zeroed). Empty: the seed's. `initial_hash` names them in checkpoints.
  std::function<absl::Status(const StageLayout& layout, float* flat)> initial = {};
  std::string initial_hash = {};
  // Of an outer algorithm in Python; `outer_source` names its source in checkpoints.
  NewOuterHooks outer_hooks = {};
  std::string outer_source = {};
  int chunks = 1;  // stages of a rank; divides S
  int depth = 1;   // of the schedule (PipelineShape)
  // When parameters are hashed: after every such step and the last; 0: after outer steps, every
  // `checkpoint_every` steps (0: none are written) and the last.
  int64_t hash_every = 0, checkpoint_every = 0;
  // In place of a named schedule: any program of S stages and M micro-batches.
  std::optional<PipelineProgram> program = std::nullopt;
};

// What a rank is about to send over its boundary.
struct BoundaryTensor {
  int64_t microbatch;
  int boundary;              // between stages `boundary` and `boundary` + 1
  bool gradient;             // to the stage before; else the activation, to the one after
  const at::Tensor& values;  // [n, D] or [n, subspace], f32, not yet encoded
};

// One stage of a rank that lives in this process. A run in one process has all S*G of them; a worker
// has those of its rank, which share their boundary and plain.
// c10d groups of the pipeline (P ranks): `boundary` may compress, `plain` never
// does (evaluation with the codec off, agreement on a checkpoint). `outer`: the G peers of one
// stage (group rank = g). boundary and plain may be null when P == 1.
// The backends must match FIFO per (source, tag), and send must not wait for the receiver.
struct LocalRank {
  int group;
  int stage;
  c10::intrusive_ptr<c10d::Backend> boundary;
  c10::intrusive_ptr<c10d::Backend> plain;
  c10::intrusive_ptr<c10d::Backend> outer;  // null when G == 1
  // Of `boundary`; null: it keeps nothing between messages, or another stage of the rank has it,
  // the lowest. Goes into checkpoints.
  std::shared_ptr<ChannelState> boundary_state = nullptr;
  // Called with every tensor of a step before it is sent, in the order of sends; may be empty. That
  // of a rank's lowest stage sees what all of them send.
  std::function<void(const BoundaryTensor&)> watch = {};
  // Called with the pieces of the rank's steps, while it runs; may be empty.
  SpanWatch spans = {};
  // The peers of `outer` again, for rows of spread experts (ModelSpec::expert_parallel) and the
  // norms of their gradients; not used where none are spread.
  c10::intrusive_ptr<c10d::Backend> experts = {};
  // The first and the last stage of the group (ranks 0 and 1), which both hold a tied head's matrix
  // (tied_head.h); never compresses. null: no tied head, a stage between them, or both ends on one
  // rank.
  c10::intrusive_ptr<c10d::Backend> tied = {};
};

// Of one stage of a local rank and one inner step. The durations add up to less than `wall`: the rest
// is the other local stages, reading rows and the hash.
// The mean outer delta of a stage against the mean before it (GroupAverage::Turn), after an exchange
// of a fragment. `member_norm`: of the members' own deltas over all stages, on average; unset: the
// average came with a checkpoint.
struct OuterDelta {
  int64_t fragment = 0;
  double squared_norm = 0;
  std::optional<double> last_squared_norm = std::nullopt, dot = std::nullopt;
  std::optional<double> member_norm = std::nullopt;
};

struct StepReport {
  int group = 0, stage = 0;
  int64_t step = 0;            // 1-based, the step just finished
  std::optional<double> loss;  // nat/token over the step's batch; the last stage, if it trains
  int64_t tokens = 0;          // of this group's batch
  absl::Duration wall, forward, backward, optimizer;
  absl::Duration wait;   // blocked on a receive, or on a buffer still being sent
  absl::Duration outer;  // the outer step, or averaging gradients: encode, exchange, decode, update
  absl::Duration send;   // inside c10d's send; with encoding where the backend does it there
  int clipped_groups = 0;        // clip groups whose gradients were scaled down to clip_norm
  bool outer_synced = false;     // the groups met: an outer step, or gradients were averaged
  int64_t outer_bytes_sent = 0;  // frames of the outer delta or gradients handed to c10d
  // Of the parameters that the rank holds, after the step: of spread experts its own. nullopt: not
  // hashed after this step (TrainSpec::hash_every).
  std::optional<uint64_t> parameter_hash = {};
  // Of the outer step, if there was one: who met, and whose delta would have poisoned the average.
  std::vector<int> members = {}, left_out = {};
  int64_t attempts = 0;  // exchanges until one was whole
  absl::Duration met;    // waiting for who is to meet
  // Of who tells of the outer steps: where all meet the lowest member, else everyone.
  std::vector<OuterDelta> outer_deltas = {};
};

// What a run that goes on from another one's checkpoints took over.
struct Restored {
  int64_t step = 0;                           // finished inner steps
  std::string changes;                        // "stages=2 > 4, groups=1 > 2"; "": none
  std::vector<std::string> dropped = {};      // what did not come along, one line each
  std::vector<std::string> passed_over = {};  // files of newer steps, and why
};

enum class BoundaryCodec { kOn, kOff };
struct Evaluation {
  double loss;  // nat/token
  int64_t tokens;
  double block_se;  // standard error over rows, nat
};

// Runs PP-Group DiLoCo for the local ranks: cooperatively in one thread when there are several,
// blocking on receives when there is one. Either way the same sequence of floating-point
// operations, so losses are bit-identical. Not thread safe; uses the calling thread only and
// whatever at::get_num_threads() says. Where experts are spread over groups
// (ModelSpec::expert_parallel) their stages wait for each other: then each local group's pass runs
// on a thread of its own, while the call lasts.
//
// The training does not depend on S, on the schedule, or on the number of local ranks: with
// lossless boundaries S = 1, 2, 4, 8 give equal losses bit for bit. (M changes the order of sums.)
//
// After a Status other than OK the trainer is spent: every later call returns FailedPrecondition.
class Trainer {
 public:
  ~Trainer();

  // InvalidArgument: S does not divide the blocks, M not the rows, unknown schedule or codec, ...
  // `now` is a monotonic clock; only reports depend on it. `keeper`: groups come and go
  // (docs/faults.md), so that LocalRank::outer is not used; it must outlive the trainer. null: all
  // G groups meet in every outer step.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainSpec& spec,
                                                         std::vector<LocalRank> ranks,
                                                         std::shared_ptr<const Corpus> corpus,
                                                         std::function<absl::Duration()> now,
                                                         RoundKeeper* keeper = nullptr);

  // One inner step of every local rank, and the outer step when it is due: after every H steps and
  // after the last step of the run. Unavailable or DeadlineExceeded: a peer is gone. OutOfRange:
  // training has diverged. A boundary codec refused NaN or Inf; or a local rank's gradient or loss is
  // not finite, and no local rank's parameters, optimizer or exchange with other groups has been
  // touched by it; or no outer delta of an exchange is finite. With a keeper a group whose gradient
  // or loss is not finite skips that update, and the next outer step leaves it out; an error only
  // where that is true of all local groups.
  // FailedPrecondition: all steps of the run are done.
  absl::StatusOr<std::vector<StepReport>> Step();

  // Held-out loss of the current (after an outer step: averaged) parameters of group 0, forward
  // passes only; every rank of group 0 must call it, and where experts are spread every rank of
  // all. nullopt where the last stage of group 0 is not local. `rows`: how many rows of the held-out
  // part, from the start of its fixed order.
  // FailedPrecondition: compute is injected. Changes nothing of the training: its tensors have a
  // tag of their own, and with it channels of their own, so codecs with state or drawn noise move
  // on for evaluations only.
  // OutOfRange: the loss is not finite.
  absl::StatusOr<std::optional<Evaluation>> Evaluate(BoundaryCodec codec, int64_t rows);

  int64_t step() const { return step_; }  // finished inner steps
  // The group whose parameters Evaluate takes: the lowest that met in the last outer step.
  int evaluated_group() const;

  // Groups that come and go; only with a keeper, between steps.
  //
  // The local ranks of a group are gone with all that they held; no step counts them any more.
  void LoseGroup(int group);
  // New local ranks of a group that has none, with the training's state as a local group holds it
  // after an outer step: parameters, outer start and momentum, AdamW's moments. What codecs
  // remember starts anew. `givers`: the members of the outer step, ascending, where all of them
  // give (handover.h); those that `lost` names, too, are lost while they do. Empty: the lowest
  // group gives all.
  absl::Status AddGroup(std::vector<LocalRank> ranks, const std::vector<int>& givers = {},
                        const std::vector<int>& lost = {});
  // The same state from one process to another, of one stage; throws nothing. Right after an outer
  // step. Take sets the step, too, and is called before the first one.
  absl::Status GiveState(int stage, c10d::Backend& to, int peer);
  absl::Status TakeState(int64_t step, c10d::Backend& from, int peer);
  // The same through files of `givers` processes, of which this is the one at `place`; `lost`: by
  // place (handover.h, also for the files and the errors).
  absl::Status WriteState(int stage, int place, int givers, const std::string& folder);
  absl::Status ReadState(int64_t step, const std::vector<bool>& lost, const std::string& folder);
  // Multiplies the group's parameters on local ranks right before its next outer delta is taken.
  void Poison(int group, double factor);
  // Called before every action of the local ranks; faults strike there.
  void OnAction(std::function<void(const Action&)> call) { on_action_ = std::move(call); }

  // Waits until everything that the steps sent has left: only then do the groups' counters have it.
  absl::Status FinishSends();

  // A copy of the local ranks' state between two steps, one of each (checkpoint.h): parameters,
  // AdamW moments, the outer step's start, momentum and codec state, and what
  // LocalRank::boundary_state saves: a resumed run is bit-identical to one that was never stopped.
  // Training may go on while it is written (checkpoint_writer.h).
  absl::StatusOr<std::vector<Checkpoint>> Snapshot();

  // Snapshot, written before it returns.
  absl::Status SaveCheckpoint(const std::string& directory);

  // Takes what SaveCheckpoint wrote for the same spec and corpus. All S*G ranks call it together:
  // they agree (over `plain` and `outer`) on the newest step of which every one of them has a whole
  // file; those of newer steps that were truncated, corrupt or of another run are told in
  // `passed_over`, one line each, by the ranks that have them. NotFound: some rank has none. Where
  // none will do, what is wrong with the newest (DataLoss; InvalidArgument: it is of another run or
  // another boundary codec). On any error nothing has changed.
  absl::Status LoadCheckpoint(const std::string& directory,
                              std::vector<std::string>* passed_over = nullptr);

  // Takes what another run of the same model and data left in `directory`, of any S, G, cuts and
  // schedule (reshard.h): parameters, AdamW's moments, outer start and momentum, by the parameter's
  // name; what codecs remember where stages, groups and codecs are the same. Before the first step,
  // collective like LoadCheckpoint; every rank needs the files of the stages that it holds blocks
  // of. Errors as LoadCheckpoint's; FailedPrecondition: another number of groups in the middle of a
  // round.
  absl::StatusOr<Restored> RestoreFrom(const std::string& directory);

 private:
  Trainer(const TrainSpec& spec, PipelineProgram program, std::shared_ptr<const Corpus> corpus,
          std::function<absl::Duration()> now, RoundKeeper* keeper);
  absl::Status Start(const std::vector<LocalRank>& ranks);

  // Runs f, which may throw; a failure spends the trainer.
  absl::Status Guarded(const std::function<absl::Status()>& f);
  absl::Status CheckUsable() const;
  absl::Status CheckTrains(const char* what) const;

  int64_t FirstRow(const RankState& state) const;
  void ReadRows(RankState& state);
  void BeginStep(const RankState& state);
  absl::Status RunPipelines();
  void SumTiedGradients();
  void MeasureGradients();
  absl::Status CheckFinite(bool groups_may_skip);
  void UpdateParameters();
  bool HashDue() const;  // after the step just finished
  void SortRanks();
  absl::StatusOr<std::unique_ptr<RankState>> NewState(const LocalRank& rank,
                                                      const StageFlats* flats = nullptr);
  absl::Status CopyTiedMoments(std::span<const std::unique_ptr<RankState>> ranks);
  RankState* Holder(int stage);  // a local rank of the stage; null: none
  // By place in `givers`; null: of `lost`, or not local.
  std::vector<const RankState*> GiversOf(int stage, const std::vector<int>& givers,
                                         const std::vector<int>& lost) const;

  const TrainSpec spec_;
  const PipelineProgram program_;
  const std::shared_ptr<const Corpus> corpus_;
  const std::function<absl::Duration()> now_;
  const bool elastic_;                              // groups come and go
  const std::unique_ptr<const Subspace> subspace_;  // null: the spec has none
  std::function<void(const Action&)> on_action_;
  Program order_;  // all stages' actions; this thread runs the local ones in this order
  std::map<int, std::shared_ptr<SharedSums>> sums_;  // by stage
  std::vector<std::unique_ptr<RankState>> ranks_;    // by group, then stage
  const std::unique_ptr<OuterRound> outer_round_;
  const std::unique_ptr<LocalPipelines> pipelines_;
  int64_t step_ = 0;
  const RankState* busy_ = nullptr;  // for error messages
  absl::Status spent_;
};

}  // namespace longhaul
