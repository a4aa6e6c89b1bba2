// PowerSGD and DiLoCoX against what linear algebra says of them.
#include "compressors/families/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

const Kernels& Loops() { return KernelsOf(BestIsa()); }

// A matrix of that rank: sums of outer products of Gaussian vectors, the j-th times scale^j.
std::vector<float> OfRank(size_t rank, Shape shape, float scale, uint64_t seed) {
  std::vector<float> m(shape.elements());
  for (size_t j = 0; j < rank; ++j) {
    const auto u = Draw(Distribution::kGaussian, shape.rows, seed + 2 * j);
    const auto v = Draw(Distribution::kGaussian, shape.cols, seed + 2 * j + 1);
    const float s = std::pow(scale, static_cast<float>(j));
    for (size_t r = 0; r < shape.rows; ++r) {
      for (size_t c = 0; c < shape.cols; ++c) m[r * shape.cols + c] += s * u[r] * v[c];
    }
  }
  return m;
}

std::vector<float> Send(const Codec& codec, const std::vector<float>& x, Shape shape,
                        CodecState* state, FrameHeader* header = nullptr) {
  const auto frame = EncodeToFrame(codec, OwnedTensor(x, shape).view(), 1, state);
  EXPECT_TRUE(frame.ok()) << frame.status();
  if (!frame.ok()) return x;
  if (header != nullptr) *header = *ParseFrame(*frame);
  OwnedTensor y(shape, DType::kF32);
  EXPECT_EQ(codec.Decode(*frame, nullptr, y.mutable_view()), absl::OkStatus());
  return y.floats();
}

TEST(LowRank, ViewsFoldARowToASquare) {
  const LowRankView square({1, 1'000'003});
  EXPECT_EQ(square.cols, 1001u);
  EXPECT_EQ(square.rows, 1000u);  // 999 whole rows and one of 4
  EXPECT_EQ(square.RowLength(999), 1'000'003u - 999 * 1001);
  const LowRankView matrix({72, 100});
  EXPECT_EQ(matrix.rows, 72u);
  EXPECT_EQ(matrix.RowLength(71), 100u);
  for (size_t n : {1, 2, 3, 4, 5, 4095, 4096, 4097}) {
    const LowRankView v({1, n});
    EXPECT_GE(v.rows * v.cols, n);
    EXPECT_LT((v.rows - 1) * v.cols, n);
    EXPECT_LE(v.rows, v.cols);
  }
}

TEST(LowRank, FactorsAreSentOnlyWhereTheyHalveTheTensor) {
  EXPECT_EQ(LowRankFor(LowRankView({64, 64}), 4), 4u);
  EXPECT_EQ(LowRankFor(LowRankView({64, 64}), 64), 15u);  // 128 * 2 * 16 is not below 4096
  EXPECT_EQ(LowRankFor(LowRankView({63, 64}), 4), 0u);    // below 4096 elements
  EXPECT_EQ(LowRankFor(LowRankView({2, 1 << 20}), 4), 0u);
  EXPECT_EQ(LowRankFor(LowRankView({1, 1 << 20}), 4), 4u);
  EXPECT_EQ(LowRankFor(LowRankView({uint64_t{1} << 50, 1 << 5}), 4), 4u);
}

TEST(LowRank, OrthogonalizeGivesOrthonormalColumnsAndDropsDependentOnes) {
  const size_t rows = 5000, columns = 6;
  std::vector<float> p;
  for (size_t j = 0; j < columns; ++j) {
    for (float v : Draw(Distribution::kGaussian, rows, j)) p.push_back(v * (j == 1 ? 1e-18f : 1));
  }
  // The fourth column is a sum of the first two, up to rounding; the fifth is zero.
  for (size_t k = 0; k < rows; ++k) p[3 * rows + k] = 3 * p[k] - 1e18f * p[rows + k];
  std::fill_n(p.begin() + 4 * rows, rows, 0.0f);
  // What scale the caller has to give is LowRankScale's matter; here columns of any length.
  Orthogonalize(Loops(), p, rows);
  for (size_t i = 0; i < columns; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const double dot = LongDot(Loops(), &p[i * rows], &p[j * rows], rows);
      const bool dropped = i == 3 || i == 4 || j == 3 || j == 4;
      EXPECT_NEAR(dot, i == j && !dropped ? 1 : 0, 1e-6) << i << " " << j;
    }
  }
}

