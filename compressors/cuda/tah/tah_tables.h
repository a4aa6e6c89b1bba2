#pragma once

#include "compressors/cuda/tah/tah_decode.h"
#include "compressors/cuda/tah/tah_encode.h"
#include "compressors/cuda/tah/tah_plan.h"
#include "compressors/cuda/tah/tah_widths.h"

namespace longhaul {

// Rows of whole tiles are one row of them to every kernel but the one that ranks a row's tiles.
template <int kTile>
TahRun WithoutRows(TahRun run) {
  if (run.cols % kTile != 0) return run;
  run.cols *= run.rows;
  run.per_row *= run.rows;
  run.rows = 1;
  return run;
}

template <class Launcher>
int RankTahTiles(const TahRun& run, CudaStream stream) {
  using Short = TahWidthKernel<kWarp, 4>;
  using Middle = TahWidthKernel<kWarp, 16>;
  if (run.per_row <= Short::kHeldByAll) return Launcher::Launch(Short{run}, stream);
  if (run.per_row <= Middle::kHeldByAll) return Launcher::Launch(Middle{run}, stream);
  return Launcher::Launch(TahWidthKernel<1024, 16>{run}, stream);
}

template <class Launcher, int kTile, DType kType>
int EncodeTah(const TahRun& run, CudaStream stream) {
  const TahRun flat = WithoutRows<kTile>(run);
  int error = Launcher::Launch(TahPlanKernel<kTile, kType>{flat}, stream);
  if (error == 0) error = RankTahTiles<Launcher>(run, stream);
  if (error == 0) error = Launcher::Launch(EncodeTahKernel<kTile, kType>{flat}, stream);
  return error;
}
template <class Launcher, int kTile, DType kType>
int DecodeTah(const TahRun& run, CudaStream stream) {
  return Launcher::Launch(DecodeTahKernel<kTile, kType>{WithoutRows<kTile>(run)}, stream);
}

template <class Launcher, int kTile>
constexpr std::array<TahLaunch, 3> TahEncodeRow() {
  return {EncodeTah<Launcher, kTile, DType::kF32>, EncodeTah<Launcher, kTile, DType::kBF16>,
          EncodeTah<Launcher, kTile, DType::kF16>};
}
template <class Launcher, int kTile>
constexpr std::array<TahLaunch, 3> TahDecodeRow() {
  return {DecodeTah<Launcher, kTile, DType::kF32>, DecodeTah<Launcher, kTile, DType::kBF16>,
          DecodeTah<Launcher, kTile, DType::kF16>};
}
template <class Launcher>
constexpr TahLaunchers MakeTahLaunchers() {
  return {{TahEncodeRow<Launcher, 32>(), TahEncodeRow<Launcher, 64>()},
          {TahDecodeRow<Launcher, 32>(), TahDecodeRow<Launcher, 64>()}};
}

}  // namespace longhaul
