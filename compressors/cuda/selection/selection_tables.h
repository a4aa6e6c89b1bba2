#pragma once

#include "compressors/cuda/selection/scatter_kernel.h"
#include "compressors/cuda/selection/top_k_kernel.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

// By the length of the longest chunk.
template <class Launcher, DType kType>
int LaunchTopK(const SelectionRun& run, CudaStream stream) {
  using OfWarp = TopKKernel<kType, kWarp>;
  const SelectionRun in_one = InOneRow(run);
  const uint32_t length = run.cols < run.chunk ? static_cast<uint32_t>(run.cols) : run.chunk;
  if (length <= OfWarp::kTile) return Launcher::Launch(OfWarp{in_one}, stream);
  return Launcher::Launch(TopKKernel<kType, 4 * kWarp>{in_one}, stream);
}

template <class Launcher, DType kType>
int LaunchScatter(const SelectionRun& run, CudaStream stream) {
  return Launcher::Launch(ScatterKernel<kType>{InOneRow(run)}, stream);
}
template <class Launcher>
constexpr SelectionLaunchers MakeSelectionLaunchers() {
  return {{LaunchTopK<Launcher, DType::kF32>, LaunchTopK<Launcher, DType::kBF16>,
           LaunchTopK<Launcher, DType::kF16>},
          {LaunchScatter<Launcher, DType::kF32>, LaunchScatter<Launcher, DType::kBF16>,
           LaunchScatter<Launcher, DType::kF16>}};
}

}  // namespace longhaul
