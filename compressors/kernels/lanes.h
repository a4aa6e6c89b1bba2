#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "compressors/kernels/block_scheme.h"
#include "compressors/tensor.h"

namespace longhaul {

// What the kernels ask of the lanes of an instruction set (avx2/lanes.h, avx512/lanes.h): F is a
// vector of kWidth floats, U one of as many 32-bit integers. Bits are those of 32-bit lanes;
// "across" is over the lanes of one vector. Memory needs no alignment unless said.
template <class L>
concept VectorLanes = requires(typename L::F f, typename L::U u, const typename L::F* fs,
                               typename L::F* changed, const typename L::U* us, typename L::U* sums,
                               const std::byte* in, std::byte* out, const float* x, float* to,
                               const int8_t* steps, typename L::NaNs nans, uint32_t word) {
  // Memory.
  L::template Load<DType::kBF16>(in);       // kWidth elements of a dtype, widened
  L::template Store<DType::kBF16>(f, out);  // narrowed as Kernels::convert does
  L::StreamLine(in, out);                   // 64 bytes to an aligned line, past the caches
  L::LoadSigned(in);                        // a byte per lane, sign extended
  L::LoadUnsigned(in);                      // a byte per lane, zero extended
  L::StoreHalves(u, out);                   // the low 16 bits of every lane
  L::StoreBytes(u, out);                    // the low 8 bits of every lane
  L::StoreSigned32(us, out);                // 32 integers as signed bytes
  L::StoreHalvesOf32(us, out);              // 32 codes: byte j = code j | code (j + 16) << 4
  // Floats. Min and Max answer b where either is NaN.
  { L::Splat(1.0f) } -> std::same_as<typename L::F>;  // one value in all lanes
  L::SplatHalf(uint16_t{});                           // the same of a finite fp16
  L::Add(f, f), L::Sub(f, f), L::Mul(f, f), L::Div(f, f), L::Min(f, f), L::Max(f, f);
  { L::Round(f) } -> std::same_as<typename L::U>;  // to the nearest integer, ties to even
  L::Floor(f), L::Truncate(f);                     // downwards; towards zero
  L::ToFloat(u, 8);                                // u - 8 as floats
  nans.Add(f, f), nans.any();                      // whether NaN was in one of many vectors
  // Bits.
  L::Bits(f), L::FromBits(u), L::SplatBits(word), L::Zero();  // reinterpreted; in all lanes
  L::And(u, u), L::Or(u, u), L::Xor(u, u);
  L::AddBits(u, u), L::SubBits(u, u);  // as integers, wrapping
  L::template ShiftRight<1>(u), L::template ShiftLeft<1>(u);
  L::Abs(f);                   // |f| as bits, whose order is that of the numbers
  L::MaxBits(u, u);            // the larger integer, both below 2^31
  L::KeepAtLeast(u, u, word);  // a where b >= word > 0, both below 2^31; else 0
  // Across.
  L::MaxAcross(u), L::SumAcross(u);  // the largest; the sum
  L::MinAcross(f), L::MaxFloatAcross(f);
  L::AddAcross(f);                     // lane j + lane j + half, and so on (tree_sum.h)
  L::AcrossMaxBits(us);                // lane b: the largest of us[b]'s, kWidth vectors
  L::AcrossMin(fs), L::AcrossMax(fs);  // the same of floats
  // Masks of one bit per lane.
  { L::AtLeastMask(x, word) } -> std::convertible_to<uint32_t>;  // |x| as bits >= word
  L::NotNegativeMask(x);                                         // x >= 0 (-0 too)
  L::Select(in, f, f);                                           // b where bit j of `in` is set
  // Codes.
  L::template FromMini<MiniFloat::kE4M3>(u);   // as MiniToF32
  L::template LoadMini<MiniFloat::kE4M3>(in);  // the same of codes of eight bits in memory
  L::template LoadCodes<4>(in);  // kWidth codes of 4 bits; reads up to kCodeSlack bytes more
  L::template StoreCodes<BlockScheme{4, Grid::kSymmetric}>(us, out);  // 64, clamped to the grid
  L::template StorePlaces<MiniFloat::kE2M1>(us, us, out);  // 64 from places (mini_places.h), signs
  (typename L::Entries(x)).Of(u);                          // x[u], u < 16
  // Transforms.
  L::template Hadamard<64>(changed);  // H64 / 8 of 64 floats, stages 1, 2, 4, .. 32
  L::HadamardOf32(in, steps, sums);   // H q of 32 codes of four bits, q = steps[code], |q| <= 15
  // Philox (noise_loops.h): words in the lower halves of 64-bit lanes, upper halves anything.
  L::Counters(uint64_t{});  // first, first + 1, ..
  L::MulLow(u, u);          // lower halves multiplied, 64 bits each
  L::UpperHalf(u);          // moved into the lower one
  L::StoreUniform(us, to);  // the four words of the counters as draws, counter by counter
};
// What only some have: ByteEntries (x[code] of eight bits), StoreKept and StoreReaching
// (top_k_loops.h).

}  // namespace longhaul
