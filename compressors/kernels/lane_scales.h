#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/kernels.h"
#include "compressors/numbers/mini_places.h"

// From the extremes of L::kWidth blocks to their scales, all in one vector, and from there to
// codes; for lane_encode.h.
namespace longhaul {

constexpr int kChunk = 64;            // elements whose codes are packed at once
constexpr int kLargestInBatch = 128;  // larger blocks are worked on one by one
// StoreCodes and LoadCodes may touch so many bytes beyond.
constexpr size_t kCodeSlack = kBlockCodeSlack;

// The scales of one batch; lane b is block b's.
template <class L>
struct BatchScale {
  typename L::U wire;     // bf16 in the upper half, or the byte of E8M0
  typename L::F inverse;  // 1 / value, 0 when the scale is 0
};

// As RoundScale.
template <class L, typename Reach>
LONGHAUL_INLINE BatchScale<L> RoundScales(typename L::F scale, Reach reach) {
  using U = typename L::U;
  const U u = L::Bits(scale);
  const U even = L::And(L::template ShiftRight<16>(u), L::SplatBits(1));
  U wire = L::And(L::AddBits(L::AddBits(u, L::SplatBits(0x7FFF)), even), L::SplatBits(0xFFFF0000));
  wire = L::KeepAtLeast(wire, L::And(wire, L::SplatBits(0x7F800000)), 0x00800000);
  const U farthest = L::Abs(reach(L::FromBits(wire)));
  wire = L::SubBits(wire, L::KeepAtLeast(L::SplatBits(0x10000), farthest, kInfBits));
  const U inverse = L::Bits(L::Div(L::Splat(1.0f), L::FromBits(wire)));
  return {wire, L::FromBits(L::KeepAtLeast(inverse, L::Abs(L::FromBits(wire)), 1))};
}

// As AbsMaxScale.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BatchScale<L> AbsMaxScales(typename L::U max_bits) {
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    const typename L::U exponent = L::template ShiftRight<23>(max_bits);
    const typename L::U inverse =
        L::template ShiftLeft<23>(L::SubBits(L::SplatBits(256), exponent));
    return {L::KeepAtLeast(L::SubBits(exponent, L::SplatBits(2)), exponent, 3),
            L::FromBits(L::KeepAtLeast(inverse, exponent, 3))};
  } else {
    const typename L::F top = L::Splat(TopValue(kScheme));
    return RoundScales<L>(
        L::Div(L::FromBits(max_bits), top), [top](typename L::F s) __attribute__((always_inline)) {
          return L::Mul(top, s);
        });
  }
}

// The scale of E2M1 with a third more room (stochastic.h), from its E8M0: 1 / (4/3 scale).
template <class L>
LONGHAUL_INLINE typename L::F WidenedInverse(typename L::U wire) {
  const typename L::F scale = L::FromBits(L::template ShiftLeft<23>(wire));
  const typename L::F inverse = L::Div(L::Splat(1.0f), L::Mul(scale, L::Splat(4.0f / 3.0f)));
  return L::FromBits(L::KeepAtLeast(L::Bits(inverse), wire, 1));
}

// As AffineZero.
template <class L>
LONGHAUL_INLINE typename L::U AffineZeros(typename L::F min) {
  using U = typename L::U;
  const U u = L::Bits(min);
  const U even = L::And(L::template ShiftRight<16>(u), L::SplatBits(1));
  const U wire =
      L::And(L::AddBits(L::AddBits(u, L::SplatBits(0x7FFF)), even), L::SplatBits(0xFFFF0000));
  return L::KeepAtLeast(wire, L::And(wire, L::SplatBits(0x7F800000)), 0x00800000);
}

