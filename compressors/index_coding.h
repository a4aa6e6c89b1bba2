#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longhaul {

// Coding of the kept indices of a sparse codec: sorted, distinct, inside chunks of C elements.
enum class IndexCoding : uint8_t {
  kFixed = 1,  // ceil(log2 C) bits each
  kRice =
      2,  // gap g to the previous index: g >> r one-bits, a zero, then r low bits; a table of u32
          // bit offsets, one per 16 chunks, stands in front so that readers can start anywhere
  kBitmap = 3,  // one bit per element
};

// A tensor's chunks: `chunks` of them, of C elements and k kept ones each.
struct ChunkShape {
  size_t length;  // elements of this chunk
  size_t kept;
};

// The smallest coding of all three, sized exactly; ties go to the first.
struct IndexPlan {
  IndexCoding coding;
  uint32_t rice = 0;  // r, the lowest of the best
  size_t bytes = 0;
};

// indices: all chunks' kept indices, each relative to its chunk. chunk_of(j) gives chunk j.
// (Explicit arrays: one ChunkShape per chunk.)
IndexPlan PlanIndices(std::span<const ChunkShape> chunks, size_t chunk,
                      std::span<const uint32_t> indices);

// Writes plan.bytes bytes.
void WriteIndices(const IndexPlan& plan, std::span<const ChunkShape> chunks, size_t chunk,
                  std::span<const uint32_t> indices, std::span<std::byte> out);

// The inverse, from hostile bytes: false unless every index lies in its chunk, they increase, and
// `in` is used up.
bool ReadIndices(IndexCoding coding, uint32_t rice, std::span<const ChunkShape> chunks,
                 size_t chunk, std::span<const std::byte> in, std::span<uint32_t> indices);

}  // namespace longhaul
