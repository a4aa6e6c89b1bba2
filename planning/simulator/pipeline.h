#pragma once

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// A model too large for a node, cut into `out.stages` stages: PP-Group DiLoCo for two groups or
// more, one pipeline over the WAN otherwise (section 3). Wants stages, parameters and payload_bits;
// fills times, steps, tokens and C_raw = 6 P_a D (wall clock, so the bubble is inside).
void SimulatePipeline(const Scenario& scenario, Outcome& out);

// What crosses a boundary in one step, bits each way, compressed.
struct BoundaryBits {
  double forward, backward;
};
BoundaryBits BitsOfStep(const Scenario& scenario, const Outcome& out);

}  // namespace longhaul::simulator
