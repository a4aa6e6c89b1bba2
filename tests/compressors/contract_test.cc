// What every codec of the catalogue promises (compressors/codec.h), checked for each by its name. A
// new entry is tested with no edit here, but for its row in contract_bits.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "compressors/frame/frame.h"
#include "tests/compressors/contract_bits.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 1'000'003};
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

class CodecContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto made = MakeCodec(GetParam());
    ASSERT_TRUE(made.ok()) << made.status();
    codec_ = *made;
  }
  // The frame of x, which must encode.
  std::vector<std::byte> Encode(ConstTensor x, uint64_t seed = 1) {
    auto frame = EncodeToFrame(*codec_, x, seed);
    EXPECT_TRUE(frame.ok()) << frame.status();
    return frame.ok() ? *frame : std::vector<std::byte>(kFrameHeaderBytes);
  }
  std::vector<float> Decode(std::span<const std::byte> frame, Shape shape,
                            DType dtype = DType::kF32) {
    OwnedTensor y(shape, dtype);
    const auto state = codec_->NewDecoderState(shape);
    const absl::Status s = codec_->Decode(frame, state.get(), y.mutable_view());
    EXPECT_TRUE(s.ok()) << s;
    return y.floats();
  }
  std::string Parts() const { return PartsOf(GetParam()); }
  // Without the suffixes that do not change the layout.
  std::string Plain() const {
    std::string name = Parts();
    for (const char* suffix : {"+sat", "+ef95", "+ef21", "+ef", "+mc", "+sr"}) {
      if (name.ends_with(suffix)) name.resize(name.size() - std::strlen(suffix));
    }
    return name;
  }
  bool Sparse() const { return Plain().starts_with("topk-") || Plain().starts_with("randk-"); }
  bool LowRank() const { return Plain().starts_with("powersgd-r") || Plain() == "diloco-x"; }
  bool Saturates() const { return GetParam().ends_with("+sat"); }
  bool Noisy() const {
    return Plain().starts_with("qsgd") || Plain().starts_with("gact") ||
           Plain().starts_with("randk-") || Plain().starts_with("gauss-") ||
           Parts().find("+sr") != std::string::npos;
  }
  // One scale, table or choice for the whole tensor.
  bool WholeTensor() const {
    const std::string name = Plain();
    return name == "stat2" || name == "stat4" || name == "stat8" || name == "nvfp4" ||
           name == "demo-dct" || name.ends_with("-tensor") || LowRank() ||
           (Sparse() && !name.ends_with("+fp16") && !name.ends_with("+none"));
  }
  // Relative error of a constant tensor; infinite where it is left to chance.
  double ConstantTolerance() const {
    if (Noisy()) return std::numeric_limits<double>::infinity();
    // A rotated constant is one spike: the rounding of s shifts all other elements alike.
    if (Plain() == "minmax4-b64-h64") return 0.15;
    // Folded to a square whose last row is short, a constant has rank 2.
    if (Plain() == "powersgd-r1" || Plain() == "diloco-x") {
      return std::numeric_limits<double>::infinity();
    }
    return Plain().starts_with("mxfp4") ? 0.26 : 0.01;  // E2M1 below a scale that is a power of two
  }
  // Values or scales are fp16, so that tiny ones vanish and huge ones are clamped or refused.
  bool Fp16Range() const {
    const std::string name = Plain();
    return name == "fp16" || name == "q8_0" || name == "q4_0" || name.ends_with("+fp16") ||
           name.starts_with("aqsgd");
  }
  std::shared_ptr<const Codec> codec_;
};

TEST_P(CodecContract, NameAndIdAreThoseOfTheCatalogue) {
  EXPECT_EQ(codec_->name(), GetParam());
  const auto frame = Encode(OwnedTensor({1, 2, 3}, {1, 3}).view());
  const auto header = ParseFrame(frame);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->codec, codec_->id());
  EXPECT_EQ(header->shape, (Shape{1, 3}));
}

TEST_P(CodecContract, EverySizeAndDTypeRoundTripsWithinItsBits) {
  for (size_t n : kSizes) {
    const std::vector<float> values = Draw(Distribution::kGaussian, n, 7);
    for (DType from : kDTypes) {
      const OwnedTensor x(values, {1, n}, from);
      const auto frame = Encode(x.view());
      ASSERT_LE(frame.size(), codec_->MaxFrameBytes(x.shape, from));
      for (DType to : kDTypes) {
        if (n > 5000 && to != from) continue;
        const double nmse = Nmse(x.floats(), Decode(frame, x.shape, to));
        ASSERT_LT(nmse, 1.0) << n << " elements: no better than sending nothing";
      }
    }
  }
}

