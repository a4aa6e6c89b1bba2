#pragma once

// AVX-512 on any processor: SIMDe computes each intrinsic as Intel's manual defines it. Forced in
// front of compressors/kernels/avx512/*.cc, which are then compiled without -mavx512*. What SIMDe
// 0.7.4 lacks follows below, by halves of AVX2.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/clmul.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

// Vectors as template arguments lose their alignment, which nothing here relies on.
#pragma GCC diagnostic ignored "-Wignored-attributes"

namespace longhaul::by_simde {

template <typename Half, typename Whole>
struct Halves {
  Half part[2];
  static Halves Of(Whole x) {
    Halves halves;
    std::memcpy(&halves, &x, sizeof(x));
    return halves;
  }
  Whole whole() const {
    Whole x;
    std::memcpy(&x, this, sizeof(x));
    return x;
  }
};
using Floats = Halves<__m256, simde__m512>;
using Ints = Halves<__m256i, simde__m512i>;
using Shorts = Halves<__m128i, __m256i>;

template <typename Out, typename In, typename Op>
Out Each(const In& in, Op op) {
  return {{op(in.part[0]), op(in.part[1])}};
}

inline simde__m512i RoundToInt(simde__m512 x) {
  return Each<Ints>(Floats::Of(x), [](__m256 h) { return _mm256_cvtps_epi32(h); }).whole();
}
inline simde__m512i FloorToInt(simde__m512 x) {
  return Each<Ints>(Floats::Of(x), [](__m256 h) { return _mm256_cvtps_epi32(_mm256_floor_ps(h)); })
      .whole();
}
inline simde__m512i TruncateToInt(simde__m512 x) {
  return Each<Ints>(Floats::Of(x), [](__m256 h) { return _mm256_cvttps_epi32(h); }).whole();
}
inline simde__m512 ToFloat(simde__m512i x) {
  return Each<Floats>(Ints::Of(x), [](__m256i h) { return _mm256_cvtepi32_ps(h); }).whole();
}
inline simde__m512 FromHalf(__m256i x) {
  return Each<Floats>(Shorts::Of(x), [](__m128i h) { return _mm256_cvtph_ps(h); }).whole();
}
inline __m256i ToHalf(simde__m512 x) {
  return Each<Shorts>(Floats::Of(x), [](__m256 h) { return _mm256_cvtps_ph(h, 0); }).whole();
}
template <int k>
simde__m512 Permute(simde__m512 x) {
  return Each<Floats>(Floats::Of(x), [](__m256 h) { return _mm256_permute_ps(h, k); }).whole();
}

// Lane by lane, with the width and sign of To's and From's elements.
template <typename ToLane, typename FromLane, typename To, typename From>
To Convert(const From& from) {
  constexpr size_t kLanes = sizeof(To) / sizeof(ToLane);
  static_assert(kLanes * sizeof(FromLane) == sizeof(From));
  FromLane in[kLanes];
  ToLane out[kLanes];
  std::memcpy(in, &from, sizeof(in));
  std::copy(in, in + kLanes, out);
  To to;
  std::memcpy(&to, out, sizeof(out));
  return to;
}

template <typename Lane, typename Vector, typename Op>
Lane Reduce(const Vector& x, Op op) {
  Lane lanes[sizeof(x) / sizeof(Lane)];
  std::memcpy(lanes, &x, sizeof(x));
  Lane result = lanes[0];
  for (size_t i = 1; i < sizeof(x) / sizeof(Lane); ++i) result = op(result, lanes[i]);
  return result;
}

}  // namespace longhaul::by_simde

// SIMDe 0.7.4 gives this one the parameters of its masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)

// SIMDe has it under its own name only.
#define _mm512_shuffle_f32x4(a, b, k) simde_mm512_shuffle_f32x4(a, b, k)
#define _mm512_shuffle_i64x2(a, b, k) simde_mm512_shuffle_i64x2(a, b, k)

#define _mm512_cvtps_epi32(x) longhaul::by_simde::RoundToInt(x)
#define _mm512_cvttps_epi32(x) longhaul::by_simde::TruncateToInt(x)
#define _mm512_cvtepi32_ps(x) longhaul::by_simde::ToFloat(x)
#define _mm512_cvtph_ps(x) longhaul::by_simde::FromHalf(x)
#define _mm512_cvtps_ph(x, nearest) longhaul::by_simde::ToHalf(x)
#define _mm512_cvt_roundps_epi32(x, down) longhaul::by_simde::FloorToInt(x)
#define _mm512_permute_ps(x, k) longhaul::by_simde::Permute<k>(x)
#define _mm512_cvtepi32_epi16(x) longhaul::by_simde::Convert<int16_t, int32_t, __m256i>(x)
#define _mm512_cvtepi32_epi8(x) longhaul::by_simde::Convert<int8_t, int32_t, __m128i>(x)
#define _mm512_cvtepi8_epi32(x) longhaul::by_simde::Convert<int32_t, int8_t, simde__m512i>(x)
#define _mm512_cvtepu8_epi32(x) longhaul::by_simde::Convert<int32_t, uint8_t, simde__m512i>(x)
#define _mm512_cvtepu16_epi32(x) longhaul::by_simde::Convert<int32_t, uint16_t, simde__m512i>(x)
#define _mm512_reduce_add_epi32(x) longhaul::by_simde::Reduce<int32_t>(x, std::plus<>())
#define _mm512_reduce_max_epi32(x) \
  longhaul::by_simde::Reduce<int32_t>(x, [](int32_t a, int32_t b) { return std::max(a, b); })
#define _mm512_reduce_max_ps(x) \
  longhaul::by_simde::Reduce<float>(x, [](float a, float b) { return std::max(a, b); })
#define _mm512_reduce_min_ps(x) \
  longhaul::by_simde::Reduce<float>(x, [](float a, float b) { return std::min(a, b); })
#define _mm512_stream_si512(to, x) simde_mm512_store_si512(to, x)
