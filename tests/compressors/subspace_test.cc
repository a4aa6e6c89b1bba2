// subspace-k{k}: constants, exactness inside the subspace, refusal outside.
#include "compressors/families/subspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

// Rows in E[token] + span(U).
std::vector<float> InSubspace(Shape shape, size_t k, uint64_t seed,
                              std::span<const uint16_t> tokens, float scale = 1) {
  const auto basis = SubspaceBasis(seed, shape.cols, k);
  const auto coords = Draw(Distribution::kGaussian, shape.rows * k, 7);
  std::vector<float> x(shape.elements()), embedding(shape.cols);
  for (size_t r = 0; r < shape.rows; ++r) {
    if (!tokens.empty() && tokens[r] != kNoToken) SubspaceEmbedding(seed, tokens[r], embedding);
    for (size_t c = 0; c < shape.cols; ++c) {
      double sum = 0;
      for (size_t j = 0; j < k; ++j) sum += double{coords[r * k + j]} * basis[j * shape.cols + c];
      const bool embedded = !tokens.empty() && tokens[r] != kNoToken;
      x[r * shape.cols + c] = scale * static_cast<float>(sum) + (embedded ? embedding[c] : 0.0f);
    }
  }
  return x;
}

TEST(SubspaceBasis, IsOrthonormalAndTheSameEveryTime) {
  for (const auto& [cols, k] :
       {std::pair<size_t, size_t>{1024, 160}, {64, 64}, {7, 7}, {2, 2}, {1, 1}, {100, 3}}) {
    const auto basis = SubspaceBasis(5, cols, k);
    const std::vector<float> copy(basis.begin(), basis.end());
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (size_t c = 0; c < cols; ++c) dot += double{copy[i * cols + c]} * copy[j * cols + c];
        ASSERT_NEAR(dot, i == j ? 1 : 0, 1e-5) << cols << " " << i << " " << j;
      }
    }
    const auto other = SubspaceBasis(6, cols, k);
    if (cols > 50) {
      EXPECT_NE(copy, std::vector<float>(other.begin(), other.end()));
    }
    const auto again = SubspaceBasis(5, cols, k);
    EXPECT_EQ(copy, std::vector<float>(again.begin(), again.end()));
  }
  // The first row is nothing but signs.
  const auto basis = SubspaceBasis(5, 64, 3);
  for (size_t c = 0; c < 64; ++c) EXPECT_EQ(std::fabs(basis[c]), 0.125f);
}

TEST(SubspaceBasis, EmbeddingsHaveTheirDeviation) {
  std::vector<float> e(1 << 16), other(1 << 16);
  SubspaceEmbedding(1, 17, e);
  SubspaceEmbedding(1, 18, other);
  EXPECT_NE(e, other);
  double squares = 0;
  for (float v : e) squares += double{v} * v;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(e.size())), 0.02, 2e-4);
}

TEST(Subspace, RowsOfTheSubspaceAreSentAsCoordinates) {
  const Shape shape = {33, 256};
  const auto codec = *MakeCodec("subspace-k40");
  std::vector<uint16_t> tokens(33);
  for (size_t r = 0; r < 33; ++r) tokens[r] = static_cast<uint16_t>(r == 5 ? kNoToken : 1999 * r);
  for (float scale : {1.0f, 1e-3f, 1e3f}) {
    const auto x = InSubspace(shape, 40, 77, tokens, scale);
    const auto own = codec->NewState(shape);
    ASSERT_EQ(dynamic_cast<SubspaceState&>(*own).Set(77, tokens), absl::OkStatus());
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const OwnedTensor in(x, shape, dtype);
      const auto frame = EncodeToFrame(*codec, in.view(), 1, own.get());
      ASSERT_TRUE(frame.ok()) << frame.status();
      EXPECT_EQ(frame->size(), 64u + 72 + 2 * 40 * 33);
      OwnedTensor y(shape, DType::kF32);
      ASSERT_EQ(codec->Decode(*frame, nullptr, y.mutable_view()), absl::OkStatus());
      EXPECT_LT(Nmse(in.floats(), y.floats()), 1e-5) << "coordinates as bf16, 2.8e-6";
      OwnedTensor z(shape, DType::kF32);
      ASSERT_EQ(DecodeFrame(*frame, z.mutable_view()), absl::OkStatus());
      EXPECT_EQ(y.bytes, z.bytes);
    }
  }
}

TEST(Subspace, BitsAreThoseOfTheTable) {
  const Shape shape = {64, 1024};
  const auto x = InSubspace(shape, 160, 0, {});
  const auto frame = *EncodeToFrame(**MakeCodec("subspace-k160"), OwnedTensor(x, shape).view());
  EXPECT_EQ(frame.size() - 64, 64u * 322) << "322 against 2048 bytes per token";
}

