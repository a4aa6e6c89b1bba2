#pragma once

#include <array>
#include <cstddef>

#include "compressors/block_scheme.h"
#include "compressors/isa.h"

namespace longhaul {

// Where the parts of a run of blocks stand in a frame; nothing here is aligned.
struct BlockSections {
  std::byte* scales;  // [blocks] bf16
  std::byte* zeros;   // [blocks] bf16, affine grids only
  std::byte* codes;   // [blocks] of 8 * bits bytes
};
struct ConstBlockSections {
  const std::byte* scales;
  const std::byte* zeros;
  const std::byte* codes;
};

// x: [64 * blocks] of the table's dtype. Reads and writes exactly the bytes named.
using EncodeBlocksFn = BlockFault (*)(const std::byte* x, size_t blocks, BlockSections out);
// False: a scale or zero point is Inf or NaN; x then holds unspecified values.
using DecodeBlocksFn = bool (*)(ConstBlockSections in, size_t blocks, std::byte* x);

// One kernel per scheme (row, SchemeIndex) and dtype of the tensor (column).
struct BlockKernelTable {
  std::array<std::array<EncodeBlocksFn, 3>, kBlockSchemes.size()> encode;
  std::array<std::array<DecodeBlocksFn, 3>, kBlockSchemes.size()> decode;
};

const BlockKernelTable& BlockKernels(Isa isa);

// Block of c <= 64 elements, plain loops: the reference of every kernel, and the short last block
// of a row on all instruction sets (which is never rotated).
BlockFault EncodeBlockReference(BlockScheme scheme, const std::byte* x, DType dtype, size_t c,
                                BlockSections out);
bool DecodeBlockReference(BlockScheme scheme, ConstBlockSections in, size_t c, DType dtype,
                          std::byte* x);

// The tables by instruction set.
const BlockKernelTable& ScalarBlockKernels();
const BlockKernelTable& Avx2BlockKernels();
const BlockKernelTable& Avx512BlockKernels();

}  // namespace longhaul
