#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <ATen/core/Tensor.h>

#include "absl/time/time.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// What one micro-batch leaves behind between its forward and its backward on one stage. Reused
// from step to step.
class Activations {
 public:
  virtual ~Activations() = default;
};

// What a pipeline needs to know of its model.
struct StageShape {
  int64_t context;  // T
  int64_t width;    // D
  int64_t vocab;    // V
};

// One stage of a pipeline, as the executor drives it: parameters, and explicit forward and backward
// passes. Letters as in README.md; n = rows * T token rows. Not thread safe.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual const StageLayout& layout() const = 0;
  virtual const StageShape& shape() const = 0;
  // Device and dtype of the tensors that cross its boundaries: x, y, dx, dy below. Token ids,
  // targets and losses are on the host.
  virtual at::TensorOptions boundary() const {
    return at::TensorOptions(at::kCPU).dtype(at::kFloat);
  }
  // False: Loss computes none, what parameters become means nothing, and UpdateItself stands for
  // the optimizer.
  virtual bool trains() const = 0;
  virtual void UpdateItself() {}

  // [layout().flat_elements] each, f32, contiguous, on boundary().device(). Writing into them is
  // allowed between steps; the storage stays where it is.
  virtual const at::Tensor& parameters() const = 0;
  virtual const at::Tensor& gradients() const = 0;
  // Of a stage that looks tokens up and reads them out by one matrix (StageLayout::tied, S = 1):
  // [tied] what the head adds to its gradient; gradients() then has what the lookups add. Undefined
  // elsewhere. Apart, so that one order of sums holds for every S (tied_head.h).
  virtual at::Tensor head_gradient() const { return {}; }
  virtual void ZeroGradients() = 0;
  // The ids of a step, in which the `tokens` and `targets` of its passes lie; they stay there until the next
  // step's. A stage may take them to its device at once. An evaluation has others.
  virtual void BeginStep(std::span<const int64_t>) {}
  // To be called after parameters() has been written into, before the next Forward: a stage may
  // hold them in another dtype too.
  virtual void ParametersChanged() {}

  virtual std::unique_ptr<Activations> NewActivations(int64_t rows) const = 0;
  // For a forward pass and a loss that no backward pass follows.
  virtual std::unique_ptr<Activations> NewForwardActivations(int64_t rows) const {
    return NewActivations(rows);
  }

  // x: [n, D] or, on stage 0, empty: then `tokens` ([n], row after row) is embedded. Writes the
  // stage's output to y ([n, D]; unused on the last stage). x and y must live until the backward.
  virtual void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
                       Activations* kept) = 0;

  // Last stage, after Forward: per-token losses in nat ([n]) against `targets` ([n]). With
  // `grad_scale` != 0 also starts the backward pass: the gradient of grad_scale * (sum of losses)
  // goes into the parameters' gradients and `kept`, so that the logits need not outlive the call.
  // `losses` are written when FinishLosses returns, and must live until then.
  virtual void Loss(std::span<const int64_t> targets, float grad_scale, Activations* kept,
                    std::span<double> losses) = 0;

  // Waits, where a device computes, for the losses of all calls so far.
  virtual void FinishLosses() {}

  // The backward pass in two parts, I and W of split schedules: first what the stage before waits
  // for, then, any time later, what only the optimizer waits for. `kept` is free for another
  // micro-batch after the second.
  //
  // dy: gradient of y ([n, D]; unused on the last stage, where Loss has made it). Writes the
  // gradient of x to dx ([n, D]; unused on stage 0). `tokens` as given to Forward. Gradients of
  // parameters are summed over micro-batches until ZeroGradients(), in the order of the calls:
  // micro-batches come in ascending order in each of Forward, BackwardInput and BackwardWeight, and
  // then every schedule gives the same bits.
  virtual void BackwardInput(std::span<const int64_t> tokens, const at::Tensor& dy,
                             const at::Tensor& dx, Activations* kept) = 0;
  // May do nothing where BackwardInput is the whole backward pass: then a split schedule runs and
  // gains nothing.
  virtual void BackwardWeight(Activations* kept) = 0;
  // How long calls have waited for other ranks so far: no compute.
  virtual absl::Duration waited() const { return absl::ZeroDuration(); }
  // Both at once, which may take less memory; the same bits.
  virtual void Backward(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                        Activations* kept) {
    BackwardInput(tokens, dy, dx, kept);
    BackwardWeight(kept);
  }
};

}  // namespace longhaul
