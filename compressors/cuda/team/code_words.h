#pragma once

#include <type_traits>

#include "compressors/cuda/team/team.h"

// A warp's codes between registers and memory: every thread holds kBytes bytes (the low ones of a
// u64), the warp 32 kBytes bytes in a row, which move in words of 4 or 8 bytes side by side.
namespace longhaul {

template <int kBytes>
constexpr uint64_t kLowBytes = kBytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * kBytes % 64)) - 1;

// Four neighbouring threads and four pieces each: thread j gets the j-th piece of all four.
template <class T, class Team, class Pieces>
LONGHAUL_TEXT void TransposeFour(Team& team, Pieces& piece) {
  LONGHAUL_UNROLL
  for (int mask = 1; mask <= 2; mask *= 2) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      if ((i & mask) != 0) continue;
      typename Team::template Own<T> sent;
      team.Each([&](int t) {
        sent[t] = static_cast<T>((t & mask) == 0 ? piece[i | mask][t] : piece[i][t]);
      });
      const auto got = team.Xor(sent, mask);
      team.Each([&](int t) {
        if ((t & mask) == 0) {
          piece[i | mask][t] = got[t];
        } else {
          piece[i][t] = got[t];
        }
      });
    }
  }
}

// Four strips' codes, strip i to p + 32 i kBytes; p: 8-byte aligned.
template <int kBytes, class Team>
LONGHAUL_TEXT void StoreFourStrips(Team& team, typename Team::template Own<uint64_t> (&piece)[4],
                                   std::byte* p) {
  if constexpr (kBytes == 4 || kBytes == 8) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      team.Each([&](int t) {
        std::byte* at = p + (i * kWarp + t) * kBytes;
        if constexpr (kBytes == 4) {
          Team::Store(static_cast<uint32_t>(piece[i][t]), at);
        } else {
          Team::Store(piece[i][t], at);
        }
      });
    }
  } else {
    // Bytes of four neighbouring threads are kBytes whole words, which one of them writes: each of
    // the four those of another strip.
    using Moved = std::conditional_t<(kBytes < 4), uint32_t, uint64_t>;
    TransposeFour<Moved>(team, piece);
    team.Each([&](int t) {
      std::byte* at = p + (t % 4) * kWarp * kBytes + t / 4 * 4 * kBytes;
      uint64_t bits = 0;
      int held = 0;  // bits of them
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        // Of a piece that does not fit, the lower part goes with what is held.
        bits |= piece[i][t] << held;
        const uint64_t rest = held == 0 ? 0 : piece[i][t] >> (64 - held);
        held += 8 * kBytes;
        LONGHAUL_UNROLL
        for (int w = 0; w < 2; ++w) {
          if (held < 32) continue;
          Team::Store(static_cast<uint32_t>(bits), at);
          at += 4;
          bits = w == 0 ? bits >> 32 | rest << 32 : bits >> 32;
          held -= 32;
        }
      }
    });
  }
}

// The inverse.
template <int kBytes, class Team>
LONGHAUL_TEXT void LoadWarpBytes(Team& team, const std::byte* p,
                                 typename Team::template Own<uint64_t>& piece) {
  if constexpr (kBytes == 4) {
    team.Each([&](int t) { piece[t] = Team::template Load<uint32_t>(p + 4 * (t % kWarp)); });
  } else {
    team.Each([&](int t) {
      piece[t] = t % kWarp < 4 * kBytes ? Team::template Load<uint64_t>(p + 8 * (t % kWarp)) : 0;
    });
  }
}

// What LoadWarpBytes left: words become every thread's own bytes.
template <int kBytes, class Team>
LONGHAUL_TEXT void SpreadWarpBytes(Team& team, typename Team::template Own<uint64_t>& piece) {
  if constexpr (kBytes != 4 && kBytes != 8) {
    typename Team::template Own<int> source;
    team.Each([&](int t) { source[t] = kBytes * (t % kWarp) / 8; });
    auto low = team.From(piece, source);
    team.Each([&](int t) { source[t] = source[t] + 1 < kWarp ? source[t] + 1 : kWarp - 1; });
    auto high = team.From(piece, source);
    team.Each([&](int t) {
      const int skip = kBytes * (t % kWarp) % 8;
      uint64_t bytes = low[t] >> (8 * skip);
      if (skip + kBytes > 8) bytes |= high[t] << (8 * (8 - skip));
      piece[t] = bytes & kLowBytes<kBytes>;
    });
  }
}

// One thread's own first `count` bytes, anywhere.
template <class Team>
LONGHAUL_TEXT void StoreBytes(uint64_t piece, int count, std::byte* p) {
  for (int i = 0; i < count; ++i) {
    Team::Store(static_cast<uint8_t>(piece), p + i);
    piece >>= 8;
  }
}
template <class Team>
LONGHAUL_TEXT uint64_t LoadBytes(const std::byte* p, int count) {
  uint64_t piece = 0;
  for (int i = 0; i < count; ++i) {
    piece |= static_cast<uint64_t>(Team::template Load<uint8_t>(p + i)) << (8 * i);
  }
  return piece;
}

}  // namespace longhaul
