#pragma once

#include "compressors/cuda/sign/sign_launch.h"
#include "compressors/cuda/team/elements.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// A warp works on several blocks of 256. An element's place in a block is 32 j + l: l is its lane
// in the sums of tree_sum.h, and the signs with the same j are one word of the bit string. A thread
// has, for every j, as many neighbouring lanes as 16 bytes hold.
template <DType kType>
struct SignBlocks {
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr int kLanes = kType == DType::kF32 ? 4 : 8;  // of a thread
  static constexpr int kBlockThreads = kWarp / kLanes;
  static constexpr int kBlocks = kWarp / kBlockThreads;
  static constexpr int kSteps = kSignBlock / kWarp;

  LONGHAUL_HOST_DEVICE static uint64_t Teams(const SignRun& run) {
    return (run.rows * run.row_blocks + kBlocks - 1) / kBlocks;
  }

  // Where a block is.
  struct Place {
    uint64_t x, bits;  // bytes from the beginning
    int count;         // elements; 0: there is no such block
  };
  LONGHAUL_TEXT static Place PlaceOf(const SignRun& run, uint64_t block) {
    if (block >= run.rows * run.row_blocks) return {0, 0, 0};
    if (run.cols % kSignBlock == 0) {  // rows do not matter
      return {block * kSignBlock * kElementBytes, block * (kSignBlock / 8), kSignBlock};
    }
    const uint64_t row = block / run.row_blocks, number = block - row * run.row_blocks;
    const uint64_t first = number * kSignBlock, left = run.cols - first;
    return {(row * run.cols + first) * kElementBytes,
            row * run.row_bytes + number * (kSignBlock / 8),
            left < kSignBlock ? static_cast<int>(left) : static_cast<int>(kSignBlock)};
  }
};

// bf16; below its smallest normal +0.
LONGHAUL_TEXT uint16_t LevelOnWire(float level) {
  const uint16_t wire = F32ToBf16(level);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}
LONGHAUL_TEXT bool FiniteBf16(uint16_t wire) { return (wire & 0x7F80) != 0x7F80; }

}  // namespace longhaul
