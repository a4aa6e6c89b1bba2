#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longhaul {

// Codes of k bits as one little-endian bit string, LSB first: code j takes bits [jk, jk+k).

constexpr size_t PackedBytes(size_t codes, int bits) { return (codes * bits + 7) / 8; }

// codes: [n], each < 2^bits, 1 <= bits <= 8 -> out: [PackedBytes(n, bits)]; spare bits are zero.
void PackBits(std::span<const uint8_t> codes, int bits, std::span<std::byte> out);

// The inverse. in: [PackedBytes(codes.size(), bits)].
void UnpackBits(std::span<const std::byte> in, int bits, std::span<uint8_t> codes);

}  // namespace longhaul