TEST_P(CodecContract, MeasuredBitsAreThoseOfTheTable) {
  for (size_t n : {size_t{64}, size_t{4096}, size_t{1'000'003}}) {
    const OwnedTensor x(Draw(Distribution::kGaussian, n, 7), {1, n});
    const double payload_bits = 8.0 * static_cast<double>(Encode(x.view()).size() - 64);
    const std::optional<Bits> bits = WantedBits(Plain(), n);
    ASSERT_TRUE(bits) << "add the codec's bits to contract_bits.h";
    const double want = bits->per_element * static_cast<double>(n) + bits->per_tensor;
    EXPECT_LE(payload_bits, want * 1.002 + bits->slack) << n;
    if (n > 5000 || bits->slack < 300) {
      EXPECT_GE(payload_bits, want * 0.995) << n;
    }
  }
}

TEST_P(CodecContract, RowsHaveBlocksOfTheirOwn) {
  for (Shape shape : {Shape{3, 65}, Shape{7, 1}, Shape{5, 63}, Shape{2, 640}, Shape{33, 130}}) {
    const OwnedTensor x(Draw(Distribution::kStudentT4, shape.elements(), 3), shape);
    const auto frame = Encode(x.view());
    ASSERT_LE(frame.size(), codec_->MaxFrameBytes(shape, DType::kF32));
    const std::vector<float> all = Decode(frame, shape);
    if (WholeTensor() || Noisy()) continue;  // noise is drawn by the element's number
    for (size_t r = 0; r < shape.rows; ++r) {
      const Shape one = {1, shape.cols};
      const ConstTensor row = {x.bytes.data() + 4 * r * shape.cols, DType::kF32, one};
      const std::vector<float> alone = Decode(Encode(row), one);
      for (size_t c = 0; c < shape.cols; ++c) ASSERT_EQ(all[r * shape.cols + c], alone[c]);
    }
  }
}

TEST_P(CodecContract, ZerosAndConstantsSurvive) {
  for (size_t n : {1, 64, 100, 4097}) {
    for (float value : {0.0f, -0.0f}) {
      for (float y :
           Decode(Encode(OwnedTensor(std::vector<float>(n, value), {1, n}).view()), {1, n})) {
        ASSERT_EQ(y, 0.0f);
      }
    }
    for (float value : {1.0f, -3.14159f, 1e-20f, 1e30f}) {
      if (Fp16Range() && value > 4) continue;
      const OwnedTensor x(std::vector<float>(n, value), {1, n});
      const auto frame = EncodeToFrame(*codec_, x.view());
      if (!frame.ok() && value > 1e18f) {  // a sum of squares beyond fp32
        ASSERT_THAT(std::string(frame.status().message()), HasSubstr("beyond fp32"));
        continue;
      }
      ASSERT_TRUE(frame.ok()) << frame.status();
      for (float y : Decode(*frame, {1, n})) {
        const bool vanishes = Fp16Range() && std::fabs(value) < 1e-9f;
        if (Sparse() && y == 0.0f) continue;
        ASSERT_NEAR(y, vanishes ? 0.0f : value,
                    vanishes ? 0.0 : std::fabs(value) * ConstantTolerance())
            << n;
      }
    }
  }
}

TEST_P(CodecContract, DenormalsAndHugeValuesStayFinite) {
  const size_t n = 130;
  for (float scale : {1e-45f, 1e-40f, 1.2e-38f, 1e-37f, 1e30f, 1e38f, 3.4e38f}) {
    std::vector<float> values = Draw(Distribution::kGaussian, n, 5);
    for (float& v : values) v = scale * std::fmin(1.0f, std::fmax(-1.0f, v));
    const auto frame = EncodeToFrame(*codec_, OwnedTensor(values, {1, n}).view());
    if (!frame.ok() && scale >= 1e30f) {  // a range, sum or rotation out of range is told, not sent
      EXPECT_TRUE(absl::IsInvalidArgument(frame.status())) << frame.status();
      continue;
    }
    ASSERT_TRUE(frame.ok()) << scale << frame.status();
    for (float y : Decode(*frame, {1, n})) ASSERT_TRUE(std::isfinite(y)) << scale;
  }
  const OwnedTensor constant(std::vector<float>(63, 1e38f), {1, 63});  // short: never rotated
  const auto frame = EncodeToFrame(*codec_, constant.view());
  if (!frame.ok()) {
    EXPECT_THAT(std::string(frame.status().message()), HasSubstr("beyond fp"));
    return;
  }
  for (float y : Decode(*frame, {1, 63})) {
    if (Sparse() && y == 0.0f) continue;
    ASSERT_NEAR(y, Fp16Range() ? 65504.0f : 1e38f, 1e38 * ConstantTolerance());
  }
}

