#pragma once

#include <algorithm>
#include <bit>

#include "compressors/frame/frame.h"

namespace longhaul {

// The tiles of tah.h, in row order; the last one of a row may be short.
struct TahTiles {
  TahTiles(Shape shape, size_t tile)
      : cols(shape.cols),
        tile(tile),
        per_row((cols + tile - 1) / tile),
        count(shape.rows * per_row) {}
  size_t first(size_t t) const { return t / per_row * cols + t % per_row * tile; }
  size_t length(size_t t) const { return std::min(tile, cols - t % per_row * tile); }
  size_t wide_per_row() const { return (8 * per_row + 5) / 10; }
  size_t map_bytes() const { return AlignUp8((count + 7) / 8); }
  size_t cols, tile, per_row, count;
};

// What the two maps decide: where every section begins.
struct TahLayout {
  TahLayout(const TahTiles& tiles, size_t rotated, size_t narrow_bytes, size_t wide_bytes)
      : rotated_at(kFrameHeaderBytes + tiles.map_bytes()),
        pivots_at(rotated_at + tiles.map_bytes()),
        pivot_bytes((rotated * static_cast<size_t>(std::bit_width(tiles.tile - 1)) + 7) / 8),
        scales_at(pivots_at + AlignUp8(pivot_bytes)),
        zeros_at(scales_at + AlignUp8(2 * tiles.count)),
        codes_at{zeros_at + AlignUp8(2 * tiles.count),
                 zeros_at + AlignUp8(2 * tiles.count) + narrow_bytes},
        frame_bytes(codes_at[1] + wide_bytes) {}
  size_t rotated_at, pivots_at, pivot_bytes, scales_at, zeros_at, codes_at[2], frame_bytes;
};

}  // namespace longhaul
