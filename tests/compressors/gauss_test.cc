// The noise of the control: normal, without a bias, as large as its name says, drawn by the seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compressors/families/gauss.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/noise.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr size_t kMany = 1 << 20;

// Noise of `name` on x, in units of its deviation.
std::vector<double> NoiseOf(const std::string& name, double nmse, const std::vector<float>& x,
                            uint64_t seed) {
  const Shape shape = {1, x.size()};
  const auto frame = *EncodeToFrame(**MakeCodec(name), {x.data(), DType::kF32, shape}, seed);
  std::vector<float> y(x.size());
  EXPECT_TRUE(DecodeFrame(frame, {y.data(), DType::kF32, shape}).ok());
  double squares = 0;
  for (const float v : x) squares += double{v} * v;
  const double deviation = std::sqrt(nmse * squares / static_cast<double>(x.size()));
  std::vector<double> noise(x.size());
  for (size_t i = 0; i < x.size(); ++i) noise[i] = (double{y[i]} - x[i]) / deviation;
  return noise;
}

double Moment(const std::vector<double>& values, int order) {
  double sum = 0;
  for (const double v : values) sum += std::pow(v, order);
  return sum / static_cast<double>(values.size());
}

TEST(Gauss, NoiseIsNormalAndIndependentOfTheTensor) {
  const std::vector<float> x = Draw(Distribution::kLaplace, kMany, 3);
  const std::vector<double> z = NoiseOf("gauss-0.01", 0.01, x, 7);
  // Five standard errors of each moment of a normal.
  EXPECT_NEAR(Moment(z, 1), 0, 5 * std::sqrt(1.0 / kMany));
  EXPECT_NEAR(Moment(z, 2), 1, 5 * std::sqrt(2.0 / kMany));
  EXPECT_NEAR(Moment(z, 3), 0, 5 * std::sqrt(15.0 / kMany));
  EXPECT_NEAR(Moment(z, 4), 3, 5 * std::sqrt(96.0 / kMany));
  double with_x = 0, neighbours = 0, squares = 0;
  for (size_t i = 0; i < kMany; ++i) {
    with_x += z[i] * x[i];
    squares += double{x[i]} * x[i];
    if (i > 0) neighbours += z[i] * z[i - 1];
  }
  EXPECT_NEAR(with_x / std::sqrt(squares), 0, 5);
  EXPECT_NEAR(neighbours / std::sqrt(static_cast<double>(kMany)), 0, 5);
  // How many lie beyond 1, 2 and 3 deviations: Phi's own figures.
  for (const auto& [limit, share] :
       {std::pair{1.0, 0.3173105}, {2.0, 0.0455003}, {3.0, 0.0026998}}) {
    const auto beyond = std::count_if(z.begin(), z.end(),
                                      [limit = limit](double v) { return std::fabs(v) > limit; });
    EXPECT_NEAR(static_cast<double>(beyond), share * kMany, 5 * std::sqrt(share * kMany)) << limit;
  }
}

// Box and Muller with the C library: the polynomials are those functions.
TEST(Gauss, DrawsAreThoseOfTheDefinition) {
  const std::vector<float> x(4097, 1.0f);
  const std::vector<double> z = NoiseOf("gauss-1", 1, x, 5);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t word = i / 2 * 2;
    const double u = 1.0 - NoiseUniform(5, NoisePurpose::kGaussian, word);
    const double angle = 2 * M_PI * NoiseUniform(5, NoisePurpose::kGaussian, word + 1);
    const double want =
        std::sqrt(-2 * std::log(u)) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_NEAR(z[i], want, 1e-6) << i;  // of values that fp32 holds
  }
}

TEST(Gauss, SeedDecidesTheNoise) {
  const std::vector<float> x = Draw(Distribution::kGaussian, 1000, 3);
  EXPECT_EQ(NoiseOf("gauss-0.1", 0.1, x, 7), NoiseOf("gauss-0.1", 0.1, x, 7));
  const auto a = NoiseOf("gauss-0.1", 0.1, x, 7), b = NoiseOf("gauss-0.1", 0.1, x, 8);
  double product = 0;
  for (size_t i = 0; i < x.size(); ++i) product += a[i] * b[i];
  EXPECT_LT(std::fabs(product), 5 * std::sqrt(1000.0));
}

TEST(Gauss, EveryErrorHasFramesOfItsOwn) {
  const OwnedTensor x(Draw(Distribution::kGaussian, 64, 3), {1, 64});
  const auto frame = *EncodeToFrame(**MakeCodec("gauss-3.55e-05"), x.view());
  EXPECT_EQ(*NameOfFrame(frame), "gauss-3.55e-05");
  OwnedTensor y(x.shape, DType::kF32);
  const absl::Status other = (*MakeCodec("gauss-0.01"))->Decode(frame, nullptr, y.mutable_view());
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_THAT(std::string(other.message()), testing::HasSubstr("a frame of gauss-3.55e-05"));
}

TEST(Gauss, FrameOfAnErrorThatNoCodecHasIsDataLoss) {
  const OwnedTensor x({1, 2}, {1, 2});
  auto frame = *EncodeToFrame(**MakeCodec("gauss-0.01"), x.view());
  OwnedTensor y(x.shape, DType::kF32);
  for (const float lie : {0.0f, -1.0f, 2.0f, std::nanf("")}) {
    FrameHeader header = *ParseFrame(frame);
    header.param0 = std::bit_cast<uint32_t>(lie);
    SealFrame(header, frame);
    EXPECT_TRUE(absl::IsDataLoss(DecodeFrame(frame, y.mutable_view()))) << lie;
  }
}

}  // namespace
}  // namespace longhaul