TEST(PowerSgd, AMatrixOfRankOneIsExact) {
  for (const char* name : {"powersgd-r1", "powersgd-r2", "powersgd-r4"}) {
    for (Shape shape : {Shape{100, 80}, Shape{40, 1000}, Shape{1000, 33}}) {
      for (float scale : {1.0f, 1e-30f, 1e30f}) {
        auto x = OfRank(1, shape, 1, 3);
        for (float& v : x) v *= scale;
        const auto codec = *MakeCodec(name);
        const auto state = codec->NewState(shape);
        EXPECT_LT(Nmse(x, Send(*codec, x, shape, state.get())), 1e-10) << name << scale;
      }
    }
  }
}

TEST(PowerSgd, RankRIsExactForRankRAndBestForMoreOverTheRounds) {
  const Shape shape = {128, 96};
  const auto exact = OfRank(3, shape, .5f, 3);
  const auto codec = *MakeCodec("powersgd-r3");
  EXPECT_LT(Nmse(exact, Send(*codec, exact, shape, codec->NewState(shape).get())), 1e-9);

  // Without error feedback's residual in the way: rank 2 of a rank 3 matrix cannot be better than
  // what the third component is, and warm starts get there.
  const auto two = *MakeCodec("powersgd-r2");
  const auto state = two->NewState(shape);
  std::vector<double> errors;
  for (int t = 0; t < 3; ++t) errors.push_back(Nmse(exact, Send(*two, exact, shape, state.get())));
  const auto third = OfRank(1, shape, 1, 3 + 4);
  EXPECT_LT(errors[0], .3);
  double energy = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    energy += .0625 * third[i] * third[i];
    all += exact[i] * exact[i];
  }
  EXPECT_GT(errors[0], .5 * energy / all);
}

// What one frame lacks, the residual has: decoded + e is x + the old e.
TEST(PowerSgd, SumOfDecodedPlusResidualIsSumOfInputs) {
  for (const char* name : {"powersgd-r1", "powersgd-r4", "diloco-x", "demo-dct"}) {
    for (Shape shape : {Shape{70, 90}, Shape{1, 5000}, Shape{10, 10}}) {
      const auto codec = *MakeCodec(name);
      const auto state = codec->NewState(shape);
      const double decay = std::string_view(name) == "demo-dct" ? .999f : 1;
      std::vector<double> balance(shape.elements());
      for (uint64_t t = 0; t < 12; ++t) {
        const auto x = Draw(Distribution::kLaplace, shape.elements(), t);
        const auto y = Send(*codec, x, shape, state.get());
        for (size_t i = 0; i < x.size(); ++i) balance[i] = decay * balance[i] + x[i] - y[i];
      }
      std::vector<std::byte> saved(state->bytes());
      state->Save(saved);
      for (size_t i = 0; i < balance.size(); ++i) {
        float e;
        std::memcpy(&e, saved.data() + 16 + 4 * i, 4);
        ASSERT_NEAR(e, balance[i], 1e-4) << name << " " << i;
      }
    }
  }
}

TEST(PowerSgd, TensorsThatFactorsWouldNotHalveAreSentAsTheyAre) {
  for (const char* name : {"powersgd-r64", "diloco-x"}) {
    for (Shape shape : {Shape{1, 1}, Shape{60, 60}, Shape{2, 5000}}) {
      const auto x = Draw(Distribution::kGaussian, shape.elements(), 1);
      const auto codec = *MakeCodec(name);
      FrameHeader header;
      EXPECT_EQ(Send(*codec, x, shape, codec->NewState(shape).get(), &header), x) << name;
      EXPECT_EQ(header.param0, 0u);
      EXPECT_EQ(header.payload_bytes, 4 * shape.elements());
      const auto frame =
          *EncodeToFrame(*codec, OwnedTensor(x, shape).view(), 1, codec->NewState(shape).get());
      OwnedTensor y(shape, DType::kF32);
      EXPECT_EQ(DecodeFrame(frame, y.mutable_view()), absl::OkStatus());
    }
  }
}

// Zeros, then something: a state that began with zeros must still find it.
TEST(PowerSgd, ZerosLeaveNoDeadColumns) {
  const Shape shape = {100, 80};
  for (const char* name : {"powersgd-r2", "diloco-x"}) {
    const auto codec = *MakeCodec(name);
    const auto state = codec->NewState(shape);
    const std::vector<float> zeros(shape.elements());
    for (int t = 0; t < 3; ++t) EXPECT_EQ(Send(*codec, zeros, shape, state.get()), zeros);
    const auto x = OfRank(2, shape, 1, 9);
    EXPECT_LT(Nmse(x, Send(*codec, x, shape, state.get())), 0.06) << name;
  }
}

TEST(PowerSgd, ReplicasStartFromTheSameColumns) {
  const Shape shape = {100, 80};
  const auto x = Draw(Distribution::kGaussian, shape.elements(), 1);
  const auto codec = *MakeCodec("powersgd-r2");
  const auto a = *EncodeToFrame(*codec, OwnedTensor(x, shape).view(), 1);
  const auto b = *EncodeToFrame(*codec, OwnedTensor(x, shape).view(), 2);
  EXPECT_EQ(a, b) << "no seed has a say";
}

