#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compressors/numbers/chunk_grid.h"

namespace longhaul {

// Coding of the kept indices of a sparse codec: sorted, distinct, inside chunks of C elements. The
// values are those of the frame's flags.
enum class IndexCoding : uint8_t {
  kFixed = 1,   // ceil(log2 C) bits each
  kRice = 2,    // gap g = distance to the previous index - 1: g >> r one-bits, a zero, r low bits;
                // in front a table of u32 bit offsets, one per 16 chunks, so that readers can start
                // anywhere
  kBitmap = 3,  // one bit per element
};

// The smallest of the three, sized exactly; ties go to the first.
struct IndexPlan {
  IndexCoding coding = IndexCoding::kFixed;
  uint32_t rice = 0;  // r in 0..15, the lowest of the best
  size_t bytes = 0;
};

// indices: [grid.total_kept()], each relative to its chunk.
IndexPlan PlanIndices(const ChunkGrid& grid, std::span<const uint32_t> indices);

// Writes plan.bytes bytes.
void WriteIndices(const IndexPlan& plan, const ChunkGrid& grid, std::span<const uint32_t> indices,
                  std::byte* out);

// The inverse, from hostile bytes: false unless every index lies in its chunk, they increase, and
// `in` is used up. indices: [grid.total_kept()].
bool ReadIndices(IndexCoding coding, uint32_t rice, const ChunkGrid& grid,
                 std::span<const std::byte> in, std::span<uint32_t> indices);

}  // namespace longhaul
