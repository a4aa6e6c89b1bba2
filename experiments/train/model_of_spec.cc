#include "experiments/train/model_of_spec.h"

namespace longhaul {

ModelSpec ToModelSpec(const RunSpec& spec) {
  const RunSpec::Model& m = spec.model;
  return {.blocks = m.blocks,
          .width = m.width,
          .heads = m.heads,
          .context = m.context,
          .vocab = m.vocab,
          .kind = m.kind,
          .engine = m.engine,
          .kv_heads = m.kv_heads,
          .hidden = m.hidden,
          .tied_head = m.tied_head,
          .rope_theta = m.rope_theta,
          .experts = m.experts,
          .capacity_factor = m.capacity_factor,
          .balance_loss = m.balance_loss,
          .expert_parallel = m.expert_parallel};
}

ComputeSpec ToComputeSpec(const RunSpec& spec) {
  return {.device = spec.train.device,
          .dtype = spec.train.dtype,
          .recompute = spec.train.recompute,
          .attention = spec.train.attention};
}

}  // namespace longhaul
