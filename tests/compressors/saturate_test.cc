// The NaN policy "saturate": what is replaced, by what, and what is said about it.
#include "compressors/wrappers/saturate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compressors/frame/frame.h"
#include "compressors/numbers/small_floats.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

// By bits: StoreElement clamps Inf in the 16-bit types.
OwnedTensor WithBad(const std::vector<float>& x, Shape shape, DType dtype) {
  OwnedTensor t(x, shape, dtype);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i])) continue;
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t sign = bits >> 16 & 0x8000, nan = std::isnan(x[i]) ? 1 : 0;
    const auto half = static_cast<uint16_t>(sign | (dtype == DType::kBF16 ? 0x7F80 : 0x7C00) | nan);
    if (dtype == DType::kF32) std::memcpy(t.bytes.data() + 4 * i, &bits, 4);
    if (dtype != DType::kF32) std::memcpy(t.bytes.data() + 2 * i, &half, 2);
  }
  return t;
}

std::vector<float> RoundTrip(const Codec& codec, const OwnedTensor& x, uint16_t* flags = nullptr) {
  const auto frame = EncodeToFrame(codec, x.view());
  EXPECT_TRUE(frame.ok()) << frame.status();
  if (!frame.ok()) return {};
  if (flags != nullptr) *flags = ParseFrame(*frame)->flags;
  OwnedTensor y(x.shape, DType::kF32);
  const auto state = codec.NewDecoderState(x.shape);
  EXPECT_EQ(codec.Decode(*frame, state.get(), y.mutable_view()), absl::OkStatus());
  return y.floats();
}

TEST(Saturate, InfBecomesTheLargestNumberAndNaNZero) {
  const std::vector<float> x = {1, kInf, -2, kNaN, -kInf, 0.5f, -kNaN};
  const Shape shape = {1, x.size()};
  const auto codec = *MakeCodec("none+sat");
  for (const auto& [dtype, top] :
       {std::pair{DType::kF32, kMax}, {DType::kBF16, Bf16ToF32(0x7F7F)}, {DType::kF16, 65504.0f}}) {
    uint16_t flags = 0;
    EXPECT_EQ(RoundTrip(*codec, WithBad(x, shape, dtype), &flags),
              (std::vector<float>{1, top, -2, 0, -top, 0.5f, 0}));
    EXPECT_EQ(flags & kFlagSaturated, kFlagSaturated);
  }
  EXPECT_EQ(SaturatedElements(*codec), 3u * 4);
  EXPECT_EQ(SaturatedElements(**MakeCodec("none")), 0u);
}

TEST(Saturate, FiniteTensorsAreSentAsTheyWere) {
  for (const std::string& name : TestedNames()) {
    if (name.ends_with("+sat")) continue;
    const auto codec = *MakeCodec(name + "+sat");
    const OwnedTensor x(Draw(Distribution::kLaplace, 5000, 3), {2, 2500});
    EXPECT_EQ(*EncodeToFrame(*codec, x.view(), 5), *EncodeToFrame(**MakeCodec(name), x.view(), 5));
    EXPECT_EQ(SaturatedElements(*codec), 0u);
  }
}

// Every codec gives finite numbers, a sound frame and the count, wherever the bad ones stand.
TEST(Saturate, EveryCodecGoesOn) {
  for (const std::string& name : TestedNames()) {
    if (name.ends_with("+sat")) continue;
    const auto codec = *MakeCodec(name + "+sat");
    uint64_t bad = 0;
    for (size_t n : {1, 64, 200, 5000}) {
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        auto x = Draw(Distribution::kGaussian, n, 5);
        for (size_t i = 0; i < n; i += 37) {
          x[i] = i % 3 == 0 ? kInf : i % 3 == 1 ? -kInf : kNaN;
          ++bad;
        }
        uint16_t flags = 0;
        const auto y = RoundTrip(*codec, WithBad(x, {1, n}, dtype), &flags);
        ASSERT_EQ(y.size(), n) << name;
        for (float v : y) ASSERT_TRUE(std::isfinite(v)) << name;
        EXPECT_NE(flags & kFlagSaturated, 0) << name;
      }
    }
    EXPECT_EQ(SaturatedElements(*codec), bad) << name;
  }
}

// A range that fp32 cannot hold: the largest |x| of the tensor stands in.
TEST(Saturate, WhereTheCodecCannotHoldTheLargestNumberTheTensorsOwnIsUsed) {
  const std::vector<float> x = {1, kInf, -2, -kInf, 0.5f};
  const auto y = RoundTrip(**MakeCodec("minmax8-b64+sat"), WithBad(x, {1, 5}, DType::kF32));
  const std::vector<float> want = {1, 2, -2, -2, 0.5f};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(y[i], want[i], 0.02) << i;
}

// A residual must not carry 3e38 into the next rounds.
TEST(Saturate, AStateKeepsToTheTensorsOwnMagnitude) {
  const Shape shape = {1, 128};
  for (const char* name : {"int4-b64+ef+sat", "int4-b64+ef21+sat", "demo-dct+sat"}) {
    const auto codec = *MakeCodec(name);
    const auto state = codec->NewState(shape), received = codec->NewDecoderState(shape);
    auto x = Draw(Distribution::kGaussian, 128, 1);
    x[5] = kInf;
    x[77] = kNaN;
    OwnedTensor y(shape, DType::kF32);
    for (int t = 0; t < 3; ++t) {
      const auto frame =
          EncodeToFrame(*codec, WithBad(x, shape, DType::kF32).view(), 1, state.get());
      ASSERT_TRUE(frame.ok()) << frame.status();
      ASSERT_EQ(codec->Decode(*frame, received.get(), y.mutable_view()), absl::OkStatus());
      for (float v : y.floats()) ASSERT_LT(std::fabs(v), 20) << name;
    }
  }
}

TEST(Saturate, OtherFaultsAreStillErrors) {
  const auto codec = *MakeCodec("minmax4-b64+sat");
  const std::vector<float> wide = {kMax, -kMax};
  std::vector<std::byte> frame(200);
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec->Encode({wide.data(), DType::kF32, {1, 2}}, 1, nullptr, frame).status()));
  const std::vector<float> bad = {kInf, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec->Encode({bad.data(), DType::kF32, {1, 2}}, 1, nullptr, std::span(frame).first(64))
          .status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec->Encode({bad.data(), DType::kF32, {1, 0}}, 1, nullptr, frame).status()));
  EXPECT_EQ(SaturatedElements(*codec), 0u);
}

TEST(Saturate, ATensorOfNothingButNaNIsZeros) {
  const std::vector<float> x(100, kNaN);
  for (const char* name : {"int4-b64-h64+sat", "tah4-g64+sat", "stat2+ef95+sat"}) {
    for (float v : RoundTrip(**MakeCodec(name), WithBad(x, {1, 100}, DType::kF32))) {
      EXPECT_EQ(v, 0.0f) << name;
    }
  }
}

}  // namespace
}  // namespace longhaul
