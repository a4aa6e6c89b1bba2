#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/avx512/byte_entries.h"
#include "compressors/kernels/avx512/code_hadamard.h"
#include "compressors/kernels/avx512/packing.h"

namespace longhaul::avx512 {

// Sixteen lanes of AVX-512 F, BW, DQ, VL, VBMI, VNNI, VPCLMULQDQ; kernels/lanes.h says what each
// function is.
struct Lanes : Packing {
  static constexpr int kWidth = 16;
  using F = __m512;
  using U = __m512i;

  template <DType kType>
  LONGHAUL_INLINE static F Load(const std::byte* p) {
    if constexpr (kType == DType::kF32) {
      return _mm512_loadu_ps(p);
    } else {
      const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
      if constexpr (kType == DType::kF16) return _mm512_cvtph_ps(h);
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
  }

  template <DType kType>
  LONGHAUL_INLINE static void Store(F x, std::byte* p) {
    if constexpr (kType == DType::kF32) {
      _mm512_storeu_ps(p, x);
    } else {
      __m256i h;
      if constexpr (kType == DType::kF16) {
        // Operand order: min and max return their second operand when one is NaN.
        x = _mm512_min_ps(Splat(65504.0f), _mm512_max_ps(Splat(-65504.0f), x));
        h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
      } else {
        h = _mm512_cvtepi32_epi16(Bf16Bits(_mm512_castps_si512(x)));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), h);
    }
  }

  LONGHAUL_INLINE static void StreamLine(const std::byte* from, std::byte* to) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
  }

