#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

constexpr uint8_t kTahNotRotated = 0xFF;

// A tensor in tiles (tah_layout.h) and what becomes of each, in device memory, every tile's codes
// in a place of tile / 2 bytes. A frame has them one after the other.
struct TahRun {
  std::byte* x;  // [rows, cols]
  uint64_t rows, cols, per_row;
  uint64_t wide_per_row;
  uint32_t* entropy;     // [tiles], as ordered bits; encode alone
  std::byte* pivots;     // [tiles] u8: the pivot's place, or kTahNotRotated
  std::byte* wide;       // [tiles] u8: 1 = four bits
  std::byte* scales;     // [tiles] bf16
  std::byte* zeros;      // [tiles] bf16
  std::byte* codes;      // [tiles][tile / 2]
  DeviceReport* report;  // encode: NaN and Inf before all ranges, as the CPU meets them
};
using TahLaunch = int (*)(const TahRun&, CudaStream);
using TahTable = std::array<std::array<TahLaunch, 3>, 2>;  // [tile 32, 64][dtype]
struct TahLaunchers {
  TahTable encode, decode;
};

}  // namespace longhaul
