#pragma once

#include <array>

#include "compressors/cuda/team/device.h"
#include "compressors/kernels/sign_levels.h"

namespace longhaul {

// A tensor and the sections of its frame, in device memory.
struct SignRun {
  std::byte* x;  // [rows, cols]
  uint64_t rows, cols;
  std::byte* low;   // [rows][row_blocks] bf16; kTwoLevel alone has one
  std::byte* high;  // [rows][row_blocks] bf16
  std::byte* bits;  // [rows] of row_bytes
  uint64_t row_blocks, row_bytes;
  DeviceReport* report;
};
using SignLaunch = int (*)(const SignRun&, CudaStream);
using SignLaunchTable = std::array<std::array<SignLaunch, 3>, 3>;  // [SignLevels][dtype]
struct SignLaunchers {
  SignLaunchTable encode, decode;
};

}  // namespace longhaul
