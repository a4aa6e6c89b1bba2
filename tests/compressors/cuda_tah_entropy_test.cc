// TAH's entropy on a GPU (tah_entropy.h) divides by nothing; its quotients are IEEE's all the same.
#include <gtest/gtest.h>

#include <random>

#include "compressors/cuda/tah/tah_entropy.h"
#include "tests/compressors/cuda_host_team.h"

namespace longhaul {
namespace {

struct NearestReciprocal {
  static float Reciprocal(float x) { return 1 / x; }
};
struct OtherReciprocal {
  static float Reciprocal(float x) { return HostTeam<kWarp>::Reciprocal(x); }
};

// Of every mantissa, with either of the two floats that Team::Reciprocal may answer.
TEST(TahEntropy, QuotientsAreRoundedToNearest) {
  for (uint32_t mantissa = 0; mantissa < 1u << 23; ++mantissa) {
    const float m = FromBits(0x3F800000 | mantissa), want = (m - 1) / (m + 1);
    ASSERT_EQ(BitsOf(AtanhArgument<NearestReciprocal>(m)), BitsOf(want)) << mantissa;
    ASSERT_EQ(BitsOf(AtanhArgument<OtherReciprocal>(m)), BitsOf(want)) << mantissa;
    for (const ShareScale& by :
         {ScaleOfShares<NearestReciprocal>(m), ScaleOfShares<OtherReciprocal>(m)}) {
      ASSERT_EQ(BitsOf(by.inverse), BitsOf(1 / by.divisor)) << mantissa;
    }
  }
}

TEST(TahEntropy, SharesAreQuotients) {
  std::mt19937 rng(41);
  for (int round = 0; round < 2'000'000; ++round) {
    const float total = FromBits((27 + rng() % 228) << 23 | (rng() & 0x7FFFFF));
    const uint32_t below = (rng() % 64 == 0 ? rng() % 254 : rng() % 30) << 23 | (rng() & 0x7FFFFF);
    const float x = BitsOf(total) > below ? FromBits(BitsOf(total) - below) : total;
    const float want = x / (total + 1e-30f);
    const float got = ShareOf(x, ScaleOfShares<OtherReciprocal>(total));
    // Below the normal numbers neither counts.
    ASSERT_TRUE(BitsOf(got) == BitsOf(want) || (got < 0x1p-126f && want < 0x1p-126f))
        << x << " of " << total;
  }
}

}  // namespace
}  // namespace longhaul