TEST(Subspace, ARowOutsideIsRefusedByName) {
  const Shape shape = {8, 256};
  const auto codec = *MakeCodec("subspace-k40");
  auto x = InSubspace(shape, 40, 0, {});
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  const auto encode = [&] {
    return codec->Encode({x.data(), DType::kF32, shape}, 1, nullptr, frame).status();
  };
  EXPECT_TRUE(encode().ok());
  double norm = 0;
  for (size_t c = 0; c < 256; ++c) norm += double{x[3 * 256 + c]} * x[3 * 256 + c];
  const float kept = x[3 * 256];
  x[3 * 256] = kept + static_cast<float>(0.005 * std::sqrt(norm));
  EXPECT_TRUE(encode().ok()) << "half a percent";
  x[3 * 256] = kept + static_cast<float>(0.02 * std::sqrt(norm));
  EXPECT_TRUE(absl::IsInvalidArgument(encode()));
  EXPECT_THAT(std::string(encode().message()), HasSubstr("row 3"));
  x[3 * 256] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(encode().message()), HasSubstr("NaN"));
}

TEST(Subspace, BadArgumentsAndStatesAreRefused) {
  const auto codec = *MakeCodec("subspace-k40");
  std::vector<float> x(8 * 39);
  std::vector<std::byte> frame(10'000);
  const absl::Status status =
      codec->Encode({x.data(), DType::kF32, {8, 39}}, 1, nullptr, frame).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("39 columns"));
  const auto state = codec->NewState({8, 64});
  auto& own = dynamic_cast<SubspaceState&>(*state);
  const std::vector<uint16_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(absl::IsInvalidArgument(own.Set(1, std::span(tokens).first(7))));
  ASSERT_EQ(own.Set(9, tokens), absl::OkStatus());
  std::vector<std::byte> saved(own.bytes());
  own.Save(saved);
  const auto copy = codec->NewState({8, 64});
  ASSERT_EQ(copy->Load(saved), absl::OkStatus());
  EXPECT_EQ(dynamic_cast<SubspaceState&>(*copy).seed(), 9u);
  EXPECT_TRUE(absl::IsDataLoss(codec->NewState({8, 65})->Load(saved)));
  EXPECT_TRUE(absl::IsDataLoss(copy->Load(std::span(saved).first(30))));
  const std::vector<float> zeros(8 * 65);
  EXPECT_TRUE(absl::IsInvalidArgument(
      codec->Encode({zeros.data(), DType::kF32, {8, 65}}, 1, state.get(), frame).status()));
}

TEST(Subspace, HostileFramesAreRefused) {
  const Shape shape = {3, 64};
  const auto x = InSubspace(shape, 8, 0, {});
  const auto codec = *MakeCodec("subspace-k8");
  const auto frame = *EncodeToFrame(*codec, OwnedTensor(x, shape).view());
  OwnedTensor y(shape, DType::kF32);
  for (size_t n = 0; n < frame.size(); ++n) {
    const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(n));
    ASSERT_TRUE(absl::IsDataLoss(codec->Decode(cut, nullptr, y.mutable_view())));
    auto flipped = frame;
    flipped[n] ^= std::byte{1};
    ASSERT_TRUE(absl::IsDataLoss(codec->Decode(flipped, nullptr, y.mutable_view())));
    ASSERT_FALSE(DecodeFrame(flipped, y.mutable_view()).ok());
  }
  for (uint32_t k : {0u, 7u, 9u, 65u, 1024u, 1025u, UINT32_MAX}) {
    auto bad = frame;
    FrameHeader header = *ParseFrame(bad);
    header.param0 = k;
    SealFrame(header, bad);
    EXPECT_FALSE(codec->Decode(bad, nullptr, y.mutable_view()).ok());
    EXPECT_FALSE(DecodeFrame(bad, y.mutable_view()).ok());
  }
  for (uint16_t bits : {0x7F80, 0x7FC0, 0x7F7F}) {
    auto bad = frame;
    for (size_t i = bad.size() - 48; i < bad.size(); i += 2) std::memcpy(bad.data() + i, &bits, 2);
    SealFrame(PeekHeader(bad), bad);
    const absl::Status status = codec->Decode(bad, nullptr, y.mutable_view());
    EXPECT_TRUE(absl::IsDataLoss(status) || (status.ok() && bits == 0x7F7F));
  }
}

}  // namespace
}  // namespace longhaul
