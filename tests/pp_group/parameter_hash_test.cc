#include "pp_group/parameter_hash.h"

#include <array>
#include <cstring>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "tests/pp_group/test_device.h"

namespace longhaul {
namespace {

TEST(HashOf, SeesEveryBitItsPlaceAndTheLength) {
  const at::Tensor x = at::arange(1, 22, at::kFloat);  // ten words and a tail
  const uint64_t hash = HashOf(x);
  EXPECT_EQ(HashOf(x.clone()), hash);
  for (int64_t i = 0; i < x.numel(); ++i) {
    at::Tensor other = x.clone();
    other[i].neg_();
    EXPECT_NE(HashOf(other), hash) << "sign of " << i;
    for (const int64_t apart : {1, 8}) {  // in one word of 32 bytes, and in two
      if (i < apart) continue;
      other = x.clone();
      other[i] = x[i - apart];
      other[i - apart] = x[i];
      EXPECT_NE(HashOf(other), hash) << "swapped " << i - apart << " and " << i;
    }
  }
  for (int64_t n = 0; n < x.numel(); ++n) EXPECT_NE(HashOf(x.narrow(0, 0, n)), hash);
  EXPECT_NE(HashOf(at::zeros({8})), HashOf(at::zeros({16}))) << "zeros count";
}

// From the formula of parameter_hash.cc in Python's integers: records outlive programs.
TEST(HashOf, HasTheValueThatRecordsHave) {
  const at::Tensor x = at::arange(1, 8, at::kFloat);
  EXPECT_EQ(HashOf(x), 0x4995650f5006daadu);
  EXPECT_EQ(HashOf(x.narrow(0, 0, 0)), 0xc1b2082a40530dc9u);
}

TEST(HashOf, OfADeviceIsThatOfTheHost) {
  at::manual_seed(3);
  // One chunk of a device's memory and more, odd lengths, parts that begin within a word.
  const at::Tensor x = at::randn({(int64_t{1} << 23) + 5});
  const at::Tensor there = x.to(TestDevice());
  for (const int64_t begin : {0, 1, 2}) {
    for (const int64_t n :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{64}, x.numel() - 2}) {
      EXPECT_EQ(HashByAten(there.narrow(0, begin, n)), HashOf(x.narrow(0, begin, n)))
          << begin << " " << n;
    }
  }
}

}  // namespace
}  // namespace longhaul
