#include "compressors/top_k.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "compressors/scratch.h"
#include "compressors/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kMaxChunk = 65536;
// Steps of the last bit of a magnitude: 2^23 are a factor of two.
constexpr uint32_t kLeastMargin = 1u << 18, kMostMargin = 2u << 20;

}  // namespace

// Fills this thread's mask; answers how many elements reach `bits`.
size_t TopKSelector::Survivors(std::span<const float> x, uint32_t bits) {
  const std::span<uint64_t> mask = Scratch<uint64_t, ScratchUse::kWork>(kMaxChunk / 64);
  return loops_.at_least(x.data(), x.size(), bits, mask.data());
}

bool TopKSelector::Select(std::span<const float> x, std::span<uint32_t> indices) {
  const size_t k = indices.size();
  size_t count = Survivors(x, guess_);
  // Too few: a quarter of the magnitude is two exponents less; 0 lets everything pass.
  while (count < k) {
    guess_ = guess_ >= (3u << 23) ? guess_ - (2u << 23) : 0;
    margin_ = std::min(2 * margin_, kMostMargin);
    count = Survivors(x, guess_);
  }
  const uint64_t* mask = Scratch<uint64_t, ScratchUse::kWork>(kMaxChunk / 64).data();
  uint32_t* found = Scratch<uint32_t, ScratchUse::kWork>(2 * kMaxChunk).data();
  uint32_t* magnitudes = found + kMaxChunk;
  size_t at = 0;
  uint32_t largest = 0;  // NaN and Inf reach any threshold
  for (size_t w = 0; w < (x.size() + 63) / 64; ++w) {
    for (uint64_t word = mask[w]; word != 0; word &= word - 1) {
      const auto i = static_cast<uint32_t>(64 * w) + static_cast<uint32_t>(std::countr_zero(word));
      found[at] = i;
      magnitudes[at] = BitsOf(x[i]) & kAbsMask;
      largest = std::max(largest, magnitudes[at++]);
    }
  }
  if (largest >= kInfBits) return false;
  std::nth_element(magnitudes, magnitudes + (k - 1), magnitudes + count, std::greater<>());
  const uint32_t kth = magnitudes[k - 1];
  size_t above = 0;
  for (size_t i = 0; i < k; ++i) above += magnitudes[i] > kth;
  size_t equal = k - above, taken = 0;  // of the elements at the threshold, the first ones
  for (size_t i = 0; taken < k; ++i) {  // without branches on data
    const uint32_t magnitude = BitsOf(x[found[i]]) & kAbsMask;
    const bool tie = magnitude == kth && equal > 0;
    indices[taken] = found[i];
    equal -= tie;
    taken += tie || magnitude > kth;
  }
  if (count > k + k / 2) margin_ = std::max(margin_ - margin_ / 4, kLeastMargin);
  guess_ = kth > margin_ ? kth - margin_ : 0;
  return true;
}

}  // namespace longhaul
