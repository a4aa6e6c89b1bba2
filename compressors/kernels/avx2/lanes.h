#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/avx2/byte_hadamard.h"
#include "compressors/kernels/avx2/packing.h"

namespace longhaul::avx2 {

// Eight lanes of AVX2 + F16C; kernels/lanes.h says what each
// function is.
struct Lanes : Packing {
  static constexpr int kWidth = 8;
  using F = __m256;
  using U = __m256i;

  template <DType kType>
  LONGHAUL_INLINE static F Load(const std::byte* p) {
    if constexpr (kType == DType::kF32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    } else {
      const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      if constexpr (kType == DType::kF16) return _mm256_cvtph_ps(h);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
  }

  template <DType kType>
  LONGHAUL_INLINE static void Store(F x, std::byte* p) {
    if constexpr (kType == DType::kF32) {
      _mm256_storeu_ps(reinterpret_cast<float*>(p), x);
    } else {
      __m128i h;
      if constexpr (kType == DType::kF16) {
        // Operand order: min and max return their second operand when one is NaN.
        x = _mm256_min_ps(Splat(65504.0f), _mm256_max_ps(Splat(-65504.0f), x));
        h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
      } else {
        const U r = Bf16Bits(_mm256_castps_si256(x));
        h = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), h);
    }
  }

