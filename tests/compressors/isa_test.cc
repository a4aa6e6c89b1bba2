// Every instruction set gives the frames and the decoded bits of the scalar reference.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compressors/kernels/kernels.h"
#include "compressors/numbers/small_floats.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct Pair {
  std::shared_ptr<const Codec> reference, fast;
  // Both codecs accept x with equal bytes and decode alike into every dtype, or refuse it alike.
  void ExpectEqual(ConstTensor x) const {
    const auto want = EncodeToFrame(*reference, x, 17);
    const auto got = EncodeToFrame(*fast, x, 17);
    ASSERT_EQ(want.status(), got.status());
    if (!want.ok()) return;
    ASSERT_EQ(*want, *got);
    for (DType to : kDTypes) {
      OwnedTensor a(x.shape, to), b(x.shape, to);
      ASSERT_TRUE(reference->Decode(*want, nullptr, a.mutable_view()).ok());
      ASSERT_TRUE(fast->Decode(*want, nullptr, b.mutable_view()).ok());
      ASSERT_EQ(a.bytes, b.bytes);
    }
  }
};

class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU has no " << IsaName(GetParam());
    for (const std::string& name : TestedNames()) {
      pairs_.push_back({*MakeCodec(name, Isa::kScalar), *MakeCodec(name, GetParam())});
    }
  }
  void ExpectEqual(ConstTensor x) const {
    for (const Pair& pair : pairs_) {
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(x)) << pair.reference->name();
    }
  }
  std::vector<Pair> pairs_;
};

TEST_P(IsaTest, DistributionsSizesAndDTypes) {
  for (auto d : {Distribution::kGaussian, Distribution::kStudentT4, Distribution::kOutlier}) {
    for (Shape shape :
         {Shape{1, 1}, Shape{1, 63}, Shape{1, 64}, Shape{1, 65}, Shape{1, 4097}, Shape{3, 130},
          Shape{17, 192}, Shape{5, 97}, Shape{3, 5000}, Shape{1, 20'003}}) {
      const auto values = Draw(d, shape.elements(), 11);
      for (DType dtype : kDTypes) ExpectEqual(OwnedTensor(values, shape, dtype).view());
    }
  }
}

// Blocks whose magnitudes lie anywhere in the range, signed zeros and denormals among them.
TEST_P(IsaTest, EveryMagnitude) {
  std::mt19937 rng(23);
  std::vector<float> values(64 * 700);
  for (size_t b = 0; b < values.size() / 64; ++b) {
    const uint32_t top = rng() % 255;
    const uint32_t spread = 1 + rng() % 40;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t low = top > spread ? top - spread : 0;
      const uint32_t exponent = low + rng() % (top - low + 1);
      const uint32_t sign = b % 5 == 0 ? 0 : rng() << 31;
      values[64 * b + i] = FromBits(sign | exponent << 23 | (rng() & 0x7FFFFF));
      if (b % 7 == 0 && rng() % 3 == 0) values[64 * b + i] = FromBits(rng() << 31);
    }
    // Block by block, because some of these are refused.
    const ConstTensor block = {&values[64 * b], DType::kF32, {1, 64}};
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(block)) << "block " << b;
  }
}

// Large enough to be written past the caches (wide.h), the payload too; nothing is aligned.
TEST_P(IsaTest, LargeTensorsAtAnyAddress) {
  const auto values = Draw(Distribution::kGaussian, 17 * 1'000'003, 19);
  struct Case {
    const char* name;
    Shape shape;
  };
  for (const Case& c :
       {Case{"none", {1, 4'194'311}}, Case{"bf16", {1, 8'400'007}},
        Case{"int8-b64", {17, 1'000'003}}, Case{"minmax3-b64", {1, 4'194'311}},
        Case{"q8_0", {1, 4'194'311}}, Case{"sign1", {1, 4'194'311}}, Case{"stat2", {1, 4'194'311}},
        Case{"nvfp4", {1, 4'194'311}}, Case{"topk-64of4096+none", {1, 4'194'311}}}) {
    const auto reference = *MakeCodec(c.name, Isa::kScalar), fast = *MakeCodec(c.name, GetParam());
    const ConstTensor x = {values.data(), DType::kF32, c.shape};
    std::vector<std::byte> want(reference->MaxFrameBytes(c.shape, DType::kF32));
    std::vector<std::byte> got(want.size() + 1);
    const std::span<std::byte> odd = std::span(got).subspan(1);
    const auto bytes = reference->Encode(x, 3, nullptr, want);
    ASSERT_TRUE(bytes.ok()) << c.name;
    ASSERT_EQ(fast->Encode(x, 3, nullptr, odd), bytes) << c.name;
    ASSERT_EQ(std::memcmp(want.data(), odd.data(), *bytes), 0) << c.name;
    std::vector<float> a(c.shape.elements()), b(a.size() + 1);
    ASSERT_TRUE(
        reference->Decode(std::span(want).first(*bytes), nullptr, {a.data(), DType::kF32, c.shape})
            .ok());
    ASSERT_TRUE(
        fast->Decode(odd.first(*bytes), nullptr, {b.data() + 1, DType::kF32, c.shape}).ok());
    ASSERT_EQ(std::memcmp(a.data(), b.data() + 1, 4 * a.size()), 0) << c.name;
    odd[*bytes / 2] ^= std::byte{1};
    EXPECT_EQ(fast->Decode(odd.first(*bytes), nullptr, {b.data() + 1, DType::kF32, c.shape}).code(),
              absl::StatusCode::kDataLoss)
        << c.name;
  }
}

