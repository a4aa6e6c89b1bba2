// demo-dct against the cosines themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "compressors/frame/frame.h"
#include "compressors/kernels/kernels.h"
#include "compressors/numbers/dct.h"
#include "compressors/numbers/small_floats.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

double Cosine(size_t k, size_t t, size_t n) {
  const double c = k == 0 ? std::sqrt(0.5) : 1;
  return std::sqrt(2.0 / static_cast<double>(n)) * c *
         std::cos(std::numbers::pi * static_cast<double>((2 * t + 1) * k) /
                  (2 * static_cast<double>(n)));
}

TEST(Dct, MatricesAreTheCosinesOfEverySize) {
  for (size_t n = 1; n <= 64; ++n) {
    const DctMatrix& d = DctMatrixOf(n);
    for (size_t k = 0; k < 64; ++k) {
      for (size_t t = 0; t < 64; ++t) {
        const double want = k < n && t < n ? Cosine(k, t, n) : 0;
        ASSERT_NEAR(d.forward[64 * k + t], want, 6e-8) << n << " " << k << " " << t;
        ASSERT_EQ(d.forward[64 * k + t], d.inverse[64 * t + k]);
      }
    }
  }
}

TEST(Dct, IsOrthonormal) {
  std::vector<float> product(64 * 64);
  for (size_t n : {1, 2, 3, 7, 31, 63, 64}) {
    const DctMatrix& d = DctMatrixOf(n);
    KernelsOf(BestIsa()).multiply64(d.forward, d.inverse, {64, 64, 64}, product.data());
    for (size_t i = 0; i < 64; ++i) {
      for (size_t j = 0; j < 64; ++j) {
        ASSERT_NEAR(product[64 * i + j], i == j && i < n ? 1 : 0, 1e-6) << n;
      }
    }
  }
}

// Every term in order, whatever it is.
std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b,
                           ProductSize size) {
  std::vector<float> c(4096, -7);
  for (size_t i = 0; i < size.rows; ++i) {
    for (size_t j = 0; j < size.columns; ++j) {
      float sum = 0;
      for (size_t k = 0; k < size.inner; ++k) sum += a[64 * i + k] * b[64 * k + j];
      c[64 * i + j] = sum;
    }
  }
  return c;
}

TEST(MatrixLoops, ProductsOfAnySizeAreThoseOfEveryTermInOrder) {
  auto a = Draw(Distribution::kStudentT4, 4096, 1), b = Draw(Distribution::kLaplace, 4096, 2);
  for (size_t i = 0; i < 4096; i += 3) a[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (size_t k = 5; k < 64; k += 2) {  // whole rows, and rows but for one element
    for (size_t j = 0; j < 64; ++j) b[64 * k + j] = k % 4 == 1 ? -0.0f : (j == k ? 1.0f : 0.0f);
  }
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (ProductSize size :
         {ProductSize{1, 1, 1}, {1, 64, 16}, {7, 9, 15}, {64, 64, 17}, {3, 40, 63}, {64, 64, 64}}) {
      const std::vector<float> want = Product(a, b, size);
      std::vector<float> c(4096, -7);
      KernelsOf(isa).multiply64(a.data(), b.data(), size, c.data());
      for (size_t i = 0; i < 64; ++i) {
        for (size_t j = 0; j < (i < size.rows ? size.columns : 64); ++j) {
          ASSERT_EQ(BitsOf(c[64 * i + j]), BitsOf(want[64 * i + j])) << i << " " << j;
        }
      }
    }
  }
}

TEST(MatrixLoops, AllInstructionSetsGiveEqualBits) {
  const auto a = Draw(Distribution::kStudentT4, 4096, 1), b = Draw(Distribution::kLaplace, 4096, 2);
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    const Kernels& scalar = KernelsOf(Isa::kScalar);
    const Kernels& fast = KernelsOf(isa);
    std::vector<float> c(4096), d(4096);
    scalar.multiply64(a.data(), b.data(), {64, 64, 64}, c.data());
    fast.multiply64(a.data(), b.data(), {64, 64, 64}, d.data());
    EXPECT_EQ(c, d);
    for (size_t n : {0, 1, 31, 32, 33, 1000, 4096}) {
      EXPECT_EQ(scalar.dot(a.data(), b.data(), n), fast.dot(a.data(), b.data(), n));
      c = d = b;
      scalar.add_scaled(a.data(), n, 0.3f, c.data());
      fast.add_scaled(a.data(), n, 0.3f, d.data());
      EXPECT_EQ(c, d);
    }
  }
  double sum = 0;
  for (size_t i = 0; i < 4096; ++i) sum += double{a[i]} * b[i];
  EXPECT_NEAR(KernelsOf(BestIsa()).dot(a.data(), b.data(), 4096), sum, 1e-3);
}

std::vector<float> Send(const Codec& codec, const std::vector<float>& x, Shape shape,
                        uint64_t seed = 1, CodecState* state = nullptr) {
  const auto frame = EncodeToFrame(codec, OwnedTensor(x, shape).view(), seed, state);
  EXPECT_TRUE(frame.ok()) << frame.status();
  OwnedTensor y(shape, DType::kF32);
  EXPECT_EQ(codec.Decode(*frame, nullptr, y.mutable_view()), absl::OkStatus());
  return y.floats();
}

