#pragma once

#include "compressors/cuda/sign/sign_decode.h"
#include "compressors/cuda/sign/sign_encode.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

template <class Launcher, template <SignLevels, DType> class Kernel, SignLevels kLevels>
constexpr std::array<SignLaunch, 3> SignLaunchRow() {
  return {LaunchKernel<Launcher, Kernel<kLevels, DType::kF32>, SignRun>,
          LaunchKernel<Launcher, Kernel<kLevels, DType::kBF16>, SignRun>,
          LaunchKernel<Launcher, Kernel<kLevels, DType::kF16>, SignRun>};
}
template <class Launcher, template <SignLevels, DType> class Kernel>
constexpr SignLaunchTable MakeSignTable() {
  return {SignLaunchRow<Launcher, Kernel, SignLevels::kMean>(),
          SignLaunchRow<Launcher, Kernel, SignLevels::kRms>(),
          SignLaunchRow<Launcher, Kernel, SignLevels::kTwoLevel>()};
}
template <class Launcher>
constexpr SignLaunchers MakeSignLaunchers() {
  return {MakeSignTable<Launcher, EncodeSignKernel>(), MakeSignTable<Launcher, DecodeSignKernel>()};
}

}  // namespace longhaul
