// Codecs that send differences to what the receiver has (+ef21, aqsgd*): both ends stay alike, and
// an end that missed something says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compressors/frame/frame.h"
#include "compressors/frame_receiver.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

constexpr Shape kShape = {48, 100};
using Frame = std::vector<std::byte>;

std::vector<std::byte> Saved(const auto& state) {
  std::vector<std::byte> saved(state.bytes());
  state.Save(saved);
  return saved;
}

class MirrorTest : public testing::TestWithParam<std::string> {
 protected:
  Frame Send(const std::vector<float>& x, uint64_t seed = 1) {
    auto frame = EncodeToFrame(*codec_, OwnedTensor(x, kShape).view(), seed, sender_.get());
    EXPECT_TRUE(frame.ok()) << frame.status();
    return *frame;
  }
  absl::Status Take(const Frame& frame, DType dtype = DType::kF32) {
    OwnedTensor y(kShape, dtype);
    const absl::Status status = codec_->Decode(frame, receiver_.get(), y.mutable_view());
    if (status.ok()) received_ = y.floats();
    return status;
  }
  static std::vector<float> Input(uint64_t seed) {
    return Draw(Distribution::kGaussian, kShape.elements(), seed);
  }

  std::shared_ptr<const Codec> codec_ = *MakeCodec(GetParam());
  std::unique_ptr<CodecState> sender_ = codec_->NewState(kShape);
  std::unique_ptr<CodecState> receiver_ = codec_->NewDecoderState(kShape);
  std::vector<float> received_;
};

TEST_P(MirrorTest, BothEndsHoldTheSameBitsAfterEveryFrame) {
  ASSERT_TRUE(DecodingNeedsState(*codec_));
  for (uint64_t t = 0; t < 10; ++t) {
    const Frame frame = Send(Input(t), t);
    EXPECT_EQ(ParseFrame(frame)->flags & (kFlagFirstVisit | kFlagDifference),
              t == 0 ? kFlagFirstVisit : kFlagDifference);
    ASSERT_EQ(Take(frame), absl::OkStatus());
    ASSERT_EQ(Saved(*sender_), Saved(*receiver_));
    // What comes out is what both hold.
    const auto& mirror = dynamic_cast<const Mirror&>(*receiver_);
    for (size_t i = 0; i < received_.size(); ++i) {
      ASSERT_EQ(received_[i], LoadElement(mirror.values(), mirror.dtype(), i));
    }
  }
}

TEST_P(MirrorTest, ALostFrameIsRefusedUntilTheSenderStartsAnew) {
  ASSERT_EQ(Take(Send(Input(0))), absl::OkStatus());
  Send(Input(1));  // lost
  const auto before = Saved(*receiver_);
  for (uint64_t t = 2; t < 4; ++t) {
    const absl::Status status = Take(Send(Input(t)));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a frame was lost"));
    EXPECT_EQ(Saved(*receiver_), before);
  }
  sender_->Reset();
  for (uint64_t t = 4; t < 6; ++t) {
    ASSERT_EQ(Take(Send(Input(t))), absl::OkStatus());
    EXPECT_EQ(Saved(*sender_), Saved(*receiver_));
  }
}

TEST_P(MirrorTest, ARepeatedOrReorderedFrameIsRefused) {
  const Frame first = Send(Input(0)), second = Send(Input(1)), third = Send(Input(2));
  ASSERT_EQ(Take(first), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(third)));
  ASSERT_EQ(Take(second), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(second)));
  ASSERT_EQ(Take(third), absl::OkStatus());
  EXPECT_EQ(Saved(*sender_), Saved(*receiver_));
}

TEST_P(MirrorTest, AReceiverThatWasResetOrNeverFilledSaysSo) {
  ASSERT_EQ(Take(Send(Input(0))), absl::OkStatus());
  receiver_->Reset();
  const Frame frame = Send(Input(1));
  const absl::Status status = Take(frame);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("empty"));
  OwnedTensor y(kShape, DType::kF32);
  EXPECT_TRUE(absl::IsInvalidArgument(codec_->Decode(frame, nullptr, y.mutable_view())));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeFrame(frame, y.mutable_view())));
}

