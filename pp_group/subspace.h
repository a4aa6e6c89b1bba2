#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/stage.h"

namespace longhaul {

// A subspace S of the residual stream, of `rank` of its D dimensions (Protocol Models, Ramasinghe et
// al. 2025, arXiv 2506.01260). What a stage adds to the stream lies in S because its weights do: the
// columns of each block's two last products, and what the rows of the embeddings have moved from
// their initial values, which every rank knows. So a boundary needs `rank` numbers a token and loses
// nothing but rounding. S and the initial embeddings follow from the seed and stay: the paper also
// turns S while it trains.
//
// S is spanned by the orthonormal columns of U [D, rank]: Gram-Schmidt, in order, over normal draws.
// float32 on the CPU. Thread safe: nothing changes after the constructor.
class Subspace {
 public:
  // Of a gpt or llama without a tied head; rank 1 to D.
  Subspace(const ModelSpec& model, uint64_t seed, int64_t rank);

  int64_t rank() const { return basis_.size(1); }
  const at::Tensor& basis() const { return basis_; }  // U

  // A boundary's tensor [n, D] as what crosses [n, rank], and back. `tokens`: the n ids at its
  // positions for an activation x, which is E[tokens] + c U^T; empty for a gradient, g = c U^T.
  void ToCoordinates(const at::Tensor& x, std::span<const int64_t> tokens,
                     const at::Tensor& coordinates) const;
  void FromCoordinates(const at::Tensor& coordinates, std::span<const int64_t> tokens,
                       const at::Tensor& x) const;

  // Of the matrices that write into the stream takes away what is not in S: of their gradients
  // before a step, so that norms, averages and moments are of what moves them, and of the
  // parameters after whatever has moved these.
  void ProjectGradients(const Stage& stage) const;
  void ProjectParameters(Stage* stage) const;

 private:
  at::Tensor InitialEmbeddings(std::span<const int64_t> tokens) const;

  at::Tensor basis_, basis_transposed_;
  at::Tensor token_,
      position_;  // E: initial embeddings; position_ [T, D] undefined where a model has none
};

}  // namespace longhaul
