#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace longhaul {

// Sums in one fixed order, so that every instruction set and GPU gets the same bits: chunks of 4096
// elements; in a chunk 32 fp32 lanes, lane j adds elements j, j + 32, ...; lanes fold j with j +
// 16, then 8, 4, 2, 1; chunk totals add up in fp64 by index.
constexpr size_t kSumChunk = 4096;
constexpr size_t kSumLanes = 32;

// One chunk: the sum of term(0) .. term(c - 1), c <= kSumChunk. term answers fp32, already rounded.
template <typename Term>
float ChunkSum(size_t c, Term term) {
  std::array<float, kSumLanes> lane = {};
  for (size_t i = 0; i < c; ++i) lane[i % kSumLanes] += term(i);
  for (size_t h = kSumLanes / 2; h > 0; h /= 2) {
    for (size_t j = 0; j < h; ++j) lane[j] += lane[j + h];
  }
  return lane[0];
}

}  // namespace longhaul
