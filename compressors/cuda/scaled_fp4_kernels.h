#pragma once

#include "compressors/cuda/block_arithmetic.h"
#include "compressors/cuda/code_words.h"
#include "compressors/cuda/scaled_fp4_launch.h"

namespace longhaul {

constexpr int kNvBlock = 16;

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
template <ScaledFp4 kForm, DType kType>
struct ScaledFp4Span {
  static constexpr int kStrips = 4;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr BlockScheme kScheme =
      kForm == ScaledFp4::kNv ? BlockScheme{4, Grid::kE2M1, Rotation::kNone, kNvBlock}
                              : BlockScheme{4, Grid::kE3M0};

  LONGHAUL_HOST_DEVICE static uint64_t PerRow(const ScaledFp4Run& run) {
    return (run.cols + kElements - 1) / kElements;
  }
  LONGHAUL_TEXT ScaledFp4Span(const ScaledFp4Run& run, uint64_t team) {
    const uint64_t per_row = PerRow(run);
    row = team / per_row;
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

  uint64_t row, first, left;
  std::byte *x, *codes, *scales;  // of this span
  bool whole;
};

template <ScaledFp4 kForm, DType kType>
struct EncodeScaledFp4Kernel {
  static constexpr int kThreads = kWarp;
  using Span = ScaledFp4Span<kForm, kType>;
  static constexpr BlockScheme kScheme = Span::kScheme;

  ScaledFp4Run run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const uint32_t tensor_top = *run.top;
    typename Team::template Own<RawEight<kType>> raw[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        const std::byte* at = span.x + Span::At(i, t) * Span::kElementBytes;
        if (span.whole) {
          LoadEight<Team, kType>(at, raw[i][t]);
        } else {
          LoadSome<Team, kType>(at, span.Count(i, t), raw[i][t]);
        }
      });
    }
    team.Each([&](int t) {
      if (team.index() == 0 && t == 0) StoreHead<Team>(tensor_top);
    });
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) Strip(team, span, i, tensor_top, raw[i]);
  }

  LONGHAUL_TEXT static float NvTensorScale(uint32_t top) {
    const float quotient = FromBits(top) / (448.0f * 6.0f);
    return quotient < 0x1p-126f ? 0.0f : quotient;
  }

  template <class Team>
  LONGHAUL_TEXT void StoreHead(uint32_t top) const {
    if (top >= kInfBits) Team::Min(&run.report->fault, 0);
    const uint32_t scale =
        kForm == ScaledFp4::kNv ? BitsOf(NvTensorScale(top)) : AbsMaxScale(kScheme, top).wire;
    Team::Store(scale, run.head);
    Team::Store(uint32_t{0}, run.head + 4);
  }

  template <class Team, class Raw>
  LONGHAUL_TEXT void Strip(Team& team, const Span& span, int i, uint32_t tensor_top,
                           const Raw& raw) const {
    typename Team::template Own<Eight> v;
    typename Team::template Own<uint32_t> top;
    team.Each([&](int t) {
      Widen<kType>(raw[t], v[t]);
      top[t] = MaxBits(v[t]);
    });
    if constexpr (kForm == ScaledFp4::kNv) {
      Fold<kNvBlock / kPerThread>(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    }
    team.Each([&](int t) {
      const int count = span.Count(i, t);
      if (count == 0) return;
      BlockScale b = {0, 0, BlockFault::kNone, 0.0f, 0.0f};
      if constexpr (kForm == ScaledFp4::kNv) {
        const float scale = NvTensorScale(tensor_top);
        uint32_t code = 0;
        if (scale != 0) code = F32ToMini(FromBits(top[t]) / 6.0f / scale, MiniFloat::kE4M3);
        const float value = NvBlockScale(code, scale);
        if (value == 0) code = 0;
        b.inverse = value == 0 ? 0.0f : 1.0f / value;
        if (t % 2 == 0) {
          Team::Store(static_cast<uint8_t>(code), span.scales + Span::At(i, t) / kNvBlock);
        }
      } else {
        b.inverse = AbsMaxScale(kScheme, tensor_top).inverse;
      }
      const uint64_t codes = PackEight<kScheme, Rounding::kNearest>(v[t], count, b, 0, 0);
      std::byte* at = span.codes + Span::At(i, t) / 2;
      if (span.whole) {
        Team::Store(static_cast<uint32_t>(codes), at);
      } else {
        StoreBytes<Team>(codes, (count + 1) / 2, at);
      }
    });
  }
};

template <ScaledFp4 kForm, DType kType>
struct DecodeScaledFp4Kernel {
  static constexpr int kThreads = kWarp;
  using Span = ScaledFp4Span<kForm, kType>;
  static constexpr BlockScheme kScheme = Span::kScheme;

  ScaledFp4Run run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const uint32_t head = Team::template Load<uint32_t>(run.head);
    const float scale =
        kForm == ScaledFp4::kNv ? FromBits(head) : Bf16ToF32(static_cast<uint16_t>(head));
    typename Team::template Own<uint32_t> codes[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        const std::byte* at = span.codes + Span::At(i, t) / 2;
        codes[i][t] = span.whole
                          ? Team::template Load<uint32_t>(at)
                          : static_cast<uint32_t>(LoadBytes<Team>(at, (span.Count(i, t) + 1) / 2));
      });
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) { Write<Team>(span, i, t, scale, codes[i][t]); });
    }
  }

  template <class Team>
  LONGHAUL_TEXT void Write(const Span& span, int i, int t, float tensor_scale,
                           uint32_t codes) const {
    const int count = span.Count(i, t);
    if (count == 0) return;
    float s = tensor_scale;
    bool bad = false;
    if constexpr (kForm == ScaledFp4::kNv) {
      const uint32_t code = Team::template Load<uint8_t>(span.scales + Span::At(i, t) / kNvBlock);
      bad = code > 0x7E;
      s = NvBlockScale(code, tensor_scale);
    }
    Eight v;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      v.x[e] = ValueOf<kScheme>(codes >> (4 * e) & 15, s, 0.0f);
    }
    if (bad) Team::Min(&run.report->fault, 0);
    RawEight<kType> raw;
    Narrow<kType>(v, raw);
    std::byte* at = span.x + Span::At(i, t) * Span::kElementBytes;
    if (span.whole) {
      StoreEight<Team, kType>(raw, at);
    } else {
      StoreSome<Team, kType>(raw, count, at);
    }
  }
};

}  // namespace longhaul
