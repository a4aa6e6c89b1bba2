#pragma once

#include "compressors/cuda/block/block_arithmetic.h"
#include "compressors/cuda/block/scaled_fp4_launch.h"
#include "compressors/cuda/team/code_words.h"
#include "compressors/kernels/fp4_scale.h"

namespace longhaul {

// What a block's elements are multiples of; 0 when too small, rounded down where six times it would
// overflow (fp4.cc).
LONGHAUL_TEXT float NvBlockScale(uint32_t code, float t) {
  const float s = MiniToF32(static_cast<uint8_t>(code), MiniFloat::kE4M3) * t;
  if (s < 0x1p-126f) return 0.0f;
  const bool finite = (BitsOf(6.0f * s) & kAbsMask) < kInfBits;
  return finite ? s : FromBits(BitsOf(s) - 1);
}

// A warp works on four strips of a row; a thread on eight neighbouring elements of each, half a
// block of nvfp4.
template <DType kType>
struct ScaledFp4Span {
  static constexpr int kStrips = 4;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr BlockScheme kScheme = {4, Grid::kE2M1, Rotation::kNone, kNvBlock};

  LONGHAUL_HOST_DEVICE static uint64_t PerRow(const ScaledFp4Run& run) {
    return (run.cols + kElements - 1) / kElements;
  }
  LONGHAUL_TEXT ScaledFp4Span(const ScaledFp4Run& run, uint64_t team) {
    const uint64_t per_row = PerRow(run);
    const uint64_t row = run.rows == 1 ? 0 : team / per_row;
    first = (team - row * per_row) * kElements;
    x = run.x + (row * run.cols + first) * kElementBytes;
    codes = run.codes + row * run.row_code_bytes + first / 2;
    scales = run.scales + row * run.row_blocks + first / kNvBlock;
    left = run.cols - first;
    whole = left >= kElements && Aligned(x, 16) && Aligned(codes, 4);
  }
  // Thread t's elements of strip i, from the span's start, and how many exist.
  LONGHAUL_TEXT static uint64_t At(int i, int t) {
    return static_cast<uint64_t>(i * kStrip + kPerThread * t);
  }
  LONGHAUL_TEXT int Count(int i, int t) const { return CountBelow(At(i, t), left); }
  LONGHAUL_TEXT std::byte* X(int i, int t) const { return x + At(i, t) * kElementBytes; }

  uint64_t first, left;           // element of the row, and how many are left from there
  std::byte *x, *codes, *scales;  // of this span
  bool whole;                     // the same for all threads
};

template <DType kType>
struct EncodeScaledFp4Kernel {
  static constexpr int kThreads = kWarp;
  using Span = ScaledFp4Span<kType>;
  static constexpr BlockScheme kScheme = Span::kScheme;

