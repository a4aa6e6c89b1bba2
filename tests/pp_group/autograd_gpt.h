#pragma once

#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "pp_group/models/model_spec.h"

namespace longhaul {

// The whole model as plain ATen calls that autograd differentiates: the reference of CpuGptStage.
// `flat` is the parameter buffer of the unsplit layout (S = 1) and may require a gradient.
// tokens, targets: [rows * T]. Returns the mean cross-entropy, nat/token.
at::Tensor AutogradLoss(const ModelSpec& spec, const at::Tensor& flat,
                        std::span<const int64_t> tokens, std::span<const int64_t> targets);

}  // namespace longhaul
