#pragma once

#include <array>

#include "compressors/cuda/team/device.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// A tensor and the sections of its frame, in device memory. Sections are 8-byte aligned.
struct BlockRun {
  std::byte* x;  // [rows, cols] of the launcher's dtype, aligned as its elements
  uint64_t rows, cols;
  std::byte* scales;  // [rows][row_blocks] of the scheme's ScaleBytes
  std::byte* zeros;   // [rows][row_blocks] bf16, affine grids only
  std::byte* codes;   // [rows] of row_code_bytes
  uint64_t row_blocks, row_code_bytes;
  uint64_t seed;    // of stochastic rounding
  bool stochastic;  // decode: what was sent is so rounded
  DeviceReport* report;
};
using BlockLaunch = int (*)(const BlockRun&, CudaStream);

// By SchemeIndex and dtype. Encoding reads x once. encode_stochastic is null where the grid has no
// such form.
using BlockLaunchTable = std::array<std::array<BlockLaunch, 3>, kBlockSchemes.size()>;
struct BlockLaunchers {
  BlockLaunchTable encode, encode_stochastic, decode;
};

}  // namespace longhaul
