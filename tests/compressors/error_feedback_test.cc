// Error feedback: what a frame loses is carried, and the state behaves like one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr Shape kShape = {3, 100};

std::vector<float> Residual(const CodecState& state) {
  std::vector<std::byte> saved(state.bytes());
  state.Save(saved);
  std::vector<float> e(state.shape().elements());
  std::memcpy(e.data(), saved.data() + 16, 4 * e.size());
  return e;
}
std::vector<std::byte> Saved(const CodecState& state) {
  std::vector<std::byte> saved(state.bytes());
  state.Save(saved);
  return saved;
}

class ErrorFeedback : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const Codec> codec_ = *MakeCodec(GetParam() + "+ef");
  std::unique_ptr<CodecState> state_ = codec_->NewState(kShape);

  std::vector<float> Send(const std::vector<float>& x, DType dtype = DType::kF32) {
    auto frame = EncodeToFrame(*codec_, OwnedTensor(x, kShape, dtype).view(), 1, state_.get());
    EXPECT_TRUE(frame.ok()) << frame.status();
    OwnedTensor y(kShape, DType::kF32);
    EXPECT_TRUE(codec_->Decode(*frame, nullptr, y.mutable_view()).ok());
    return y.floats();
  }
};

TEST_P(ErrorFeedback, SumOfDecodedPlusResidualIsSumOfInputs) {
  std::vector<double> sent(kShape.elements()), decoded(kShape.elements());
  const int rounds = 30;
  for (int t = 0; t < rounds; ++t) {
    const auto x = Draw(Distribution::kLaplace, kShape.elements(), 100 + t);
    const auto y = Send(x);
    for (size_t i = 0; i < x.size(); ++i) {
      sent[i] += x[i];
      decoded[i] += y[i];
    }
  }
  const auto e = Residual(*state_);
  for (size_t i = 0; i < e.size(); ++i) {
    // Each round rounds x + e and the difference once: 2^-24 of magnitudes up to some hundreds (the
    // residual of one bit per element).
    ASSERT_NEAR(decoded[i] + e[i], sent[i], rounds * 2 * 256 * 0x1p-24) << i;
  }
}

TEST_P(ErrorFeedback, FirstFrameHasThePayloadOfThePlainCodec) {
  const OwnedTensor x(Draw(Distribution::kGaussian, kShape.elements(), 5), kShape);
  const auto plain = *EncodeToFrame(**MakeCodec(GetParam()), x.view());
  const auto with = *EncodeToFrame(*codec_, x.view(), 1, state_.get());
  ASSERT_EQ(plain.size(), with.size());
  EXPECT_EQ(std::memcmp(plain.data() + 64, with.data() + 64, plain.size() - 64), 0);
  EXPECT_EQ(ParseFrame(plain)->flags & kFlagErrorFeedback, 0);
  EXPECT_EQ(ParseFrame(with)->flags, ParseFrame(plain)->flags | kFlagErrorFeedback);
  EXPECT_EQ(ParseFrame(with)->codec, (*MakeCodec(GetParam()))->id());
}

TEST_P(ErrorFeedback, SaveAndLoadContinueBitForBit) {
  for (int t = 0; t < 3; ++t) Send(Draw(Distribution::kGaussian, kShape.elements(), t));
  const auto saved = Saved(*state_);
  auto other = codec_->NewState(kShape);
  ASSERT_TRUE(other->Load(saved).ok());
  const OwnedTensor x(Draw(Distribution::kGaussian, kShape.elements(), 9), kShape);
  const auto a = EncodeToFrame(*codec_, x.view(), 1, state_.get());
  const auto b = EncodeToFrame(*codec_, x.view(), 1, other.get());
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(Saved(*state_), Saved(*other));

  state_->Reset();
  EXPECT_EQ(Saved(*state_), Saved(*codec_->NewState(kShape)));
}

TEST_P(ErrorFeedback, BadSavedStatesAreDataLossAndChangeNothing) {
  Send(Draw(Distribution::kGaussian, kShape.elements(), 1));
  const auto before = Saved(*state_);
  auto shorter = before;
  shorter.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(shorter)));
  EXPECT_TRUE(absl::IsDataLoss(state_->Load({})));
  const auto other = codec_->NewState({100, 3});
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(Saved(*other))));
  auto nan = before;
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(nan.data() + nan.size() - 4, &bad, 4);
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(nan)));
  EXPECT_EQ(Saved(*state_), before);
}

