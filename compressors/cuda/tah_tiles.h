#pragma once

#include "compressors/cuda/block_arithmetic.h"
#include "compressors/cuda/code_words.h"
#include "compressors/cuda/tah_launch.h"

namespace longhaul {

// What the kernels of both directions share: a thread has eight neighbouring elements of a tile, a
// warp 256 / kTile tiles.
template <int kTile, DType kType>
struct TahWarp {
  static constexpr int kTileThreads = kTile / kPerThread;
  static constexpr int kTiles = kWarp / kTileThreads;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  // Where thread t stands.
  struct Place {
    LONGHAUL_TEXT Place(const TahRun& run, uint64_t team, int t) {
      tile = team * kTiles + static_cast<uint64_t>(t / kTileThreads);
      const uint64_t row = tile / run.per_row;
      const uint64_t at =
          (tile - row * run.per_row) * kTile + static_cast<uint64_t>(t % kTileThreads * kPerThread);
      count = row < run.rows ? CountBelow(at, run.cols) : 0;
      x = run.x + (row * run.cols + at) * kElementBytes;
      leads = t % kTileThreads == 0 && count > 0;
    }
    uint64_t tile;
    std::byte* x;
    int count;   // of the eight elements, how many exist
    bool leads;  // the first thread of an existing tile
  };

  LONGHAUL_HOST_DEVICE static uint64_t Teams(const TahRun& run) {
    return (run.rows * run.per_row + kTiles - 1) / kTiles;
  }

  template <class Team>
  LONGHAUL_TEXT static int PivotOf(const TahRun& run, const Place& place) {
    return place.count == 0 ? kTahNotRotated
                            : Team::template Load<uint8_t>(run.pivots + place.tile);
  }

  // Element 0 of the tile and the pivot change places.
  template <class Team, class Eights, class Ints>
  LONGHAUL_TEXT static void Swap(Team& team, const Ints& pivot, Eights& v) {
    typename Team::template Own<float> first, chosen;
    typename Team::template Own<int> source, leader;
    team.Each([&](int t) {
      first[t] = v[t].x[0];
      chosen[t] = v[t].x[0];
      LONGHAUL_UNROLL
      for (int e = 1; e < kPerThread; ++e) {
        if (pivot[t] % kPerThread == e) chosen[t] = v[t].x[e];
      }
      leader[t] = t / kTileThreads * kTileThreads;
      source[t] = leader[t] + (pivot[t] == kTahNotRotated ? 0 : pivot[t] / kPerThread);
    });
    const auto pivot_value = team.From(chosen, source);
    const auto first_value = team.From(first, leader);
    team.Each([&](int t) {
      if (pivot[t] == kTahNotRotated) return;
      if (t == leader[t]) v[t].x[0] = pivot_value[t];
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const bool here = pivot[t] % kPerThread == e && t == source[t];
        if (here && pivot[t] != 0) v[t].x[e] = first_value[t];
      }
    });
  }

  template <class Team, class Eights, class Ints>
  LONGHAUL_TEXT static void Rotate(Team& team, const Ints& pivot, Eights& v) {
    auto rotated = v;
    HadamardAcross<kTile>(team, rotated);
    team.Each([&](int t) {
      if (pivot[t] != kTahNotRotated) v[t] = rotated[t];
    });
  }
};

