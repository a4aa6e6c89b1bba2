#pragma once

#include "compressors/kernels/ggml_loops.h"
#include "compressors/kernels/matrix_loops.h"
#include "compressors/kernels/noise_loops.h"
#include "compressors/kernels/sign_loops.h"
#include "compressors/kernels/stat_loops.h"
#include "compressors/kernels/top_k_loops.h"

namespace longhaul {

// The entries of one instruction set that all have.
template <class L>
constexpr Kernels MakeLoops() {
  return {.convert = {},
          .encode_blocks = {},
          .decode_blocks = {},
          .encode_noisy_blocks = {},
          .encode_nv = nullptr,
          .decode_nv = nullptr,
          .abs_max = LoopAbsMax<L>,
          .survivors = LoopSurvivors<L>,
          .kth_magnitude = LoopKthMagnitude<L>,
          .keep_at_least = LoopKeepAtLeast<L>,
          .sum = LoopSum<L>,
          .sum_abs = LoopSumAbs<L>,
          .sum_squares = LoopSumSquares<L>,
          .sums_about = LoopSumsAbout<L>,
          .range = LoopRange<L>,
          .entropy = LoopEntropy<L>,
          .sign_bits = LoopSignBits<L>,
          .expand_signs = LoopExpandSigns<L>,
          .affine_codes = LoopAffineCodes<L>,
          .noisy_codes = LoopNoisyCodes<L>,
          .noisy_signed_codes = LoopNoisySignedCodes<L>,
          .noisy_e2m1_codes = LoopNoisyE2m1Codes<L>,
          .sign_blocks = LoopSignBlocks<L>,
          .standardize = LoopStandardize<L>,
          .restore = LoopRestore<L>,
          .affine_values = LoopAffineValues<L>,
          .e2m1_codes = LoopMiniCodes<L, MiniFloat::kE2M1>,
          .e2m1_values = LoopMiniValues<L, MiniFloat::kE2M1>,
          .flip_signs = LoopFlipSigns<L>,
          .uniform = LoopUniform<L>,
          .encode_q8 = LoopEncodeQ8<L>,
          .encode_q4 = LoopEncodeQ4<L>,
          .decode_q8 = LoopDecodeQ8<L>,
          .decode_q4 = LoopDecodeQ4<L>,
          .dot = LoopDot<L>,
          .add_scaled = LoopAddScaled<L>,
          .sum_scaled = LoopSumScaled<L>,
          .multiply64 = LoopMultiply64<L>,
          .stat_codes = LoopStatCodes<L>,
          .stat_offsets = LoopStatOffsets<L>,
          .table_values = LoopTableValues<L>,
          .stream = LoopStream<L>};
}

}  // namespace longhaul
