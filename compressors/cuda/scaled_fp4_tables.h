#pragma once

#include "compressors/cuda/launch_kernel.h"
#include "compressors/cuda/scaled_fp4_kernels.h"
#include "compressors/cuda/tensor_max.h"

namespace longhaul {

// Two passes: the tensor's largest |x|, then everything else.
template <class Launcher, ScaledFp4 kForm, DType kType>
int EncodeScaledFp4(const ScaledFp4Run& run, CudaStream stream) {
  const TensorMaxRun whole = {run.x, run.rows * run.cols, run.top};
  const int error = Launcher::Launch(TensorMaxKernel<kType>{whole}, stream);
  return error != 0 ? error : Launcher::Launch(EncodeScaledFp4Kernel<kForm, kType>{run}, stream);
}

template <class Launcher, ScaledFp4 kForm>
constexpr std::array<ScaledFp4Launch, 3> ScaledFp4EncodeRow() {
  return {EncodeScaledFp4<Launcher, kForm, DType::kF32>,
          EncodeScaledFp4<Launcher, kForm, DType::kBF16>,
          EncodeScaledFp4<Launcher, kForm, DType::kF16>};
}
template <class Launcher, ScaledFp4 kForm>
constexpr std::array<ScaledFp4Launch, 3> ScaledFp4DecodeRow() {
  return {LaunchKernel<Launcher, DecodeScaledFp4Kernel<kForm, DType::kF32>, ScaledFp4Run>,
          LaunchKernel<Launcher, DecodeScaledFp4Kernel<kForm, DType::kBF16>, ScaledFp4Run>,
          LaunchKernel<Launcher, DecodeScaledFp4Kernel<kForm, DType::kF16>, ScaledFp4Run>};
}
template <class Launcher>
constexpr ScaledFp4Launchers MakeScaledFp4Launchers() {
  return {{ScaledFp4EncodeRow<Launcher, ScaledFp4::kNv>(),
           ScaledFp4EncodeRow<Launcher, ScaledFp4::kE3m0>()},
          {ScaledFp4DecodeRow<Launcher, ScaledFp4::kNv>(),
           ScaledFp4DecodeRow<Launcher, ScaledFp4::kE3m0>()}};
}

}  // namespace longhaul
