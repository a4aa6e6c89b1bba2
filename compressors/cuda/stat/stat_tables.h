#pragma once

#include "compressors/cuda/stat/stat_decode.h"
#include "compressors/cuda/stat/stat_kernels.h"
#include "compressors/cuda/stat/stat_rows.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

// Sums, mean and width; these again of tables that need it; codes and bins; table.
template <class Launcher, int kBits, DType kType>
int EncodeLongStat(const StatRun& run, CudaStream stream) {
  using enum StatSums;
  int error = Launcher::Launch(StatSumKernel<kAboutPivot, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(StatTotalKernel<kAboutPivot, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(StatSumKernel<kAboutMean, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(StatTotalKernel<kAboutMean, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(StatCodesKernel<kBits, kType>{run}, stream);
  if (error == 0) error = Launcher::Launch(StatMeansKernel<kBits>{run}, stream);
  return error;
}

// Tables have a warp each where these are many enough to fill a GPU for as long as one takes.
template <class Launcher, int kBits, DType kType>
int EncodeStat(const StatRun& run, CudaStream stream) {
  using Rows = StatRowsKernel<kBits, kType>;
  const uint64_t chunks = StatChunks(run);
  const bool rows = chunks == 1 || (chunks <= Rows::kMostChunks && run.tables >= 64 * chunks);
  return rows ? Launcher::Launch(Rows{run}, stream)
              : EncodeLongStat<Launcher, kBits, kType>(run, stream);
}

template <class Launcher, int kBits>
constexpr std::array<StatLaunch, 3> StatEncodeRow() {
  return {EncodeStat<Launcher, kBits, DType::kF32>, EncodeStat<Launcher, kBits, DType::kBF16>,
          EncodeStat<Launcher, kBits, DType::kF16>};
}
template <class Launcher, int kBits>
constexpr std::array<StatLaunch, 3> StatDecodeRow() {
  return {LaunchKernel<Launcher, DecodeStatKernel<kBits, DType::kF32>, StatRun>,
          LaunchKernel<Launcher, DecodeStatKernel<kBits, DType::kBF16>, StatRun>,
          LaunchKernel<Launcher, DecodeStatKernel<kBits, DType::kF16>, StatRun>};
}
template <class Launcher>
constexpr StatLaunchers MakeStatLaunchers() {
  return {
      {StatEncodeRow<Launcher, 2>(), StatEncodeRow<Launcher, 4>(), StatEncodeRow<Launcher, 8>()},
      {StatDecodeRow<Launcher, 2>(), StatDecodeRow<Launcher, 4>(), StatDecodeRow<Launcher, 8>()}};
}

}  // namespace longhaul
