#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

// n elements from one dtype to another; both sides aligned as their elements.
struct CastRun {
  const std::byte* in;
  std::byte* out;
  uint64_t elements;
  DeviceReport* report;  // fault when `in` holds NaN or Inf
};
using CastLaunch = int (*)(const CastRun&, CudaStream);
struct CastLaunchers {
  std::array<std::array<CastLaunch, 3>, 3> cast;  // [from][to]
};

}  // namespace longhaul