// A sum of few cosines per tile is sent whole, to bf16.
TEST(DemoDct, FewCosinesAreExactToTheRoundingOfTheirCoefficients) {
  const auto codec = *MakeCodec("demo-dct");
  for (Shape shape : {Shape{64, 64}, Shape{128, 192}, Shape{100, 150}}) {
    std::vector<float> x(shape.elements());
    for (size_t r = 0; r < shape.rows; ++r) {
      for (size_t c = 0; c < shape.cols; ++c) {
        // In every tile with sides h, w: coefficients (3, 2) and (1, 0).
        const size_t h = std::min<size_t>(64, shape.rows - r / 64 * 64);
        const size_t w = std::min<size_t>(64, shape.cols - c / 64 * 64);
        x[r * shape.cols + c] = static_cast<float>(4 * Cosine(3, r % 64, h) * Cosine(2, c % 64, w) +
                                                   2 * Cosine(1, r % 64, h) * Cosine(0, c % 64, w));
      }
    }
    const auto y = Send(*codec, x, shape);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], x[i], 2e-3) << i;
    EXPECT_LT(Nmse(x, y), 1e-5);
  }
}

// Against a plain double DCT of one tile: the 32 largest coefficients and nothing else.
TEST(DemoDct, KeepsTheLargestCoefficientsOfATile) {
  const Shape shape = {64, 64};
  const auto x = Draw(Distribution::kGaussian, 4096, 5);
  std::vector<double> coefficients(4096), half(4096);
  const auto transform = [](const std::vector<double>& in, std::vector<double>& out, bool forward) {
    std::vector<double> t(4096);
    for (size_t i = 0; i < 64; ++i) {
      for (size_t v = 0; v < 64; ++v) {
        for (size_t j = 0; j < 64; ++j) {
          t[64 * i + v] += in[64 * i + j] * (forward ? Cosine(v, j, 64) : Cosine(j, v, 64));
        }
      }
    }
    for (size_t u = 0; u < 64; ++u) {
      for (size_t v = 0; v < 64; ++v) {
        double sum = 0;
        for (size_t i = 0; i < 64; ++i) {
          sum += t[64 * i + v] * (forward ? Cosine(u, i, 64) : Cosine(i, u, 64));
        }
        out[64 * u + v] = sum;
      }
    }
  };
  transform({x.begin(), x.end()}, coefficients, true);
  auto order = std::vector<size_t>(4096);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::fabs(coefficients[a]) > std::fabs(coefficients[b]);
  });
  std::vector<double> kept(4096), want(4096);
  for (size_t i = 0; i < 32; ++i) {
    kept[order[i]] = Bf16ToF32(F32ToBf16(static_cast<float>(coefficients[order[i]])));
  }
  transform(kept, want, false);
  const auto y = Send(**MakeCodec("demo-dct"), x, shape);
  for (size_t i = 0; i < 4096; ++i) ASSERT_NEAR(y[i], want[i], 2e-3) << i;
  // The same elements as one row: the same tile.
  EXPECT_EQ(Send(**MakeCodec("demo-dct"), x, {1, 4096}), y);
}

// A tensor sent again and again: nothing stays behind for ever.
TEST(DemoDct, WhatIsKeptBackComesLater) {
  const Shape shape = {64, 64};
  const auto codec = *MakeCodec("demo-dct");
  const auto state = codec->NewState(shape);
  const auto x = Draw(Distribution::kGaussian, 4096, 5);
  const std::vector<float> zeros(4096);
  std::vector<float> sum = Send(*codec, x, shape, 1, state.get());
  for (int t = 1; t < 128; ++t) {
    const auto y = Send(*codec, zeros, shape, 1, state.get());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
  }
  EXPECT_LT(Nmse(x, sum), 0.01) << "128 times 32 coefficients, fading by 0.999 per round";
}

TEST(DemoDct, LyingFramesAreDataLoss) {
  const Shape shape = {70, 90};
  const auto codec = *MakeCodec("demo-dct");
  const auto frame = *EncodeToFrame(
      *codec, OwnedTensor(Draw(Distribution::kGaussian, shape.elements(), 1), shape).view(), 3);
  OwnedTensor y(shape, DType::kF32);
  const auto lie = [&](auto change) {
    auto bad = frame;
    FrameHeader header = *ParseFrame(bad);
    change(header, bad);
    header.payload_bytes = bad.size() - kFrameHeaderBytes;
    SealFrame(header, bad);
    return codec->Decode(bad, nullptr, y.mutable_view());
  };
  using Bytes = std::vector<std::byte>;
  EXPECT_TRUE(lie([](FrameHeader&, Bytes&) {}).ok());
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader& h, Bytes&) { h.param0 = 33; })));
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader& h, Bytes&) { h.param1 = 7; })));
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader& h, Bytes&) { h.block = 63; })));
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader&, Bytes& f) { f.pop_back(); })));
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader&, Bytes& f) { f.resize(64); })));
  EXPECT_TRUE(absl::IsDataLoss(lie([](FrameHeader&, Bytes& f) { f.resize(96); })));
  // Index bytes and lengths of the first band.
  for (size_t at : {64, 68, 72, 79}) {
    EXPECT_TRUE(absl::IsDataLoss(lie([&](FrameHeader&, Bytes& f) { f[at] ^= std::byte{0x40}; })))
        << at;
  }
  // Coefficients that are no numbers.
  auto tail =
      *EncodeToFrame(*codec, OwnedTensor(Draw(Distribution::kGaussian, 4096, 1), {64, 64}).view());
  OwnedTensor z({64, 64}, DType::kF32);
  for (uint16_t bad : {0x7F80, 0x7FC0, 0xFF80}) {
    for (size_t i = tail.size() - 64; i < tail.size(); i += 2) {
      std::memcpy(tail.data() + i, &bad, 2);
    }
    SealFrame(PeekHeader(tail), tail);
    EXPECT_TRUE(absl::IsDataLoss(codec->Decode(tail, nullptr, z.mutable_view()))) << bad;
  }
}

}  // namespace
}  // namespace longhaul
