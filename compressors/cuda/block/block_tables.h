#pragma once

#include <utility>

#include "compressors/cuda/block/block_decode.h"
#include "compressors/cuda/block/block_encode.h"
#include "compressors/cuda/team/launch_kernel.h"

namespace longhaul {

template <size_t kIndex, DType kType, Rounding kRounding>
struct EncodeKernelOf {
  using type = EncodeBlocksKernel<kIndex, kType, kRounding>;
};
template <size_t kIndex, DType kType, Rounding kRounding>
requires(kBlockSchemes[kIndex].block > 128) struct EncodeKernelOf<kIndex, kType, kRounding> {
  using type = EncodeLargeBlocksKernel<kIndex, kType, kRounding>;
};

template <class Launcher, size_t kIndex, DType kType, Rounding kRounding>
constexpr BlockLaunch EncodeLauncher() {
  if constexpr (kRounding == Rounding::kStochastic && !HasStochasticForm(kBlockSchemes[kIndex])) {
    return nullptr;
  } else {
    using Kernel = typename EncodeKernelOf<kIndex, kType, kRounding>::type;
    return LaunchKernel<Launcher, Kernel, BlockRun>;
  }
}

template <class Launcher, Rounding kRounding, size_t... kIndex>
constexpr BlockLaunchTable MakeEncodeTable(std::index_sequence<kIndex...>) {
  return {{{EncodeLauncher<Launcher, kIndex, DType::kF32, kRounding>(),
            EncodeLauncher<Launcher, kIndex, DType::kBF16, kRounding>(),
            EncodeLauncher<Launcher, kIndex, DType::kF16, kRounding>()}...}};
}
template <class Launcher, size_t... kIndex>
constexpr BlockLaunchTable MakeDecodeTable(std::index_sequence<kIndex...>) {
  return {{{LaunchKernel<Launcher, DecodeBlocksKernel<kIndex, DType::kF32>, BlockRun>,
            LaunchKernel<Launcher, DecodeBlocksKernel<kIndex, DType::kBF16>, BlockRun>,
            LaunchKernel<Launcher, DecodeBlocksKernel<kIndex, DType::kF16>, BlockRun>}...}};
}
using AllBlockSchemes = std::make_index_sequence<kBlockSchemes.size()>;

}  // namespace longhaul