// As F32ToMini but for the sign: adding a power of two rounds to as many bits as a mantissa has.
template <class L, MiniFloat kType>
LONGHAUL_INLINE typename L::U ToMini(typename L::F x) {
  using U = typename L::U;
  constexpr MiniFormat f = FormatOf(kType);
  static_assert(f.mantissa > 0);
  constexpr int cut = 23 - f.mantissa;
  constexpr uint32_t least = static_cast<uint32_t>(128 - f.bias) << 23;  // smallest normal
  const typename L::F abs = L::Min(L::FromBits(L::Abs(x)), L::Splat(f.max));
  const U exponent =
      L::MaxBits(L::And(L::Bits(abs), L::SplatBits(0x7F800000)), L::SplatBits(least));
  const typename L::F magic =
      L::FromBits(L::AddBits(exponent, L::SplatBits(static_cast<uint32_t>(cut) << 23)));
  const U rounded = L::SubBits(L::Bits(L::Add(abs, magic)), exponent);
  constexpr uint32_t offset = (static_cast<uint32_t>(cut) << 23) + (least >> cut);
  return L::SubBits(L::AddBits(rounded, L::template ShiftRight<cut>(exponent)),
                    L::SplatBits(offset));
}

// What the second reading needs of each block.
template <class L>
struct BatchConstants {
  alignas(64) float inverse[L::kWidth];
  alignas(64) float zero[L::kWidth];
  alignas(64) float sign[L::kWidth];  // -0 where signs count: a block without scale has none
};

// The same of one block, in every lane.
template <class L>
struct OneBlock {
  LONGHAUL_INLINE OneBlock(const BatchConstants<L>& constants, int b)
      : inverse(L::Splat(constants.inverse[b])),
        zero(L::Splat(constants.zero[b])),
        sign(L::Splat(constants.sign[b])) {}
  typename L::F inverse, zero, sign;
};

// What one batch ranges over; lane b is block b's.
template <class L>
struct BatchExtremes {
  typename L::U max_bits;  // affine grids: Infinity's bits if NaN is in the batch, else 0
  typename L::F min, max;  // affine grids only
};

// Extremes of one batch -> scales and zeros as they stand in the frame, and the constants. False:
// some block holds NaN or Inf, or its range is beyond fp32.
template <class L, BlockScheme kScheme, bool kNoisy>
LONGHAUL_INLINE bool ScaleBatch(const BatchExtremes<L>& extremes, BlockSections out,
                                BatchConstants<L>& constants) {
  using F = typename L::F;
  using U = typename L::U;
  const U max_bits = extremes.max_bits;
  U broken = max_bits;
  BatchScale<L> scale;
  if constexpr (kScheme.grid == Grid::kAffine) {
    const F min = extremes.min, max = extremes.max;
    const U wire_z = AffineZeros<L>(min);
    const F z = L::FromBits(wire_z);
    broken = L::MaxBits(broken, L::Abs(L::Sub(max, min)));
    broken = L::MaxBits(broken, L::MaxBits(L::Abs(L::Sub(max, z)), L::Abs(z)));
    const F levels = L::Splat(static_cast<float>(Levels(kScheme)));
    scale = RoundScales<L>(
        L::Div(L::Sub(max, z), levels),
        [ levels, z ](F s) __attribute__((always_inline)) { return L::Add(z, L::Mul(levels, s)); });
    L::StoreHalves(L::template ShiftRight<16>(wire_z), out.zeros);
    L::template Store<DType::kF32>(z, reinterpret_cast<std::byte*>(constants.zero));
  } else {
    scale = AbsMaxScales<L, kScheme>(max_bits);
  }
  if (L::MaxAcross(broken) >= kInfBits) return false;
  if constexpr (kNoisy && kScheme.grid == Grid::kE2M1) {
    scale.inverse = WidenedInverse<L>(scale.wire);
  }
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    L::StoreBytes(scale.wire, out.scales);
  } else {
    L::StoreHalves(L::template ShiftRight<16>(scale.wire), out.scales);
  }
  L::template Store<DType::kF32>(scale.inverse, reinterpret_cast<std::byte*>(constants.inverse));
  if constexpr (IsMini(kScheme.grid)) {
    const U sign = L::KeepAtLeast(L::SplatBits(0x80000000), L::Bits(scale.inverse), 1);
    L::template Store<DType::kF32>(L::FromBits(sign), reinterpret_cast<std::byte*>(constants.sign));
  }
  return true;
}

