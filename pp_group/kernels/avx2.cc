#include "pp_group/kernels/attention.h"
#include "pp_group/kernels/body.h"
#include "pp_group/kernels/tables.h"

namespace longhaul {

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .layer_norm = LayerNorm,
    .layer_norm_backward = LayerNormBackward,
    .gelu = Gelu,
    .multiply = Multiply,
    .attention = Attention,
    .attention_backward = AttentionBackward,
    .cross_entropy = CrossEntropy,
    .sum_of_squares = SumOfSquares,
    .adamw = AdamW,
    .nesterov = Nesterov,
};

}  // namespace longhaul
