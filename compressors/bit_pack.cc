#include "compressors/bit_pack.h"

namespace longhaul {

void PackBits(std::span<const uint8_t> codes, int bits, std::span<std::byte> out) {
  uint32_t window = 0;  // bits not yet written, LSB first
  int held = 0;
  size_t at = 0;
  for (uint8_t code : codes) {
    window |= uint32_t{code} << held;
    held += bits;
    for (; held >= 8; held -= 8, window >>= 8) out[at++] = static_cast<std::byte>(window);
  }
  if (held > 0) out[at] = static_cast<std::byte>(window);
}

void UnpackBits(std::span<const std::byte> in, int bits, std::span<uint8_t> codes) {
  const uint32_t mask = (1u << bits) - 1;
  uint32_t window = 0;
  int held = 0;
  size_t at = 0;
  for (uint8_t& code : codes) {
    if (held < bits) {
      window |= static_cast<uint32_t>(in[at++]) << held;
      held += 8;
    }
    code = static_cast<uint8_t>(window & mask);
    window >>= bits;
    held -= bits;
  }
}

}  // namespace longhaul
