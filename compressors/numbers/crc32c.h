#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longhaul {

// CRC32C (Castagnoli, reflected polynomial 0x82F63B78, init and xor-out all ones).
// "123456789" -> 0xE3069283. Uses VPCLMULQDQ with AVX-512 or the SSE4.2 instruction where the CPU
// has them, tables otherwise.
//
// `crc` continues an earlier call: Crc32c(b, Crc32c(a)) is the CRC of a followed by b.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same, never on more than the calling thread: for codecs, whose slices are threads' already.
uint32_t Crc32cAlone(std::span<const std::byte> bytes, uint32_t crc = 0);

// The CRC of a followed by b, from those of both: what threads summed apart is put together.
uint32_t Crc32cCombine(uint32_t a, uint32_t b, size_t b_bytes);

// What carry-less multiplication keeps of the bytes so far: the last four lines of 64, onto which
// all before were folded (line i at i % 4), and what is no line yet.
struct FoldedCrc {
  uint32_t initial = 0;
  size_t line_count = 0, rest_bytes = 0;
  alignas(64) std::byte lines[4][64] = {};
  std::byte rest[64] = {};
};

// The CRC of bytes that come piece by piece. Nothing is finished at the end of a piece, which would
// cost as much as summing a kilobyte.
class Crc32cRun {
 public:
  void Add(std::span<const std::byte> bytes);
  uint32_t value() const;

 private:
  uint32_t crc_ = 0;  // where there is no carry-less multiplication
  FoldedCrc folded_;
};

// The implementations, for tests; all equal Crc32c bit for bit.
uint32_t Crc32cTable(const std::byte* bytes, size_t n, uint32_t crc = 0);
uint32_t Crc32cSse42(const std::byte* bytes, size_t n, uint32_t crc = 0);
bool Crc32cSse42Supported();
uint32_t Crc32cVpclmul(const std::byte* bytes, size_t n, uint32_t crc = 0);
bool Crc32cVpclmulSupported();
void Crc32cFold(const std::byte* bytes, size_t n, FoldedCrc& folded);
uint32_t Crc32cOfFolded(const FoldedCrc& folded);

}  // namespace longhaul
