#pragma once

#include "pp_group/schedule/action.h"

namespace longhaul {

// Schedules of one stage a rank. Letters: S stages, M micro-batches.
//
// Bytes on the wire per micro-batch of B/M rows, for all of them: 2(S-1) tensors of (B/M) * T * D
// elements, each at the bits per element of its kind's codec (32 for "none").

// All forwards, then all backwards, both in micro-batch order.
//   bubble fraction  (S-1)/(M+S-1), forward and backward of equal cost on every stage
//   peak activations M micro-batches on every stage
Program GPipe(int stage, int num_stages, int num_microbatches);

// One forward, one backward (PipeDream-flush): min(S-1-s, M) forwards of warm-up, then forward and
// backward in turn, then the remaining backwards.
//   bubble fraction  (S-1)/(M+S-1), as GPipe: the gain is memory, not time
//   peak activations min(S-s, M) micro-batches on stage s
Program OneForwardOneBackward(int stage, int num_stages, int num_microbatches);

// 1F1B for links whose round trip is worth `depth` micro-batches' forward and backward passes, or a
// part more than depth - 1: a stage warms up with min((S-1-s)(1+depth), M) forwards, so that in the
// steady state the gradient of a micro-batch may be `depth` of them late at every boundary behind
// the stage, and still nobody waits. Depth 0 is 1F1B, depth 1 what Zhuang et al. (2022, "On
// Optimizing the Communication of Model Parallelism") call eager 1F1B, depth M is GPipe's forwards.
//   bubble fraction  (S-1)/(M+S-1), as both, where nothing is late
//   peak activations min((S-1-s)(1+depth)+1, M) micro-batches on stage s
Program DeepOneForwardOneBackward(int stage, int num_stages, int num_microbatches, int depth);

// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): 1F1B with the backward pass split.
// The stage before waits for I alone, and W fills what would be a bubble: stage s runs its W s
// micro-batches behind its I.
//   bubble fraction   (S-1)/(3M+S-1) with F, I and W of equal cost; 1F1B: 3(S-1)/(3M+3(S-1))
//   peak activations  min(S, M) micro-batches on every stage: 1F1B's largest
// A stage that cannot split its backward pass runs all of it as I, and gains nothing.
Program ZeroBubbleH1(int stage, int num_stages, int num_microbatches);

}  // namespace longhaul
