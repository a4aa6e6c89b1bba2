#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

// A tensor and the sections of its frame, in device memory.
struct ScaledFp4Run {
  std::byte* x;  // [rows, cols]
  uint64_t rows, cols;
  std::byte* head;    // 8 bytes: the tensor's scale, then zeros
  std::byte* scales;  // [rows][row_blocks] E4M3
  std::byte* codes;   // [rows] of row_code_bytes
  uint64_t row_blocks, row_code_bytes;
  uint32_t* top;  // encode: 0; the tensor's largest |x| as bits is found here
  DeviceReport* report;
};
using ScaledFp4Launch = int (*)(const ScaledFp4Run&, CudaStream);
using ScaledFp4Table = std::array<ScaledFp4Launch, 3>;  // [dtype]
struct ScaledFp4Launchers {
  ScaledFp4Table encode, decode;
};

}  // namespace longhaul
