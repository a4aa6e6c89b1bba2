#pragma once

#include <bit>
#include <cmath>

#include "compressors/cuda/sign/sign_block.h"

namespace longhaul {

template <SignLevels kLevels, DType kType>
struct EncodeSignKernel {
  static constexpr int kThreads = kWarp;
  using Blocks = SignBlocks<kType>;
  using Place = typename Blocks::Place;
  static constexpr int kLanes = Blocks::kLanes, kSteps = Blocks::kSteps;
  static constexpr int kBlockThreads = Blocks::kBlockThreads;
  static constexpr int kWords = kSteps * kLanes / 32;  // of signs in a thread
  static constexpr uint64_t kElementBytes = Blocks::kElementBytes;

  SignRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Blocks::Teams(run); }

  // A thread's elements, a quad for every j.
  struct Quads {
    Quad of[kSteps];
  };
  template <int kCount>
  struct Floats {
    float x[kCount];
  };
  // Bits of the thread's own, or, after Transpose, neighbouring words of the block's.
  struct Signs {
    uint32_t word[kWords];
  };
  struct Levels {
    float low, high;
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t first = team.index() * Blocks::kBlocks;
    typename Team::template Own<Place> place;
    typename Team::template Own<Quads> v;
    typename Team::template Own<Signs> signs;
    team.Each([&](int t) {
      place[t] = Blocks::PlaceOf(run, first + static_cast<uint64_t>(t / kBlockThreads));
      Load<Team>(place[t], t % kBlockThreads, v[t]);
      signs[t] = SignsOf(v[t]);
      if (place[t].count < static_cast<int>(kSignBlock)) {
        ClearMissing(place[t].count, t % kBlockThreads, signs[t]);
      }
    });
    const auto levels = LevelsOf(team, place, v, signs);
    team.Each([&](int t) {
      if (place[t].count == 0) return;
      StoreLevels<Team>(first + static_cast<uint64_t>(t / kBlockThreads), t % kBlockThreads,
                        levels[t], v[t]);
    });
    LONGHAUL_UNROLL
    for (int w = 0; w < kWords; ++w) Transpose(team, signs, w);
    team.Each([&](int t) { StoreSigns<Team>(place[t], t % kBlockThreads, signs[t]); });
  }

