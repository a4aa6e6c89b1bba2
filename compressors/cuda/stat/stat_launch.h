#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

// A chunk's sums in the order of tree_sum.h: of x less a centre, and of its square.
struct alignas(8) ChunkTotals {
  float sum, squares;
};

// Tables of a tensor (one, or one per row) and the sections of its frame, in device memory.
struct StatRun {
  std::byte* x;  // [tables, elements]
  uint64_t tables;
  uint64_t elements;  // of one table
  int bins;           // of one table
  std::byte* heads;   // [tables] of mu f32 and an offset f32 per bin
  std::byte* codes;   // [tables] of code_bytes
  uint64_t code_bytes;
  // Encoding of long tables:
  uint64_t* units;      // [tables][bins], what a bin's elements add up to (stat_units.h)
  uint64_t* counts;     // [tables][bins]
  ChunkTotals* totals;  // [tables][chunks of 4096]
  float* inverse;       // [tables], one over the bins' width
  DeviceReport* report;
};
using StatLaunch = int (*)(const StatRun&, CudaStream);
using StatTable = std::array<std::array<StatLaunch, 3>, 3>;  // [log2 bits - 1][dtype]
struct StatLaunchers {
  StatTable encode, decode;
};

}  // namespace longhaul