// Further from the mean than the statistical codecs' vectors can count; and first elements so far
// from all others that the deviation must be measured a second time.
TEST_P(IsaTest, ElementsFarFromTheMean) {
  auto values = Draw(Distribution::kGaussian, (1 << 18) + 3, 31);
  values[70'000] = 1e6f;
  values[200'001] = -3e6f;
  auto far_first = Draw(Distribution::kGaussian, (1 << 18) + 3, 32);
  for (size_t i = 0; i < 64; ++i) far_first[i] = far_first[i + 65'536] = 300;
  for (const char* name : {"stat2", "stat4", "stat8"}) {
    const Pair pair = {*MakeCodec(name, Isa::kScalar), *MakeCodec(name, GetParam())};
    for (const auto& x : {values, far_first}) {
      pair.ExpectEqual({x.data(), DType::kF32, {1, x.size()}});
      pair.ExpectEqual({x.data(), DType::kF32, {4, x.size() / 4}});
    }
  }
}

// Values that sit on and beside the boundaries between codes.
TEST_P(IsaTest, Ties) {
  std::vector<float> values;
  for (float scale : {1.0f, 0.375f, 3e-30f}) {
    for (int block = 0; block < 16; ++block) {
      for (int i = 0; i < 64; ++i) {
        const float tie = (static_cast<float>(block * 16 + i / 4) - 127) / 2;
        const float x[4] = {tie, std::nextafter(tie, 1e9f), std::nextafter(tie, -1e9f), 127};
        values.push_back(scale * (i == 63 ? 127.0f : x[i % 4]));
      }
    }
  }
  ExpectEqual(OwnedTensor(values, {1, values.size()}).view());
}

// The same of four-bit floats: scales of 1 for mxfp4 and e3m0-b64, so that ties are seen as such.
TEST_P(IsaTest, TiesOfSmallFloats) {
  for (float top : {6.0f, 16.0f}) {
    std::vector<float> values;
    for (float tie = 0; tie <= top; tie += 1.0f / 16) {
      for (float x : {tie, std::nextafter(tie, 1e9f), std::nextafter(tie, -1e9f)}) {
        values.insert(values.end(), {x, -x});
      }
    }
    for (size_t i = 0; i < values.size(); i += 16) values[i] = top;
    ExpectEqual(OwnedTensor(values, {1, values.size()}).view());
  }
}

TEST_P(IsaTest, ConstantAndNearlyConstantBlocks) {
  std::mt19937 rng(29);
  std::vector<float> values;
  for (int block = 0; block < 500; ++block) {
    const float centre = std::ldexp(1.0f + static_cast<float>(rng() % 4096) / 4096,
                                    static_cast<int>(rng() % 60) - 30);
    const uint32_t ulps = block % 4 == 0 ? 1 : 1 + rng() % 3000;
    for (int i = 0; i < 64; ++i) values.push_back(FromBits(BitsOf(centre) + rng() % ulps));
  }
  ExpectEqual(OwnedTensor(values, {1, values.size()}).view());
}

TEST_P(IsaTest, NaNAndInfAreRefusedInEveryLane) {
  for (size_t at = 0; at < 64; ++at) {
    std::vector<float> values(64, 1.0f);
    for (uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0xFFFFFFFFu}) {
      values[at] = FromBits(bits);
      ExpectEqual(OwnedTensor(values, {1, 64}).view());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IsaTest, testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

class ConvertTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU has no " << IsaName(GetParam());
  }
  void ExpectEqual(const std::vector<std::byte>& in, DType from) {
    const size_t n = in.size() / BytesPerElement(from);
    for (DType to : kDTypes) {
      std::vector<std::byte> a(n * BytesPerElement(to)), b(a.size());
      const bool finite = KernelsOf(Isa::kScalar).Converter(from, to)(in.data(), n, a.data());
      ASSERT_EQ(KernelsOf(GetParam()).Converter(from, to)(in.data(), n, b.data()), finite);
      ASSERT_EQ(a, b);
    }
  }
};

TEST_P(ConvertTest, EverySixteenBitPattern) {
  std::vector<std::byte> in(2 * 65536);
  for (uint32_t u = 0; u < 65536; ++u) std::memcpy(in.data() + 2 * u, &u, 2);
  ExpectEqual(in, DType::kBF16);
  ExpectEqual(in, DType::kF16);
}

TEST_P(ConvertTest, Fp32PatternsAroundEveryBoundary) {
  std::vector<std::byte> in;
  for (uint32_t high = 0; high < 65536; high += 3) {  // NaN and Inf included
    for (uint32_t low :
         {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const uint32_t u = high << 16 | low;
      in.resize(in.size() + 4);
      std::memcpy(in.data() + in.size() - 4, &u, 4);
    }
  }
  ExpectEqual(in, DType::kF32);
}

INSTANTIATE_TEST_SUITE_P(Isa, ConvertTest, testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace longhaul