TEST_P(MirrorTest, BadFramesLeaveTheReceiverAsItWas) {
  ASSERT_EQ(Take(Send(Input(0))), absl::OkStatus());
  const Frame frame = Send(Input(1));
  const auto before = Saved(*receiver_);
  OwnedTensor y(kShape, DType::kF32);
  for (size_t n = 0; n < frame.size(); n += n < 128 ? 1 : 97) {
    const Frame cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(n));
    ASSERT_TRUE(absl::IsDataLoss(codec_->Decode(cut, receiver_.get(), y.mutable_view()))) << n;
    Frame flipped = frame;
    flipped[n] ^= std::byte{0x10};
    ASSERT_TRUE(absl::IsDataLoss(codec_->Decode(flipped, receiver_.get(), y.mutable_view()))) << n;
    ASSERT_EQ(Saved(*receiver_), before);
  }
  OwnedTensor other({100, 48}, DType::kF32);
  EXPECT_TRUE(
      absl::IsInvalidArgument(codec_->Decode(frame, receiver_.get(), other.mutable_view())));
  const auto foreign = codec_->NewDecoderState({100, 48});
  EXPECT_TRUE(absl::IsInvalidArgument(codec_->Decode(frame, foreign.get(), y.mutable_view())));
  EXPECT_EQ(Saved(*receiver_), before);
  EXPECT_EQ(Take(frame), absl::OkStatus());
}

// Frames whose checksum is right and whose marks or tag lie.
TEST_P(MirrorTest, LyingMarksAreRefused) {
  ASSERT_EQ(Take(Send(Input(0))), absl::OkStatus());
  const Frame frame = Send(Input(1));
  const auto before = Saved(*receiver_);
  const FrameHeader header = *ParseFrame(frame);
  Frame lying = frame;
  MarkFrame(kFlagDifference, header.state ^ 1, lying);
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(lying)));
  MarkFrame(kFlagFirstVisit | kFlagDifference, header.state, lying);
  EXPECT_TRUE(absl::IsInvalidArgument(Take(lying)));
  MarkFrame(0, header.state, lying);
  EXPECT_TRUE(absl::IsDataLoss(Take(lying)));
  MarkFrame(0, 0, lying);
  EXPECT_TRUE(absl::IsInvalidArgument(Take(lying)));
  EXPECT_EQ(Saved(*receiver_), before);
}

TEST_P(MirrorTest, SixteenBitReceiversHoldTheSameState) {
  for (uint64_t t = 0; t < 4; ++t) {
    ASSERT_EQ(Take(Send(Input(t)), t % 2 == 0 ? DType::kBF16 : DType::kF16), absl::OkStatus());
    ASSERT_EQ(Saved(*sender_), Saved(*receiver_));
  }
}

TEST_P(MirrorTest, FrameReceiverFindsTheCodecAndGoesOnAfterSaveAndLoad) {
  FrameReceiver receiver;
  EXPECT_EQ(receiver.bytes(), 0u);
  OwnedTensor y(kShape, DType::kF32);
  ASSERT_EQ(receiver.Decode(Send(Input(0)), y.mutable_view()), absl::OkStatus());
  ASSERT_EQ(receiver.Decode(Send(Input(1)), y.mutable_view()), absl::OkStatus());
  EXPECT_EQ(Saved(receiver), Saved(*sender_));
  FrameReceiver resumed;
  ASSERT_EQ(resumed.Load(Saved(receiver)), absl::OkStatus());
  const Frame frame = Send(Input(2));
  OwnedTensor z(kShape, DType::kF32);
  ASSERT_EQ(receiver.Decode(frame, y.mutable_view()), absl::OkStatus());
  ASSERT_EQ(resumed.Decode(frame, z.mutable_view()), absl::OkStatus());
  EXPECT_EQ(y.bytes, z.bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(resumed.Decode(frame, z.mutable_view())));

  // A stateless frame in between, and another shape, do not disturb or are told apart.
  ASSERT_EQ(receiver.Decode(*EncodeToFrame(**MakeCodec("int8-b64"), y.view()), z.mutable_view()),
            absl::OkStatus());
  ASSERT_EQ(receiver.Decode(Send(Input(3)), y.mutable_view()), absl::OkStatus());
  OwnedTensor small({2, 48}, DType::kF32);
  EXPECT_FALSE(receiver.Decode(frame, small.mutable_view()).ok());
  auto broken = Saved(receiver);
  broken.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(receiver.Load(broken)));
  ASSERT_EQ(receiver.Decode(Send(Input(4)), y.mutable_view()), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(FrameReceiver().Decode(frame, y.mutable_view())));
}

