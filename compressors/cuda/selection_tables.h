#pragma once

#include "compressors/cuda/launch_kernel.h"
#include "compressors/cuda/rand_k_kernel.h"
#include "compressors/cuda/tensor_max.h"
#include "compressors/cuda/top_k_kernel.h"

namespace longhaul {

template <class Launcher, DType kType>
int LaunchRandK(const SelectionRun& run, CudaStream stream) {
  const TensorMaxRun whole = {run.x, run.rows * run.cols, run.top};
  const int error = Launcher::Launch(TensorMaxKernel<kType>{whole}, stream);
  return error != 0 ? error : Launcher::Launch(RandKKernel<kType>{run}, stream);
}

template <class Launcher, Indices kIndices>
constexpr SelectionRow MakeScatterRow() {
  return {LaunchKernel<Launcher, ScatterKernel<kIndices, DType::kF32>, SelectionRun>,
          LaunchKernel<Launcher, ScatterKernel<kIndices, DType::kBF16>, SelectionRun>,
          LaunchKernel<Launcher, ScatterKernel<kIndices, DType::kF16>, SelectionRun>};
}
template <class Launcher>
constexpr SelectionLaunchers MakeSelectionLaunchers() {
  return {{LaunchKernel<Launcher, TopKKernel<DType::kF32>, SelectionRun>,
           LaunchKernel<Launcher, TopKKernel<DType::kBF16>, SelectionRun>,
           LaunchKernel<Launcher, TopKKernel<DType::kF16>, SelectionRun>},
          {LaunchRandK<Launcher, DType::kF32>, LaunchRandK<Launcher, DType::kBF16>,
           LaunchRandK<Launcher, DType::kF16>},
          MakeScatterRow<Launcher, Indices::kSent>(),
          MakeScatterRow<Launcher, Indices::kDrawn>()};
}

}  // namespace longhaul
