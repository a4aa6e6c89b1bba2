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
#include "pp_group/schedule.h"
#include "pp_group/stage.h"

namespace longhaul {

// Where the time of one rank's step went. Compute excludes communication.
struct PipelineTimes {
  absl::Duration forward, backward;
  absl::Duration send;  // inside c10d's send: encoding, where the backend encodes in the caller
  absl::Duration wait;  // blocked on a receive, or on a send buffer that is still in flight
};

// One rank's side of the pipeline: runs the actions of its stage, one step after the other. The
// receives of a whole step are posted when the step begins, so that a transport can deliver and
// decode while the rank computes. Sends its output detached: the backward pass of this stage uses
// its own activations, the next stage's the decoded ones (straight-through). Throws what c10d does.
class PipelineRank {
 public:
  // `boundary` is null when there is one stage; group rank = stage. Borrows `stage` and `now`.
  // `watch` sees each micro-batch's tensor before it is sent; true: a gradient.
  PipelineRank(Stage* stage, c10::intrusive_ptr<c10d::Backend> boundary, const Program& program,
               int64_t rows_per_microbatch, const std::function<absl::Duration()>* now,
               std::function<void(int64_t, bool, const at::Tensor&)> watch = {});
  ~PipelineRank();

  // rows: [M * rows_per_microbatch, T + 1] token ids, read on the first and last stage; must live
  // until the step ends.
  void BeginStep(std::span<const int64_t> rows);
  void Run(const Action& action);
  // Waits until nothing that this rank has sent is in flight.
  void FinishSends();

  // Sum of the losses of the step's tokens in micro-batch order; the last stage only, if it trains.
  std::optional<double> loss_sum() const;
  const PipelineTimes& times() const { return times_; }
  // What the rank was doing, for error messages: "stage 1, 1F3: receive from stage 0".
  std::string Doing() const;

 private:
  struct Microbatch {
    at::Tensor x, y, dx, dy;  // [n, D]; undefined where the stage has no such neighbour
    WorkPtr received_x, received_dy, sent_y, sent_dx;
    int slot = -1;  // index into kept_ while live
    std::vector<int64_t> tokens, targets;
  };

  void Forward(int index);
  void Backward(int index);
  void Wait(WorkPtr* work, const char* doing);
  void WaitSent(const at::Tensor& tensor, WorkPtr* work, const char* doing);
  void Send(const at::Tensor& tensor, int peer, WorkPtr* work, const char* doing);
  bool first() const { return stage_->layout().first(); }
  bool last() const { return stage_->layout().last(); }
  int index() const { return stage_->layout().stage; }

  Stage* stage_;
  c10::intrusive_ptr<c10d::Backend> boundary_;
  const std::function<absl::Duration()>& now_;
  int64_t tokens_;  // of a micro-batch
  std::vector<Microbatch> microbatches_;
  std::vector<std::unique_ptr<Activations>> kept_;  // as many as the schedule keeps live
  std::vector<int> free_;                           // slots of kept_
  std::vector<double> losses_;
  double loss_sum_ = 0;
  PipelineTimes times_;
  const std::function<void(int64_t, bool, const at::Tensor&)> watch_;
  Action current_{};
  const char* doing_ = "begin";
};

// Mean and per-row losses of a forward-only pass; see EvaluateRows.
struct RowLosses {
  std::vector<double> mean;  // nat/token, one per row
};

// Forward passes of `rows` rows over `backend` for the local stages of one group, `batch` rows at a
// time, on kEvaluationTag. `read(row, ids)` gives T + 1 token ids. Returns the losses if the last
// stage is local. Memory does not grow with `rows` but for the losses.
std::optional<RowLosses> EvaluateRows(std::span<Stage* const> stages,
                                      std::span<const c10::intrusive_ptr<c10d::Backend>> backends,
                                      int64_t rows, int64_t batch,
                                      const std::function<void(int64_t, std::span<int64_t>)>& read);

}  // namespace longhaul
