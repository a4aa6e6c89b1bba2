#pragma once

#include "compressors/cuda/cast/cast_kernel.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

template <class Launcher>
constexpr CastLaunchers MakeCastLaunchers() {
  using enum DType;
  return {{{{LaunchKernel<Launcher, CastKernel<kF32, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF32, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF32, kF16>, CastRun>},
            {LaunchKernel<Launcher, CastKernel<kBF16, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kBF16, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kBF16, kF16>, CastRun>},
            {LaunchKernel<Launcher, CastKernel<kF16, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF16, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF16, kF16>, CastRun>}}}};
}

}  // namespace longhaul
