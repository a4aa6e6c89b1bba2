#pragma once

#include <memory>
#include <span>

#include "pp_group/engines/aten/model.h"
#include "pp_group/models/model.h"

namespace longhaul {

// Learned positions, pre-norm LayerNorm, GELU (tanh form) MLP of 4 D, causal attention, untied
// head, no linear biases, no dropout. Initial values as in GPT-2.
StageLayout GptLayout(const ModelSpec& spec, int stage, int stages, std::span<const int64_t> cuts);
std::unique_ptr<AtenModel> NewAtenGpt(const ModelSpec& spec, const StageOptions& options,
                                      const StageLayout& layout, AtenParameters* parameters);

}  // namespace longhaul
