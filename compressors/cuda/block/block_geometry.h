#pragma once

#include "compressors/cuda/block/block_arithmetic.h"
#include "compressors/cuda/block/block_launch.h"
#include "compressors/cuda/team/code_words.h"

namespace longhaul {

// Where a warp of the block kernels stands: it works on four strips of one row, 1024 elements, all
// loads first. A thread has eight neighbouring elements of each strip.
template <BlockScheme kScheme, DType kType>
struct BlockSpan {
  static constexpr int kStrips = 4;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  LONGHAUL_HOST_DEVICE static uint64_t PerRow(const BlockRun& run) {
    return (run.cols + kElements - 1) / kElements;
  }

  LONGHAUL_TEXT BlockSpan(const BlockRun& run, uint64_t team) : run(run) {
    const uint64_t per_row = PerRow(run);
    row = run.rows == 1 ? 0 : Quotient(team, per_row);
    first = (team - row * per_row) * kElements;
    x = run.x + (row * run.cols + first) * kElementBytes;
    codes = run.codes + row * run.row_code_bytes + first / kPerThread * kScheme.bits;
    whole = first + kElements <= run.cols && Aligned(x, 16) && Aligned(codes, 8);
  }

  // The first of thread t's elements in strip i, within the row.
  LONGHAUL_TEXT uint64_t At(int i, int t) const {
    return first + static_cast<uint64_t>(i * kStrip + t * kPerThread);
  }
  LONGHAUL_TEXT int Count(int i, int t) const {
    return whole ? kPerThread : CountBelow(At(i, t), run.cols);
  }
  LONGHAUL_TEXT std::byte* X(int i, int t) const {
    return x + static_cast<uint64_t>(i * kStrip + t * kPerThread) * kElementBytes;
  }
  LONGHAUL_TEXT std::byte* Codes(int i) const { return codes + i * kWarp * kScheme.bits; }
  LONGHAUL_TEXT uint64_t Block(int i, int t) const {
    return row * run.row_blocks + At(i, t) / kScheme.block;
  }
  // The element of the tensor, for noise.
  LONGHAUL_TEXT uint64_t Element(int i, int t) const { return row * run.cols + At(i, t); }
  // The block's elements are all there; only such a block is rotated.
  LONGHAUL_TEXT bool FullBlock(int i, int t) const {
    return whole || At(i, t) / kScheme.block * kScheme.block + kScheme.block <= run.cols;
  }

  const BlockRun& run;
  uint64_t row, first;
  std::byte* x;      // of this span
  std::byte* codes;  // of this span
  bool whole;        // all elements exist and wide accesses are allowed; the same for all threads
};

LONGHAUL_TEXT uint64_t FaultKey(uint64_t block, BlockFault fault) {
  return block << 2 | static_cast<uint64_t>(fault);
}

// A block's scale to its place in the frame, and what is wrong with it to the report.
template <BlockScheme kScheme, class Team>
LONGHAUL_TEXT void StoreScale(const BlockRun& run, uint64_t block, const BlockScale& b) {
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    Team::Store(static_cast<uint8_t>(b.wire), run.scales + block);
  } else {
    Team::Store(b.wire, run.scales + 2 * block);
  }
  if constexpr (kScheme.grid == Grid::kAffine) Team::Store(b.wire_z, run.zeros + 2 * block);
  if (b.fault != BlockFault::kNone) Team::Min(&run.report->fault, FaultKey(block, b.fault));
}

// A scale off the wire; false when it is Inf or NaN.
template <class Team>
LONGHAUL_TEXT bool LoadBf16(const std::byte* p, float& value) {
  const auto wire = Team::template Load<uint16_t>(p);
  value = Bf16ToF32(wire);
  return (wire & 0x7F80) != 0x7F80;
}
template <BlockScheme kScheme, class Team>
LONGHAUL_TEXT bool LoadScale(const BlockRun& run, uint64_t block, float& s, float& z) {
  z = 0;
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    const auto wire = Team::template Load<uint8_t>(run.scales + block);
    s = FromBits(static_cast<uint32_t>(wire) << 23);
    return wire != 0xFF;
  }
  bool good = LoadBf16<Team>(run.scales + 2 * block, s);
  if constexpr (kScheme.grid == Grid::kAffine) good &= LoadBf16<Team>(run.zeros + 2 * block, z);
  return good;
}

}  // namespace longhaul
