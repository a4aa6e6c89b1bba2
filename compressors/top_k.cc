#include "compressors/top_k.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "compressors/scratch.h"
#include "compressors/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kMaxChunk = 65536;

}  // namespace

// Fills this thread's mask; answers how many elements reach `bits`.
size_t TopKSelector::Survivors(std::span<const float> x, uint32_t bits) {
  const std::span<uint64_t> mask = Scratch<uint64_t, ScratchUse::kWork>(kMaxChunk / 64);
  loops_.at_least(x.data(), x.size(), bits, mask.data());
  size_t count = 0;
  for (size_t w = 0; w < (x.size() + 63) / 64; ++w) {
    count += static_cast<size_t>(std::popcount(mask[w]));
  }
  return count;
}

void TopKSelector::Select(std::span<const float> x, std::span<uint32_t> indices) {
  const size_t k = indices.size();
  size_t count = Survivors(x, guess_);
  // Too few: a quarter of the magnitude is two exponents less; 0 lets everything pass.
  while (count < k) {
    guess_ = guess_ >= (3u << 23) ? guess_ - (2u << 23) : 0;
    count = Survivors(x, guess_);
  }
  const uint64_t* mask = Scratch<uint64_t, ScratchUse::kWork>(kMaxChunk / 64).data();
  uint32_t* found = Scratch<uint32_t, ScratchUse::kWork>(2 * kMaxChunk).data();
  uint32_t* magnitudes = found + kMaxChunk;
  size_t at = 0;
  for (size_t w = 0; w < (x.size() + 63) / 64; ++w) {
    for (uint64_t word = mask[w]; word != 0; word &= word - 1) {
      const auto i = static_cast<uint32_t>(64 * w) + static_cast<uint32_t>(std::countr_zero(word));
      found[at] = i;
      magnitudes[at++] = BitsOf(x[i]) & kAbsMask;
    }
  }
  std::nth_element(magnitudes, magnitudes + (k - 1), magnitudes + count, std::greater<>());
  const uint32_t kth = magnitudes[k - 1];
  size_t above = 0;
  for (size_t i = 0; i < k; ++i) above += magnitudes[i] > kth;
  size_t equal = k - above, taken = 0;  // of the elements at the threshold, the first ones
  for (size_t i = 0; taken < k; ++i) {
    const uint32_t magnitude = BitsOf(x[found[i]]) & kAbsMask;
    if (magnitude < kth || (magnitude == kth && equal == 0)) continue;
    equal -= magnitude == kth;
    indices[taken++] = found[i];
  }
  // A quarter of a binade below this chunk's threshold, that is 12 to 20 % less.
  guess_ = kth > (2u << 20) ? kth - (2u << 20) : 0;
}

}  // namespace longhaul
