#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "compressors/frame/frame.h"
#include "compressors/numbers/bit_pack.h"

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
  int pivot_bits() const { return static_cast<int>(std::bit_width(tile - 1)); }
  size_t wide_per_row() const { return (8 * per_row + 5) / 10; }
  size_t map_bytes() const { return AlignUp8((count + 7) / 8); }
  size_t cols, tile, per_row, count;
};

// Elements of the maps, one bit per tile.
inline bool TahBit(const std::byte* map, size_t t) {
  return (static_cast<unsigned>(map[t / 8]) >> (t % 8) & 1) != 0;
}
inline void SetTahBit(std::byte* map, size_t t) {
  map[t / 8] |= static_cast<std::byte>(1u << (t % 8));
}

// The codes of tile t.
inline size_t TahCodeBytes(const TahTiles& tiles, size_t t, bool wide) {
  return PackedBytes(tiles.length(t), 3 + wide);
}

// What the two maps decide: where every section begins.
struct TahLayout {
  TahLayout(const TahTiles& tiles, size_t rotated, size_t narrow_bytes, size_t wide_bytes)
      : rotated_at(kFrameHeaderBytes + tiles.map_bytes()),
        pivots_at(rotated_at + tiles.map_bytes()),
        pivot_bytes((rotated * static_cast<size_t>(tiles.pivot_bits()) + 7) / 8),
        scales_at(pivots_at + AlignUp8(pivot_bytes)),
        zeros_at(scales_at + AlignUp8(2 * tiles.count)),
        codes_at{zeros_at + AlignUp8(2 * tiles.count),
                 zeros_at + AlignUp8(2 * tiles.count) + narrow_bytes},
        frame_bytes(codes_at[1] + wide_bytes) {}
  size_t rotated_at, pivots_at, pivot_bytes, scales_at, zeros_at, codes_at[2], frame_bytes;
};

// The layout that a frame's maps say; nothing when they, or its length, do not fit the tiles.
inline std::optional<TahLayout> TahLayoutOf(const TahTiles& tiles,
                                            std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes + 2 * tiles.map_bytes()) return std::nullopt;
  const std::byte* wide = frame.data() + kFrameHeaderBytes;
  const std::byte* turned = wide + tiles.map_bytes();
  size_t rotated = 0, code_bytes[2] = {};
  for (size_t row = 0; row < tiles.count; row += tiles.per_row) {
    size_t wide_here = 0;
    for (size_t t = row; t < row + tiles.per_row; ++t) {
      wide_here += TahBit(wide, t);
      code_bytes[TahBit(wide, t)] += TahCodeBytes(tiles, t, TahBit(wide, t));
      if (TahBit(turned, t) && tiles.length(t) != tiles.tile) return std::nullopt;
      rotated += TahBit(turned, t);
    }
    if (wide_here != tiles.wide_per_row()) return std::nullopt;
  }
  const TahLayout layout(tiles, rotated, code_bytes[0], code_bytes[1]);
  return frame.size() == layout.frame_bytes ? std::optional(layout) : std::nullopt;
}

// The header of such a frame, and whether a header is one.
inline FrameHeader TahHeader(uint16_t id, ConstTensor x, size_t tile, size_t frame_bytes) {
  return {.codec = id,
          .dtype = x.dtype,
          .block = static_cast<uint32_t>(tile),
          .param0 = 4,
          .param1 = 512,  // tau = 2, in 1/256
          .shape = x.shape,
          .payload_bytes = frame_bytes - kFrameHeaderBytes};
}
inline bool IsTahHeader(const FrameHeader& header, size_t tile) {
  return header.block == tile && header.param0 == 4 && header.param1 == 512;
}

}  // namespace longhaul
