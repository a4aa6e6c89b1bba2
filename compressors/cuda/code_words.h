#pragma once

#include "compressors/cuda/team.h"

// A warp's codes between registers and memory: every thread holds kBytes bytes (the low ones of a
// u64), the warp 32 kBytes bytes in a row, which move in words of 4 or 8 bytes side by side.
namespace longhaul {

template <int kBytes>
constexpr uint64_t kLowBytes = kBytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * kBytes % 64)) - 1;

// p: 8-byte aligned, 32 kBytes long.
template <int kBytes, class Team>
LONGHAUL_TEXT void StoreWarpBytes(Team& team, const typename Team::template Own<uint64_t>& piece,
                                  std::byte* p) {
  if constexpr (kBytes == 4) {
    team.Each([&](int t) { Team::Store(static_cast<uint32_t>(piece[t]), p + 4 * (t % kWarp)); });
  } else if constexpr (kBytes == 8) {
    team.Each([&](int t) { Team::Store(piece[t], p + 8 * (t % kWarp)); });
  } else {
    // Word w is made of the pieces of up to kPieces threads, from 8 w / kBytes on.
    constexpr int kPieces = kBytes <= 3 ? 4 : kBytes == 5 ? 3 : 2;
    typename Team::template Own<uint64_t> word;
    typename Team::template Own<int> have, source;
    team.Each([&](int t) {
      word[t] = 0;
      have[t] = -(8 * (t % kWarp) % kBytes);  // bytes of the first piece that are not ours
    });
    LONGHAUL_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      team.Each([&](int t) {
        const int from = 8 * (t % kWarp) / kBytes + i;
        source[t] = from < kWarp ? from : kWarp - 1;
      });
      auto part = team.From(piece, source);
      team.Each([&](int t) {
        const int at = have[t];
        if (at < 8) word[t] |= at < 0 ? part[t] >> (-8 * at) : part[t] << (8 * at);
        have[t] = at + kBytes;
      });
    }
    team.Each([&](int t) {
      if (t % kWarp < 4 * kBytes) Team::Store(word[t], p + 8 * (t % kWarp));
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
