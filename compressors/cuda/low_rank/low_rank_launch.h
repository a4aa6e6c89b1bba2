#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

// A matrix M [rows, cols] (row-major, fp32; only its first `elements` exist, the rest counts as 0)
// and its factors, column after column: P [rows, rank], Q [cols, rank]. All in device memory.
struct LowRankRun {
  const float* m;
  uint64_t rows, cols, elements;
  uint32_t rank;
  float scale;  // M is multiplied by it first
  float* p;
  float* q;
  std::byte* x;          // reconstruct: [elements] of the launcher's dtype
  DeviceReport* report;  // reconstruct: fault when an element is not finite
};
using LowRankLaunch = int (*)(const LowRankRun&, CudaStream);

// PowerSGD's kernels (docs/wire-format.md), for rounds that reduce P and Q as well as for frames.
// Every sum has the order of tree_sum.h, or that of the rows: so two devices, and a CPU that adds
// in the same order, agree to the last bit.
struct LowRankLaunchers {
  LowRankLaunch project;        // P = scale M Q
  LowRankLaunch project_back;   // Q = scale M^T P
  LowRankLaunch orthogonalize;  // P's columns, in order; Gram-Schmidt, twice. A column that depends
                                // on those before it, to 1e-5 of its length, becomes 0.
  std::array<LowRankLaunch, 3> reconstruct;  // x = P Q^T, terms in the order of columns; by dtype
};

}  // namespace longhaul
