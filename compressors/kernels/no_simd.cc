// Processors without our vector kernels: isa.cc never offers them, all there is is the reference.
#include "compressors/kernels/kernels.h"

namespace longhaul {

const Kernels& KernelsOf(Isa) { return scalar::Table(); }
uint32_t Crc32cSse42(const std::byte* bytes, size_t n, uint32_t crc) {
  return Crc32cTable(bytes, n, crc);
}
bool Crc32cSse42Supported() { return false; }
uint32_t Crc32cVpclmul(const std::byte* bytes, size_t n, uint32_t crc) {
  return Crc32cTable(bytes, n, crc);
}
bool Crc32cVpclmulSupported() { return false; }
void Crc32cFold(const std::byte*, size_t, FoldedCrc&) { __builtin_unreachable(); }
uint32_t Crc32cOfFolded(const FoldedCrc&) { __builtin_unreachable(); }

}  // namespace longhaul
