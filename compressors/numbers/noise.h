#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

namespace longhaul {

// Counter-based randomness: equal on every CPU and GPU, independent of the order of calls.

// What a draw is for; the third counter word, so that uses never share a stream.
enum class NoisePurpose : uint32_t {
  kRounding = 0,
  kIndexChoice = 1,
  kSignFlips = 2,
  kSampling = 3,
  kFixedMatrix = 4,
  kGaussian = 5,
  kFrameLoss = 6,  // pp_group/schedule/frame_loss.h
  kRateCycle = 7,  // pp_group/schedule/bbr.h
};

// Philox4x32-10 (Salmon et al., SC 2011). Key and counter all zero -> 6627E8D5 E169C58D BC57AC4C
// 9B00DBD8.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The word of element i under `key`: output word i & 3 at counter (i>>2 low, i>>2 high, purpose,
// 0).
uint32_t NoiseWord(uint64_t key, NoisePurpose purpose, uint64_t i);

// NoiseWord(key, purpose, first), then of first + 1, ...; one Philox call per four words.
class NoiseStream {
 public:
  NoiseStream(uint64_t key, NoisePurpose purpose, uint64_t first)
      : key_(key), purpose_(purpose), at_(first) {
    if (at_ % 4 != 0) words_ = Quad();
  }
  uint32_t Next() {
    if (at_ % 4 == 0) words_ = Quad();
    return words_[at_++ % 4];
  }

 private:
  std::array<uint32_t, 4> Quad() const {
    const uint64_t quad = at_ / 4;
    return Philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32),
                       static_cast<uint32_t>(purpose_), 0},
                      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }
  const uint64_t key_;
  const NoisePurpose purpose_;
  uint64_t at_;
  std::array<uint32_t, 4> words_ = {};
};

// A word as a uniform draw in [0, 1) with 24 bits.
constexpr float UniformOf(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Uniform in [0, 1) with 24 bits.
inline float NoiseUniform(uint64_t key, NoisePurpose purpose, uint64_t i) {
  return UniformOf(NoiseWord(key, purpose, i));
}

uint64_t SplitMix64(uint64_t x);

// h = 0; for each v: h = splitmix64(h xor v). FoldSeed({1,2,3,4,5,6}) == 0xBC41F02C18EC2017.
// The project's order: run seed, step, tensor or boundary, direction, micro-batch, replica.
uint64_t FoldSeed(std::initializer_list<uint64_t> values);

}  // namespace longhaul
