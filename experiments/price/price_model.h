#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "experiments/price/price_input.h"
#include "experiments/price/price_plan.h"
#include "experiments/spec/spec.h"
#include "experiments/train/model_weights.h"
#include "pp_group/stage.h"

namespace longhaul {

// Codecs of both directions. Forward: the tensor that enters a block. Backward: its gradient, on
// the way from that block to the one before.
struct GradientArm {
  PriceArm forward, backward;
  friend bool operator==(const GradientArm&, const GradientArm&) = default;
};

// Of the gradient of all parameters, against the exact one.
struct GradientError {
  double nmse;    // ||g' - g||^2 / ||g||^2
  double cosine;  // <g', g> / (||g'|| ||g||)
};

// What a caller may want to hear while a row is priced; empty: not.
struct PriceWatch {
  // `exact`: the tensor is that of the uncompressed model, nothing before it was compressed.
  std::function<void(const PricedCrossing&, bool backward, bool exact, const BoundaryCount&)>
      crossed;
  std::function<void(const PassWork&)> worked;  // forward passes since the last call
};

// A model that exists, each block a stage of a pipeline of L stages: the stages of `longhaul run`,
// on one thread of control, with codecs between them. T: the context of the spec it was loaded with.
// A tied head is the last stage's own copy of the embedding; its gradient is added to the
// embedding's. Not thread safe.
class PriceModel {
 public:
  // `spec`: its model, with the context that rows have. InvalidArgument: what CheckModel refuses, a
  // model of one block.
  static absl::StatusOr<std::unique_ptr<PriceModel>> Load(const RunSpec& spec,
                                                          const ModelWeights& weights);
  ~PriceModel();

  int64_t blocks() const { return static_cast<int64_t>(stages_.size()); }
  const std::string& engine() const { return engine_; }
  // A head (final norm, logits, loss) in forward passes through one block, by parameters.
  double head_in_blocks() const { return head_in_blocks_; }

  // Mean loss (nat/token) of one row of T + 1 ids for each arm of the tree: losses[arm]. `seed`: of
  // codecs that draw, another for each row. OutOfRange: a loss that is not finite, or what
  // PriceCodecs::Cross says.
  absl::Status PriceRow(std::span<const int64_t> ids, const PassNode& tree, uint64_t seed,
                        PriceCodecs* codecs, const PriceWatch& watch, std::span<double> losses);

  // Forward and backward passes of one row for each arm and, before them, without codecs:
  // errors[arm], and `gradients` is the exact one of the row's mean loss.
  absl::Status GradientRow(std::span<const int64_t> ids, std::span<const GradientArm> arms,
                           uint64_t seed, PriceCodecs* codecs, const PriceWatch& watch,
                           std::span<GradientError> errors);

 private:
  struct Pass;
  PriceModel() = default;
  absl::Status Walk(const PassNode& node, at::Tensor x, Pass& pass);
  absl::Status Gradient(const GradientArm& arm, Pass& pass);
  double LossOf(Pass& pass);
  void JoinTied();

  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::unique_ptr<Activations>> forward_only_, kept_;  // by stage
  std::vector<at::Tensor> exact_;                                  // gradients, by stage
  std::string engine_;
  double head_in_blocks_ = 0;
};

}  // namespace longhaul
