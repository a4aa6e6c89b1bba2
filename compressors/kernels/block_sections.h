#pragma once

#include <cstddef>

#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// Where the parts of a run of blocks stand in a frame; nothing here is aligned.
struct BlockSections {
  std::byte* scales;  // [blocks] of ScaleBytes
  std::byte* zeros;   // [blocks] bf16, affine grids only
  std::byte* codes;   // [blocks] of CodeBytes
};
struct ConstBlockSections {
  const std::byte* scales;
  const std::byte* zeros;
  const std::byte* codes;
};

// x: [block * blocks] f32, not aligned. Reads and writes exactly the bytes named. The codec widens
// 16-bit tensors piece by piece in the nearest cache, so one kernel per scheme is enough.
using EncodeBlocksFn = BlockFault (*)(const std::byte* x, size_t blocks, BlockSections out);
// False: a scale, zero point or code is Inf or NaN; x then holds unspecified values.
using DecodeBlocksFn = bool (*)(ConstBlockSections in, size_t blocks, std::byte* x);

// With stochastic rounding by the draws u [block * blocks] (stochastic.h). Answers how many blocks
// are done, from the first one: the next one is broken, or does not fill the kernel's vectors. May
// write kBlockCodeSlack bytes behind the codes.
using EncodeNoisyBlocksFn = size_t (*)(const std::byte* x, const float* u, size_t blocks,
                                       BlockSections out);
constexpr size_t kBlockCodeSlack = 16;

// Block of c <= 64 elements, plain loops: the reference of every kernel, and the short last block
// of a row on all instruction sets (which is never rotated).
BlockFault EncodeBlockReference(BlockScheme scheme, const std::byte* x, size_t c,
                                BlockSections out);
bool DecodeBlockReference(BlockScheme scheme, ConstBlockSections in, size_t c, std::byte* x);

}  // namespace longhaul
