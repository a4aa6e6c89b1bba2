#pragma once

#include "compressors/cuda/tah/tah_span.h"

namespace longhaul {

// Thread t loads what tile t of the warp's has once.
template <int kTile, DType kType>
struct DecodeTahKernel {
  static constexpr int kThreads = kWarp;
  using Span = TahSpan<kTile, kType>;
  static constexpr int kStrips = Span::kStrips;
  static constexpr int kTileThreads = Span::kTileThreads;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Span::Teams(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    typename Team::template Own<uint32_t> words[kStrips];
    typename Team::template Own<uint32_t> affine, kind;  // z above s; pivot above wide
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) {
        words[i][t] =
            Span::TileOf(i, t) < span.tiles ? Team::template Load<uint32_t>(span.Word(i, t)) : 0u;
      });
    }
    team.Each([&](int t) {
      affine[t] = 0;
      kind[t] = uint32_t{kTahNotRotated} << 8;
      if (t >= span.tiles) return;
      const uint64_t tile = span.first + static_cast<uint64_t>(t);
      const uint32_t s = Team::template Load<uint16_t>(run.scales + 2 * tile);
      const uint32_t z = Team::template Load<uint16_t>(run.zeros + 2 * tile);
      const uint32_t wide = Team::template Load<uint8_t>(run.wide + tile);
      const uint32_t pivot = Team::template Load<uint8_t>(run.pivots + tile);
      if ((s & 0x7F80) == 0x7F80 || (z & 0x7F80) == 0x7F80) Team::Min(&run.report->fault, 0);
      affine[t] = z << 16 | s;
      kind[t] = pivot << 8 | wide;
    });
    LONGHAUL_ROLLED
    for (int i = 0; i < kStrips; ++i) {
      // Chosen by comparisons: an index that is not a constant would take words out of registers.
      auto here = words[0];
      LONGHAUL_UNROLL
      for (int j = 1; j < kStrips; ++j) {
        team.Each([&](int t) { here[t] = j == i ? words[j][t] : here[t]; });
      }
      Strip(team, span, i, here, affine, kind);
    }
  }

  template <class Team>
  LONGHAUL_TEXT void Strip(Team& team, const Span& span, int i,
                           const typename Team::template Own<uint32_t>& words,
                           const typename Team::template Own<uint32_t>& affines,
                           const typename Team::template Own<uint32_t>& kinds) const {
    typename Team::template Own<int> owner;
    team.Each([&](int t) { owner[t] = Span::TileOf(i, t); });
    const auto affine = team.From(affines, owner);
    const auto kind = team.From(kinds, owner);
    const auto codes = OwnCodes(team, words, kind);
    typename Team::template Own<Eight> v;
    typename Team::template Own<uint32_t> pivot;
    team.Each([&](int t) {
      const int bits = (kind[t] & 1) != 0 ? 4 : 3;
      const uint32_t mask = (1u << bits) - 1;
      const float s = FromBits(affine[t] << 16), z = FromBits(affine[t] & 0xFFFF0000);
      uint32_t rest = codes[t];
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const float step = SmallToFloat(rest & mask, 0) * s;
        v[t].x[e] = z + step;
        rest >>= bits;
      }
      pivot[t] = kind[t] >> 8;
    });
    if (AnyRotated(team, pivot)) {
      RotateTiles<kTile>(team, pivot, v);
      SwapPivots<kTile>(team, pivot, v);
    }
    team.Each([&](int t) {
      RawEight<kType> raw;
      Narrow<kType>(v[t], raw);
      if (span.whole) {
        StoreEight<Team, kType>(raw, span.X(i, t));
      } else {
        const auto place = span.At(i, t);
        StoreSome<Team, kType>(raw, place.count, place.x);
      }
    });
  }

  // Words side by side become every thread's own codes; those of 3 bits have 3 bytes per thread.
  template <class Team>
  LONGHAUL_TEXT static typename Team::template Own<uint32_t> OwnCodes(
      Team& team, const typename Team::template Own<uint32_t>& words,
      const typename Team::template Own<uint32_t>& kind) {
    typename Team::template Own<int> source;
    team.Each([&](int t) { source[t] = LeaderOf<kTileThreads>(t) + 3 * (t % kTileThreads) / 4; });
    const auto low = team.From(words, source);
    team.Each([&](int t) { ++source[t]; });
    const auto high = team.From(words, source);
    typename Team::template Own<uint32_t> codes;
    team.Each([&](int t) {
      const uint64_t both = uint64_t{high[t]} << 32 | low[t];
      const auto three = static_cast<uint32_t>(both >> (8 * (3 * (t % kTileThreads) % 4)));
      codes[t] = (kind[t] & 1) != 0 ? words[t] : three;
    });
    return codes;
  }
};

}  // namespace longhaul
