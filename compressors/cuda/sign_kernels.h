#pragma once

#include <cmath>

#include "compressors/block_scheme.h"
#include "compressors/cuda/elements.h"
#include "compressors/cuda/lane_sum.h"
#include "compressors/cuda/sign_launch.h"

namespace longhaul {

// bf16; below its smallest normal +0.
LONGHAUL_TEXT uint16_t LevelOnWire(float level) {
  const uint16_t wire = F32ToBf16(level);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}
LONGHAUL_TEXT bool FiniteBf16(uint16_t wire) { return (wire & 0x7F80) != 0x7F80; }

// One block of 256 for each warp. Thread t has elements t, t + 32, ...: so the lanes of tree_sum.h
// are the threads, and each of eight ballots is a word of the bit string.
template <SignLevels kLevels, DType kType>
struct EncodeSignKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kSteps = kSignBlock / kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  SignRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_blocks; }

  struct Lane {
    float x[kSteps];
  };
  struct Levels {
    float low, high;
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t block = team.index(), row = block / run.row_blocks;
    const uint64_t number = block - row * run.row_blocks, first = number * kSignBlock;
    const int c = run.cols - first < kSignBlock ? static_cast<int>(run.cols - first)
                                                : static_cast<int>(kSignBlock);
    const std::byte* x = run.x + (row * run.cols + first) * kElementBytes;
    typename Team::template Own<Lane> v;
    typename Team::template Own<bool> bad;
    team.Each([&](int t) { bad[t] = LoadLane<Team>(x, c, t, v[t]); });
    const Levels levels = LevelsOf(team, v, c);
    const auto any_bad = team.Ballot(bad);
    team.Each([&](int t) {
      if (t == 0) StoreLevels<Team>(block, number, levels, any_bad[t] != 0);
    });
    StoreSigns(team, v, c, run.bits + row * run.row_bytes + number * (kSignBlock / 8));
  }

  // Thread t's elements, 0 behind the end; true where NaN or Inf is among them.
  template <class Team>
  LONGHAUL_TEXT static bool LoadLane(const std::byte* x, int c, int t, Lane& v) {
    bool bad = false;
    LONGHAUL_UNROLL
    for (int j = 0; j < kSteps; ++j) {
      const int i = kWarp * j + t;
      v.x[j] = 0;
      if (i < c) v.x[j] = LoadOne<Team, kType>(x + static_cast<uint64_t>(i) * kElementBytes);
      bad |= (BitsOf(v.x[j]) & kAbsMask) >= kInfBits;
    }
    return bad;
  }

  template <class Team, class Lanes, class Term>
  LONGHAUL_TEXT static float Sum(Team& team, const Lanes& v, Term term) {
    typename Team::template Own<float> lane;
    team.Each([&](int t) {
      lane[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) lane[t] += term(v[t].x[j]);
    });
    SumLanes(team, lane);
    return lane[team.thread()];
  }

  template <class Team, class Lanes>
  LONGHAUL_TEXT static Levels LevelsOf(Team& team, const Lanes& v, int c) {
    const auto n = static_cast<float>(c);
    if constexpr (kLevels == SignLevels::kMean) {
      const float s = Sum(team, v, [](float x) { return FromBits(BitsOf(x) & kAbsMask); }) / n;
      return {-s, s};
    } else if constexpr (kLevels == SignLevels::kRms) {
      const float s = sqrtf(Sum(team, v, [](float x) { return x * x; }) / n);
      return {-s, s};
    } else {
      const float low = Sum(team, v, [](float x) { return x < 0 ? x : 0.0f; });
      const float high = Sum(team, v, [](float x) { return x < 0 ? 0.0f : x; });
      const float below = Sum(team, v, [](float x) { return x < 0 ? 1.0f : 0.0f; });  // exact
      return {below == 0 ? 0.0f : low / below, below == n ? 0.0f : high / (n - below)};
    }
  }

  template <class Team>
  LONGHAUL_TEXT void StoreLevels(uint64_t block, uint64_t number, const Levels& levels,
                                 bool bad) const {
    const uint16_t low = LevelOnWire(levels.low), high = LevelOnWire(levels.high);
    if constexpr (kLevels == SignLevels::kTwoLevel) Team::Store(low, run.low + 2 * block);
    Team::Store(high, run.high + 2 * block);
    if (bad) {
      // The CPU widens 16 blocks of a row at once and refuses them before it sums.
      Team::Min(&run.report->fault,
                (block - number % 16) << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
    } else if (!FiniteBf16(low) || !FiniteBf16(high)) {
      Team::Min(&run.report->fault, block << 2 | static_cast<uint64_t>(BlockFault::kRange));
    }
  }

  template <class Team, class Lanes>
  LONGHAUL_TEXT static void StoreSigns(Team& team, const Lanes& v, int c, std::byte* bits) {
    typename Team::template Own<uint32_t> word;
    LONGHAUL_UNROLL
    for (int j = 0; j < kSteps; ++j) {
      typename Team::template Own<bool> positive;
      team.Each([&](int t) { positive[t] = kWarp * j + t < c && v[t].x[j] >= 0; });
      const auto signs = team.Ballot(positive);
      team.Each([&](int t) { word[t] = t == j ? signs[t] : word[t]; });
    }
    const bool whole = c == kSignBlock && Aligned(bits, 4);
    team.Each([&](int t) {
      if (t >= kSteps) return;
      if (whole) {
        Team::Store(word[t], bits + 4 * t);
      } else {
        const int bytes = (c + 7) / 8 - 4 * t;
        for (int i = 0; i < 4 && i < bytes; ++i) {
          Team::Store(static_cast<uint8_t>(word[t] >> (8 * i)), bits + 4 * t + i);
        }
      }
    });
  }
};

// A thread writes the eight elements of one byte of signs.
template <SignLevels kLevels, DType kType>
struct DecodeSignKernel {
  static constexpr int kThreads = kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  SignRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_blocks; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t block = team.index(), row = block / run.row_blocks;
    const uint64_t number = block - row * run.row_blocks, first = number * kSignBlock;
    std::byte* x = run.x + (row * run.cols + first) * kElementBytes;
    const std::byte* bits = run.bits + row * run.row_bytes + number * (kSignBlock / 8);
    const auto high = Team::template Load<uint16_t>(run.high + 2 * block);
    uint16_t low = high ^ 0x8000;
    if constexpr (kLevels == SignLevels::kTwoLevel) {
      low = Team::template Load<uint16_t>(run.low + 2 * block);
    }
    const bool whole = first + kSignBlock <= run.cols && Aligned(x, 16);
    team.Each([&](int t) {
      if (t == 0 && (!FiniteBf16(low) || !FiniteBf16(high))) Team::Min(&run.report->fault, block);
      const int count = CountBelow(first + static_cast<uint64_t>(kPerThread * t), run.cols);
      if (count == 0) return;
      const uint32_t signs = Team::template Load<uint8_t>(bits + t);
      Eight v;
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        v.x[e] = Bf16ToF32((signs >> e & 1) != 0 ? high : low);
      }
      RawEight<kType> raw;
      Narrow<kType>(v, raw);
      std::byte* at = x + static_cast<uint64_t>(kPerThread * t) * kElementBytes;
      if (whole) {
        StoreEight<Team, kType>(raw, at);
      } else {
        StoreSome<Team, kType>(raw, count, at);
      }
    });
  }
};

}  // namespace longhaul
