#pragma once

#include <cstdint>
#include <span>

#include "pp_group/stage_layout.h"

namespace longhaul {

// Decoder-only GPT: learned positions, pre-norm LayerNorm, GELU (tanh form) MLP of 4 D, causal
// attention, untied head, no linear biases, no dropout. `width` is divisible by `heads`, and
// `blocks` by S where stages are equal.
struct GptSpec {
  int64_t blocks;
  int64_t width;  // D
  int64_t heads;
  int64_t context;  // T
  int64_t vocab;    // V
};

// `cuts` as EmptyLayout takes them.
StageLayout LayoutOf(const GptSpec& spec, int stage, int stages,
                     std::span<const int64_t> cuts = {});

// Number of parameters of the whole model.
int64_t ParameterCount(const GptSpec& spec);

}  // namespace longhaul
