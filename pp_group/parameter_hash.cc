#include "pp_group/parameter_hash.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

namespace longhaul {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

uint64_t UpperHalf(uint64_t x) { return x >> 32; }
at::Tensor UpperHalf(const at::Tensor& x) {  // int64, whose shift copies the sign
  return x.bitwise_right_shift(32).bitwise_and_(int64_t{0xFFFFFFFF});
}

uint64_t Times(uint64_t x, uint64_t factor) { return x * factor; }
at::Tensor Times(const at::Tensor& x, uint64_t factor) {
  return x.mul(static_cast<int64_t>(factor));  // wraps
}

// The hash's one text: a Word is a uint64_t, or an int64 tensor of as many words as it has elements.
template <typename Word>
Word MixOf(const Word& bits, const Word& place) {
  Word x = Times(bits ^ Times(place, 0x9E3779B97F4A7C15u), 0xBF58476D1CE4E5B9u);
  x = Times(x ^ UpperHalf(x), 0x94D049BB133111EBu);
  return x ^ UpperHalf(x);
}

uint64_t OfSum(uint64_t sum, size_t bytes) { return MixOf<uint64_t>(sum, bytes + 1); }

// Of words from `first` on.
uint64_t SumOfMixes(const at::Tensor& words, int64_t first) {
  const at::Tensor places = at::arange(first + 1, first + 1 + words.numel(), words.options());
  return static_cast<uint64_t>(MixOf(words, places).sum().item<int64_t>());
}

}  // namespace

uint64_t HashOf(const at::Tensor& x) {
  if (!x.is_cpu()) return HashByAten(x);
  const auto* bytes = static_cast<const unsigned char*>(x.const_data_ptr());
  const size_t size = x.nbytes(), words = size / kWordBytes;
  uint64_t sum = 0, word = 0;
  for (size_t i = 0; i < words; ++i) {
    std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
    sum += MixOf<uint64_t>(word, i + 1);
  }
  if (const size_t rest = size % kWordBytes; rest > 0) {
    word = 0;
    std::memcpy(&word, bytes + words * kWordBytes, rest);
    sum += MixOf<uint64_t>(word, words + 1);
  }
  return OfSum(sum, size);
}

uint64_t HashByAten(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous(), "hash of ", x.scalar_type(),
              " on ", x.device(), ", want contiguous float32");
  constexpr int64_t kFloatsOfWord = 2,
                    kChunkWords = int64_t{1} << 22;  // what memory it takes beside
  const at::Tensor flat = x.detach().view(-1);
  const int64_t words = flat.numel() / kFloatsOfWord;
  // Words begin at multiples of their size.
  const at::Tensor even = flat.narrow(0, 0, words * kFloatsOfWord);
  const at::Tensor all =
      (even.storage_offset() % kFloatsOfWord == 0 ? even : even.clone()).view(at::kLong);
  uint64_t sum = 0;
  for (int64_t begin = 0; begin < words; begin += kChunkWords) {
    sum += SumOfMixes(all.narrow(0, begin, std::min(kChunkWords, words - begin)), begin);
  }
  if (flat.numel() % kFloatsOfWord != 0) {
    const at::Tensor last = flat.narrow(0, flat.numel() - 1, 1).view(at::kInt).to(at::kLong);
    sum += SumOfMixes(last.bitwise_and(int64_t{0xFFFFFFFF}), words);
  }
  return OfSum(sum, x.nbytes());
}

}  // namespace longhaul
