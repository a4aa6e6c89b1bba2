#pragma once

#include <cstdint>

#include "compressors/kernels/block_sections.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/kernels.h"

namespace longhaul {

// Stochastic rounding of the block schemes (`+sr`): q = floor(x / s + u), u uniform in [0, 1) by
// the frame's seed and the element's number (noise.h), so that the expectation of xhat is x. The
// layout is that of the plain scheme, with flag "stochastic" and the seed in the header.
//
// E2M1 takes one of its two neighbours; its scale is 4/3 of what the E8M0 byte says, so that
// nothing is clipped, and with a rotation the signs of the elements are flipped at random first
// (purpose 2; Quartet, arXiv 2505.14669).
bool CanRoundStochastically(BlockScheme scheme);

// One block: x [c], changed; `first` is the tensor's element at x[0].
BlockFault EncodeBlockStochastic(BlockScheme scheme, const Kernels& kernels, uint64_t seed,
                                 uint64_t first, float* x, size_t c, BlockSections out);

// What decoding the plain scheme leaves to do; nothing for integer grids. x: [n] of dtype fp32.
// n <= kMaxBlock.
void FinishStochasticDecode(BlockScheme scheme, const Kernels& kernels, uint64_t seed,
                            uint64_t first, float* x, size_t n);

}  // namespace longhaul
