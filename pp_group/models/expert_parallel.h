#pragma once

// Private to pp_group's LibTorch engine: experts of a layer, spread over the ranks of a group.

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/time/time.h"

namespace longhaul {

// The group that experts are spread over, and how long calls have stood in its exchanges so far.
struct ExpertPeers {
  c10::intrusive_ptr<c10d::Backend> backend;
  const std::function<absl::Duration()>* now = nullptr;  // null: nothing is timed
  absl::Duration waited = absl::ZeroDuration();
};

// Which experts a rank holds: equal runs of them, in the order of ranks.
struct ExpertShare {
  int64_t begin, count;
};
inline ExpertShare ShareOf(int64_t experts, int rank, int ranks) {
  return {experts / ranks * rank, experts / ranks};
}

// Runs the experts of all ranks where they are. Letters: E experts, R ranks, R divides E.
//   rows    [m, D]: this rank's choices, sorted by expert
//   counts  [E]: how many of them each expert takes
//   run     the rank's own experts: rows [k, D] of all ranks, sorted by expert and within one by
//           rank, and how many each of the rank's experts has -> [k, D], with autograd
// Returns [m, D], the outputs in the order of `rows`. Two exchanges of rows forward and two
// backward (all-to-all), and one of E counts; bytes a rank sends in each: those of its rows for
// others.
//
// Collective: all ranks of `peers`, which outlive the graph, call it in the same order, and their
// backward passes likewise.
// An expert sees the rows of all ranks at once, so that the gradient of its parameters is whole on
// the rank that holds it; gradients of what all ranks hold alike (router, attention) are of each
// rank's own tokens, and to be summed over the ranks. Throws what c10d does.
at::Tensor RunSpreadExperts(
    ExpertPeers& peers, const at::Tensor& rows, const std::vector<int64_t>& counts,
    const std::function<at::Tensor(const at::Tensor&, const std::vector<int64_t>&)>& run);

}  // namespace longhaul
