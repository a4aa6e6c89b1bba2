#pragma once

#include "compressors/cuda/team/elements.h"

// noise.h's draws for a thread's eight elements.
namespace longhaul {

struct NoiseWords {
  uint32_t word[4];
};

// All 64 bits of a product. nvcc makes an addition of zero besides when it has to find that out.
LONGHAUL_TEXT uint64_t WideProduct(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return uint64_t{a} * b;
#endif
}

// Philox4x32-10 at counter (quad, purpose, 0).
LONGHAUL_TEXT NoiseWords NoiseQuad(uint64_t key, uint32_t purpose, uint64_t quad) {
  uint32_t c0 = static_cast<uint32_t>(quad), c1 = static_cast<uint32_t>(quad >> 32);
  uint32_t c2 = purpose, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  LONGHAUL_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = WideProduct(0xD2511F53, c0), p1 = WideProduct(0xCD9E8D57, c2);
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

LONGHAUL_TEXT uint32_t Choose(const NoiseWords& words, int i) {
  const uint32_t low = (i & 1) != 0 ? words.word[1] : words.word[0];
  const uint32_t high = (i & 1) != 0 ? words.word[3] : words.word[2];
  return (i & 2) != 0 ? high : low;
}

// The words of elements first .. first + 7. Where `first` is no multiple of four (rows of an odd
// length), three counters serve the eight.
LONGHAUL_TEXT void NoiseOfEight(uint64_t key, uint32_t purpose, uint64_t first,
                                uint32_t (&words)[kPerThread]) {
  const NoiseWords a = NoiseQuad(key, purpose, first / 4);
  const NoiseWords b = NoiseQuad(key, purpose, first / 4 + 1);
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) words[e] = e < 4 ? a.word[e] : b.word[e - 4];
  const auto skip = static_cast<int>(first % 4);
  if (skip == 0) return;
  const NoiseWords c = NoiseQuad(key, purpose, first / 4 + 2);
  uint32_t more[kPerThread + 4];
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread + 4; ++e) more[e] = e < kPerThread ? words[e] : c.word[e - 8];
  LONGHAUL_UNROLL  // constant indices alone: what is indexed otherwise leaves the registers
      for (int e = 0; e < kPerThread; ++e) {
    words[e] = skip == 1 ? more[e + 1] : skip == 2 ? more[e + 2] : more[e + 3];
  }
}

// A word as a uniform draw in [0, 1) with 24 bits.
LONGHAUL_TEXT float Uniform(uint32_t word) {
  return static_cast<float>(word & 0xFFFFFF00) * 0x1p-32f;
}

}  // namespace longhaul