INSTANTIATE_TEST_SUITE_P(Catalog, MirrorTest,
                         testing::Values("none+ef21", "int4-b64+ef21", "minmax2-b64+ef21",
                                         "topk-64of4096+stat2+ef21", "randk-952of4096+fp16+ef21",
                                         "int4-b64+ef21+sat", "int4-b64+sr+ef21", "sign1+ef21",
                                         "aqsgd2", "aqsgd4", "aqsgd8"),
                         [](const auto& info) { return TestName(info.param); });

double ErrorAfter(const std::string& name, const std::vector<float>& x, Shape shape, int visits,
                  std::vector<double>* all = nullptr) {
  const auto codec = *MakeCodec(name);
  const auto sender = codec->NewState(shape), receiver = codec->NewDecoderState(shape);
  OwnedTensor y(shape, DType::kF32);
  for (int t = 0; t < visits; ++t) {
    const auto frame =
        *EncodeToFrame(*codec, {x.data(), DType::kF32, shape}, uint64_t(t), sender.get());
    EXPECT_EQ(codec->Decode(frame, receiver.get(), y.mutable_view()), absl::OkStatus());
    if (all != nullptr) all->push_back(Nmse(x, y.floats()));
  }
  return Nmse(x, y.floats());
}

// EF21's identity: g converges to a constant x geometrically, for any contractive C, with a factor
// of C's own error per round.
TEST(Ef21, ConvergesToAConstantTensor) {
  const Shape shape = {1, 4096};
  const auto x = Draw(Distribution::kLaplace, shape.elements(), 3);
  std::vector<double> errors;
  ErrorAfter("topk-1024of4096+none+ef21", x, shape, 5, &errors);
  EXPECT_NEAR(errors[0], .164, .02);
  for (size_t t = 1; t < 4; ++t) EXPECT_LT(errors[t], errors[t - 1] * 0.45);
  EXPECT_LT(errors[3], 1e-12) << "four times a quarter is everything";
  errors.clear();
  ErrorAfter("int4-b64+ef21", x, shape, 4, &errors);
  // What int4 leaves is uniform over a step: the next round's step is a fourteenth of it, 1/196.
  for (size_t t = 1; t < 4; ++t) EXPECT_NEAR(errors[t] / errors[t - 1], 5.1e-3, 2e-3) << t;
}

// A tensor that changes slowly: the error follows the change, not the tensor.
TEST(Ef21, SendsASlowlyChangingTensorBetterThanThePlainCodec) {
  const Shape shape = {8, 512};
  auto x = Draw(Distribution::kGaussian, shape.elements(), 3);
  const auto codec = *MakeCodec("minmax2-b64+ef21");
  const auto sender = codec->NewState(shape), receiver = codec->NewDecoderState(shape);
  OwnedTensor y(shape, DType::kF32);
  double nmse = 0;
  for (uint64_t t = 0; t < 12; ++t) {
    const auto drift = Draw(Distribution::kGaussian, x.size(), 100 + t);
    for (size_t i = 0; i < x.size(); ++i) x[i] += 0.01f * drift[i];
    const auto frame = *EncodeToFrame(*codec, {x.data(), DType::kF32, shape}, t, sender.get());
    ASSERT_EQ(codec->Decode(frame, receiver.get(), y.mutable_view()), absl::OkStatus());
    nmse = Nmse(x, y.floats());
  }
  EXPECT_LT(nmse, 2e-4) << "0.203 for one frame of minmax2-b64";
}

