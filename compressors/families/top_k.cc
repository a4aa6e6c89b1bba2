#include "compressors/families/top_k.h"

#include <algorithm>

#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kMaxChunk = 65536, kMostKept = 2048;  // survivors on the stack
// Steps of the last bit of a magnitude: 2^23 are a factor of two.
constexpr uint32_t kLeastMargin = 1u << 18, kMostMargin = 2u << 20;
constexpr uint32_t kFirstStep = 1u << 21, kLastStep = 1u << 27;

// Those above the k-th magnitude, and of those that equal it the first ones. k: of indices.
void TakeFirstTies(const uint32_t* found, std::span<const uint32_t> magnitudes, uint32_t kth,
                   std::span<uint32_t> indices) {
  const size_t k = indices.size();
  size_t above = 0;
  for (uint32_t m : magnitudes) above += m > kth;
  size_t equal = k - above, taken = 0;
  for (size_t i = 0; taken < k; ++i) {  // without branches on data
    const bool tie = magnitudes[i] == kth && equal > 0;
    indices[taken] = found[i];
    equal -= tie;
    taken += tie || magnitudes[i] > kth;
  }
}

}  // namespace

// Of the first chunk: what a few more than k of its elements reach, by a sample of it.
uint32_t TopKSelector::FirstGuess(std::span<const float> x, size_t k, uint32_t* found,
                                  uint32_t* magnitudes) const {
  constexpr size_t kSample = 256;
  if (x.size() < 4 * kSample || k > x.size() / 4) return 0;
  const size_t step = x.size() / kSample;
  for (size_t i = 0; i < kSample; ++i) found[i] = static_cast<uint32_t>(i * step);
  const size_t expected =
      k * kSample / x.size();  // of them are among the k; half as many and 4 more
  const uint32_t guess =
      kernels_.kth_magnitude(x.data(), found, kSample, expected + expected / 2 + 4, 0, magnitudes);
  return guess < kInfBits ? guess : 0;
}

bool TopKSelector::Select(std::span<const float> x, std::span<uint32_t> indices) {
  const size_t k = indices.size();
  uint32_t* found = Scratch<uint32_t, ScratchUse::kWork>(2 * (kMaxChunk + 16)).data();
  uint32_t* magnitudes = found + kMaxChunk + 16;
  if (guess_ == 0) guess_ = FirstGuess(x, k, found, magnitudes);
  size_t count = kernels_.survivors(x.data(), x.size(), guess_, found);
  // Too few: a little lower, then far lower; 0 lets everything pass.
  for (uint32_t step = kFirstStep; count < k; step *= 4) {
    guess_ = guess_ > step && step < kLastStep ? guess_ - step : 0;
    margin_ = std::min(2 * margin_, kMostMargin);
    count = kernels_.survivors(x.data(), x.size(), guess_, found);
  }
  const uint32_t kth = kernels_.kth_magnitude(x.data(), found, count, k, guess_, magnitudes);
  if (kth >= kInfBits) return false;
  uint32_t kept[kMostKept + 16];
  if (kth > 0 && count <= kMostKept &&
      kernels_.keep_at_least(found, magnitudes, count, kth, kept) == k) {
    std::copy_n(kept, k, indices.begin());
  } else {
    TakeFirstTies(found, {magnitudes, count}, kth, indices);
  }
  if (count > k + k / 2) margin_ = std::max(margin_ - margin_ / 4, kLeastMargin);
  guess_ = kth > margin_ ? kth - margin_ : 0;
  return true;
}

}  // namespace longhaul