  LONGHAUL_INLINE static void StreamLine(const std::byte* from, std::byte* to) {
    for (int i = 0; i < 2; ++i) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + i,
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + i));
    }
  }

  LONGHAUL_INLINE static U Zero() { return _mm256_setzero_si256(); }
  LONGHAUL_INLINE static F Splat(float x) { return _mm256_set1_ps(x); }
  LONGHAUL_INLINE static F SplatHalf(uint16_t x) {
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(x)));
  }
  LONGHAUL_INLINE static F Add(F a, F b) { return _mm256_add_ps(a, b); }
  LONGHAUL_INLINE static F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  LONGHAUL_INLINE static F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  LONGHAUL_INLINE static F Min(F a, F b) { return _mm256_min_ps(a, b); }
  LONGHAUL_INLINE static F Max(F a, F b) { return _mm256_max_ps(a, b); }
  LONGHAUL_INLINE static U Round(F x) { return _mm256_cvtps_epi32(x); }
  LONGHAUL_INLINE static U Floor(F x) { return _mm256_cvtps_epi32(_mm256_floor_ps(x)); }
  LONGHAUL_INLINE static F ToFloat(U code, int offset) {
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(offset)));
  }
  LONGHAUL_INLINE static U Abs(F x) {
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(kAbsMask));
  }
  LONGHAUL_INLINE static U MaxBits(U a, U b) { return _mm256_max_epi32(a, b); }

  LONGHAUL_INLINE static U Bits(F x) { return _mm256_castps_si256(x); }
  LONGHAUL_INLINE static F FromBits(U x) { return _mm256_castsi256_ps(x); }
  LONGHAUL_INLINE static U SplatBits(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  LONGHAUL_INLINE static U And(U a, U b) { return _mm256_and_si256(a, b); }
  LONGHAUL_INLINE static U Or(U a, U b) { return _mm256_or_si256(a, b); }
  LONGHAUL_INLINE static U AddBits(U a, U b) { return _mm256_add_epi32(a, b); }
  LONGHAUL_INLINE static U SubBits(U a, U b) { return _mm256_sub_epi32(a, b); }
  template <int n>
  LONGHAUL_INLINE static U ShiftRight(U x) {
    return _mm256_srli_epi32(x, n);
  }
  template <int n>
  LONGHAUL_INLINE static U ShiftLeft(U x) {
    return _mm256_slli_epi32(x, n);
  }
  LONGHAUL_INLINE static F Div(F a, F b) { return _mm256_div_ps(a, b); }
  LONGHAUL_INLINE static U KeepAtLeast(U x, U key, uint32_t least) {
    return _mm256_and_si256(x, _mm256_cmpgt_epi32(key, SplatBits(least - 1)));
  }
  class NaNs {
   public:
    LONGHAUL_INLINE void Add(F a, F b) {
      seen_ = _mm256_or_ps(seen_, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
    }
    LONGHAUL_INLINE bool any() const { return _mm256_movemask_ps(seen_) != 0; }

   private:
    F seen_ = _mm256_setzero_ps();
  };
  LONGHAUL_INLINE static U AcrossMaxBits(const U* v) {
    F f[8];
    for (int b = 0; b < 8; ++b) f[b] = FromBits(v[b]);
    return Bits(Across<TakeMaxBits>(f));
  }
  LONGHAUL_INLINE static F AcrossMin(const F* v) { return Across<TakeMin>(v); }
  LONGHAUL_INLINE static F AcrossMax(const F* v) { return Across<TakeMax>(v); }
  LONGHAUL_INLINE static void StoreHalves(U x, std::byte* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), Halves(x));
  }
  LONGHAUL_INLINE static void StoreBytes(U x, std::byte* out) {
    const U bytes = _mm256_shuffle_epi8(x, _mm256_set1_epi32(0x0C080400));
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi32(low, high));
  }

  LONGHAUL_INLINE static F Select(const std::byte* bits, F low, F high) {
    const U bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const U set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(*bits)), bit);
    return _mm256_blendv_ps(low, high, FromBits(_mm256_cmpeq_epi32(set, bit)));
  }
  LONGHAUL_INLINE static U Truncate(F x) { return _mm256_cvttps_epi32(x); }
  LONGHAUL_INLINE static U LoadSigned(const std::byte* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  LONGHAUL_INLINE static U LoadUnsigned(const std::byte* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  LONGHAUL_INLINE static void StoreSigned32(const U* q, std::byte* out) {
    StoreWhole(
        InOrder(_mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]))),
        out);
  }
  // 32 codes up to 15 (larger ones become 15): byte j = code j | code (j + 16) << 4.
  LONGHAUL_INLINE static void StoreHalvesOf32(const U* q, std::byte* out) {
    const U codes = InOrder(_mm256_min_epu8(
        _mm256_packus_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
        _mm256_set1_epi8(15)));
    const __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(codes, 1), 4);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm_or_si128(_mm256_castsi256_si128(codes), high));
  }

  // Philox on words in the lower halves of 64-bit lanes; the upper halves are anything.
  LONGHAUL_INLINE static U Counters(uint64_t first) {
    return _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(first)),
                            _mm256_setr_epi64x(0, 1, 2, 3));
  }
  LONGHAUL_INLINE static U MulLow(U a, U b) { return _mm256_mul_epu32(a, b); }
  LONGHAUL_INLINE static U UpperHalf(U x) { return _mm256_srli_epi64(x, 32); }
  LONGHAUL_INLINE static U Xor(U a, U b) { return _mm256_xor_si256(a, b); }
  // The words of four counters as draws in [0, 1), counter by counter.
  LONGHAUL_INLINE static void StoreUniform(const U* c, float* u) {
    const U a = _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[1], 32), 0xAA);
    const U b = _mm256_blend_epi32(c[2], _mm256_slli_epi64(c[3], 32), 0xAA);
    const U even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    const U words[2] = {_mm256_permute2x128_si256(even, odd, 0x20),
                        _mm256_permute2x128_si256(even, odd, 0x31)};
    for (int i = 0; i < 2; ++i) {
      _mm256_storeu_ps(u + 8 * i,
                       Mul(_mm256_cvtepi32_ps(ShiftRight<8>(words[i])), Splat(0x1p-24f)));
    }
  }

  struct Entries {
    LONGHAUL_INLINE explicit Entries(const float* table)
        : low(_mm256_loadu_ps(table)), high(_mm256_loadu_ps(table + 8)) {}
    LONGHAUL_INLINE F Of(U code) const {
      return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code),
                              _mm256_permutevar8x32_ps(high, code),
                              FromBits(_mm256_slli_epi32(code, 28)));
    }
    F low, high;
  };

  LONGHAUL_INLINE static uint32_t AtLeastMask(const float* x, uint32_t bits) {
    const U reach = _mm256_cmpgt_epi32(Abs(_mm256_loadu_ps(x)), SplatBits(bits - 1));
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(reach)));
  }
  LONGHAUL_INLINE static uint32_t NotNegativeMask(const float* x) {
    return static_cast<uint32_t>(
        _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_GE_OQ)));
  }

  LONGHAUL_INLINE static uint32_t SumAcross(U x) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(s));
  }
  // Lane j and j + 4, of those sums j and j + 2, then the last two.
  LONGHAUL_INLINE static float AddAcross(F x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  LONGHAUL_INLINE static uint32_t MaxAcross(U x) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
  }
  LONGHAUL_INLINE static float MinAcross(F x) {
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
  }
  LONGHAUL_INLINE static float MaxFloatAcross(F x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }

  // One butterfly stage inside a vector: `swapped` holds the partners, `signs` is -1 in the lanes
  // that get a - b and 1 in the others. The product is exact, so fusing it rounds once, as an
  // addition does.
  LONGHAUL_INLINE static F Butterfly(F x, F swapped, F signs) {
    return _mm256_fmadd_ps(x, signs, swapped);
  }
  template <int n>
  LONGHAUL_INLINE static void Hadamard(F* v) {
    const F odd = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    const F upper2 = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    const F upper4 = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
    for (int i = 0; i < n / 8; ++i) {
      v[i] = Butterfly(v[i], _mm256_permute_ps(v[i], 0xB1), odd);
      v[i] = Butterfly(v[i], _mm256_permute_ps(v[i], 0x4E), upper2);
      v[i] = Butterfly(v[i], _mm256_permute2f128_ps(v[i], v[i], 1), upper4);
    }
    for (int h = 1; h < n / 8; h *= 2) {
      for (int i = 0; i < n / 8; ++i) {
        if (i & h) continue;
        const F a = v[i], b = v[i + h];
        v[i] = Add(a, b);
        v[i + h] = Sub(a, b);
      }
    }
    const float norm = 1.0f / __builtin_sqrtf(n);
    for (int i = 0; i < n / 8; ++i) v[i] = Mul(v[i], Splat(norm));
  }

  // H q of 32 codes of four bits, q = steps[code], |q| <= 15: three stages in bytes, two in lanes.
  LONGHAUL_INLINE static void HadamardOf32(const std::byte* codes, const int8_t* steps, U* sums) {
    const __m256i q = ByteHadamardOf32(codes, steps);
    const __m128i half[2] = {_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1)};
    for (int i = 0; i < 2; ++i) {
      const U a = _mm256_cvtepi8_epi32(half[i]);
      const U b = _mm256_cvtepi8_epi32(_mm_srli_si128(half[i], 8));
      sums[2 * i] = AddBits(a, b);
      sums[2 * i + 1] = SubBits(a, b);
    }
    for (int i = 0; i < 2; ++i) {
      const U a = sums[i], b = sums[i + 2];
      sums[i] = AddBits(a, b);
      sums[i + 2] = SubBits(a, b);
    }
  }

  template <MiniFloat kType>
  LONGHAUL_INLINE static F FromMini(U code) {
    constexpr MiniFormat f = FormatOf(kType);
    const U sign = _mm256_slli_epi32(_mm256_srli_epi32(code, f.bits - 1), 31);
    const U mag = Magnitude<kType>(code);
    const U normal = _mm256_add_epi32(_mm256_slli_epi32(mag, 23 - f.mantissa),
                                      _mm256_set1_epi32((127 - f.bias) << 23));
    const F subnormal = Mul(_mm256_cvtepi32_ps(mag), Splat(PowerOfTwo(1 - f.bias - f.mantissa)));
    const U small = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << f.mantissa), mag);
    const U bits = _mm256_blendv_epi8(normal, _mm256_castps_si256(subnormal), small);
    return _mm256_castsi256_ps(_mm256_or_si256(bits, sign));
  }
  // Eight codes of eight bits, as MiniToF32 up to the largest: fp16 has room for both formats,
  // their subnormals included.
  template <MiniFloat kType>
  LONGHAUL_INLINE static F LoadMini(const std::byte* p) {
    constexpr MiniFormat f = FormatOf(kType);
    const __m128i codes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m128i shifted = _mm_slli_epi16(codes, 10 - f.mantissa);
    if constexpr (f.mantissa == 2) return _mm256_cvtph_ps(shifted);
    const __m128i half = _mm_and_si128(shifted, _mm_set1_epi16(static_cast<int16_t>(0xBFFF)));
    return Mul(_mm256_cvtph_ps(half), Splat(PowerOfTwo(15 - f.bias)));
  }
  template <MiniFloat kType>
  LONGHAUL_INLINE static U Magnitude(U code) {
    return _mm256_and_si256(code, _mm256_set1_epi32((1 << (FormatOf(kType).bits - 1)) - 1));
  }

 private:
  struct TakeMin {
    LONGHAUL_INLINE static F Of(F a, F b) { return Min(a, b); }
  };
  struct TakeMax {
    LONGHAUL_INLINE static F Of(F a, F b) { return Max(a, b); }
  };
  struct TakeMaxBits {
    LONGHAUL_INLINE static F Of(F a, F b) { return FromBits(MaxBits(Bits(a), Bits(b))); }
  };
  // A transposition that takes as it goes: 4 + 2 + 1 steps for eight vectors.
  template <class Take>
  LONGHAUL_INLINE static F Across(const F* v) {
    F two[4], four[2];
    for (int i = 0; i < 4; ++i) {
      two[i] = Take::Of(_mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                        _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    }
    for (int i = 0; i < 2; ++i) {
      const __m256d a = _mm256_castps_pd(two[2 * i]), b = _mm256_castps_pd(two[2 * i + 1]);
      four[i] = Take::Of(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return Take::Of(_mm256_permute2f128_ps(four[0], four[1], 0x20),
                    _mm256_permute2f128_ps(four[0], four[1], 0x31));
  }
  LONGHAUL_INLINE static __m128i Halves(U x) {
    return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  }

  // As F32ToBf16Clamped.
  LONGHAUL_INLINE static U Bf16Bits(U u) {
    const U abs = _mm256_and_si256(u, _mm256_set1_epi32(kAbsMask));
    const U top = _mm256_min_epi32(abs, _mm256_set1_epi32(0x7F7F0000));
    const U even = _mm256_and_si256(_mm256_srli_epi32(top, 16), _mm256_set1_epi32(1));
    const U rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(top, _mm256_set1_epi32(0x7FFF)), even), 16);
    const U high = _mm256_srli_epi32(u, 16);
    const U sign = _mm256_and_si256(high, _mm256_set1_epi32(0x8000));
    const U nan = _mm256_cmpgt_epi32(abs, _mm256_set1_epi32(kInfBits));
    return _mm256_blendv_epi8(_mm256_or_si256(rounded, sign),
                              _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
  }
};

}  // namespace longhaul::avx2