  ScaledFp4Run run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const uint32_t tensor_top = *run.top;
    if (span.whole) {
      typename Team::template Own<RawEight<kType>> raw[Span::kStrips];
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        team.Each([&](int t) { LoadEight<Team, kType>(span.X(i, t), raw[i][t]); });
      }
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; i += 2) {
        Pair<true>(team, span, i, tensor_top, raw[i], raw[i + 1]);
      }
    } else {
      LONGHAUL_ROLLED
      for (int i = 0; i < Span::kStrips; i += 2) {
        typename Team::template Own<RawEight<kType>> raw[2];
        team.Each([&](int t) {
          LoadSome<Team, kType>(span.X(i, t), span.Count(i, t), raw[0][t]);
          LoadSome<Team, kType>(span.X(i + 1, t), span.Count(i + 1, t), raw[1][t]);
        });
        Pair<false>(team, span, i, tensor_top, raw[0], raw[1]);
      }
    }
    team.Each([&](int t) {
      if (team.index() == 0 && t == 0) StoreHead<Team>(tensor_top);
    });
  }

  // Strips i and i + 1.
  template <bool kWhole, class Team, class Raw>
  LONGHAUL_TEXT void Pair(Team& team, const Span& span, int i, uint32_t tensor_top, const Raw& raw0,
                          const Raw& raw1) const {
    typename Team::template Own<float> inverse0, inverse1;
    NvScales<kWhole>(team, span, i, NvTensorScale(tensor_top), raw0, raw1, inverse0, inverse1);
    team.Each([&](int t) {
      StoreCodes<kWhole, Team>(span, i, t, raw0[t], inverse0[t]);
      StoreCodes<kWhole, Team>(span, i + 1, t, raw1[t], inverse1[t]);
    });
  }

  LONGHAUL_TEXT static float NvTensorScale(uint32_t top) {
    const float quotient = FromBits(top) / (448.0f * 6.0f);
    return quotient < 0x1p-126f ? 0.0f : quotient;
  }

  template <class Team>
  LONGHAUL_TEXT void StoreHead(uint32_t top) const {
    if (top >= kInfBits) Team::Min(&run.report->fault, 0);
    Team::Store(BitsOf(NvTensorScale(top)), run.head);
    Team::Store(uint32_t{0}, run.head + 4);
  }

  // Two strips' scales: 1 / s, and 0 where s is 0. Two threads have a block in each strip: the even
  // one works for that in strip i, the odd one for that in i + 1.
  template <bool kWhole, class Team, class Raw, class Floats>
  LONGHAUL_TEXT void NvScales(Team& team, const Span& span, int i, float tensor_scale,
                              const Raw& raw0, const Raw& raw1, Floats& inverse0,
                              Floats& inverse1) const {
    typename Team::template Own<uint32_t> mine, yours;
    Floats inverse;
    team.Each([&](int t) {
      const uint32_t top0 = MaxBits(raw0[t]), top1 = MaxBits(raw1[t]);
      mine[t] = t % 2 == 0 ? top0 : top1;
      yours[t] = t % 2 == 0 ? top1 : top0;
    });
    const auto other = team.Xor(yours, 1);
    team.Each([&](int t) {
      const uint32_t top = mine[t] > other[t] ? mine[t] : other[t];
      uint32_t code = 0;
      if (tensor_scale != 0) {
        code = F32ToMini(FromBits(top) / 6.0f / tensor_scale, MiniFloat::kE4M3);
      }
      const float value = NvBlockScale(code, tensor_scale);
      inverse[t] = value == 0 ? 0.0f : 1.0f / value;
      const int strip = i + t % 2;
      if (!kWhole && span.Count(strip, t / 2 * 2) == 0) return;
      Team::Store(static_cast<uint8_t>(value == 0 ? 0 : code),
                  span.scales + Span::At(strip, t) / kNvBlock);
    });
    const auto other_inverse = team.Xor(inverse, 1);
    team.Each([&](int t) {
      inverse0[t] = t % 2 == 0 ? inverse[t] : other_inverse[t];
      inverse1[t] = t % 2 == 0 ? other_inverse[t] : inverse[t];
    });
  }

  // An element that does not exist was loaded as 0, and 0 has code 0.
  template <bool kWhole, class Team>
  LONGHAUL_TEXT static void StoreCodes(const Span& span, int i, int t, const RawEight<kType>& raw,
                                       float inverse) {
    Eight v;
    Widen<kType>(raw, v);
    const BlockScale b = {0, 0, BlockFault::kNone, inverse, 0.0f};
    const uint64_t eight = PackEight<kScheme, Rounding::kNearest>(v, kPerThread, b, 0, 0);
    const auto codes = static_cast<uint32_t>(eight);
    std::byte* at = span.codes + Span::At(i, t) / 2;
    if constexpr (kWhole) {
      Team::Store(codes, at);
    } else {
      StoreBytes<Team>(codes, (span.Count(i, t) + 1) / 2, at);
    }
  }
};

template <DType kType>
struct DecodeScaledFp4Kernel {
  static constexpr int kThreads = kWarp;
  using Span = ScaledFp4Span<kType>;
  static constexpr BlockScheme kScheme = Span::kScheme;

  ScaledFp4Run run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const float scale = FromBits(Team::template Load<uint32_t>(run.head));
    if (span.whole) {
      typename Team::template Own<uint32_t> codes[Span::kStrips], scales[Span::kStrips];
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        team.Each([&](int t) {
          codes[i][t] = Team::template Load<uint32_t>(span.codes + Span::At(i, t) / 2);
          scales[i][t] = LoadScale<Team>(span, i, t);
        });
      }
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        typename Team::template Own<RawEight<kType>> raw;
        team.Each([&](int t) { raw[t] = Values<Team>(codes[i][t], scale, scales[i][t]); });
        StoreStrip<kType>(team, raw, span.X(i, 0));
      }
      return;
    }
    LONGHAUL_ROLLED
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        const int count = span.Count(i, t);
        if (count == 0) return;
        const auto codes = static_cast<uint32_t>(
            LoadBytes<Team>(span.codes + Span::At(i, t) / 2, (count + 1) / 2));
        const auto raw = Values<Team>(codes, scale, LoadScale<Team>(span, i, t));
        StoreSome<Team, kType>(raw, count, span.X(i, t));
      });
    }
  }

  template <class Team>
  LONGHAUL_TEXT static uint32_t LoadScale(const Span& span, int i, int t) {
    return Team::template Load<uint8_t>(span.scales + Span::At(i, t) / kNvBlock);
  }

  template <class Team>
  LONGHAUL_TEXT RawEight<kType> Values(uint32_t codes, float tensor_scale, uint32_t scale) const {
    const float s = NvBlockScale(scale, tensor_scale);
    Eight v;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      v.x[e] = ValueOf<kScheme>(codes >> (4 * e) & 15, s, 0.0f);
    }
    if (scale > 0x7E) Team::Min(&run.report->fault, 0);
    RawEight<kType> raw;
    Narrow<kType>(v, raw);
    return raw;
  }
};

}  // namespace longhaul
