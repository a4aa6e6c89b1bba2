#include "compressors/numbers/noise.h"

namespace longhaul {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c[0];
    const uint64_t p1 = kMultiplier1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + kStep0, key[1] + kStep1};
  }
  return c;
}

uint32_t NoiseWord(uint64_t key, NoisePurpose purpose, uint64_t i) {
  const uint64_t quad = i >> 2;
  return Philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32),
                     static_cast<uint32_t>(purpose), 0},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})[i & 3];
}

uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t FoldSeed(std::initializer_list<uint64_t> values) {
  uint64_t h = 0;
  for (uint64_t v : values) h = SplitMix64(h ^ v);
  return h;
}

}  // namespace longhaul