TEST_P(CodecContract, NaNAndInfAreRejectedWhereverTheyStand) {
  if (Saturates()) return;  // saturate_test.cc
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float bad : {std::nanf(""), kInf, -kInf}) {
    for (size_t n : {1, 63, 64, 200}) {
      for (size_t at : {size_t{0}, n / 2, n - 1}) {
        for (DType dtype : kDTypes) {
          OwnedTensor x(Draw(Distribution::kGaussian, n, 5), {1, n}, dtype);
          // By bits, because StoreElement clamps Inf in the 16-bit types.
          const uint32_t bits = __builtin_bit_cast(uint32_t, bad);
          const uint16_t half = static_cast<uint16_t>(
              dtype == DType::kBF16 ? bits >> 16
                                    : (bits >> 16 & 0x8000) | 0x7C00 | (std::isnan(bad) ? 1 : 0));
          if (dtype == DType::kF32) std::memcpy(x.bytes.data() + 4 * at, &bits, 4);
          if (dtype != DType::kF32) std::memcpy(x.bytes.data() + 2 * at, &half, 2);
          const auto frame = EncodeToFrame(*codec_, x.view());
          ASSERT_TRUE(absl::IsInvalidArgument(frame.status())) << frame.status();
          ASSERT_THAT(std::string(frame.status().message()), HasSubstr("NaN"));
        }
      }
    }
  }
}

TEST_P(CodecContract, SameSeedGivesSameBytes) {
  const OwnedTensor x(Draw(Distribution::kLaplace, 5000, 2), {1, 5000});
  EXPECT_EQ(Encode(x.view(), 9), Encode(x.view(), 9));
}

TEST_P(CodecContract, SixteenBitSourcesGiveThePayloadOfTheirFp32Widening) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const OwnedTensor narrow(Draw(Distribution::kStudentT4, 4100, 2), {2, 2050}, dtype);
    const OwnedTensor wide(narrow.floats(), narrow.shape);
    const auto a = Encode(narrow.view()), b = Encode(wide.view());
    if (GetParam() == "none" || GetParam() == "identity") {  // send the source's own bytes instead
      ASSERT_EQ(a.size(), 64 + narrow.bytes.size());
      EXPECT_EQ(std::memcmp(a.data() + 64, narrow.bytes.data(), narrow.bytes.size()), 0);
      continue;
    }
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data() + 64, b.data() + 64, a.size() - 64), 0);
  }
}

TEST_P(CodecContract, DecodeIntoSixteenBitsIsTheRoundedFp32Decode) {
  const Shape shape = {1, 1000};
  const auto frame = Encode(OwnedTensor(Draw(Distribution::kOutlier, 1000, 2), shape).view());
  const std::vector<float> wide = Decode(frame, shape);
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    EXPECT_EQ(Decode(frame, shape, dtype), OwnedTensor(wide, shape, dtype).floats());
  }
}

TEST_P(CodecContract, DecodeFrameFindsTheCodecByItself) {
  const Shape shape = {3, 100};
  const auto frame = Encode(OwnedTensor(Draw(Distribution::kGaussian, 300, 2), shape).view());
  OwnedTensor y(shape, DType::kF32);
  ASSERT_TRUE(DecodeFrame(frame, y.mutable_view()).ok());
  EXPECT_EQ(y.floats(), Decode(frame, shape));
}

TEST_P(CodecContract, EveryTruncationIsDataLoss) {
  const Shape shape = {2, 100};
  const auto frame = Encode(OwnedTensor(Draw(Distribution::kGaussian, 200, 2), shape).view());
  OwnedTensor y(shape, DType::kF32);
  for (size_t n = 0; n < frame.size(); ++n) {
    const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(n));
    ASSERT_TRUE(absl::IsDataLoss(codec_->Decode(cut, nullptr, y.mutable_view()))) << n;
  }
  std::vector<std::byte> longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(absl::IsDataLoss(codec_->Decode(longer, nullptr, y.mutable_view())));
}

