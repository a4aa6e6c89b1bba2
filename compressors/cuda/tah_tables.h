#pragma once

#include "compressors/cuda/launch_kernel.h"
#include "compressors/cuda/tah_plan.h"
#include "compressors/cuda/tah_tiles.h"

namespace longhaul {

template <class Launcher, int kTile, DType kType>
int EncodeTah(const TahRun& run, CudaStream stream) {
  int error = Launcher::Launch(TahPlanKernel<kTile, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(TahWidthKernel{run}, stream);
  if (error == 0) error = Launcher::Launch(EncodeTahKernel<kTile, kType>{run}, stream);
  return error;
}

template <class Launcher, int kTile>
constexpr std::array<TahLaunch, 3> TahEncodeRow() {
  return {EncodeTah<Launcher, kTile, DType::kF32>, EncodeTah<Launcher, kTile, DType::kBF16>,
          EncodeTah<Launcher, kTile, DType::kF16>};
}
template <class Launcher, int kTile>
constexpr std::array<TahLaunch, 3> TahDecodeRow() {
  return {LaunchKernel<Launcher, DecodeTahKernel<kTile, DType::kF32>, TahRun>,
          LaunchKernel<Launcher, DecodeTahKernel<kTile, DType::kBF16>, TahRun>,
          LaunchKernel<Launcher, DecodeTahKernel<kTile, DType::kF16>, TahRun>};
}
template <class Launcher>
constexpr TahLaunchers MakeTahLaunchers() {
  return {{TahEncodeRow<Launcher, 32>(), TahEncodeRow<Launcher, 64>()},
          {TahDecodeRow<Launcher, 32>(), TahDecodeRow<Launcher, 64>()}};
}

}  // namespace longhaul
