// What every state of a sender promises (CodecState), whatever the codec keeps in it.
#include <gtest/gtest.h>

#include <limits>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr Shape kShape = {72, 100};  // more than 4096, and edges for every block

std::vector<std::byte> Saved(const CodecState& state) {
  std::vector<std::byte> saved(state.bytes());
  state.Save(saved);
  return saved;
}
OwnedTensor Input(uint64_t seed, Shape shape = kShape) {
  return OwnedTensor(Draw(Distribution::kLaplace, shape.elements(), seed), shape);
}

class State : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (uint64_t t = 0; t < 3; ++t) {
      ASSERT_TRUE(EncodeToFrame(*codec_, Input(t).view(), 1, state_.get()).ok());
    }
  }
  std::shared_ptr<const Codec> codec_ = *MakeCodec(GetParam());
  std::unique_ptr<CodecState> state_ = codec_->NewState(kShape);
};

TEST_P(State, SaveAndLoadContinueBitForBit) {
  auto other = codec_->NewState(kShape);
  ASSERT_TRUE(other->Load(Saved(*state_)).ok());
  for (uint64_t t = 5; t < 8; ++t) {
    const auto a = EncodeToFrame(*codec_, Input(t).view(), t, state_.get());
    const auto b = EncodeToFrame(*codec_, Input(t).view(), t, other.get());
    ASSERT_TRUE(a.ok()) << a.status();
    EXPECT_EQ(*a, *b);
  }
  EXPECT_EQ(Saved(*state_), Saved(*other));
  const auto fresh = codec_->NewState(kShape);
  EXPECT_NE(Saved(*state_), Saved(*fresh));
  state_->Reset();
  EXPECT_EQ(Saved(*state_), Saved(*fresh));
  EXPECT_EQ(state_->shape(), kShape);
}

TEST_P(State, BadSavedStatesAreDataLossAndChangeNothing) {
  const auto before = Saved(*state_);
  auto shorter = before;
  shorter.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(shorter)));
  EXPECT_TRUE(absl::IsDataLoss(state_->Load({})));
  const auto other = codec_->NewState({100, 72});
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(Saved(*other))));
  auto lying = before;
  lying[7] ^= std::byte{0x40};  // rows
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(lying)));
  auto not_finite = before;  // ends in floats of 16 or 32 bits: NaN in both
  not_finite[before.size() - 1] = not_finite[before.size() - 3] = std::byte{0x7F};
  not_finite[before.size() - 2] = std::byte{0xFF};
  EXPECT_TRUE(absl::IsDataLoss(state_->Load(not_finite)));
  EXPECT_EQ(Saved(*state_), before);
}

TEST_P(State, AnErrorLeavesItAsItWas) {
  const auto before = Saved(*state_);
  std::vector<std::byte> frame(codec_->MaxFrameBytes(kShape, DType::kF32));
  for (size_t at : {size_t{0}, size_t{3600}, kShape.elements() - 1}) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto x = Input(9).floats();
      x[at] = bad;
      const ConstTensor view = {x.data(), DType::kF32, kShape};
      EXPECT_TRUE(absl::IsInvalidArgument(codec_->Encode(view, 1, state_.get(), frame).status()));
      EXPECT_EQ(Saved(*state_), before);
    }
  }
  const OwnedTensor good = Input(9);
  for (size_t room : {0, 63, 64, 100}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        codec_->Encode(good.view(), 1, state_.get(), std::span(frame).first(room)).status()));
  }
  // Whatever the codec makes of huge values, its state stays finite.
  const std::vector<float> huge(kShape.elements(), 3.0e38f);
  (void)codec_->Encode({huge.data(), DType::kF32, kShape}, 1, state_.get(), frame);
  EXPECT_TRUE(codec_->NewState(kShape)->Load(Saved(*state_)).ok());
}

// Of no codec.
class ForeignState final : public CodecState {
 public:
  Shape shape() const override { return kShape; }
  void Reset() override {}
  size_t bytes() const override { return 0; }
  void Save(std::span<std::byte>) const override {}
  absl::Status Load(std::span<const std::byte>) override { return absl::OkStatus(); }
};

TEST_P(State, OfAnotherTensorOrCodecIsRefused) {
  const OwnedTensor x = Input(1);
  std::vector<std::byte> frame(codec_->MaxFrameBytes(kShape, DType::kF32), std::byte{0x5A});
  const auto untouched = frame;
  const auto transposed = codec_->NewState({kShape.cols, kShape.rows});
  ForeignState foreign;
  for (CodecState* state :
       {static_cast<CodecState*>(nullptr), transposed.get(), static_cast<CodecState*>(&foreign)}) {
    const auto status = codec_->Encode(x.view(), 1, state, frame).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(frame, untouched);
  }
}

TEST_P(State, StoresWhatItSays) {
  const size_t floats = kShape.elements();
  const size_t bytes = state_->bytes();
  EXPECT_GE(bytes, 2 * floats);
  EXPECT_LE(bytes, 8 * floats + 8192) << "at most two copies and factors";
}

INSTANTIATE_TEST_SUITE_P(Catalog, State,
                         testing::Values("int4-b64+ef", "sparseloco", "16x-randk", "dgc",
                                         "onebit-adam", "none+ef21", "int4-b64+ef21",
                                         "topk-64of4096+stat2+ef21", "powersgd-r1", "powersgd-r4",
                                         "diloco-x", "demo-dct", "aqsgd2", "aqsgd4", "aqsgd8"),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace longhaul
