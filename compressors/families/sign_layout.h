#pragma once

#include "compressors/frame/frame.h"
#include "compressors/kernels/sign_levels.h"

namespace longhaul {

// Where the sections of a frame of sign.h lie.
struct SignLayout {
  SignLayout(SignLevels levels, Shape shape)
      : row_blocks((shape.cols + kSignBlock - 1) / kSignBlock),
        level_bytes(2 * shape.rows * row_blocks),
        row_bytes(shape.cols / kSignBlock * (kSignBlock / 8) + (shape.cols % kSignBlock + 7) / 8),
        high_at(kFrameHeaderBytes + (levels == SignLevels::kTwoLevel ? AlignUp8(level_bytes) : 0)),
        bits_at(high_at + AlignUp8(level_bytes)),
        frame_bytes(bits_at + shape.rows * row_bytes) {}
  size_t row_blocks, level_bytes, row_bytes, high_at, bits_at, frame_bytes;
};

}  // namespace longhaul
