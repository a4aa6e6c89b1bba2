#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// A decoder-only model as a plain value. `blocks` is divisible by S where stages are equal, `width`
// by `heads`, and `heads` by `kv_heads`.
//   gpt    learned positions, LayerNorm, GELU (tanh form) of 4 D, untied head (GPT-2, no biases)
//   llama  rotary positions, RMSNorm, SwiGLU, grouped queries, head tied or not
//   moe    llama with `experts` SwiGLUs a block, of which each token takes its top two (Mixtral)
struct ModelSpec {
  int64_t blocks;
  int64_t width;    // D
  int64_t heads;    // of queries
  int64_t context;  // T
  int64_t vocab;    // V
  std::string kind = "gpt";
  std::string engine = "auto";  // "cpu", "aten"; "auto": EngineOf (model.h)
  // Of llama and moe:
  int64_t kv_heads = 0;  // of keys and values; 0: as many as heads
  int64_t hidden = 0;    // of SwiGLU; 0: 8/3 D, up to a multiple of 64
  bool tied_head = false;
  double rope_theta = 10000;
  // Of moe:
  int64_t experts = 8;
  double capacity_factor = 0;   // an expert takes at most this times its even share; 0: dropless
  double balance_loss = 0.01;   // weight of the load-balancing loss (Switch Transformers, eq. 4)
  int64_t expert_parallel = 1;  // ranks over which each block's experts are spread, one a group
  int64_t expert_rank = -1;     // of LayoutOf: that rank's experts alone (OnExpertRank); -1: all

  int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  int64_t hidden_width() const { return hidden == 0 ? (8 * width / 3 + 63) / 64 * 64 : hidden; }
};

// What a stage computes on.
struct ComputeSpec {
  std::string device = "cpu";      // device_name.h; of what trains, one rank's
  std::string dtype = "float32";   // of products and boundaries: "float32", "bfloat16"
  bool recompute = false;          // a block's activations are computed again in its backward pass
  std::string attention = "math";  // a GPU's: "math", "fused"; of the process
  // Of the head's logits, in float32, that are there at once: rows of tokens are taken in as many
  // parts as that needs.
  int64_t logit_bytes = int64_t{1} << 28;

  // Rows of a part, of `rows`.
  int64_t HeadRows(int64_t rows, int64_t vocab) const {
    constexpr int64_t kTile = 128;  // of a product
    const int64_t whole = logit_bytes / (vocab * static_cast<int64_t>(sizeof(float)));
    return std::min(rows, std::max(kTile, whole / kTile * kTile));
  }
};

// The table of models and engines is the only list of both (model.cc).
std::vector<std::string> ModelKinds();    // "gpt", "llama", "moe"
std::vector<std::string> ModelEngines();  // "cpu", "aten"

// The engine that "auto" means here: the written-out one where it can, LibTorch where not.
// InvalidArgument: no engine of this name carries this model, or not with this device, dtype or
// recomputation; the message says which do.
absl::StatusOr<std::string> EngineOf(const ModelSpec& model, const ComputeSpec& compute);

// Of a kind of the table in model.cc. `cuts` as EmptyLayout takes them.
StageLayout LayoutOf(const ModelSpec& spec, int stage, int stages,
                     std::span<const int64_t> cuts = {});

// The model as rank `rank` of its expert_parallel holds it: equal runs of experts, in the order of
// ranks. The model itself where experts are not spread.
ModelSpec OnExpertRank(ModelSpec spec, int rank);

// Number of parameters of the whole model.
int64_t ParameterCount(const ModelSpec& spec);

// Floats that a process holds for a subspace of so many dimensions (subspace.h): U twice, and E.
int64_t SubspaceElements(const ModelSpec& model, int64_t rank);

}  // namespace longhaul
