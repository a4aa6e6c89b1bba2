#pragma once

#include <algorithm>

#include "compressors/frame/frame.h"
#include "compressors/kernels/fp4_scale.h"
#include "compressors/numbers/bit_pack.h"

namespace longhaul {

constexpr size_t kFp4Piece = 2048;  // elements worked on at once

// Where the sections of a frame of nvfp4 (fp4.h) lie, behind the tensor's scale.
struct NvLayout {
  explicit NvLayout(Shape shape)
      : scales_at(kFrameHeaderBytes + 8),
        row_blocks((shape.cols + kNvBlock - 1) / kNvBlock),
        row_bytes(PackedBytes(shape.cols, 4)),
        codes_at(scales_at + AlignUp8(shape.rows * row_blocks)),
        frame_bytes(codes_at + shape.rows * row_bytes),
        rows(shape.rows),
        cols(shape.cols),
        row_pieces((shape.cols + kFp4Piece - 1) / kFp4Piece) {}
  // Pieces of up to kFp4Piece elements, counted along the rows.
  size_t pieces() const { return rows * row_pieces; }
  size_t first(size_t piece) const {
    return piece / row_pieces * cols + piece % row_pieces * kFp4Piece;
  }
  size_t length(size_t piece) const {
    return std::min(kFp4Piece, cols - piece % row_pieces * kFp4Piece);
  }
  size_t ScaleAt(size_t piece) const {
    return piece / row_pieces * row_blocks + piece % row_pieces * (kFp4Piece / kNvBlock);
  }
  size_t CodeAt(size_t piece) const {
    return piece / row_pieces * row_bytes + piece % row_pieces * (kFp4Piece / 2);
  }
  size_t scales_at, row_blocks, row_bytes, codes_at, frame_bytes, rows, cols, row_pieces;
};

}  // namespace longhaul
