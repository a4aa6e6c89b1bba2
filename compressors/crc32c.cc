#include "compressors/crc32c.h"

#include <array>
#include <cstring>

namespace longhaul {
namespace {

// table[0] is the classic byte table; table[k][b] is the CRC of byte b followed by k zero bytes, so
// eight look-ups consume eight bytes at once.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    t[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xFF];
  }
  return t;
}
constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t Crc32cTable(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; --left, ++p) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(*p)) & 0xFF];
  }
  return ~crc;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  static const bool fast = Crc32cSse42Supported();
  return fast ? Crc32cSse42(bytes, crc) : Crc32cTable(bytes, crc);
}

}  // namespace longhaul
