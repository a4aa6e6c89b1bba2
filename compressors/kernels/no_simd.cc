// Processors without our vector kernels: isa.cc never offers them, the names lead to the reference.
#include "compressors/kernels/block_kernels.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/fp4_kernels.h"
#include "compressors/kernels/loop_kernels.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {

const BlockKernelTable& Avx2BlockKernels() { return ScalarBlockKernels(); }
const BlockKernelTable& Avx512BlockKernels() { return ScalarBlockKernels(); }
// Never asked for.
const Fp4Kernels& Avx2Fp4Kernels() { __builtin_unreachable(); }
const Fp4Kernels& Avx512Fp4Kernels() { __builtin_unreachable(); }
const LoopKernels& Avx2LoopKernels() { return ScalarLoopKernels(); }
const LoopKernels& Avx512LoopKernels() { return ScalarLoopKernels(); }
const ConvertTable& Avx2Converters() { return ScalarConverters(); }
const ConvertTable& Avx512Converters() { return ScalarConverters(); }
uint32_t Crc32cSse42(std::span<const std::byte> bytes, uint32_t crc) {
  return Crc32cTable(bytes, crc);
}
bool Crc32cSse42Supported() { return false; }
uint32_t Crc32cVpclmul(std::span<const std::byte> bytes, uint32_t crc) {
  return Crc32cTable(bytes, crc);
}
bool Crc32cVpclmulSupported() { return false; }
void Crc32cFold(std::span<const std::byte>, FoldedCrc&) { __builtin_unreachable(); }
uint32_t Crc32cOfFolded(const FoldedCrc&) { __builtin_unreachable(); }

}  // namespace longhaul
