#pragma once

#include <string>

#include "pp_group/schedule/catalog.h"

namespace longhaul {

// Schedules of several stages a rank. Letters: P ranks, v stages of each (chunks), S = P v, M
// micro-batches. More boundaries are crossed than with one stage a rank: a model of the same P
// ranks sends 2(S-1) tensors a micro-batch, v times as many, and waits for as many more delays.

// Looped: stage s is on rank s mod P; what rank P - 1 makes goes on to rank 0.
//
// Interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters", 2021), in torch's order: micro-batches go through a rank's chunks in rounds of R, where
// M is cut into max(1, floor(M/P)) rounds of equal size; a rank warms up with (v-1) R + 2(P-1-r)
// forwards, then runs forward and backward in turn.
//   bubble fraction  (P-1)/(v M + P - 1) where R = P: 1F1B's divided by about v
//   peak activations min((v-1) R + 2(P-1-r) + 1, v M) of 1/v the size each, on rank r
Program InterleavedOneForwardOneBackward(int rank, const PipelineShape& shape);
// "wants ..." where M is not a whole number of equal rounds.
std::string InterleavedRefusal(const PipelineShape& shape);

// Breadth-first looped (Lamy-Poirier, "Breadth-First Pipeline Parallelism", 2022): all micro-batches
// through a rank's first chunk, then through its next; backwards the other way round. Backwards of a
// chunk run in micro-batch order, as equal bits want it; torch's run the other way.
//   bubble fraction  (P-1)/(v M + P - 1)
//   peak activations v M of 1/v the size each, on every rank: GPipe's
// Its messages never wait for each other's way back, so that a long round trip is paid v times a
// step and not v M times.
Program LoopedBreadthFirst(int rank, const PipelineShape& shape);

// V: rank r holds stages r and 2P - 1 - r. The first and the last stage are on rank 0, so that a
// tied head needs no exchange, and between stages P - 1 and P, both on rank P - 1, nothing crosses.
//
// ZB-V (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024), in torch's order. Of
// M < 2P - 1 micro-batches, the program of 2P - 1 without those that are not there.
//   bubble fraction  (P-1)/(6M+P-1) with F, I and W of equal cost and M >= 2P-1: none of it between
//                    filling and draining
//   peak activations min(2P, 2M) of half the size each, on every rank: 1F1B's largest
Program ZeroBubbleV(int rank, const PipelineShape& shape);

}  // namespace longhaul
