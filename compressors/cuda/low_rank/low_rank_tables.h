#pragma once

#include "compressors/cuda/low_rank/low_rank_orthogonalize.h"
#include "compressors/cuda/low_rank/low_rank_project.h"
#include "compressors/cuda/low_rank/low_rank_project_back.h"
#include "compressors/cuda/low_rank/low_rank_reconstruct.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

template <class Launcher>
constexpr LowRankLaunchers MakeLowRankLaunchers() {
  return {LaunchKernel<Launcher, ProjectKernel, LowRankRun>,
          LaunchKernel<Launcher, ProjectBackKernel, LowRankRun>,
          LaunchKernel<Launcher, OrthogonalizeKernel, LowRankRun>,
          {LaunchKernel<Launcher, ReconstructKernel<DType::kF32>, LowRankRun>,
           LaunchKernel<Launcher, ReconstructKernel<DType::kBF16>, LowRankRun>,
           LaunchKernel<Launcher, ReconstructKernel<DType::kF16>, LowRankRun>}};
}

}  // namespace longhaul
