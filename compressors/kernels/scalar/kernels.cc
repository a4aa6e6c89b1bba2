// The reference: plain loops, one element at a time, for any processor.
#include <cstring>
#include <utility>

#include "compressors/kernels/convert.h"
#include "compressors/kernels/make_kernels.h"

namespace longhaul::scalar {
namespace {

struct Lanes {
  static constexpr size_t kWidth = 1;
  static uint32_t AtLeastMask(const float* x, uint32_t bits) {
    return (BitsOf(*x) & kAbsMask) >= bits ? 1 : 0;
  }
  static uint32_t NotNegativeMask(const float* x) { return *x >= 0 ? 1 : 0; }
};

template <DType kFrom, DType kTo>
bool Convert(const std::byte* in, size_t n, std::byte* out) {
  uint32_t top = 0;
  for (size_t i = 0; i < n; ++i) {
    const float x = LoadElement(in, kFrom, i);
    const uint32_t abs = BitsOf(x) & kAbsMask;
    top = abs > top ? abs : top;
    if constexpr (kFrom != kTo) StoreElement(x, out, kTo, i);
  }
  if constexpr (kFrom == kTo) std::memcpy(out, in, n * BytesPerElement(kFrom));  // the very bits
  return top < kInfBits;
}

template <BlockScheme kScheme>
BlockFault EncodeBlocks(const std::byte* x, size_t blocks, BlockSections out) {
  for (size_t b = 0; b < blocks; ++b) {
    const BlockFault fault = EncodeBlockReference(kScheme, x, kScheme.block, out);
    if (fault != BlockFault::kNone) return fault;
    x += 4 * kScheme.block;
    out.scales += ScaleBytes(kScheme);
    out.zeros += ZeroBytes(kScheme);
    out.codes += CodeBytes(kScheme);
  }
  return BlockFault::kNone;
}

template <BlockScheme kScheme>
bool DecodeBlocks(ConstBlockSections in, size_t blocks, std::byte* x) {
  for (size_t b = 0; b < blocks; ++b) {
    if (!DecodeBlockReference(kScheme, in, kScheme.block, x)) return false;
    x += 4 * kScheme.block;
    in.scales += ScaleBytes(kScheme);
    in.zeros += ZeroBytes(kScheme);
    in.codes += CodeBytes(kScheme);
  }
  return true;
}

template <size_t... kScheme, size_t... kTypes>
constexpr Kernels Make(std::index_sequence<kScheme...>, std::index_sequence<kTypes...>) {
  Kernels k = MakeLoops<Lanes>();
  ((k.convert[kTypes / 3][kTypes % 3] = Convert<DType{kTypes / 3}, DType{kTypes % 3}>), ...);
  ((k.encode_blocks[kScheme] = EncodeBlocks<kBlockSchemes[kScheme]>), ...);
  ((k.decode_blocks[kScheme] = DecodeBlocks<kBlockSchemes[kScheme]>), ...);
  return k;
}

}  // namespace

const Kernels& Table() {
  static constexpr Kernels kernels =
      Make(std::make_index_sequence<kBlockSchemes.size()>(), std::make_index_sequence<9>());
  return kernels;
}

}  // namespace longhaul::scalar