TEST_P(CodecContract, EveryFlippedByteIsDataLoss) {
  const Shape shape = {2, 100};
  auto frame = Encode(OwnedTensor(Draw(Distribution::kGaussian, 200, 2), shape).view());
  OwnedTensor y(shape, DType::kF32);
  for (size_t i = 0; i < frame.size(); ++i) {
    for (int flip : {0x01, 0x80, 0xFF}) {
      frame[i] ^= static_cast<std::byte>(flip);
      ASSERT_TRUE(absl::IsDataLoss(codec_->Decode(frame, nullptr, y.mutable_view()))) << i;
      ASSERT_TRUE(absl::IsDataLoss(DecodeFrame(frame, y.mutable_view()))) << i;
      frame[i] ^= static_cast<std::byte>(flip);
    }
  }
}

// Long enough for loops that sum what they read piece by piece.
TEST_P(CodecContract, FlippedBytesOfALongFrameAreDataLoss) {
  const Shape shape = {2, 12'384};
  auto frame =
      Encode(OwnedTensor(Draw(Distribution::kGaussian, shape.elements(), 6), shape).view());
  OwnedTensor y(shape, DType::kF32);
  for (size_t i = kFrameHeaderBytes; i < frame.size(); i += 509) {
    frame[i] ^= std::byte{0x04};
    ASSERT_TRUE(absl::IsDataLoss(codec_->Decode(frame, nullptr, y.mutable_view()))) << i;
    frame[i] ^= std::byte{0x04};
  }
  EXPECT_TRUE(DecodeFrame(frame, y.mutable_view()).ok());
}

TEST_P(CodecContract, ForeignFramesAreInvalidArgument) {
  const Shape shape = {2, 100};
  const OwnedTensor x(Draw(Distribution::kGaussian, 200, 2), shape);
  OwnedTensor other({1, 200}, DType::kF32);  // as many elements, another shape
  const absl::Status s = codec_->Decode(Encode(x.view()), nullptr, other.mutable_view());
  EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("[2, 100]"));
  const auto foreign = *MakeCodec(codec_->id() == 0x30 ? "int8-b64" : "int4-b64");
  OwnedTensor y(shape, DType::kF32);
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec_->Decode(*EncodeToFrame(*foreign, x.view()), nullptr, y.mutable_view())));
}

TEST_P(CodecContract, BadArgumentsAreRefusedAndTouchNothing) {
  const OwnedTensor x(Draw(Distribution::kGaussian, 100, 2), {1, 100});
  std::vector<std::byte> room(Encode(x.view()).size() - 1, std::byte{0x5A});
  const auto untouched = room;
  auto state = codec_->NewState(x.shape);
  EXPECT_TRUE(absl::IsInvalidArgument(codec_->Encode(x.view(), 1, state.get(), room).status()));
  EXPECT_EQ(room, untouched);
  for (Shape shape : {Shape{0, 5}, Shape{5, 0}, Shape{uint64_t{1} << 40, uint64_t{1} << 40}}) {
    const ConstTensor none = {x.bytes.data(), DType::kF32, shape};
    std::vector<std::byte> frame(1000);
    EXPECT_TRUE(absl::IsInvalidArgument(codec_->Encode(none, 1, nullptr, frame).status()));
  }
}

TEST_P(CodecContract, UnalignedBuffersWork) {
  for (const Shape shape : {Shape{3, 77}, Shape{2, 9001}}) {
    const OwnedTensor x(Draw(Distribution::kGaussian, shape.elements(), 2), shape);
    const auto frame = Encode(x.view());
    std::vector<std::byte> shifted(frame.size() + 1), values(x.bytes.size() + 1);
    std::memcpy(values.data() + 1, x.bytes.data(), x.bytes.size());
    auto state = codec_->NewState(shape);
    const ConstTensor odd = {values.data() + 1, DType::kF32, shape};
    ASSERT_TRUE(codec_->Encode(odd, 1, state.get(), std::span(shifted).subspan(1)).ok());
    EXPECT_EQ(std::memcmp(shifted.data() + 1, frame.data(), frame.size()), 0);
    const auto out = std::span(shifted).subspan(1);
    ASSERT_TRUE(codec_->Decode(out, nullptr, {values.data() + 1, DType::kF32, shape}).ok());
    std::vector<float> aligned(shape.elements());
    ASSERT_TRUE(codec_->Decode(frame, nullptr, {aligned.data(), DType::kF32, shape}).ok());
    EXPECT_EQ(std::memcmp(values.data() + 1, aligned.data(), x.bytes.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, CodecContract, testing::ValuesIn(TestedNames()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace longhaul
