// CRC32C by the SSE4.2 instruction. The instruction has a latency of three cycles and a throughput
// of one, so three neighbouring pieces run interleaved; their sums are combined by multiplying with
// the matrix "append kPiece zero bytes" over GF(2), as four byte tables.
#include "compressors/numbers/crc32c.h"

#include <nmmintrin.h>

#include <cstring>

#include "compressors/kernels/prefetch.h"

namespace longhaul {
namespace {

// Bytes of each of the three strings that are summed at once, powers of two.
constexpr size_t kLong = 1024, kShort = 128;
struct Matrix {
  uint32_t column[32];
};

constexpr uint32_t Multiply(const Matrix& m, uint32_t v) {
  uint32_t sum = 0;
  for (size_t i = 0; v != 0; ++i, v >>= 1) {
    if (v & 1) sum ^= m.column[i];
  }
  return sum;
}

struct Shifts {
  uint32_t of[4][256];
};

// What appending `bytes` zero bytes makes of each byte of a CRC.
constexpr Shifts MakeShifts(size_t bytes) {
  Matrix m{};
  m.column[0] = 0x82F63B78;  // one zero bit
  for (size_t i = 1; i < 32; ++i) m.column[i] = uint32_t{1} << (i - 1);
  for (size_t bits = 1; bits < 8 * bytes; bits *= 2) {
    Matrix square{};
    for (size_t i = 0; i < 32; ++i) square.column[i] = Multiply(m, m.column[i]);
    m = square;
  }
  Shifts t{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t b = 0; b < 256; ++b) t.of[byte][b] = Multiply(m, b << (8 * byte));
  }
  return t;
}
template <size_t kBytes>
constexpr Shifts kShifts = MakeShifts(kBytes);

template <size_t kBytes>
uint32_t Shift(uint32_t crc) {
  const Shifts& t = kShifts<kBytes>;
  return t.of[0][crc & 0xFF] ^ t.of[1][(crc >> 8) & 0xFF] ^ t.of[2][(crc >> 16) & 0xFF] ^
         t.of[3][crc >> 24];
}

uint64_t Word(const std::byte* p) {
  uint64_t w;
  std::memcpy(&w, p, 8);
  return w;
}

// Three strings at once, because one instruction waits for the one before it for three cycles.
template <size_t kBytes>
uint64_t SumThree(const std::byte*& p, size_t& left, uint64_t c) {
  for (; left >= 3 * kBytes; left -= 3 * kBytes, p += 3 * kBytes) {
    uint64_t c1 = 0, c2 = 0;
    for (size_t line = 0; line < kBytes; line += 64) {
      for (size_t s = 0; s < 3; ++s) PrefetchBehind(p + s * kBytes + line);
      for (size_t i = line; i < line + 64; i += 8) {
        c = _mm_crc32_u64(c, Word(p + i));
        c1 = _mm_crc32_u64(c1, Word(p + kBytes + i));
        c2 = _mm_crc32_u64(c2, Word(p + 2 * kBytes + i));
      }
    }
    c = Shift<kBytes>(static_cast<uint32_t>(c)) ^ c1;
    c = Shift<kBytes>(static_cast<uint32_t>(c)) ^ c2;
  }
  return c;
}

}  // namespace

uint32_t Crc32cSse42(const std::byte* p, size_t left, uint32_t crc) {
  uint64_t c = static_cast<uint32_t>(~crc);
  c = SumThree<kLong>(p, left, c);
  c = SumThree<kShort>(p, left, c);
  for (; left >= 8; left -= 8, p += 8) c = _mm_crc32_u64(c, Word(p));
  for (; left > 0; --left, ++p) {
    c = _mm_crc32_u8(static_cast<uint32_t>(c), static_cast<uint8_t>(*p));
  }
  return ~static_cast<uint32_t>(c);
}

bool Crc32cSse42Supported() { return __builtin_cpu_supports("sse4.2"); }

}  // namespace longhaul
