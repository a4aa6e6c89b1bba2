#include "compressors/families/stochastic.h"

#include <cstring>
#include <limits>

#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/hadamard.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr float kWiden = 4.0f / 3.0f;  // of the scale of E2M1

void FlipSigns(const Kernels& kernels, uint64_t seed, uint64_t first, float* x, size_t n) {
  float u[kMaxBlock + 4];
  const size_t skip = first % 4;  // noise is drawn in whole groups of four
  kernels.uniform(seed, static_cast<uint32_t>(NoisePurpose::kSignFlips), first - skip, n + skip, u);
  kernels.flip_signs(x, u + skip, n, x);
}

}  // namespace

bool CanRoundStochastically(BlockScheme scheme) {
  return !IsMini(scheme.grid) || scheme.grid == Grid::kE2M1;
}

BlockFault EncodeBlockStochastic(BlockScheme scheme, const Kernels& kernels, uint64_t seed,
                                 uint64_t first, float* x, size_t c, BlockSections out) {
  if (scheme.rotation == Rotation::kHadamard) {
    if (scheme.grid == Grid::kE2M1) FlipSigns(kernels, seed, first, x, c);
    if (c == static_cast<size_t>(scheme.block)) Hadamard({x, c});
  }
  const uint32_t max_bits = kernels.abs_max(x, c);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;
  float u[kMaxBlock + 4];
  const size_t skip = first % 4;  // noise is drawn in whole groups of four
  kernels.uniform(seed, static_cast<uint32_t>(NoisePurpose::kRounding), first - skip, c + skip, u);
  uint8_t q[kMaxBlock];
  WireScale s;
  const float top = TopValue(scheme);
  if (scheme.grid == Grid::kAffine) {
    float min, max;
    kernels.range(x, c, &min, &max);
    const uint16_t wire_z = AffineZero(min);
    const float z = Bf16ToF32(wire_z);
    if (AffineOverflows(min, max, z)) return BlockFault::kRange;
    s = AffineScale(z, max, Levels(scheme));
    kernels.noisy_codes(x, u + skip, c, z, s.inverse, s.value == 0 ? 0.0f : top, q);
    std::memcpy(out.zeros, &wire_z, 2);
  } else {
    s = AbsMaxScale(scheme, max_bits);
    if (scheme.grid == Grid::kSymmetric) {
      kernels.noisy_signed_codes(x, u + skip, c, s.inverse, s.value == 0 ? 0.0f : top,
                                 static_cast<float>(CodeOffset(scheme)), q);
    } else if (s.value == 0) {
      std::memset(q, 0, c);
    } else {
      kernels.noisy_e2m1_codes(x, u + skip, c, 1.0f / (s.value * kWiden), q);
    }
  }
  WriteScale(scheme, s, out.scales);
  PackBits({q, c}, scheme.bits, {out.codes, PackedBytes(c, scheme.bits)});
  return BlockFault::kNone;
}

void FinishStochasticDecode(BlockScheme scheme, const Kernels& kernels, uint64_t seed,
                            uint64_t first, float* x, size_t n) {
  if (scheme.grid != Grid::kE2M1) return;
  for (size_t i = 0; i < n; ++i) {  // the top of the widened grid may lie just above fp32
    const float most = std::numeric_limits<float>::max(), wide = x[i] * kWiden;
    const float low = wide < -most ? -most : wide;
    x[i] = low > most ? most : low;
  }
  if (scheme.rotation == Rotation::kHadamard) FlipSigns(kernels, seed, first, x, n);
}

}  // namespace longhaul
