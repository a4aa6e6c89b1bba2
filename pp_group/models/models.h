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

// Llama whose SwiGLU is one of `experts` in each block: each token goes to the two with the largest
// router logits, weighted by the softmax over those two (Mixtral, arXiv 2401.04088). With a
// capacity, an expert takes its first capacity_factor * 2 n / experts tokens of a micro-batch,
// rounded up; the others pass it by. All experts of a block live in its stage, or are spread over
// the ranks that run that stage on other rows (StageOptions::expert_peers).
//
// The load-balancing loss experts * sum over e of (share of choices of e) * (mean probability of e)
// (Switch Transformers, arXiv 2101.03961, equation 4) is added with weight `balance_loss` to what
// is differentiated, not to what is reported.
StageLayout MoeLayout(const ModelSpec& spec, int stage, int stages, std::span<const int64_t> cuts);
std::unique_ptr<AtenModel> NewAtenMoe(const ModelSpec& spec, const StageOptions& options,
                                      const StageLayout& layout, AtenParameters* parameters);

}  // namespace longhaul