// One vector of a block -> its codes, as stored but for the clamp, which StoreCodes does. Not for
// floats of four bits.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE typename L::U Quantize(typename L::F v, const OneBlock<L>& block) {
  if constexpr (kScheme.grid == Grid::kAffine) {
    return L::Round(L::Mul(L::Sub(v, block.zero), block.inverse));
  } else if constexpr (IsMini(kScheme.grid)) {
    const typename L::U sign = L::And(L::Bits(v), L::Bits(block.sign));
    return L::Or(ToMini<L, MiniOf(kScheme.grid)>(L::Mul(v, block.inverse)),
                 L::template ShiftRight<32 - kScheme.bits>(sign));
  } else {
    return L::Round(L::Mul(v, block.inverse));
  }
}

// A chunk of values on their way to codes.
template <class L, BlockScheme kScheme>
class CodedChunk {
 public:
  LONGHAUL_INLINE void Set(int i, typename L::F v, const OneBlock<L>& block) {
    if constexpr (kByPlace) {
      SetPlace(i, L::Mul(v, block.inverse), L::And(L::Bits(v), L::Bits(block.sign)));
    } else {
      codes_[i] = Quantize<L, kScheme>(v, block);
    }
  }
  // scaled: |v| times the inverse of its scale, of any sign; sign: the bit that counts.
  LONGHAUL_INLINE void SetPlace(int i, typename L::F scaled, typename L::U sign) {
    constexpr int kShift = Places::kEdgeShift;
    const typename L::U abs = L::Abs(scaled);
    const typename L::U above = L::AddBits(abs, L::SplatBits((1u << kShift) - 1));
    codes_[i] =
        L::AddBits(L::template ShiftRight<kShift>(abs), L::template ShiftRight<kShift>(above));
    signs_[i] = sign;
  }
  LONGHAUL_INLINE void Store(std::byte* out) const {
    if constexpr (kByPlace) {
      L::template StorePlaces<MiniOf(kScheme.grid)>(codes_, signs_, out);
    } else {
      L::template StoreCodes<kScheme>(codes_, out);
    }
  }

 private:
  static constexpr int kVectors = kChunk / L::kWidth;
  static constexpr bool kByPlace = IsMini(kScheme.grid) && kScheme.bits == 4;
  using Places = MiniPlaces<kByPlace ? MiniOf(kScheme.grid) : MiniFloat::kE2M1>;
  typename L::U codes_[kVectors];
  typename L::U signs_[kByPlace ? kVectors : 1];
};

// As LoopNoisyE2m1Codes but for the sign.
template <class L>
LONGHAUL_INLINE typename L::U ToNoisyE2m1(typename L::F x, typename L::F u) {
  using U = typename L::U;
  const typename L::F abs = L::Min(L::FromBits(L::Abs(x)), L::Splat(6.0f));
  const U small = L::Truncate(L::Add(L::Mul(abs, L::Splat(2.0f)), u));
  const U noise = L::Truncate(L::Mul(u, L::Splat(0x1p22f)));
  const U large = L::SubBits(L::template ShiftRight<22>(L::AddBits(L::Bits(abs), noise)),
                             L::SplatBits(126u << 1));
  const U code =
      L::AddBits(small, L::KeepAtLeast(L::SubBits(large, small), L::Bits(abs), 0x3F800000));
  return L::SubBits(code, L::KeepAtLeast(L::SubBits(code, L::SplatBits(7)), code, 8));
}

// As Quantize, rounded by the draws u. Clamping an integer before or after rounding down is the
// same.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE typename L::U QuantizeNoisy(typename L::F v, typename L::F u,
                                            const OneBlock<L>& block) {
  if constexpr (kScheme.grid == Grid::kAffine) {
    return L::Truncate(L::Add(L::Mul(L::Sub(v, block.zero), block.inverse), u));
  } else if constexpr (kScheme.grid == Grid::kE2M1) {
    const typename L::U sign = L::And(L::Bits(v), L::Bits(block.sign));
    return L::Or(ToNoisyE2m1<L>(L::Mul(v, block.inverse), u), L::template ShiftRight<28>(sign));
  } else {
    return L::Floor(L::Add(L::Mul(v, block.inverse), u));
  }
}

}  // namespace longhaul
