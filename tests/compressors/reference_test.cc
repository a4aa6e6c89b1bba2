// Against other implementations: ggml's blocks by the gguf package, FP8, FP4 and E8M0 by ml_dtypes,
// GACT by numpy.
// Their answers stand in reference_vectors.h, which make_reference_vectors.py writes.
#include "tests/compressors/reference_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "compressors/frame/frame.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/mini_floats.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr size_t kElements = 32 * 2048;

// The generator of make_reference_vectors.py.
std::vector<float> Inputs() {
  std::vector<float> x(kElements);
  uint32_t s = 12345;
  for (float& v : x) {
    s = s * 1664525 + 1013904223;
    const uint32_t mantissa = s * 2654435761u >> 9;
    v = FromBits(s >> 31 << 31 | (119 + (s >> 8) % 12) << 23 | mantissa);
  }
  return x;
}

template <typename T>
uint32_t CrcOf(const std::vector<T>& v) {
  return Crc32c(std::as_bytes(std::span(v)));
}

std::vector<std::byte> PayloadOf(const char* name, uint64_t seed = 1) {
  const auto frame =
      *EncodeToFrame(**MakeCodec(name), OwnedTensor(Inputs(), {1, kElements}).view(), seed);
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

std::vector<float> Decoded(const char* name, uint64_t seed = 1) {
  const auto codec = *MakeCodec(name);
  const auto frame = *EncodeToFrame(*codec, OwnedTensor(Inputs(), {1, kElements}).view(), seed);
  OwnedTensor y({1, kElements}, DType::kF32);
  EXPECT_TRUE(codec->Decode(frame, nullptr, y.mutable_view()).ok());
  return y.floats();
}

void ExpectBlocks(const std::vector<std::byte>& bytes, const std::vector<float>& values,
                  const Blocks& want) {
  for (size_t i = 0; i < std::size(want.first); ++i) {
    EXPECT_EQ(static_cast<int>(bytes[i]), want.first[i]) << i;
  }
  EXPECT_EQ(CrcOf(bytes), want.crc);
  EXPECT_EQ(CrcOf(values), want.decoded_crc);
}

TEST(Gguf, Q8IsItsByteForByte) { ExpectBlocks(PayloadOf("q8_0"), Decoded("q8_0"), kGgufQ8); }
TEST(Gguf, Q4IsItsByteForByte) { ExpectBlocks(PayloadOf("q4_0"), Decoded("q4_0"), kGgufQ4); }

// ggml's block is the scale and 16 bytes, byte j = code j | code (j + 16) << 4, and it has no -0;
// ours are all scales, then the codes in order. Ties, which ggml sends towards zero and OCP's
// formats to the even code, do not occur among the inputs.
TEST(Gguf, MxFp4IsItsCodeForCode) {
  const auto payload = PayloadOf("mxfp4");
  const size_t blocks = kElements / 32;
  const auto code = [&](size_t i) {
    const int c = static_cast<int>(payload[blocks + i / 2]) >> (4 * (i % 2)) & 15;
    return c == 8 ? 0 : c;
  };
  std::vector<std::byte> bytes;
  for (size_t b = 0; b < blocks; ++b) {
    bytes.push_back(payload[b]);
    for (size_t j = 0; j < 16; ++j) {
      bytes.push_back(static_cast<std::byte>(code(32 * b + j) | code(32 * b + j + 16) << 4));
    }
  }
  std::vector<float> values = Decoded("mxfp4");
  for (float& v : values) v = v == 0 ? 0.0f : v;
  ExpectBlocks(bytes, values, kGgufMxFp4);
}

TEST(Numpy, GactIsItsByteForByte) {
  ExpectBlocks(PayloadOf("gact4-g256", kGactSeed), Decoded("gact4-g256", kGactSeed), kGact);
}

void ExpectMini(MiniFloat type, std::span<const uint32_t> values, uint32_t rounded_crc) {
  std::vector<float> x;
  for (size_t c = 0; c < values.size(); ++c) {
    ASSERT_EQ(BitsOf(MiniToF32(static_cast<uint8_t>(c), type)), values[c]) << c;
    if (c + 1 == values.size()) break;
    const float low = FromBits(values[c]), high = FromBits(values[c + 1]);
    const auto tie = static_cast<float>((double{low} + high) / 2);
    for (float v : {low, tie, std::nextafter(tie, 1e9f), std::nextafter(tie, 0.0f)}) x.push_back(v);
  }
  std::vector<uint8_t> codes;
  for (float v : x) codes.push_back(F32ToMini(v, type));
  for (float v : x) codes.push_back(F32ToMini(-v, type));
  EXPECT_EQ(CrcOf(codes), rounded_crc);
}

TEST(MlDtypes, SmallFloatsAgreeOnEveryCodeAndTie) {
  ExpectMini(MiniFloat::kE4M3, kE4M3Values, kE4M3RoundedCrc);
  ExpectMini(MiniFloat::kE5M2, kE5M2Values, kE5M2RoundedCrc);
  ExpectMini(MiniFloat::kE2M1, kE2M1Values, kE2M1RoundedCrc);
}

TEST(MlDtypes, E8M0ScalesArePowersOfTwo) {
  std::vector<float> scales;
  for (int code = 1; code < 255; ++code) {
    float value;
    const auto byte = static_cast<std::byte>(code);
    const BlockScheme mx = {4, Grid::kE2M1, Rotation::kNone, 32, ScaleType::kE8M0};
    ASSERT_TRUE(ReadScale(mx, &byte, value));
    scales.push_back(value);
  }
  EXPECT_EQ(CrcOf(scales), kE8M0ValuesCrc);
}

// Codes and table against the definition in fp64 (families/statistical.cc).
void ExpectMeansOfBins(int bits, std::span<const float> x) {
  const size_t bins = size_t{1} << bits, n = x.size();
  const auto elements = static_cast<double>(n);
  const auto frame =
      EncodeToFrame(**MakeCodec("stat" + std::to_string(bits)), {x.data(), DType::kF32, {1, n}}, 0);
  ASSERT_TRUE(frame.ok()) << frame.status();
  double mean = 0, squares = 0;
  for (float v : x) mean += v / elements;
  for (float v : x) squares += (v - mean) * (v - mean);
  const double sigma = std::sqrt(squares / (elements - 1)), step = 6 * sigma / bins;
  std::vector<float> head(1 + bins);
  std::memcpy(head.data(), frame->data() + kFrameHeaderBytes, 4 * head.size());
  EXPECT_NEAR(head[0], mean, 1e-6 * sigma + 1e-7 * std::abs(mean));
  std::vector<double> total(bins), count(bins);
  const std::byte* codes = frame->data() + kFrameHeaderBytes + (4 * head.size() + 7) / 8 * 8;
  const double unit = bits == 8 ? 0x1p-15 : 0x1p-8;  // to which positions are rounded
  for (size_t i = 0; i < n; ++i) {
    const auto at = i * static_cast<size_t>(bits);
    const size_t q = static_cast<size_t>(codes[at / 8]) >> (at % 8) & (bins - 1);
    const double position = (x[i] - mean) / step + bins / 2;
    const double nearest = std::clamp(position, 0.0, static_cast<double>(bins - 1));
    ASSERT_NEAR(static_cast<double>(q), nearest, 0.5 + unit + 1e-6 * bins) << i;
    total[q] += x[i] - static_cast<double>(head[0]);
    ++count[q];
  }
  for (size_t b = 0; b < bins; ++b) {
    const double want = count[b] == 0 ? 0 : total[b] / count[b];
    EXPECT_NEAR(head[1 + b], want, unit / 2 * step + 1e-6 * sigma + 1e-7 * std::abs(want)) << b;
  }
}

TEST(Statistical, TableIsTheMeanOfEachBin) {
  auto x = Draw(Distribution::kStudentT4, 10'007, 41);
  for (float& v : x) v = 3 * v - 100;
  for (int bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    ExpectMeansOfBins(bits, x);
  }
  auto far = x;
  far[70] = 4000;  // so far away that all others share few bins
  far[9000] = -1000;
  for (int bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    ExpectMeansOfBins(bits, far);
  }
  for (size_t i = 0; i < 64; ++i) x[i] = 500;  // sums about these do not tell the deviation
  for (int bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    ExpectMeansOfBins(bits, x);
  }
}

}  // namespace
}  // namespace longhaul
