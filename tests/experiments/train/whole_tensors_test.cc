// Which codecs find which tensors too small, by hand from shapes.
#include "experiments/train/whole_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two stages of four blocks of width 32, each parameter in whole 64s. A block has 12 D^2 and four
// vectors of 64: 12,544; the first stage also 256 x 32 ids and 64 x 32 places: 60,416, a matrix of
// 246 x 246; the last one two vectors and the head, 32 x 256: 58,496, of 242 x 242. Factors of rank r
// are less than half of the first where 492 x 2 r < 60,516, up to 61; of the last where
// 484 x 2 r < 58,564, up to 60.
RunSpec PowerSgdSpec(std::vector<std::string> sets) {
  const absl::StatusOr<RunSpec> spec =
      LoadRunSpec(LONGHAUL_SPECS "/outer-powersgd.toml", sets, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

TEST(WholeTensors, ARankThatEveryMatrixTakesIsNotSpokenOf) {
  const RunSpec spec = PowerSgdSpec({"outer.codec=powersgd-r60"});
  EXPECT_EQ(CheckCodecsFit(spec), absl::OkStatus());
  EXPECT_THAT(WholeTensorAdvice(spec), IsEmpty());
}

TEST(WholeTensors, ARankAboveOneOfTwoMatricesIsSaid) {
  const RunSpec spec = PowerSgdSpec({"outer.codec=powersgd-r61"});
  EXPECT_EQ(CheckCodecsFit(spec), absl::OkStatus());
  EXPECT_THAT(WholeTensorAdvice(spec),
              ElementsAre(AllOf(
                  HasSubstr("'outer.codec' = \"powersgd-r61\""), HasSubstr("1 of 2 sizes"),
                  HasSubstr("58496 elements, a matrix of 242 x 242"), HasSubstr("up to rank 60"))));
}

TEST(WholeTensors, ARankAboveEveryMatrixIsRefused) {
  const absl::Status refused = CheckCodecsFit(PowerSgdSpec({"outer.codec=powersgd-r62"}));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("'outer.codec' = \"powersgd-r62\""), HasSubstr("every tensor whole"),
            HasSubstr("60416 elements, a matrix of 246 x 246"), HasSubstr("up to rank 61")));
}

// A micro-batch is 2 rows of 64 tokens by 32: 4,096 elements, 160 x 2 r < 4,096 up to 12. Held to a
// subspace of 8 it is 128 x 8, and less than 4,096 elements have no factors.
TEST(WholeTensors, OfABoundaryAreItsMessages) {
  EXPECT_EQ(CheckCodecsFit(PowerSgdSpec({"boundary.forward=powersgd-r12"})), absl::OkStatus());
  const absl::Status refused = CheckCodecsFit(PowerSgdSpec({"boundary.backward=powersgd-r13"}));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("'boundary.backward' = \"powersgd-r13\""),
                    HasSubstr("matrix of 128 x 32"), HasSubstr("up to rank 12")));
  EXPECT_FALSE(
      CheckCodecsFit(PowerSgdSpec({"boundary.subspace=8", "boundary.forward=powersgd-r4"})).ok());
}

// Noise that is sent in fp32 makes no tensor smaller, and should not.
TEST(WholeTensors, ACodecThatMakesNothingSmallerIsNone) {
  const RunSpec spec = PowerSgdSpec({"boundary.forward=gauss-0.01", "boundary.backward=none"});
  EXPECT_EQ(CheckCodecsFit(spec), absl::OkStatus());
  EXPECT_THAT(WholeTensorAdvice(spec), IsEmpty());
}

}  // namespace
}  // namespace longhaul
