#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/time/time.h"
#include "pp_group/c10d_status.h"
#include "pp_group/rank_span.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/stage.h"
#include "pp_group/subspace.h"

namespace longhaul {

// Where the time of one rank's step went. Compute excludes communication.
struct PipelineTimes {               // of one stage
  absl::Duration forward, backward;  // backward: I and W too
  absl::Duration send;  // inside c10d's send: encoding, where the backend encodes in the caller
  // Blocked on a receive, on a send buffer that is still in flight, or in a stage (Stage::waited).
  absl::Duration wait;
};

// One rank's side of the pipeline: runs the actions of its stages, one step after the other. The
// receives of a whole step are posted when the step begins, so that a transport can deliver and
// decode while the rank computes. Sends its output detached: the backward pass of this stage uses
// its own activations, the next stage's the decoded ones (straight-through). Between two stages of
// one rank a tensor is handed over as it is. Throws what c10d does.
//
// Gradients of parameters are summed by micro-batch, whatever the order of W in the program: one
// that comes before its turn is held back, and with it the activations of its micro-batch
// (PeakActivations counts them).
class PipelineRank {
 public:
  // `stages`: those that `program` gives to `rank`, ascending. `boundary` is null when there is one
  // rank; group rank = `rank`. Borrows the stages and `now`. The program has passed CheckProgram
  // and CheckMicrobatchOrder. `watch` sees each tensor before it is sent to another rank, `spans`
  // what the rank's times are made of. `mask_gradients`: the gradient of an activation that came from
  // another rank is zero where the activation was, as if it were taken through a sparsifier's mask.
  // `sample_boundaries`: as of TrainSpec. `subspace`: what crosses are coordinates in it; may be null.
  PipelineRank(const std::vector<Stage*>& stages, c10::intrusive_ptr<c10d::Backend> boundary,
               const PipelineProgram& program, int rank, int64_t rows_per_microbatch,
               const std::function<absl::Duration()>* now,
               std::function<void(const Message&, const at::Tensor&)> watch = {},
               bool mask_gradients = false, std::vector<int> sample_boundaries = {},
               SpanWatch spans = {}, const Subspace* subspace = nullptr);
  ~PipelineRank();

  // rows: [M * rows_per_microbatch, T + 1] token ids, read where the first or last stage is, and everywhere where
  // there is a subspace; must live until the step ends. samples: [M], which sample each micro-batch is, where some boundary
  // sends by sample.
  void BeginStep(std::span<const int64_t> rows, std::vector<int64_t> samples = {});
  void Run(const Action& action);
  // The rank with the next stage is in this process and steps in one thread with this one, and the
  // boundary behind `stage` carries values as they are: from now on both have one tensor for each
  // activation and gradient there, which is written once a step, before it is sent.
  void ShareBoundary(int stage, PipelineRank* next);
  // Waits until nothing that this rank has sent is in flight.
  void FinishSends();

  // Sum of the losses of the step's tokens in micro-batch order; the last stage only, if it trains.
  // Waits for a device.
  std::optional<double> loss_sum();
  // Of one of its stages, in this step.
  const PipelineTimes& times(int stage) const;
  // What the rank does behind its actions, for the next.
  void Say(const char* doing) { doing_ = doing; }
  // What the rank was doing, for error messages: "stage 1, 1F3: receive from the stage before".
  std::string Doing() const;

 private:
  struct Tensors {
    at::Tensor x, y, dx, dy;  // undefined where the stage has no such neighbour
  };
  struct Microbatch : Tensors {  // [n, D]
    Tensors crossing;            // the same, or their coordinates
    WorkPtr received_x, received_dy, sent_y, sent_dx;
    int slot = -1;               // index into kept while live
    bool weight_is_due = false;  // its W has come, and waits for those of earlier micro-batches
    std::span<const int64_t> tokens, targets;  // of ids_
  };
  // One of this rank's stages (model chunks).
  struct Chunk {
    Stage* stage;
    std::vector<Microbatch> microbatches;
    std::vector<std::unique_ptr<Activations>> kept;  // as many as the program keeps live
    std::vector<int> free;                           // slots of kept
    size_t next_weight = 0;  // the micro-batch whose gradient is summed next
    PipelineTimes times = {};
    bool first() const { return stage->layout().first(); }
    bool last() const { return stage->layout().last(); }
  };

  Chunk NewChunk(Stage* stage, const PipelineProgram& program, int64_t rows) const;
  Chunk& ChunkOf(int stage);
  void TakeRows(std::span<const int64_t> rows);
  bool Crosses(int boundary) const;  // to another rank; false outside of the model
  void Forward(Chunk& chunk, Microbatch& m);
  enum class Gradients { kBoth, kInput };
  void Backward(Chunk& chunk, Microbatch& m, Gradients gradients);
  // From `start` until now, of the action at work.
  absl::Duration Since(absl::Duration start, RankSpan::Kind kind, const char* doing = "") const;
  void CountCompute(const Stage& stage, absl::Duration took, absl::Duration waited_before,
                    absl::Duration* compute);
  void SumDueWeights(Chunk& chunk);
  void FinishWeight(Chunk& chunk, Microbatch& m);
  void Wait(WorkPtr* work, const char* doing);
  void WaitSent(const at::Tensor& tensor, WorkPtr* work, const char* doing);
  // Where that output goes to another rank.
  void Send(const at::Tensor& tensor, WorkPtr* work, const char* doing);
  int TagOf(const Message& message) const;

  c10::intrusive_ptr<c10d::Backend> boundary_;
  const std::function<absl::Duration()>& now_;
  const int rank_;
  const std::vector<int> rank_of_stage_;
  const std::vector<RankMessage> receives_;  // of a step, in the order in which they are needed
  const bool tags_say_kind_;                 // some rank has several stages
  const int64_t tokens_;                     // of a micro-batch
  std::vector<Chunk> chunks_;
  // Of the step, by micro-batch: its inputs, then their successors. Empty where no stage reads them.
  std::vector<int64_t> ids_;
  std::vector<double> losses_;      // of the step's tokens, in micro-batch order
  std::optional<double> loss_sum_;  // once it has been asked for
  PipelineTimes* times_ = nullptr;  // of the stage that is at work
  const std::function<void(const Message&, const at::Tensor&)> watch_;
  const bool mask_gradients_;
  const std::vector<int> sample_boundaries_;
  std::vector<int64_t> samples_;
  const SpanWatch spans_;           // may be empty
  const Subspace* const subspace_;  // may be null
  Action current_;
  const char* doing_ = "begin";
};

// Mean and per-row losses of a forward-only pass; see EvaluateRows.
struct RowLosses {
  std::vector<double> mean;  // nat/token, one per row
};

// Forward passes of `rows` rows for the local stages of one group, ascending, each over its rank's
// backend, `batch` rows at a time, on kEvaluationTag, over sample_boundaries on kSampleEvaluationTag
// or, where ranks have several stages, on kEvaluationChannel. `read(row, ids)` gives T + 1 token ids. Returns the losses if the last stage
// is local. Memory does not grow with `rows` but for the losses.
std::optional<RowLosses> EvaluateRows(std::span<Stage* const> stages,
                                      std::span<const c10::intrusive_ptr<c10d::Backend>> backends,
                                      const PipelineProgram& program, int64_t rows, int64_t batch,
                                      const std::function<void(int64_t, std::span<int64_t>)>& read,
                                      const std::vector<int>& sample_boundaries = {},
                                      const Subspace* subspace = nullptr);

}  // namespace longhaul
