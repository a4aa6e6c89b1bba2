#pragma once

#include "compressors/kernels/loops.h"

// The loops that draw noise or round with it, compiled per instruction set as loops.h says.
namespace longhaul {

template <class L>
void LoopNoisyCodes(const float* x, const float* u, size_t n, float z, float inverse, float top,
                    uint8_t* q) {
  for (size_t i = 0; i < n; ++i) {
    const float at = (x[i] - z) * inverse + u[i];
    const float low = at < 0 ? 0.0f : at;
    q[i] =
        static_cast<uint8_t>(static_cast<int32_t>(low > top ? top : low));  // floor: not negative
  }
}

template <class L>
void LoopNoisySignedCodes(const float* x, const float* u, size_t n, float inverse, float top,
                          float offset, uint8_t* q) {
  for (size_t i = 0; i < n; ++i) {
    const float at = x[i] * inverse + u[i];
    const float low = at < -top ? -top : at;
    const float in = low > top ? top : low;
    const auto cut = static_cast<int32_t>(in);  // towards zero
    const int32_t floor = cut - (static_cast<float>(cut) > in ? 1 : 0);
    q[i] = static_cast<uint8_t>(floor + static_cast<int32_t>(offset));
  }
}

template <class L>
void LoopNoisyE2m1Codes(const float* x, const float* u, size_t n, float inverse, uint8_t* q) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(x[i] * inverse);
    const float abs = FromBits(bits & kAbsMask) < 6.0f ? FromBits(bits & kAbsMask) : 6.0f;
    // Below 1 in steps of 1/2; above, noise below the one bit of mantissa, which carries by itself.
    const auto small = static_cast<uint32_t>(static_cast<int32_t>(abs * 2.0f + u[i]));
    const auto noise = static_cast<uint32_t>(static_cast<int32_t>(u[i] * 0x1p22f));
    const uint32_t large = ((BitsOf(abs) + noise) >> 22) - (126u << 1);
    const uint32_t code = abs < 1.0f ? small : large;
    q[i] = static_cast<uint8_t>((code > 7 ? 7 : code) | (bits >> 31) << 3);
  }
}

// A draw of at least 1/2 is a word with its upper bit set.
template <class L>
void LoopFlipSigns(const float* x, const float* u, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    y[i] = FromBits(BitsOf(x[i]) ^ (u[i] >= 0.5f ? 0x80000000u : 0u));
  }
}

// Philox4x32-10 of `kCounters` consecutive counters -> their words, element by element.
template <class L>
LONGHAUL_INLINE void LoopPhilox(uint64_t key, uint32_t purpose, uint64_t quad, float* u) {
  constexpr int kCounters = 16;
  uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  for (int j = 0; j < kCounters; ++j) {
    c0[j] = static_cast<uint32_t>(quad + static_cast<uint64_t>(j));
    c1[j] = static_cast<uint32_t>((quad + static_cast<uint64_t>(j)) >> 32);
    c2[j] = purpose;
    c3[j] = 0;
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < kCounters; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[j], p1 = uint64_t{0xCD9E8D57} * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c1[j] = static_cast<uint32_t>(p1);
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int j = 0; j < kCounters; ++j) {
    u[4 * j] = static_cast<float>(static_cast<int32_t>(c0[j] >> 8)) * 0x1p-24f;
    u[4 * j + 1] = static_cast<float>(static_cast<int32_t>(c1[j] >> 8)) * 0x1p-24f;
    u[4 * j + 2] = static_cast<float>(static_cast<int32_t>(c2[j] >> 8)) * 0x1p-24f;
    u[4 * j + 3] = static_cast<float>(static_cast<int32_t>(c3[j] >> 8)) * 0x1p-24f;
  }
}

// The same with every 32-bit word in the lower half of a 64-bit lane: a product of two lower halves
// leaves both of its words where the next round wants them. Two vectors of counters take turns,
// because every round waits for the multiplications of the one before.
template <class L>
struct LanePhilox {
  using U = typename L::U;
  static constexpr int kRounds = 10, kVectors = 2;
  static constexpr size_t kWords = 2 * L::kWidth * kVectors;

  // The third word of a counter is the purpose and the fourth one 0, so half of the first round is
  // the same for all counters, and goes into the keys.
  LONGHAUL_INLINE LanePhilox(uint64_t key, uint32_t purpose) {
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    const uint64_t product = uint64_t{kMultiplier1} * purpose;
    for (int round = 0; round < kRounds; ++round) {
      const uint32_t more = round == 0   ? static_cast<uint32_t>(product >> 32)
                            : round == 1 ? static_cast<uint32_t>(product)
                                         : 0;
      keys[2 * round] = L::SplatBits(k0 ^ more);
      keys[2 * round + 1] = L::SplatBits(k1);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
  }
  // The words of kWords / 4 counters from `quad` on as draws.
  LONGHAUL_INLINE void Draw(uint64_t quad, float* u) const {
    const U m0 = L::SplatBits(kMultiplier0), m1 = L::SplatBits(kMultiplier1);
    U c[kVectors][4];
    for (int v = 0; v < kVectors; ++v) {
      const U counters = L::Counters(quad + static_cast<uint64_t>(v * L::kWidth / 2));
      const U p0 = L::MulLow(counters, m0);
      c[v][0] = L::Xor(L::UpperHalf(counters), keys[0]);
      c[v][1] = L::Zero();  // that of the first round is in the next one's key
      c[v][2] = L::Xor(L::UpperHalf(p0), keys[1]);
      c[v][3] = p0;
    }
    for (int round = 1; round < kRounds; ++round) {
      for (int v = 0; v < kVectors; ++v) {
        const U p0 = L::MulLow(c[v][0], m0), p1 = L::MulLow(c[v][2], m1);
        c[v][0] = L::Xor(L::Xor(L::UpperHalf(p1), c[v][1]), keys[2 * round]);
        c[v][1] = p1;
        c[v][2] = L::Xor(L::Xor(L::UpperHalf(p0), c[v][3]), keys[2 * round + 1]);
        c[v][3] = p0;
      }
    }
    for (int v = 0; v < kVectors; ++v) L::StoreUniform(c[v], u + v * (2 * L::kWidth));
  }

  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  U keys[2 * kRounds];
};

template <class L>
void LoopUniform(uint64_t key, uint32_t purpose, uint64_t first, size_t n, float* u) {
  size_t i = 0;
  float rest[64];
  if constexpr (L::kWidth > 1) {
    const LanePhilox<L> philox(key, purpose);
    constexpr size_t kWords = LanePhilox<L>::kWords;
    static_assert(kWords <= 64);
    for (; i + kWords <= n; i += kWords) philox.Draw((first + i) / 4, u + i);
    if (i < n) philox.Draw((first + i) / 4, rest);
  } else {
    for (; i + 64 <= n; i += 64) LoopPhilox<L>(key, purpose, (first + i) / 4, u + i);
    if (i < n) LoopPhilox<L>(key, purpose, (first + i) / 4, rest);
  }
  if (i < n) __builtin_memcpy(u + i, rest, 4 * (n - i));
}

}  // namespace longhaul
