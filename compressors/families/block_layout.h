#pragma once

#include <algorithm>

#include "compressors/frame/frame.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {

// Where a block's parts begin in a frame.
struct BlockPlace {
  size_t scales, zeros, codes;
};

// How a tensor falls into blocks, and where the sections lie in its frame.
struct BlockLayout {
  BlockLayout(BlockScheme scheme, Shape shape) : rows(shape.rows), cols(shape.cols) {
    const size_t block = scheme.block;
    if (cols % block == 0) {  // no short blocks: one long row
      cols *= rows;
      rows = 1;
    }
    full = cols / block;
    tail = cols % block;
    row_blocks = full + (tail != 0);
    row_code_bytes = full * CodeBytes(scheme) + PackedBytes(tail, scheme.bits);
    scales_end = kFrameHeaderBytes + ScaleBytes(scheme) * rows * row_blocks;
    zeros_at = AlignUp8(scales_end);
    zeros_end = zeros_at + ZeroBytes(scheme) * rows * row_blocks;
    codes_at = AlignUp8(zeros_end);
    frame_bytes = codes_at + rows * row_code_bytes;
  }
  // Block b of row r, or the end of the row.
  BlockPlace At(BlockScheme scheme, size_t r, size_t b) const {
    const size_t before = row_blocks * r + b;
    return {kFrameHeaderBytes + ScaleBytes(scheme) * before, zeros_at + ZeroBytes(scheme) * before,
            codes_at + row_code_bytes * r + std::min(CodeBytes(scheme) * b, row_code_bytes)};
  }
  size_t rows, cols, full, tail, row_blocks, row_code_bytes;
  size_t scales_end, zeros_at, zeros_end, codes_at, frame_bytes;
};

// Blocks [first, last) of a row, the short one included.
struct BlockRange {
  size_t first, last;
};

// How threads share a tensor: its rows, or the blocks of the only one.
struct BlockShares {
  // 256 KiB of fp32: a thread that wakes for less costs more than it saves.
  static constexpr size_t kLeast = size_t{64} << 10;
  BlockShares(const BlockLayout& l, BlockScheme scheme)
      : by_row(l.rows > 1),
        row_blocks(l.row_blocks),
        slices(by_row ? l.rows : l.row_blocks,
               kLeast / (by_row ? l.cols : static_cast<size_t>(scheme.block))) {}
  // Calls visit(row, blocks) for what belongs to one slice until it answers false.
  template <typename Visit>
  bool ForEach(size_t slice, Visit visit) const {
    const size_t first = slices.first(slice), last = slices.last(slice);
    if (!by_row) return visit(0, BlockRange{first, last});
    for (size_t r = first; r < last; ++r) {
      if (!visit(r, BlockRange{0, row_blocks})) return false;
    }
    return true;
  }
  bool by_row;
  size_t row_blocks;
  Slices slices;
};

}  // namespace longhaul
