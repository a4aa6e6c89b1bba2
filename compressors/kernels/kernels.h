#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compressors/isa.h"
#include "compressors/kernels/block_sections.h"
#include "compressors/tensor.h"

namespace longhaul {

// What the elements of every bin add up to (stat_units.h), and how many they are.
struct BinSums {
  explicit BinSums(size_t bins = 256) {
    std::fill_n(units, bins, 0);
    std::fill_n(count, bins, 0);
  }
  int64_t units[256];
  uint64_t count[256];

  void Add(const BinSums& other) {
    for (size_t b = 0; b < 256; ++b) {
      units[b] += other.units[b];
      count[b] += other.count[b];
    }
  }
};

// Over a chunk: of x - pivot, and of its square.
struct PivotSums {
  float sum, squares;
};

constexpr size_t kSignBlock = 256;  // elements under one scale (families/sign.cc)

// Rows, sum and columns of a matrix product, at most 64 each.
struct ProductSize {
  size_t rows, inner, columns;
};

// n elements from one dtype to another. Widening is exact; narrowing is RNE and clamps finite
// values to the largest finite one. `in` and `out` need no alignment and must not overlap. Answers
// whether all of `in` was finite.
using ConvertFn = bool (*)(const std::byte* in, size_t n, std::byte* out);

// Everything that is compiled once per instruction set: one table each, filled from one source
// (make_kernels.h) without any licence to reorder or fuse floating-point operations, so all give
// equal bits. A null entry: this set has no kernel of its own, and its caller's loop, the
// reference, does all elements. x: finite fp32, aligned as floats where it is a float*, not where
// it is a std::byte*.
struct Kernels {
  ConvertFn convert[3][3];  // [from][to]
  LONGHAUL_INLINE ConvertFn Converter(DType from, DType to) const {
    return convert[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }
  // Whole blocks, by SchemeIndex.
  EncodeBlocksFn encode_blocks[kBlockSchemes.size()];
  DecodeBlocksFn decode_blocks[kBlockSchemes.size()];
  EncodeNoisyBlocksFn encode_noisy_blocks[kBlockSchemes.size()];  // null: also of some schemes
  // nvfp4, groups > 0 of kFp4Group elements of a row. x: [256
  // groups]; codes: [128 groups]; scales: [16 groups] E4M3. t > 0. decode_nv answers
  // false where a scale is negative or NaN; x then holds anything.
  void (*encode_nv)(const std::byte* x, size_t groups, float t, std::byte* scales,
                    std::byte* codes);
  bool (*decode_nv)(const std::byte* scales, const std::byte* codes, size_t groups, float t,
                    std::byte* x);

  // Largest |x| as bits.
  uint32_t (*abs_max)(const float* x, size_t n);
  // The indices of the elements with |x| as bits >= `bits`, sorted; answers how many. found: room
  // for n + 16.
  size_t (*survivors)(const float* x, size_t n, uint32_t bits, uint32_t* found);
  // magnitudes[i] = |x[found[i]]| as bits, for `count` survivors of `least`, k of them or more;
  // zeros follow up to a multiple of 16. Answers a magnitude t >= least that k or more of them
  // reach and fewer than k exceed, or exactly k; NaN's or Inf's when one is among them.
  uint32_t (*kth_magnitude)(const float* x, const uint32_t* found, size_t count, size_t k,
                            uint32_t least, uint32_t* magnitudes);
  // kept = those of found [count] whose magnitudes are `least` > 0 or more, in their order; answers
  // how many. As many zeros follow the magnitudes as make them a multiple of 16; kept has room for
  // 16 more than count.
  size_t (*keep_at_least)(const uint32_t* found, const uint32_t* magnitudes, size_t count,
                          uint32_t least, uint32_t* kept);
  // The sums of tree_sum.h over one chunk of n <= kSumChunk: x, |x|, (x - mu)^2.
  float (*sum)(const float* x, size_t n);
  float (*sum_abs)(const float* x, size_t n);
  float (*sum_squares)(const float* x, size_t n, float mu);
  // Those of x - pivot and of its square.
  PivotSums (*sums_about)(const float* x, size_t n, float pivot);
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
  // x [blocks, kSignBlock]: the bits of sign_bits, and each block's sum of |x| in the order of
  // tree_sum.h.
  void (*sign_blocks)(const float* x, size_t blocks, std::byte* bits, float* sums);
  // y = (x - z) inverse as fp16, clamped; and x = z + y s, false when some y is Inf or NaN.
  void (*standardize)(const float* x, size_t n, float z, float inverse, std::byte* y);
  bool (*restore)(const std::byte* y, size_t n, float z, float s, float* x);
  // x = z + q s.
  void (*affine_values)(const uint8_t* q, size_t n, float z, float s, float* x);
  // q = E2M1 of x inverse (mini_floats.h); and x = value of the code times s.
  void (*e2m1_codes)(const float* x, size_t n, float inverse, uint8_t* q);
  void (*e2m1_values)(const uint8_t* q, size_t n, float s, float* x);
  // y = -x where u >= 1/2, else x.
  void (*flip_signs)(const float* x, const float* u, size_t n, float* y);
  // Uniform draws u of elements first .. first + n - 1 (noise.h), first a multiple of 4.
  void (*uniform)(uint64_t key, uint32_t purpose, uint64_t first, size_t n, float* u);
  // ggml's full blocks of 32: x [32 blocks] -> 34 or 18 bytes per block (families/ggml_block.cc). False when
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
  // sum = x + a y, which may be one of both.
  void (*sum_scaled)(const float* x, float a, const float* y, size_t n, float* sum);
  // c = a b, matrices with rows of 64 floats, of which `size` are used; b's and c's rows are read
  // and written up to a multiple of 16. Terms are added in order; rows of zeros in b cost next to
  // nothing.
  void (*multiply64)(const float* a, const float* b, ProductSize size, float* c);
  // The bins of stat_units.h as codes of 2, 4 or 8 bits, packed as bit_pack.h packs them; and
  // every element is added to its bin of `sums`. n <= kSumChunk.
  void (*stat_codes)(const float* x, size_t n, float mu, float inverse, int bits, std::byte* codes,
                     BinSums& sums);
  // offsets[bin] = the mean of x - mu in it, 0 if it is empty.
  void (*stat_offsets)(const BinSums& sums, float inverse, int bits, float* offsets);
  // x = table[code]; codes of 2, 4 or 8 bits as bit_pack.h packs them.
  void (*table_values)(const std::byte* codes, int bits, size_t n, const float* table, float* x);
  // Copies, whole lines of `to` past the caches (wide.h).
  void (*stream)(const std::byte* from, size_t bytes, std::byte* to);
};

const Kernels& KernelsOf(Isa isa);

// One namespace and one translation unit each (avx2/kernels.cc, ...); for KernelsOf, and for
// vector kernels that leave an element or a block to the reference.
namespace scalar {
const Kernels& Table();
}
namespace avx2 {
const Kernels& Table();
}
namespace avx512 {
const Kernels& Table();
}

}  // namespace longhaul
