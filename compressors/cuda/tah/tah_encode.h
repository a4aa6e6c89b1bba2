#pragma once

#include "compressors/cuda/tah/tah_span.h"

namespace longhaul {

// Rotation, range, codes. What a tile needs once, one thread does for it: the thread that the fold
// of its range ends with.
template <int kTile, DType kType>
struct EncodeTahKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kMinBlocks = 3;
  using Span = TahSpan<kTile, kType>;
  static constexpr int kStrips = Span::kStrips;
  static constexpr int kTileThreads = Span::kTileThreads;
  static constexpr int kFar = kTileThreads / 2, kNear = kTileThreads / 4;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Span::Teams(run); }

  // The strip of the tile that thread t works for, and the tile, counted from the span's first.
  LONGHAUL_TEXT static int OwnStrip(int t) {
    return ((t & kFar) != 0 ? 2 : 0) + ((t & kNear) != 0 ? 1 : 0);
  }
  LONGHAUL_TEXT static int OwnTile(int t) { return Span::TileOf(OwnStrip(t), t); }
  // The thread that works for thread t's tile of strip i.
  LONGHAUL_TEXT static int Owner(int i, int t) {
    return LeaderOf<kTileThreads>(t) + (i / 2 != 0 ? kFar : 0) + (i % 2 != 0 ? kNear : 0);
  }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    typename Team::template Own<RawEight<kType>> raw[kStrips];
    typename Team::template Own<uint32_t> wide, pivot;
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) { Load<Team>(span, i, t, raw[i][t]); });
    }
    team.Each([&](int t) {
      const int tile = OwnTile(t);
      wide[t] = 0;
      pivot[t] = kTahNotRotated;
      if (tile >= span.tiles) return;
      wide[t] = Team::template Load<uint8_t>(run.wide + span.first + tile);
      pivot[t] = Team::template Load<uint8_t>(run.pivots + span.first + tile);
    });
    typename Team::template Own<Eight> v[kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) { Widen<kType>(raw[i][t], v[i][t]); });
    }
    if (AnyRotated(team, pivot)) RotateStrips(team, span, pivot, v);
    Quantize(team, span, wide, v);
  }

  template <class Team>
  LONGHAUL_TEXT static void Load(const Span& span, int i, int t, RawEight<kType>& raw) {
    if (span.whole) {
      LoadEight<Team, kType>(span.X(i, t), raw);
    } else {
      const auto place = span.At(i, t);
      LoadSome<Team, kType>(place.x, place.count, raw);
      MarkMissing(place.count, raw);
    }
  }
  // What does not exist becomes NaN: neither least nor largest of anything, and code 0.
  LONGHAUL_TEXT static void MarkMissing(int count, RawEight<kType>& raw) {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      constexpr int kPerWord = kType == DType::kF32 ? 1 : 2;
      constexpr uint32_t kNaN = kType == DType::kF32 ? 0x7FFFFFFF : 0x7FFF;
      uint32_t& word = raw.quad[e / kPerWord / 4].word[e / kPerWord % 4];
      word |= e >= count ? kNaN << (e % kPerWord * 16) : 0;
    }
  }

  template <class Team, class Eights>
  LONGHAUL_TEXT void RotateStrips(Team& team, const Span& span,
                                  const typename Team::template Own<uint32_t>& own_pivot,
                                  Eights& strips) const {
    LONGHAUL_ROLLED
    for (int i = 0; i < kStrips; ++i) {
      typename Team::template Own<int> owner;
      team.Each([&](int t) { owner[t] = Owner(i, t); });
      const auto pivot = team.From(own_pivot, owner);
      if (!AnyRotated(team, pivot)) continue;
      // Chosen by comparisons: an index that is not a constant would take v out of the registers.
      auto v = strips[0];
      LONGHAUL_UNROLL
      for (int j = 1; j < kStrips; ++j) {
        team.Each([&](int t) {
          if (j == i) v[t] = strips[j][t];
        });
      }
      SwapPivots<kTile>(team, pivot, v);
      RotateTiles<kTile>(team, pivot, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < kStrips; ++j) {
        team.Each([&](int t) {
          if (j == i) strips[j][t] = v[t];
        });
      }
      team.Each([&](int t) {
        if (pivot[t] == kTahNotRotated || MaxBits(v[t]) < kInfBits) return;
        ReportRange<Team>(span.first + static_cast<uint64_t>(Span::TileOf(i, t)));
      });
    }
  }
  template <class Team>
  LONGHAUL_TEXT void ReportRange(uint64_t tile) const {
    Team::Min(&run.report->fault,
              uint64_t{1} << 63 | tile << 2 | static_cast<uint64_t>(BlockFault::kRange));
  }

  template <class Team, class Eights>
  LONGHAUL_TEXT void Quantize(Team& team, const Span& span,
                              const typename Team::template Own<uint32_t>& wide,
                              const Eights& v) const {
    typename Team::template Own<float> lows[kStrips], highs[kStrips], inverse;
    typename Team::template Own<uint32_t> zero;
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) {
        lows[i][t] = v[i][t].x[0];
        highs[i][t] = v[i][t].x[0];
        LONGHAUL_UNROLL
        for (int e = 1; e < kPerThread; ++e) {
          lows[i][t] = fminf(lows[i][t], v[i][t].x[e]);
          highs[i][t] = fmaxf(highs[i][t], v[i][t].x[e]);
        }
      });
    }
    const auto low = FoldStrips(team, lows, [](float a, float b) { return fminf(a, b); });
    const auto high = FoldStrips(team, highs, [](float a, float b) { return fmaxf(a, b); });
    team.Each([&](int t) {
      const uint16_t wire_z = AffineZero(low[t]);
      const float z = Bf16ToF32(wire_z);
      const WireScale s = AffineScale(z, high[t], wide[t] != 0 ? 15 : 7);
      inverse[t] = s.inverse;
      zero[t] = uint32_t{wire_z} << 16 | wide[t];
      const bool second = kTileThreads > kStrips && t % 2 != 0;  // two threads work for the tile
      if (second || OwnTile(t) >= span.tiles) return;
      const uint64_t tile = span.first + static_cast<uint64_t>(OwnTile(t));
      Team::Store(s.wire, run.scales + 2 * tile);
      Team::Store(wire_z, run.zeros + 2 * tile);
      if (AffineOverflows(low[t], high[t], z)) ReportRange<Team>(tile);
    });
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      typename Team::template Own<int> owner;
      typename Team::template Own<uint32_t> codes;
      team.Each([&](int t) { owner[t] = Owner(i, t); });
      const auto strip_zero = team.From(zero, owner);
      const auto strip_inverse = team.From(inverse, owner);
      team.Each([&](int t) { codes[t] = Codes(v[i][t], strip_zero[t], strip_inverse[t]); });
      StoreCodes(team, span, i, strip_zero, codes);
    }
  }

  // own[i]: of strip i. Every thread gets the fold of the tile that it works for: what each two
  // threads would both fold is halved between them.
  template <class Team, class Op>
  LONGHAUL_TEXT static typename Team::template Own<float> FoldStrips(
      Team& team, const typename Team::template Own<float> (&own)[kStrips], Op op) {
    struct Two {
      float x[2];
    };
    typename Team::template Own<Two> mine, yours;
    typename Team::template Own<float> one, other;
    team.Each([&](int t) {
      const bool second = (t & kFar) != 0;
      LONGHAUL_UNROLL
      for (int i = 0; i < 2; ++i) {
        mine[t].x[i] = second ? own[2 + i][t] : own[i][t];
        yours[t].x[i] = second ? own[i][t] : own[2 + i][t];
      }
    });
    const auto far = team.Xor(yours, kFar);
    team.Each([&](int t) {
      const float a = op(mine[t].x[0], far[t].x[0]), b = op(mine[t].x[1], far[t].x[1]);
      const bool second = (t & kNear) != 0;
      one[t] = second ? b : a;
      other[t] = second ? a : b;
    });
    other = team.Xor(other, kNear);
    team.Each([&](int t) { one[t] = op(one[t], other[t]); });
    if constexpr (kTileThreads > kStrips) Fold<kTileThreads / kStrips>(team, one, op);
    return one;
  }

  // Eight codes of 4 bits, or of 3. zero: z, its last bit 1 for 4 bits.
  LONGHAUL_TEXT static uint32_t Codes(const Eight& v, uint32_t zero, float inverse) {
    constexpr uint32_t kRounder = 0x4B400000;  // 1.5 2^23: its sum with x ends in x, rounded
    const bool wide = (zero & 1) != 0;
    const float z = FromBits(zero & 0xFFFF0000), levels = wide ? 15.0f : 7.0f;
    const uint32_t base = wide ? 16 : 8;
    uint32_t codes = 0;
    LONGHAUL_UNROLL
    for (int e = kPerThread - 1; e >= 0; --e) {
      const float at = fminf(fmaxf((v.x[e] - z) * inverse, 0.0f), levels);
      codes = codes * base + BitsOf(at + FromBits(kRounder));
    }
    return codes - kRounder * (wide ? 0x11111111u : 0x00249249u);  // what all rounders added
  }

  // The codes of a tile as words side by side: those of 3 bits have 3 bytes per thread.
  template <class Team>
  LONGHAUL_TEXT void StoreCodes(Team& team, const Span& span, int i,
                                const typename Team::template Own<uint32_t>& zero,
                                const typename Team::template Own<uint32_t>& codes) const {
    typename Team::template Own<int> source;
    team.Each([&](int t) {
      const int k = t % kTileThreads, from = k + k / 3;
      source[t] = LeaderOf<kTileThreads>(t) + (from + 1 < kTileThreads ? from : kTileThreads - 2);
    });
    const auto low = team.From(codes, source);
    team.Each([&](int t) { ++source[t]; });
    const auto high = team.From(codes, source);
    team.Each([&](int t) {
      const int k = t % kTileThreads, skip = 8 * (k % 3);
      const bool wide = (zero[t] & 1) != 0;
      if (!wide && k >= kTileThreads * 3 / 4) return;
      if (Span::TileOf(i, t) >= span.tiles) return;
      const uint32_t word = wide ? codes[t] : low[t] >> skip | high[t] << (24 - skip);
      Team::Store(word, span.Word(i, t));
    });
  }
};

}  // namespace longhaul
