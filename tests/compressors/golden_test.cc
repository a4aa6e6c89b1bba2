// Published vectors and closed forms of the ground layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/hadamard.h"
#include "compressors/numbers/mini_floats.h"
#include "compressors/numbers/mini_places.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

std::span<const std::byte> Bytes(std::string_view s) { return std::as_bytes(std::span(s)); }

uint32_t BitByBit(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) {
    crc ^= static_cast<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

TEST(Crc32c, CheckValueOfThePolynomial) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(BitByBit(Bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(Bytes("")), 0u);
  // RFC 3720, B.4: 32 zeros, 32 times 0xFF, 0..31.
  std::vector<std::byte> v(32, std::byte{0});
  EXPECT_EQ(Crc32c(v), 0x8A9136AAu);
  v.assign(32, std::byte{0xFF});
  EXPECT_EQ(Crc32c(v), 0x62A8AB43u);
  for (int i = 0; i < 32; ++i) v[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(v), 0x46DD794Eu);
}

TEST(Crc32c, IsThatOfTheBitsAtEveryLengthAndOffset) {
  std::mt19937 rng(1);
  std::vector<std::byte> v(20000);
  for (auto& b : v) b = static_cast<std::byte>(rng());
  const auto expect_at = [&](size_t at, size_t n) {
    const auto part = std::span<const std::byte>(v).subspan(at, n);
    const uint32_t whole = BitByBit(part);
    ASSERT_EQ(Crc32cAlone(part), whole) << n << " bytes at " << at;
    ASSERT_EQ(Crc32cAlone(part.subspan(n / 3), BitByBit(part.first(n / 3))), whole) << n;
  };
  for (size_t n = 0; n < 40; ++n) {
    for (size_t at = 0; at < 9; ++at) expect_at(at, n);
  }
  for (size_t n = 250; n < 1100; ++n) expect_at(n % 67, n);
  for (size_t n : {3071, 3072, 3073, 3457, 4096, 6144, 9217, 16384, 19991}) expect_at(3, n);
}

TEST(Crc32c, JoinsWhatWasSummedApart) {
  std::mt19937 rng(2);
  std::vector<std::byte> v(70'001);
  for (auto& b : v) b = static_cast<std::byte>(rng());
  for (size_t n : {0, 1, 7, 64, 4096, 69'999, 70'001}) {
    const auto a = std::span<const std::byte>(v).first(n);
    const auto b = std::span<const std::byte>(v).subspan(n);
    EXPECT_EQ(Crc32cCombine(Crc32c(a), Crc32c(b), b.size()), Crc32c(v)) << n;
    EXPECT_EQ(Crc32cAlone(b, Crc32cAlone(a)), Crc32c(v)) << n;
  }
}

TEST(PayloadCrc, SumsWhatLiesBetweenThePartsToo) {
  std::vector<std::byte> frame(kFrameHeaderBytes + 1000);
  for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(i * 37);
  const std::span<const std::byte> payload = std::span(frame).subspan(kFrameHeaderBytes);
  const auto part = [&](size_t begin, size_t end) {
    RunningSum sum(begin);
    sum.Add(std::span(frame).subspan(begin, (end - begin) / 2));
    sum.Add(std::span(frame).subspan(begin + (end - begin) / 2, end - begin - (end - begin) / 2));
    return sum.part();
  };
  EXPECT_EQ(PayloadCrc(frame, {}), Crc32c(payload));
  for (const auto& parts :
       std::vector<std::vector<SummedPart>>{{part(64, 1064)},
                                            {part(64, 100), part(100, 105), {}, part(105, 1064)},
                                            {part(70, 100), part(107, 107), part(108, 999)}}) {
    EXPECT_EQ(PayloadCrc(frame, parts), Crc32c(payload));
  }
}

TEST(Philox, KnownAnswers) {
  using W = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (W{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  // The two other vectors of Random123's kat_vectors file.
  const uint32_t f = 0xFFFFFFFF;
  EXPECT_EQ(Philox4x32({f, f, f, f}, {f, f}), (W{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (W{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Noise, ElementsReadTheStreamInOrderAndPurposesDiffer) {
  EXPECT_EQ(NoiseWord(0, NoisePurpose::kRounding, 0), 0x6627E8D5u);
  EXPECT_EQ(NoiseWord(0, NoisePurpose::kRounding, 3), 0x9B00DBD8u);
  const uint64_t key = 0x299F31D0A4093822, i = (uint64_t{5} << 34) + 6;
  EXPECT_EQ(NoiseWord(key, NoisePurpose::kSampling, i),
            Philox4x32({1, 5, 3, 0}, {0xA4093822, 0x299F31D0})[2]);
  EXPECT_NE(NoiseWord(key, NoisePurpose::kRounding, i), NoiseWord(key, NoisePurpose::kSampling, i));
}

TEST(Noise, UniformStaysBelowOneAndHasMeanHalf) {
  double sum = 0, sum2 = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const float u = NoiseUniform(7, NoisePurpose::kRounding, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    sum2 += double{u} * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(sum2 / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
}

TEST(Noise, FoldSeedOfOneToSix) {
  EXPECT_EQ(FoldSeed({1, 2, 3, 4, 5, 6}), 0xBC41F02C18EC2017u);
  EXPECT_EQ(SplitMix64(0), 0xE220A8397B1DCDAFu);  // first output of the published generator
  EXPECT_NE(FoldSeed({1, 2}), FoldSeed({2, 1}));
}

TEST(Hadamard, IsSylvestersMatrixByPopcount) {
  for (size_t n : {1, 2, 32, 64}) {
    for (size_t column = 0; column < n; ++column) {
      std::vector<float> x(n, 0.0f);
      x[column] = 1;
      Hadamard(x);
      for (size_t i = 0; i < n; ++i) {
        const float sign = (__builtin_popcountll(i & column) & 1) ? -1.0f : 1.0f;
        ASSERT_EQ(x[i], sign * (1.0f / std::sqrt(static_cast<float>(n)))) << n;
      }
    }
  }
}

TEST(BitPack, CodeJTakesBitsFromJK) {
  std::mt19937 rng(3);
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t n : {1, 7, 8, 63, 64}) {
      std::vector<uint8_t> codes(n), back(n);
      for (auto& c : codes) c = static_cast<uint8_t>(rng() & ((1 << bits) - 1));
      std::vector<std::byte> packed(PackedBytes(n, bits));
      PackBits(codes, bits, packed);
      for (size_t j = 0; j < n; ++j) {
        for (int b = 0; b < bits; ++b) {
          const size_t at = j * bits + b;
          ASSERT_EQ(static_cast<int>(packed[at / 8]) >> (at % 8) & 1, codes[j] >> b & 1);
        }
      }
      UnpackBits(packed, bits, back);
      ASSERT_EQ(back, codes);
    }
  }
}

TEST(SmallFloats, EveryCodeRoundTripsAndRoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x7C00; ++h) {  // finite fp16, both signs
    const float x = F16ToF32(static_cast<uint16_t>(h));
    ASSERT_EQ(x, std::ldexp(static_cast<float>((h & 0x3FF) | (h >> 10 ? 0x400 : 0)),
                            std::max<int>(h >> 10, 1) - 25));
    ASSERT_EQ(F32ToF16Clamped(x), h);
    ASSERT_EQ(F32ToF16Clamped(-x), h | 0x8000);
    if (h == 0x7BFF) break;
    const float tie = (x + F16ToF32(static_cast<uint16_t>(h + 1))) / 2;  // exact in fp32
    ASSERT_EQ(F32ToF16Clamped(tie), (h + 1) & ~1u);
    ASSERT_EQ(F32ToF16Clamped(std::nextafter(tie, 1e9f)), h + 1);
    ASSERT_EQ(F32ToF16Clamped(std::nextafter(tie, 0.0f)), h);
  }
  for (uint32_t h = 0; h < 0x7F7F; ++h) {  // finite bf16
    const float x = Bf16ToF32(static_cast<uint16_t>(h));
    const float tie = FromBits((h << 16) + 0x8000);
    ASSERT_EQ(F32ToBf16(x), h);
    ASSERT_EQ(F32ToBf16(tie), (h + 1) & ~1u);
    ASSERT_EQ(F32ToBf16Clamped(-tie), ((h + 1) & ~1u) | 0x8000);
    ASSERT_EQ(F32ToBf16(FromBits((h << 16) + 0x8001)), h + 1);
    ASSERT_EQ(F32ToBf16(FromBits((h << 16) + 0x7FFF)), h);
  }
}

TEST(SmallFloats, EdgesOfTheRange) {
  EXPECT_EQ(F32ToF16Clamped(65504.0f), 0x7BFF);
  EXPECT_EQ(F32ToF16Clamped(1e38f), 0x7BFF);
  EXPECT_EQ(F32ToF16Clamped(-INFINITY), 0xFBFF);
  EXPECT_EQ(F32ToF16Clamped(0x1p-25f), 0);           // tie with zero
  EXPECT_EQ(F32ToF16Clamped(0x1.000002p-25f), 1);    // just above it
  EXPECT_EQ(F32ToF16Clamped(NAN) & 0x7E00, 0x7E00);  // stays a quiet NaN
  EXPECT_EQ(F32ToBf16(3.4e38f), 0x7F80);             // rounds to Inf ...
  EXPECT_EQ(F32ToBf16Clamped(3.4e38f), 0x7F7F);      // ... or clamps
  EXPECT_EQ(F32ToBf16(FromBits(0x7F800001)), 0x7FC0);
  EXPECT_EQ(F32ToBf16(FromBits(0xFFFFFFFF)), 0xFFFF);
}

TEST(SmallFloats, RoundToIntTiesToEven) {
  EXPECT_EQ(RoundToInt(0.5f), 0);
  EXPECT_EQ(RoundToInt(1.5f), 2);
  EXPECT_EQ(RoundToInt(-2.5f), -2);
  EXPECT_EQ(RoundToInt(-127.49f), -127);
  EXPECT_EQ(RoundToInt(254.5f), 254);
}

// Value of a magnitude code, by the formats' definition.
double MiniValue(uint32_t code, const MiniFormat& f) {
  const uint32_t mantissa = code & ((1u << f.mantissa) - 1), exponent = code >> f.mantissa;
  if (exponent == 0) return std::ldexp(mantissa, 1 - f.bias - f.mantissa);
  return std::ldexp(mantissa + (1u << f.mantissa),
                    static_cast<int>(exponent) - f.bias - f.mantissa);
}

// Codes by places (mini_places.h), of magnitudes on, between and next to all edges.
template <MiniFloat kType>
void ExpectCodesByPlace() {
  using Places = MiniPlaces<kType>;
  constexpr auto kCodes = Places::Codes();
  for (uint32_t upper = 0; upper < kInfBits >> 16; ++upper) {
    for (uint32_t lower : {0x0000u, 0x0001u, 0x8000u, 0xFFFFu}) {
      const uint32_t bits = upper << 16 | lower;
      const uint32_t edge = uint32_t{1} << Places::kEdgeShift;
      const uint32_t place = bits / edge + (bits + edge - 1) / edge;
      const uint32_t at = place < Places::kFirst ? 0 : place - Places::kFirst;
      ASSERT_EQ(kCodes.of[std::min<size_t>(at, Places::kCount - 1)],
                F32ToMini(FromBits(bits), kType))
          << FromBits(bits);
    }
  }
}
TEST(MiniFloats, PlacesGiveTheCodes) {
  ExpectCodesByPlace<MiniFloat::kE2M1>();
  ExpectCodesByPlace<MiniFloat::kE3M0>();
}

TEST(MiniFloats, EveryCodeAndEveryTie) {
  using enum MiniFloat;
  for (MiniFloat type : {kE4M3, kE5M2, kE2M1, kE3M0}) {
    const MiniFormat f = FormatOf(type);
    const uint8_t sign = static_cast<uint8_t>(1 << (f.bits - 1));
    EXPECT_EQ(MiniToF32(static_cast<uint8_t>(f.max_code), type), f.max);
    for (uint32_t code = 0; code <= f.max_code; ++code) {
      const auto c = static_cast<uint8_t>(code);
      const float x = MiniToF32(c, type);
      ASSERT_EQ(x, MiniValue(code, f));
      ASSERT_EQ(MiniToF32(c | sign, type), -x);
      ASSERT_EQ(F32ToMini(x, type), c);
      ASSERT_EQ(F32ToMini(-x, type), c | sign);
      if (code == f.max_code) continue;
      const float tie = (x + MiniToF32(c + 1, type)) / 2;  // exact in fp32
      ASSERT_EQ(F32ToMini(tie, type), (code + 1) & ~1u) << tie;
      ASSERT_EQ(F32ToMini(std::nextafter(tie, 1e9f), type), code + 1);
      ASSERT_EQ(F32ToMini(-std::nextafter(tie, 0.0f), type), code | sign);
    }
    EXPECT_EQ(F32ToMini(1e38f, type), f.max_code);
    EXPECT_EQ(F32ToMini(1e-45f, type), 0);
  }
  const float e2m1[] = {0, .5, 1, 1.5, 2, 3, 4, 6}, e3m0[] = {0, .25, .5, 1, 2, 4, 8, 16};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(MiniToF32(code, kE2M1), e2m1[code]);
    EXPECT_EQ(MiniToF32(code, kE3M0), e3m0[code]);
  }
}

// The rule of docs/wire-format.md in numpy: s = bf16(max|x| / top), q = rne(x * (1 / s)), both in
// float32. 31/109 divided by 7 or by 127 is no bf16, and two codes of int4 and 24 of int8 would be
// others under the scale before it was rounded.
TEST(IntBlocks, PinnedBytesWhereTheScaleIsNotExact) {
  float x[64];
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i * 37 % 64 - 31) / 109.0f;
  const std::pair<const char*, const char*> pinned[] = {
      {"int4-b64",
       "2c3d00000000000091b3e6284a6c8eb3d5f7395b8da2c4e6285a7d9fb3d5174a6c8ea2c4f6395b7d"},
      {"int8-b64",
       "173b00000000000005982cc054e87c11a438cc60f3881cb044d86cff9428bc50e4780da034c85cef8418ac40d4"
       "68fb9024b84ce074099c30c458ec8014a83cd064f78c20b448dc70"}};
  for (const auto& [name, bytes] : pinned) {
    for (const Isa isa : AllIsas()) {
      if (!IsaSupported(isa)) continue;
      const auto codec = *MakeCodec(name, isa);
      std::vector<std::byte> frame(codec->MaxFrameBytes({1, 64}, DType::kF32));
      const auto size = codec->Encode({x, DType::kF32, {1, 64}}, 1, nullptr, frame);
      ASSERT_TRUE(size.ok()) << size.status();
      std::string hex;
      for (size_t i = kFrameHeaderBytes; i < *size; ++i) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += {kDigits[static_cast<unsigned>(frame[i]) / 16],
                kDigits[static_cast<unsigned>(frame[i]) % 16]};
      }
      EXPECT_EQ(hex, bytes) << name << " " << IsaName(isa);
    }
  }
}

}  // namespace
}  // namespace longhaul
