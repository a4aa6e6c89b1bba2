#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/isa.h"

namespace longhaul {

// Plain loops that several families share, compiled once per instruction set from one source
// (loops.h) without any licence to reorder or fuse floating-point operations, so all give equal
// bits. x: finite fp32, aligned as floats.
struct LoopKernels {
  // Largest |x| as bits.
  uint32_t (*abs_max)(const float* x, size_t n);
  // Bit i % 64 of mask[i / 64] = |x[i]| as bits >= `bits`; spare bits are zero. Answers how many.
  size_t (*at_least)(const float* x, size_t n, uint32_t bits, uint64_t* mask);
  // The sums of tree_sum.h over one chunk of n <= kSumChunk: x, |x|, (x - mu)^2, and of the
  // elements below 0, or of the others.
  float (*sum)(const float* x, size_t n);
  float (*sum_abs)(const float* x, size_t n);
  float (*sum_squares)(const float* x, size_t n, float mu);
  float (*sum_negative)(const float* x, size_t n);
  float (*sum_positive)(const float* x, size_t n);
  // Least and largest element. n > 0.
  void (*range)(const float* x, size_t n, float* min, float* max);
  // -sum p log2 p, p = |x| / (sum|x| + 1e-30), 0 log 0 = 0, within 1e-5; n <= kSumChunk.
  float (*entropy)(const float* x, size_t n);
  // Bit i % 8 of bits[i / 8] = x[i] >= 0 (-0 too); spare bits are zero. Answers how many. And back:
  // two levels.
  size_t (*sign_bits)(const float* x, size_t n, std::byte* bits);
  void (*expand_signs)(const std::byte* bits, size_t n, float low, float high, float* x);
  // q = clamp(rne((x - z) inverse + offset), 0, top), top <= 255.
  void (*affine_codes)(const float* x, size_t n, float z, float inverse, float offset, float top,
                       uint8_t* q);
  // q = clamp(floor((x - z) inverse + u), 0, top).
  void (*noisy_codes)(const float* x, const float* u, size_t n, float z, float inverse, float top,
                      uint8_t* q);
  // The same around 0: q = clamp(floor(x inverse + u), -top, top) + offset.
  void (*noisy_signed_codes)(const float* x, const float* u, size_t n, float inverse, float top,
                             float offset, uint8_t* q);
  // One of the two E2M1 neighbours of x inverse, the upper one with the probability that makes the
  // expectation right; saturating.
  void (*noisy_e2m1_codes)(const float* x, const float* u, size_t n, float inverse, uint8_t* q);
  // x = z + q s.
  void (*affine_values)(const uint8_t* q, size_t n, float z, float s, float* x);
  // q = E2M1 or E3M0 of x inverse (mini_floats.h); and x = value of the code times s.
  void (*e2m1_codes)(const float* x, size_t n, float inverse, uint8_t* q);
  void (*e3m0_codes)(const float* x, size_t n, float inverse, uint8_t* q);
  void (*e2m1_values)(const uint8_t* q, size_t n, float s, float* x);
  void (*e3m0_values)(const uint8_t* q, size_t n, float s, float* x);
  // Uniform draws u of elements first .. first + n - 1 (noise.h), first a multiple of 4.
  void (*uniform)(uint64_t key, uint32_t purpose, uint64_t first, size_t n, float* u);
  // ggml's full blocks of 32: x [32 blocks] -> 34 or 18 bytes per block (ggml_block.h). False when
  // a scale is beyond fp16.
  bool (*encode_q8)(const float* x, size_t blocks, std::byte* out);
  bool (*encode_q4)(const float* x, size_t blocks, std::byte* out);
  // The inverse; false when a scale is Inf or NaN.
  bool (*decode_q8)(const std::byte* in, size_t blocks, float* x);
  bool (*decode_q4)(const std::byte* in, size_t blocks, float* x);
  // Sum of x y in the order of tree_sum.h, n <= kSumChunk; y += a x; and c = a b of 64 x 64, rows
  // one after the other, terms in the order of b's rows, those with a zero in a left out.
  float (*dot)(const float* x, const float* y, size_t n);
  void (*add_scaled)(const float* x, size_t n, float a, float* y);
  void (*multiply64)(const float* a, const float* b, float* c);
};

const LoopKernels& LoopKernelsOf(Isa isa);

const LoopKernels& ScalarLoopKernels();
const LoopKernels& Avx2LoopKernels();
const LoopKernels& Avx512LoopKernels();

}  // namespace longhaul
