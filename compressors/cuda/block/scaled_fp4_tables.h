#pragma once

#include "compressors/cuda/block/scaled_fp4_kernels.h"
#include "compressors/cuda/team/tensor_max.h"

namespace longhaul {

// Rows of whole blocks and whole bytes of codes are one row of them.
inline ScaledFp4Run WithoutRows(ScaledFp4Run run) {
  if (run.cols % kNvBlock != 0) return run;
  run.cols *= run.rows;
  run.row_blocks *= run.rows;
  run.row_code_bytes *= run.rows;
  run.rows = 1;
  return run;
}

// Two passes: the tensor's largest |x|, then everything else.
template <class Launcher, DType kType>
int EncodeScaledFp4(const ScaledFp4Run& run, CudaStream stream) {
  const TensorMaxRun whole = {run.x, run.rows * run.cols, run.top};
  const int error = Launcher::Launch(TensorMaxKernel<kType>{whole}, stream);
  if (error != 0) return error;
  return Launcher::Launch(EncodeScaledFp4Kernel<kType>{WithoutRows(run)}, stream);
}
template <class Launcher, DType kType>
int DecodeScaledFp4(const ScaledFp4Run& run, CudaStream stream) {
  return Launcher::Launch(DecodeScaledFp4Kernel<kType>{WithoutRows(run)}, stream);
}

template <class Launcher>
constexpr ScaledFp4Launchers MakeScaledFp4Launchers() {
  return {{EncodeScaledFp4<Launcher, DType::kF32>, EncodeScaledFp4<Launcher, DType::kBF16>,
           EncodeScaledFp4<Launcher, DType::kF16>},
          {DecodeScaledFp4<Launcher, DType::kF32>, DecodeScaledFp4<Launcher, DType::kBF16>,
           DecodeScaledFp4<Launcher, DType::kF16>}};
}

}  // namespace longhaul