template <int kTile, DType kType>
struct EncodeTahKernel {
  static constexpr int kThreads = kWarp;
  using Warp = TahWarp<kTile, kType>;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Warp::Teams(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Own<Eight> v;
    typename Team::template Own<int> pivot;
    team.Each([&](int t) {
      const typename Warp::Place place(run, team.index(), t);
      RawEight<kType> raw;
      LoadSome<Team, kType>(place.x, place.count, raw);
      Widen<kType>(raw, v[t]);
      pivot[t] = Warp::template PivotOf<Team>(run, place);
    });
    Warp::Swap(team, pivot, v);
    Warp::Rotate(team, pivot, v);

    typename Team::template Own<uint32_t> top;
    typename Team::template Own<float> low, high;
    team.Each([&](int t) {
      const int count = typename Warp::Place(run, team.index(), t).count;
      top[t] = MaxBits(v[t]);
      low[t] = FromBits(kInfBits);
      high[t] = FromBits(kInfBits | 0x80000000);
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        if (e >= count) continue;
        low[t] = v[t].x[e] < low[t] ? v[t].x[e] : low[t];
        high[t] = v[t].x[e] > high[t] ? v[t].x[e] : high[t];
      }
    });
    Fold<Warp::kTileThreads>(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    Fold<Warp::kTileThreads>(team, low, [](float a, float b) { return b < a ? b : a; });
    Fold<Warp::kTileThreads>(team, high, [](float a, float b) { return b > a ? b : a; });
    team.Each([&](int t) {
      const typename Warp::Place place(run, team.index(), t);
      if (place.count > 0) Emit<Team>(place, t, top[t], low[t], high[t], v[t]);
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Emit(const typename Warp::Place& place, int t, uint32_t top, float low,
                          float high, const Eight& v) const {
    const uint8_t wide = Team::template Load<uint8_t>(run.wide + place.tile);
    const int bits = 3 + wide, levels = (1 << bits) - 1;
    const uint16_t wire_z = AffineZero(low);
    const float z = Bf16ToF32(wire_z);
    const WireScale s = AffineScale(z, high, levels);
    uint64_t codes = 0;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const float at = ClampTo((v.x[e] - z) * s.inverse, 0.0f, static_cast<float>(levels));
      const auto q = static_cast<uint32_t>(RoundToInt(at));
      codes |= static_cast<uint64_t>(e < place.count ? q : 0) << (bits * e);
    }
    StoreBytes<Team>(codes, (place.count * bits + 7) / 8,
                     run.codes + place.tile * (kTile / 2) +
                         static_cast<uint64_t>(t % Warp::kTileThreads * bits));
    if (!place.leads) return;
    Team::Store(s.wire, run.scales + 2 * place.tile);
    Team::Store(wire_z, run.zeros + 2 * place.tile);
    if (top >= kInfBits || AffineOverflows(low, high, z)) {
      Team::Min(&run.report->fault,
                uint64_t{1} << 63 | place.tile << 2 | static_cast<uint64_t>(BlockFault::kRange));
    }
  }
};

template <int kTile, DType kType>
struct DecodeTahKernel {
  static constexpr int kThreads = kWarp;
  using Warp = TahWarp<kTile, kType>;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Warp::Teams(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Own<Eight> v;
    typename Team::template Own<int> pivot;
    team.Each([&](int t) {
      const typename Warp::Place place(run, team.index(), t);
      pivot[t] = Warp::template PivotOf<Team>(run, place);
      v[t] = {};
      if (place.count > 0) Values<Team>(place, t, v[t]);
    });
    Warp::Rotate(team, pivot, v);
    Warp::Swap(team, pivot, v);
    team.Each([&](int t) {
      const typename Warp::Place place(run, team.index(), t);
      RawEight<kType> raw;
      Narrow<kType>(v[t], raw);
      StoreSome<Team, kType>(raw, place.count, place.x);
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Values(const typename Warp::Place& place, int t, Eight& v) const {
    const int bits = 3 + Team::template Load<uint8_t>(run.wide + place.tile);
    const auto s = Team::template Load<uint16_t>(run.scales + 2 * place.tile);
    const auto z = Team::template Load<uint16_t>(run.zeros + 2 * place.tile);
    if ((s & 0x7F80) == 0x7F80 || (z & 0x7F80) == 0x7F80) Team::Min(&run.report->fault, 0);
    const uint64_t codes = LoadBytes<Team>(
        run.codes + place.tile * (kTile / 2) + static_cast<uint64_t>(t % Warp::kTileThreads * bits),
        (place.count * bits + 7) / 8);
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const auto q = static_cast<uint32_t>(codes >> (bits * e)) & ((1u << bits) - 1);
      const float step = SmallToFloat(q, 0) * Bf16ToF32(s);
      if (e < place.count) v.x[e] = Bf16ToF32(z) + step;
    }
  }
};

}  // namespace longhaul