TEST(AqSgd, TheErrorShrinksWithEveryVisitOfTheSameExample) {
  const Shape shape = {256, 64};
  const auto x = Draw(Distribution::kGaussian, shape.elements(), 3);
  // fp16 values, then differences that are exactly what fp16 lost: nothing more to send.
  EXPECT_LT(ErrorAfter("aqsgd4", x, shape, 3), 1e-7);
  // An example that moved: the first difference leaves the quantizer's error of the movement, the
  // next ones that of the rest.
  const auto codec = *MakeCodec("aqsgd4");
  const auto sender = codec->NewState(shape), receiver = codec->NewDecoderState(shape);
  OwnedTensor y(shape, DType::kF32);
  std::vector<double> errors;
  for (int t = 0; t < 5; ++t) {
    const auto moved = Draw(Distribution::kGaussian, x.size(), t == 0 ? 8 : 9);
    const auto frame = *EncodeToFrame(*codec, {moved.data(), DType::kF32, shape}, 1, sender.get());
    ASSERT_EQ(codec->Decode(frame, receiver.get(), y.mutable_view()), absl::OkStatus());
    errors.push_back(Nmse(moved, y.floats()));
  }
  EXPECT_LT(errors[0], 1e-7);            // as fp16
  EXPECT_NEAR(errors[1], 2.4e-2, 6e-3);  // twice the energy, at 256 rows
  EXPECT_LT(errors[2], errors[1] * 0.05);
  EXPECT_LT(errors[3], errors[2] * 0.05);
  EXPECT_LT(errors[4], 1e-6);
}

TEST(AqSgd, ADifferenceHasTheBitsOfTheTable) {
  const Shape shape = {1024, 256};
  const double n = static_cast<double>(shape.elements());
  for (int bits : {2, 4, 8}) {
    const auto codec = *MakeCodec("aqsgd" + std::to_string(bits));
    const auto state = codec->NewState(shape);
    for (uint64_t t = 0; t < 3; ++t) {
      const OwnedTensor x(Draw(Distribution::kGaussian, shape.elements(), t), shape);
      const auto frame = *EncodeToFrame(*codec, x.view(), 1, state.get());
      const double payload_bits = 8.0 * static_cast<double>(frame.size() - 64);
      EXPECT_DOUBLE_EQ(payload_bits, t == 0 ? 16 * n : bits * n + 16 * 256);
    }
  }
}

// One row has a scale per element: values are shorter and are sent every time.
TEST(AqSgd, WhereADifferenceWouldNotBeShorterValuesAreSent) {
  const auto codec = *MakeCodec("aqsgd4");
  const Shape shape = {1, 500};
  const auto state = codec->NewState(shape);
  for (uint64_t t = 0; t < 3; ++t) {
    const OwnedTensor x(Draw(Distribution::kGaussian, 500, t), shape);
    const auto frame = *EncodeToFrame(*codec, x.view(), 1, state.get());
    EXPECT_EQ(frame.size(), 64u + 1000);
    EXPECT_NE(ParseFrame(frame)->flags & kFlagFirstVisit, 0);
  }
}

// By its own words: s = bf16(max|delta|) per column, q = clamp(rne(delta / s 2^(b-1))).
TEST(AqSgd, DifferencesAreThoseOfTheDefinition) {
  const Shape shape = {5, 3};
  const std::vector<float> zeros(15),
      x = {1, 0.5f, 0, -1, 0.25f, 0, 0.5f, -0.5f, 0, 0.1f, 0.3f, 0, 0.99f, 0.45f, 0};
  const auto codec = *MakeCodec("aqsgd4");
  const auto sender = codec->NewState(shape), receiver = codec->NewDecoderState(shape);
  OwnedTensor y(shape, DType::kF32);
  for (const auto* values : {&zeros, &x}) {
    // Twice five rows of three: values are 30 bytes, a difference 8 + 8.
    const auto frame = *EncodeToFrame(*codec, OwnedTensor(*values, shape).view(), 1, sender.get());
    ASSERT_EQ(codec->Decode(frame, receiver.get(), y.mutable_view()), absl::OkStatus());
  }
  const float scale[3] = {1, 0.5f, 0};
  for (size_t i = 0; i < 15; ++i) {
    const float s = scale[i % 3];
    const float q = s == 0 ? 0 : std::fmin(7, std::fmax(-8, std::nearbyint(x[i] * (1 / s) * 8)));
    EXPECT_EQ(y.floats()[i], q / 8 * s) << i;  // eighths of halves are exact in fp16
  }
}

}  // namespace
}  // namespace longhaul