TEST_P(ErrorFeedback, AnErrorLeavesTheStateAsItWas) {
  auto x = Draw(Distribution::kGaussian, kShape.elements(), 1);
  Send(x);
  const auto before = Saved(*state_);
  std::vector<std::byte> frame(codec_->MaxFrameBytes(kShape, DType::kF32));
  x[150] = std::numeric_limits<float>::quiet_NaN();
  const ConstTensor bad = {x.data(), DType::kF32, kShape};
  EXPECT_TRUE(absl::IsInvalidArgument(codec_->Encode(bad, 1, state_.get(), frame).status()));
  x[150] = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec_->Encode(bad, 1, state_.get(), std::span(frame).first(80)).status()));
  EXPECT_EQ(Saved(*state_), before);
}

TEST_P(ErrorFeedback, NeedsItsOwnStateOfThisShape) {
  const OwnedTensor x(Draw(Distribution::kGaussian, kShape.elements(), 1), kShape);
  std::vector<std::byte> frame(codec_->MaxFrameBytes(kShape, DType::kF32));
  const auto other_shape = codec_->NewState({1, 300});
  const auto other_codec = (*MakeCodec(GetParam() + "+ef95"))->NewState(kShape);
  for (CodecState* state :
       {static_cast<CodecState*>(nullptr), other_shape.get(), other_codec.get()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(codec_->Encode(x.view(), 1, state, frame).status()));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, ErrorFeedback, testing::ValuesIn(StatelessNames()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ErrorFeedbackIdentity, KeepsTheResidualExactlyZero) {
  const auto codec = *MakeCodec("none+ef");
  const auto state = codec->NewState(kShape);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const OwnedTensor x(Draw(Distribution::kStudentT4, kShape.elements(), 1), kShape, dtype);
    ASSERT_TRUE(EncodeToFrame(*codec, x.view(), 1, state.get()).ok());
    for (float e : Residual(*state)) ASSERT_EQ(e, 0.0f);
  }
}

// Deep Gradient Compression by its own words: u <- 0.9 u + x, v <- v + u, send v, clear both there.
TEST(MomentumCorrection, ClearsWhatWasSentAndCarriesTheRest) {
  const auto codec = *MakeCodec("topk-8of100+none+mc");
  const auto state = codec->NewState(kShape);
  const size_t n = kShape.elements();
  std::vector<float> u(n), v(n);
  for (int t = 0; t < 6; ++t) {
    const auto x = Draw(Distribution::kLaplace, n, t);
    const auto frame = EncodeToFrame(*codec, OwnedTensor(x, kShape).view(), 1, state.get());
    ASSERT_TRUE(frame.ok()) << frame.status();
    OwnedTensor y(kShape, DType::kF32);
    ASSERT_TRUE(codec->Decode(*frame, nullptr, y.mutable_view()).ok());
    const auto sent = y.floats();
    int kept = 0;
    for (size_t i = 0; i < n; ++i) {
      u[i] = 0.9f * u[i] + x[i];
      v[i] += u[i];
      if (sent[i] == 0) continue;
      ASSERT_EQ(sent[i], v[i]);
      u[i] = v[i] = 0;
      ++kept;
    }
    EXPECT_EQ(kept, 3 * 8);
    std::vector<float> want = u;
    want.insert(want.end(), v.begin(), v.end());
    std::vector<float> saved(2 * n);
    std::memcpy(saved.data(), Saved(*state).data() + 16, 8 * n);
    ASSERT_EQ(saved, want);
  }
  auto before = Saved(*state);
  auto bad = Draw(Distribution::kGaussian, n, 1);
  bad[5] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> frame(codec->MaxFrameBytes(kShape, DType::kF32));
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec->Encode({bad.data(), DType::kF32, kShape}, 1, state.get(), frame).status()));
  EXPECT_EQ(Saved(*state), before);
}

TEST(ErrorFeedbackDecay, ScalesTheOldResidualFirst) {
  const auto codec = *MakeCodec("int4-b64+ef95");
  const auto plain = *MakeCodec("int4-b64");
  const auto state = codec->NewState(kShape);
  std::vector<float> e(kShape.elements(), 0.0f);
  for (int t = 0; t < 4; ++t) {
    const auto x = Draw(Distribution::kGaussian, kShape.elements(), t);
    ASSERT_TRUE(EncodeToFrame(*codec, OwnedTensor(x, kShape).view(), 1, state.get()).ok());
    std::vector<float> sum(x.size());
    for (size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + 0.95f * e[i];
    OwnedTensor y(kShape, DType::kF32);
    const auto frame = EncodeToFrame(*plain, OwnedTensor(sum, kShape).view());
    ASSERT_TRUE(plain->Decode(*frame, nullptr, y.mutable_view()).ok());
    for (size_t i = 0; i < x.size(); ++i) e[i] = sum[i] - y.floats()[i];
    ASSERT_EQ(Residual(*state), e);
  }
}

}  // namespace
}  // namespace longhaul
