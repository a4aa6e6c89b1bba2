#pragma once

#include "compressors/families/block_layout.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/kernels.h"

// The work of a block codec between header and header: a tensor's blocks to and from the sections
// of a frame, on all threads of the pool, piece by piece in the nearest cache.
namespace longhaul {

struct BlockWork {
  BlockScheme scheme;
  const Kernels& kernels;
  const BlockLayout& layout;
};

using BlockSums = SlicedSums<3>;

// seed: rounds stochastically with it; null: to nearest. Answers the first fault in the tensor;
// the frame's sections then hold anything. The gaps between them are the caller's.
BlockFault EncodeBlockRows(const BlockWork& work, ConstTensor x, const uint64_t* seed,
                           std::byte* frame, BlockSums& sums);

// seed: that of a stochastically rounded frame, else null. False: some scale, zero point or code is
// no number; `sums` then say nothing.
bool DecodeBlockRows(const BlockWork& work, const std::byte* frame, const uint64_t* seed, Tensor x,
                     BlockSums& sums);

}  // namespace longhaul
