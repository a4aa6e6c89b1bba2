#pragma once

#include <cstddef>

#include "compressors/numbers/small_floats.h"

namespace longhaul {

// Sums in one fixed order, so that every instruction set and GPU gets the same bits: chunks of 4096
// elements; in a chunk 32 fp32 lanes, lane j adds elements j, j + 32, ...; lanes fold j with j +
// 16, then 8, 4, 2, 1; chunk totals add up in fp64 by index.
constexpr size_t kSumChunk = 4096;
constexpr size_t kSumLanes = 32;

// One chunk: the sum of term(0) .. term(c - 1), c <= kSumChunk. term answers fp32, already rounded.
// Inlined, because it is also compiled for other instruction sets.
template <typename Term>
LONGHAUL_INLINE float ChunkSum(size_t c, Term term) {
  float lane[kSumLanes] = {};
  size_t i = 0;
  for (; i + kSumLanes <= c; i += kSumLanes) {
    for (size_t j = 0; j < kSumLanes; ++j) lane[j] += term(i + j);
  }
  for (size_t j = 0; i + j < c; ++j) lane[j] += term(i + j);
  for (size_t h = kSumLanes / 2; h > 0; h /= 2) {
    for (size_t j = 0; j < h; ++j) lane[j] += lane[j + h];
  }
  return lane[0];
}

}  // namespace longhaul
