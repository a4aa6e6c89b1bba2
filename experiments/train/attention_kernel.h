#pragma once

#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// Whether a GPU's fused attention takes heads of this width; else they go to the math kernel, which
// keeps each token's probabilities.
bool FusedAttentionFits(const RunSpec& spec);

// A line for a run on a GPU that asks for fused attention and does not get it; else empty.
std::vector<std::string> AttentionAdvice(const RunSpec& spec);

}  // namespace longhaul