// Frames with a right checksum that lie about rank or factors.
TEST(PowerSgd, LyingFramesAreRefused) {
  const Shape shape = {100, 80};
  const auto x = Draw(Distribution::kGaussian, shape.elements(), 1);
  for (const char* name : {"powersgd-r2", "diloco-x"}) {
    const auto codec = *MakeCodec(name);
    const auto frame = *EncodeToFrame(*codec, OwnedTensor(x, shape).view());
    OwnedTensor y(shape, DType::kF32);
    const auto lie = [&](auto change) {
      auto bad = frame;
      FrameHeader header = *ParseFrame(bad);
      change(header, bad);
      header.payload_bytes = bad.size() - kFrameHeaderBytes;
      SealFrame(header, bad);
      const absl::Status status = codec->Decode(bad, nullptr, y.mutable_view());
      EXPECT_FALSE(DecodeFrame(bad, y.mutable_view()).ok());
      return absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
    };
    using Bytes = std::vector<std::byte>;
    for (uint32_t rank : {0u, 1u, 3u, 17u, 64u, 65u, 0x7FFFFFFFu, UINT32_MAX}) {
      EXPECT_TRUE(lie([&](FrameHeader& h, Bytes&) { h.param0 = rank; })) << name << rank;
    }
    EXPECT_TRUE(lie([](FrameHeader& h, Bytes&) { h.param1 = 81; }));
    EXPECT_TRUE(lie([](FrameHeader& h, Bytes&) { h.block = 1; }));
    EXPECT_TRUE(lie([](FrameHeader&, Bytes& f) { f.resize(f.size() - 8); }));
    EXPECT_TRUE(lie([](FrameHeader&, Bytes& f) { f.resize(64); }));
    if (std::string_view(name) == "powersgd-r2") {
      for (uint32_t bits : {0x7F800000u, 0x7FC00000u, 0x7F7FFFFFu}) {
        EXPECT_TRUE(lie([&](FrameHeader&, Bytes& f) {
          for (size_t i = 64; i < f.size(); i += 4) std::memcpy(f.data() + i, &bits, 4);
        }));
      }
    } else {
      EXPECT_TRUE(lie([](FrameHeader&, Bytes& f) { f[64] = std::byte{0xFF}; }));
      EXPECT_TRUE(lie([](FrameHeader&, Bytes& f) { f[71] = std::byte{0xFF}; }));
      EXPECT_TRUE(lie([](FrameHeader&, Bytes& f) { f[72 + 16] = std::byte{9}; }));
    }
  }
}

TEST(DilocoX, TheRankFollowsTheTensor) {
  const Shape shape = {256, 256};
  const auto codec = *MakeCodec("diloco-x");
  const auto state = codec->NewState(shape);
  FrameHeader header;
  Send(*codec, Draw(Distribution::kGaussian, shape.elements(), 1), shape, state.get(), &header);
  EXPECT_EQ(header.param0, 16u) << "noise has every rank";
  state->Reset();
  Send(*codec, OfRank(1, shape, 1, 5), shape, state.get(), &header);
  EXPECT_EQ(header.param0, 1u);
  // It is the mean of the last eight rounds: rank 16 shifts it slowly, and fully after eight.
  std::vector<uint32_t> ranks;
  for (uint64_t t = 0; t < 10; ++t) {
    Send(*codec, Draw(Distribution::kGaussian, shape.elements(), 10 + t), shape, state.get(),
         &header);
    ranks.push_back(header.param0);
  }
  EXPECT_GE(ranks[0], 2u);
  EXPECT_LE(ranks[0], 9u);
  for (size_t t = 1; t < ranks.size(); ++t) EXPECT_GE(ranks[t], ranks[t - 1]);
  EXPECT_GE(ranks.back(), 15u);
}

TEST(DilocoX, FourBitsOnTheFactors) {
  const Shape shape = {512, 512};
  const auto codec = *MakeCodec("diloco-x");
  const auto x = OfRank(2, shape, 1, 5);
  FrameHeader header;
  const auto y = Send(*codec, x, shape, codec->NewState(shape).get(), &header);
  EXPECT_EQ(header.param0, 2u);
  EXPECT_NEAR(static_cast<double>(header.payload_bytes), 2 * 1024 * 4.25 / 8 + 2 * 64 + 8, 16);
  // Two factors with 1.16e-2 each, as far as the columns are Gaussian.
  EXPECT_NEAR(Nmse(x, y), 2.3e-2, 6e-3);
}

}  // namespace
}  // namespace longhaul
