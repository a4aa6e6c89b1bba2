// States of codecs as checkpoints keep them, for every name of the catalogue that has one.
#include "compressors/saved_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compressors/numbers/crc32c.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr Shape kShape = {72, 100};  // more than 4096, and edges for every block

// Plain, parametric and alias names, each with every suffix that adds a state.
std::vector<std::shared_ptr<const Codec>> StatefulCodecs() {
  std::vector<std::string> bases = CodecNames();
  for (std::string& name : ParametricExamples()) bases.push_back(std::move(name));
  for (const CodecAlias& alias : CodecAliases()) bases.emplace_back(alias.name);
  std::vector<std::shared_ptr<const Codec>> codecs;
  for (const std::string& base : bases) {
    for (const char* suffix : {"", "+ef", "+ef95", "+ef21", "+mc", "+ef+sat"}) {
      auto codec = MakeCodec(base + suffix);
      if (codec.ok() && (*codec)->NewState({1, 1}) != nullptr) codecs.push_back(*std::move(codec));
    }
  }
  return codecs;
}

OwnedTensor Input(uint64_t seed) {
  return OwnedTensor(Draw(Distribution::kLaplace, kShape.elements(), seed), kShape);
}

std::unique_ptr<CodecState> Used(const Codec& codec) {
  auto state = codec.NewState(kShape);
  for (uint64_t t = 0; t < 2; ++t) (void)EncodeToFrame(codec, Input(t).view(), t, state.get());
  return state;
}

absl::StatusOr<std::unique_ptr<CodecState>> Restored(const Codec& codec,
                                                     std::span<const std::byte> saved) {
  const auto parsed = ParseSavedState(saved);
  if (!parsed.ok()) return parsed.status();
  return RestoreState(codec, *parsed);
}

TEST(SavedState, GoesOnBitForBitForEveryCodecThatHasOne) {
  const auto codecs = StatefulCodecs();
  ASSERT_GT(codecs.size(), 100u);
  for (const auto& codec : codecs) {
    SCOPED_TRACE(codec->name());
    const auto state = Used(*codec);
    const auto saved = SaveState(*codec, *state);
    const auto other = Restored(*codec, saved);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ((*other)->shape(), kShape);
    for (uint64_t t = 5; t < 7; ++t) {
      const auto a = EncodeToFrame(*codec, Input(t).view(), t, state.get());
      const auto b = EncodeToFrame(*codec, Input(t).view(), t, other->get());
      ASSERT_EQ(a.status(), b.status());
      if (!a.ok()) continue;
      EXPECT_EQ(*a, *b);
    }
    EXPECT_EQ(SaveState(*codec, *state), SaveState(*codec, **other));
  }
}

TEST(SavedState, OfAnotherCodecIsRefusedWithBothNames) {
  const auto codecs = StatefulCodecs();
  for (size_t i = 0; i < codecs.size(); ++i) {
    const Codec &from = *codecs[i], &to = *codecs[(i + 1) % codecs.size()];
    const absl::Status status = Restored(to, SaveState(from, *Used(from))).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr(std::string(from.name())),
                                                              HasSubstr(std::string(to.name()))));
  }
  const auto with = *MakeCodec("int4-b64+ef"), without = *MakeCodec("int4-b64");
  auto parsed = *ParseSavedState(SaveState(*with, *Used(*with)));
  parsed.codec = "int4-b64";
  EXPECT_TRUE(absl::IsInvalidArgument(RestoreState(*without, parsed).status()));
}

TEST(SavedState, CutLongerOrFlippedIsDataLoss) {
  for (const char* name : {"int4-b64+ef", "int4-b64+ef21", "powersgd-r4", "dgc"}) {
    SCOPED_TRACE(name);
    const auto codec = *MakeCodec(name);
    const auto saved = SaveState(*codec, *Used(*codec));
    for (size_t i = 0; i < saved.size(); i += i < 100 ? 1 : 997) {
      EXPECT_TRUE(absl::IsDataLoss(Restored(*codec, std::span(saved).first(i)).status())) << i;
      auto flipped = saved;
      flipped[i] ^= std::byte{0x10};
      EXPECT_TRUE(absl::IsDataLoss(Restored(*codec, flipped).status())) << i;
    }
    auto longer = saved;
    longer.push_back(std::byte{0});
    EXPECT_TRUE(absl::IsDataLoss(Restored(*codec, longer).status()));
  }
}

// With a right checksum: a size that no state has must cost neither memory nor a crash.
TEST(SavedState, AShapeThatLiesIsDataLoss) {
  for (const char* name : {"int4-b64+ef", "aqsgd4", "powersgd-r4", "diloco-x"}) {
    SCOPED_TRACE(name);
    const auto codec = *MakeCodec(name);
    const auto saved = SaveState(*codec, *Used(*codec));
    for (const Shape shape : {Shape{kShape.rows + 1, kShape.cols}, Shape{uint64_t{1} << 40, 1},
                              Shape{uint64_t{1} << 33, uint64_t{1} << 33}}) {
      auto lying = saved;
      std::memcpy(lying.data() + 8, &shape, sizeof shape);
      const uint32_t crc = Crc32c(std::span(lying).first(lying.size() - 4));
      std::memcpy(lying.data() + lying.size() - 4, &crc, sizeof crc);
      const absl::Status status = Restored(*codec, lying).status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    }
  }
}

// The layout that saved_state.h writes down.
TEST(SavedState, PinnedBytes) {
  const auto codec = *MakeCodec("none+ef21");
  const auto state = codec->NewState({1, 2});
  const float x[2] = {1.0f, -2.0f};
  std::vector<std::byte> frame(codec->MaxFrameBytes({1, 2}, DType::kF32));
  ASSERT_TRUE(codec->Encode({x, DType::kF32, {1, 2}}, 1, state.get(), frame).ok());
  const auto saved = SaveState(*codec, *state);
  ASSERT_EQ(saved.size(), 32u + 9 + 32 + 4);
  const auto text = [&](size_t at, size_t count) {
    return std::string(reinterpret_cast<const char*>(saved.data()) + at, count);
  };
  const auto number = [&](size_t at) {
    uint64_t value;
    std::memcpy(&value, saved.data() + at, sizeof value);
    return value;
  };
  EXPECT_EQ(text(0, 4), "LHS1");
  EXPECT_EQ(number(4) & 0xFFFFFFFF, 9u);
  EXPECT_EQ(number(8), 1u);
  EXPECT_EQ(number(16), 2u);
  EXPECT_EQ(number(24), 32u);
  EXPECT_EQ(text(32, 9), "none+ef21");
  EXPECT_EQ(std::memcmp(saved.data() + 32 + 9 + 24, x, sizeof x), 0);
}

}  // namespace
}  // namespace longhaul