  LONGHAUL_INLINE static U Zero() { return _mm512_setzero_si512(); }
  LONGHAUL_INLINE static F Splat(float x) { return _mm512_set1_ps(x); }
  LONGHAUL_INLINE static F SplatHalf(uint16_t x) {
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(x)));
  }
  LONGHAUL_INLINE static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  LONGHAUL_INLINE static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  LONGHAUL_INLINE static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  LONGHAUL_INLINE static F Min(F a, F b) { return _mm512_min_ps(a, b); }
  LONGHAUL_INLINE static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  LONGHAUL_INLINE static U Round(F x) { return _mm512_cvtps_epi32(x); }
  LONGHAUL_INLINE static U Floor(F x) {
    return _mm512_cvt_roundps_epi32(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  LONGHAUL_INLINE static F ToFloat(U code, int offset) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(code, _mm512_set1_epi32(offset)));
  }
  LONGHAUL_INLINE static U Abs(F x) {
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(kAbsMask));
  }
  LONGHAUL_INLINE static U MaxBits(U a, U b) { return _mm512_max_epi32(a, b); }

  LONGHAUL_INLINE static U Bits(F x) { return _mm512_castps_si512(x); }
  LONGHAUL_INLINE static F FromBits(U x) { return _mm512_castsi512_ps(x); }
  LONGHAUL_INLINE static U SplatBits(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  LONGHAUL_INLINE static U And(U a, U b) { return _mm512_and_si512(a, b); }
  LONGHAUL_INLINE static U Or(U a, U b) { return _mm512_or_si512(a, b); }
  LONGHAUL_INLINE static U AddBits(U a, U b) { return _mm512_add_epi32(a, b); }
  LONGHAUL_INLINE static U SubBits(U a, U b) { return _mm512_sub_epi32(a, b); }
  template <int n>
  LONGHAUL_INLINE static U ShiftRight(U x) {
    return _mm512_srli_epi32(x, n);
  }
  template <int n>
  LONGHAUL_INLINE static U ShiftLeft(U x) {
    return _mm512_slli_epi32(x, n);
  }
  LONGHAUL_INLINE static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  LONGHAUL_INLINE static U KeepAtLeast(U x, U key, uint32_t least) {
    return _mm512_maskz_mov_epi32(_mm512_cmpge_epi32_mask(key, SplatBits(least)), x);
  }
  // The sixteen of x whose keys are `least` > 0 or more, one behind the other; answers how many.
  // Writes sixteen.
  LONGHAUL_INLINE static size_t StoreKept(const uint32_t* x, const uint32_t* keys, uint32_t least,
                                          uint32_t* out) {
    const __mmask16 kept = _mm512_cmpge_epi32_mask(_mm512_loadu_si512(keys), SplatBits(least));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(kept, _mm512_loadu_si512(x)));
    return static_cast<size_t>(__builtin_popcount(kept));
  }
  // `first` and what follows it, of those of the sixteen of x whose magnitudes' bits are `least` or
  // more; answers how many. Writes sixteen. Without a branch: a wrong guess would wait for memory.
  LONGHAUL_INLINE static size_t StoreReaching(const float* x, uint32_t least, uint32_t first,
                                              uint32_t* out) {
    const auto reach = static_cast<__mmask16>(AtLeastMask(x, least));
    const U number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(reach, AddBits(number, SplatBits(first))));
    return static_cast<size_t>(__builtin_popcount(reach));
  }
  class NaNs {
   public:
    LONGHAUL_INLINE void Add(F a, F b) {
      seen_ = static_cast<__mmask16>(seen_ | _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q));
    }
    LONGHAUL_INLINE bool any() const { return seen_ != 0; }

   private:
    __mmask16 seen_ = 0;
  };
  LONGHAUL_INLINE static U AcrossMaxBits(const U* v) {
    F f[16];
    for (int b = 0; b < 16; ++b) f[b] = FromBits(v[b]);
    return Bits(Across<TakeMaxBits>(f));
  }
  LONGHAUL_INLINE static F AcrossMin(const F* v) { return Across<TakeMin>(v); }
  LONGHAUL_INLINE static F AcrossMax(const F* v) { return Across<TakeMax>(v); }
  LONGHAUL_INLINE static void StoreHalves(U x, std::byte* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(x));
  }
  LONGHAUL_INLINE static void StoreBytes(U x, std::byte* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(x));
  }
  LONGHAUL_INLINE static F Select(const std::byte* bits, F low, F high) {
    uint16_t mask;
    __builtin_memcpy(&mask, bits, 2);
    return _mm512_mask_mov_ps(low, mask, high);
  }
  LONGHAUL_INLINE static U Truncate(F x) { return _mm512_cvttps_epi32(x); }
  LONGHAUL_INLINE static U LoadSigned(const std::byte* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  LONGHAUL_INLINE static U LoadUnsigned(const std::byte* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  LONGHAUL_INLINE static void StoreSigned32(const U* q, std::byte* out) {
    for (int i = 0; i < 2; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), _mm512_cvtsepi32_epi8(q[i]));
    }
  }
  // 32 codes up to 15 (larger ones become 15): byte j = code j | code (j + 16) << 4.
  LONGHAUL_INLINE static void StoreHalvesOf32(const U* q, std::byte* out) {
    const U top = SplatBits(15);
    const U codes = _mm512_or_si512(_mm512_min_epi32(q[0], top),
                                    _mm512_slli_epi32(_mm512_min_epi32(q[1], top), 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(codes));
  }

  // Philox on words in the lower halves of 64-bit lanes; the upper halves are anything.
  LONGHAUL_INLINE static U Counters(uint64_t first) {
    return _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)),
                            _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  }
  LONGHAUL_INLINE static U MulLow(U a, U b) { return _mm512_mul_epu32(a, b); }
  LONGHAUL_INLINE static U UpperHalf(U x) { return _mm512_srli_epi64(x, 32); }
  LONGHAUL_INLINE static U Xor(U a, U b) { return _mm512_xor_si512(a, b); }
  // The words of eight counters as draws in [0, 1), counter by counter.
  LONGHAUL_INLINE static void StoreUniform(const U* c, float* u) {
    const U a = _mm512_mask_mov_epi32(c[0], 0xAAAA, _mm512_slli_epi64(c[1], 32));
    const U b = _mm512_mask_mov_epi32(c[2], 0xAAAA, _mm512_slli_epi64(c[3], 32));
    const U first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const U second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    const U words[2] = {_mm512_permutex2var_epi64(a, first, b),
                        _mm512_permutex2var_epi64(a, second, b)};
    for (int i = 0; i < 2; ++i) {
      _mm512_storeu_ps(u + 16 * i,
                       Mul(_mm512_cvtepi32_ps(ShiftRight<8>(words[i])), Splat(0x1p-24f)));
    }
  }

  struct Entries {
    LONGHAUL_INLINE explicit Entries(const float* table) : all(_mm512_loadu_ps(table)) {}
    LONGHAUL_INLINE F Of(U code) const { return _mm512_permutexvar_ps(code, all); }
    F all;
  };

  using ByteEntries = avx512::ByteEntries;

  LONGHAUL_INLINE static uint32_t AtLeastMask(const float* x, uint32_t bits) {
    return _mm512_cmpge_epu32_mask(Abs(_mm512_loadu_ps(x)),
                                   _mm512_set1_epi32(static_cast<int>(bits)));
  }
  LONGHAUL_INLINE static uint32_t NotNegativeMask(const float* x) {
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_setzero_ps(), _CMP_GE_OQ);
  }

  LONGHAUL_INLINE static uint32_t SumAcross(U x) {
    return static_cast<uint32_t>(_mm512_reduce_add_epi32(x));
  }
  // Lane j and j + 8, of those sums j and j + 4, and so on.
  LONGHAUL_INLINE static float AddAcross(F x) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x),
                                      _mm512_castps512_ps256(_mm512_shuffle_f32x4(x, x, 0xEE)));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  LONGHAUL_INLINE static uint32_t MaxAcross(U x) {
    return static_cast<uint32_t>(_mm512_reduce_max_epi32(x));
  }
  LONGHAUL_INLINE static float MinAcross(F x) { return _mm512_reduce_min_ps(x); }
  LONGHAUL_INLINE static float MaxFloatAcross(F x) { return _mm512_reduce_max_ps(x); }

  // One butterfly stage inside a vector: `swapped` holds the partners, the lanes of kMinus get
  // a - b. The product is exact, so fusing it rounds once, as an addition does.
  template <int kMinus>
  LONGHAUL_INLINE static F Butterfly(F x, F swapped) {
    const F signs = _mm512_mask_blend_ps(static_cast<__mmask16>(kMinus), Splat(1), Splat(-1));
    return _mm512_fmadd_ps(x, signs, swapped);
  }
  template <int n>
  LONGHAUL_INLINE static void Hadamard(F* v) {
    for (int i = 0; i < n / 16; ++i) {
      v[i] = Butterfly<0xAAAA>(v[i], _mm512_permute_ps(v[i], 0xB1));
      v[i] = Butterfly<0xCCCC>(v[i], _mm512_permute_ps(v[i], 0x4E));
      v[i] = Butterfly<0xF0F0>(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0xB1));
      v[i] = Butterfly<0xFF00>(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0x4E));
    }
    for (int h = 1; h < n / 16; h *= 2) {
      for (int i = 0; i < n / 16; ++i) {
        if (i & h) continue;
        const F a = v[i], b = v[i + h];
        v[i] = Add(a, b);
        v[i + h] = Sub(a, b);
      }
    }
    const float norm = 1.0f / __builtin_sqrtf(n);
    for (int i = 0; i < n / 16; ++i) v[i] = Mul(v[i], Splat(norm));
  }

  // H q of 32 codes of four bits, q = steps[code], |q| <= 15: halves of sixteen first.
  LONGHAUL_INLINE static void HadamardOf32(const std::byte* codes, const int8_t* steps, U* sums) {
    U half[2];
    HadamardOf16s(codes, steps, half);
    sums[0] = AddBits(half[0], half[1]);
    sums[1] = SubBits(half[0], half[1]);
  }

  template <MiniFloat kType>
  LONGHAUL_INLINE static F FromMini(U code) {
    constexpr MiniFormat f = FormatOf(kType);
    const U sign = _mm512_slli_epi32(_mm512_srli_epi32(code, f.bits - 1), 31);
    const U mag = Magnitude<kType>(code);
    const U normal = _mm512_add_epi32(_mm512_slli_epi32(mag, 23 - f.mantissa),
                                      _mm512_set1_epi32((127 - f.bias) << 23));
    const F subnormal = Mul(_mm512_cvtepi32_ps(mag), Splat(PowerOfTwo(1 - f.bias - f.mantissa)));
    const __mmask16 small = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(1 << f.mantissa), mag);
    const U bits = _mm512_mask_mov_epi32(normal, small, _mm512_castps_si512(subnormal));
    return _mm512_castsi512_ps(_mm512_or_si512(bits, sign));
  }
  // Sixteen codes of eight bits, as MiniToF32 up to the largest: fp16 has room for both formats,
  // their subnormals included.
  template <MiniFloat kType>
  LONGHAUL_INLINE static F LoadMini(const std::byte* p) {
    constexpr MiniFormat f = FormatOf(kType);
    const __m256i codes =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i shifted = _mm256_slli_epi16(codes, 10 - f.mantissa);
    if constexpr (f.mantissa == 2) return _mm512_cvtph_ps(shifted);
    const __m256i half = _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
    return Mul(_mm512_cvtph_ps(half), Splat(PowerOfTwo(15 - f.bias)));
  }
  template <MiniFloat kType>
  LONGHAUL_INLINE static U Magnitude(U code) {
    return _mm512_and_si512(code, _mm512_set1_epi32((1 << (FormatOf(kType).bits - 1)) - 1));
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
  // A transposition that takes as it goes: 8 + 4 + 2 + 1 steps for sixteen vectors.
  template <class Take>
  LONGHAUL_INLINE static F Across(const F* v) {
    F two[8], four[4], eight[2];
    for (int i = 0; i < 8; ++i) {
      two[i] = Take::Of(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                        _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    }
    for (int i = 0; i < 4; ++i) {
      const __m512d a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
      four[i] = Take::Of(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int i = 0; i < 2; ++i) {
      eight[i] = Take::Of(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                          _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xDD));
    }
    return Take::Of(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88),
                    _mm512_shuffle_f32x4(eight[0], eight[1], 0xDD));
  }

  // As F32ToBf16Clamped.
  LONGHAUL_INLINE static U Bf16Bits(U u) {
    const U abs = _mm512_and_si512(u, _mm512_set1_epi32(kAbsMask));
    const U top = _mm512_min_epi32(abs, _mm512_set1_epi32(0x7F7F0000));
    const U even = _mm512_and_si512(_mm512_srli_epi32(top, 16), _mm512_set1_epi32(1));
    const U rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(top, _mm512_set1_epi32(0x7FFF)), even), 16);
    const U high = _mm512_srli_epi32(u, 16);
    const U sign = _mm512_and_si512(high, _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(abs, _mm512_set1_epi32(kInfBits));
    return _mm512_mask_or_epi32(_mm512_or_si512(rounded, sign), nan, high, _mm512_set1_epi32(0x40));
  }
};

}  // namespace longhaul::avx512