  // Thread k of a block: its elements, 0 behind the end.
  template <class Team>
  LONGHAUL_TEXT void Load(const Place& place, int k, Quads& v) const {
    const std::byte* x = run.x + place.x + 16 * static_cast<uint64_t>(k);
    constexpr uint64_t kStepBytes = kWarp * kElementBytes;
    if (place.count == static_cast<int>(kSignBlock) && Aligned(x, 16)) {
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) v.of[j] = Team::Load16(x + j * kStepBytes);
      return;
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < kSteps; ++j) {
      const int count = place.count - kWarp * j - kLanes * k;
      RawEight<kType> raw;
      LoadSome<Team, kType>(x + j * kStepBytes, count < kLanes ? count : kLanes, raw);
      v.of[j] = raw.quad[0];
    }
  }

  LONGHAUL_TEXT static Floats<kLanes> Values(const Quad& quad) {
    RawEight<kType> raw = {};
    raw.quad[0] = quad;
    Eight eight;
    Widen<kType>(raw, eight);
    Floats<kLanes> values;
    LONGHAUL_UNROLL
    for (int e = 0; e < kLanes; ++e) values.x[e] = eight.x[e];
    return values;
  }
  // A float of element e's sign, 0 where that is 0: for 16 bits, what bf16 would make of them.
  LONGHAUL_TEXT static float SignOf(const Quad& quad, int e) {
    if constexpr (kType == DType::kF32) return FromBits(quad.word[e]);
    const uint32_t pair = quad.word[e / 2];
    return FromBits(e % 2 == 0 ? pair << 16 : pair & 0xFFFF0000);
  }

  // 1 for x >= 0. Of step j, the bits stand from kLanes (j / kWords) on in word j % kWords.
  LONGHAUL_TEXT static Signs SignsOf(const Quads& v) {
    Signs signs = {};
    LONGHAUL_UNROLL
    for (int j = kSteps - 1; j >= 0; --j) {
      uint32_t& word = signs.word[j % kWords];
      LONGHAUL_UNROLL
      for (int e = kLanes - 1; e >= 0; --e) {
        const uint32_t bits = BitsOf(SignOf(v.of[j], e) + 0.0f);  // -0 becomes 0
        word = static_cast<uint32_t>((uint64_t{word} << 32 | bits) >> 31);
      }
    }
    LONGHAUL_UNROLL
    for (uint32_t& word : signs.word) word = ~word;
    return signs;
  }
  LONGHAUL_TEXT static void ClearMissing(int count, int k, Signs& signs) {
    LONGHAUL_UNROLL
    for (int j = 0; j < kSteps; ++j) {
      const int left = count - kWarp * j - kLanes * k;
      const uint32_t exist = left <= 0 ? 0 : left < kLanes ? (1u << left) - 1 : (1u << kLanes) - 1;
      const int at = kLanes * (j / kWords);
      signs.word[j % kWords] &= ~((((1u << kLanes) - 1) ^ exist) << at);
    }
  }

  template <class Team>
  LONGHAUL_TEXT static typename Team::template Own<Levels> LevelsOf(
      Team& team, const typename Team::template Own<Place>& place,
      const typename Team::template Own<Quads>& v,
      const typename Team::template Own<Signs>& signs) {
    typename Team::template Own<Levels> levels;
    typename Team::template Own<Floats<kLanes>> first, second;
    team.Each([&](int t) { LaneSums(v[t], first[t], second[t]); });
    const auto sum = SumOf(team, first);
    if constexpr (kLevels == SignLevels::kTwoLevel) {
      const auto high = SumOf(team, second);
      typename Team::template Own<int> positive;
      team.Each([&](int t) {
        positive[t] = 0;
        LONGHAUL_UNROLL
        for (int w = 0; w < kWords; ++w) positive[t] += std::popcount(signs[t].word[w]);
      });
      Fold<kBlockThreads>(team, positive, [](int a, int b) { return a + b; });
      team.Each([&](int t) {
        const int below = place[t].count - positive[t];  // a sum of none is 0, or NaN is there
        levels[t] = {sum[t] / static_cast<float>(below == 0 ? 1 : below),
                     high[t] / static_cast<float>(positive[t] == 0 ? 1 : positive[t])};
      });
    } else {
      team.Each([&](int t) {
        const int count = place[t].count;
        const float mean = count == static_cast<int>(kSignBlock)
                               ? sum[t] * (1.0f / kSignBlock)
                               : sum[t] / static_cast<float>(count);
        levels[t].high = kLevels == SignLevels::kMean ? mean : sqrtf(mean);
        levels[t].low = -levels[t].high;
      });
    }
    return levels;
  }

  // first: of |x|, of x^2, or, with `second`, of the negative elements and of the others.
  LONGHAUL_TEXT static void LaneSums(const Quads& v, Floats<kLanes>& first,
                                     Floats<kLanes>& second) {
    LONGHAUL_UNROLL
    for (int e = 0; e < kLanes; ++e) first.x[e] = second.x[e] = 0.0f;
    LONGHAUL_UNROLL
    for (int j = 0; j < kSteps; ++j) {
      const auto values = Values(v.of[j]);
      LONGHAUL_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        const float x = values.x[e];
        if constexpr (kLevels == SignLevels::kTwoLevel) {
          first.x[e] += x < 0 ? x : 0.0f;
          second.x[e] += x < 0 ? 0.0f : x;
        } else {
          first.x[e] += kLevels == SignLevels::kMean ? fabsf(x) : x * x;
        }
      }
    }
  }

  // The end of a sum of tree_sum.h, to all threads of the block. Whenever two threads would add the
  // same pairs, each adds one half of them: the odd ones or the even ones.
  template <class Team>
  LONGHAUL_TEXT static typename Team::template Own<float> SumOf(
      Team& team, const typename Team::template Own<Floats<kLanes>>& lanes) {
    typename Team::template Own<float> sum;
    const auto halves = Halve<Team, kLanes>(team, lanes, kBlockThreads / 2);
    const auto quarters = Halve<Team, kLanes / 2>(team, halves, kBlockThreads / 4);
    team.Each([&](int t) {
      sum[t] = quarters[t].x[0];
      if constexpr (kLanes == 8) sum[t] += quarters[t].x[1];
    });
    Fold<kBlockThreads>(team, sum, [](float a, float b) { return a + b; });
    return sum;
  }
  // What two threads, `mask` apart, add of all their pairs.
  template <class Team, int kCount>
  LONGHAUL_TEXT static typename Team::template Own<Floats<kCount / 2>> Halve(
      Team& team, const typename Team::template Own<Floats<kCount>>& own, int mask) {
    typename Team::template Own<Floats<kCount / 2>> mine, yours;
    team.Each([&](int t) {
      const bool odd = (t & mask) != 0;
      LONGHAUL_UNROLL
      for (int i = 0; i < kCount / 2; ++i) {
        const float even_x = own[t].x[2 * i], odd_x = own[t].x[2 * i + 1];
        mine[t].x[i] = odd ? odd_x : even_x;
        yours[t].x[i] = odd ? even_x : odd_x;
      }
    });
    const auto other = team.Xor(yours, mask);
    team.Each([&](int t) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kCount / 2; ++i) mine[t].x[i] += other[t].x[i];
    });
    return mine;
  }

  template <class Team>
  LONGHAUL_TEXT void StoreLevels(uint64_t block, int k, const Levels& levels,
                                 const Quads& v) const {
    const uint16_t low = LevelOnWire(levels.low), high = LevelOnWire(levels.high);
    const bool finite = FiniteBf16(low) && FiniteBf16(high);
    // NaN and Inf make a level NaN or Inf, but so does a sum beyond fp32.
    if (!finite && HasNotFinite(v)) {
      // The CPU widens 16 blocks of a row at once and refuses them before it sums.
      const uint64_t number = block % run.row_blocks;
      Team::Min(&run.report->fault,
                (block - number % 16) << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
    }
    if (k != 0) return;
    if constexpr (kLevels == SignLevels::kTwoLevel) Team::Store(low, run.low + 2 * block);
    Team::Store(high, run.high + 2 * block);
    if (!finite) {
      Team::Min(&run.report->fault, block << 2 | static_cast<uint64_t>(BlockFault::kRange));
    }
  }
  LONGHAUL_TEXT static bool HasNotFinite(const Quads& v) {
    constexpr uint32_t kExponent = kType == DType::kF16 ? 0x7C000000 : kInfBits;
    bool bad = false;
    LONGHAUL_UNROLL
    for (int i = 0; i < 4 * kSteps; ++i) {
      const uint32_t word = v.of[i / 4].word[i % 4];
      bad |= (word & kExponent) == kExponent;
      if constexpr (kType != DType::kF32) bad |= (word << 16 & kExponent) == kExponent;
    }
    return bad;
  }

  // Word w of every thread: each has kLanes bits of several words of the string, and gets one of
  // these words whole. As a matrix is transposed: ever larger squares change places.
  template <class Team>
  LONGHAUL_TEXT static void Transpose(Team& team, typename Team::template Own<Signs>& signs,
                                      int w) {
    typename Team::template Own<uint32_t> own;
    team.Each([&](int t) { own[t] = signs[t].word[w]; });
    LONGHAUL_UNROLL
    for (int mask = 1; mask < kBlockThreads; mask *= 2) {
      const int width = kLanes * mask;
      const uint32_t low = ~uint32_t{0} / ((1u << width) + 1);  // every other `width` bits
      const auto other = team.Xor(own, mask);
      team.Each([&](int t) {
        own[t] = (t & mask) == 0 ? (own[t] & low) | (other[t] & low) << width
                                 : (own[t] & ~low) | (other[t] >> width & low);
      });
    }
    team.Each([&](int t) { signs[t].word[w] = own[t]; });
  }

  template <class Team>
  LONGHAUL_TEXT void StoreSigns(const Place& place, int k, const Signs& signs) const {
    std::byte* bits = run.bits + place.bits + 4 * kWords * k;
    if (place.count == static_cast<int>(kSignBlock) && Aligned(bits, 4 * kWords)) {
      if constexpr (kWords == 2) {
        Team::Store(uint64_t{signs.word[1]} << 32 | signs.word[0], bits);
      } else {
        Team::Store(signs.word[0], bits);
      }
      return;
    }
    const int bytes = (place.count + 7) / 8 - 4 * kWords * k;
    LONGHAUL_UNROLL
    for (int i = 0; i < 4 * kWords; ++i) {
      if (i < bytes) Team::Store(static_cast<uint8_t>(signs.word[i / 4] >> (i % 4 * 8)), bits + i);
    }
  }
};

}  // namespace longhaul
