#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longhaul {

// CRC32C (Castagnoli, reflected polynomial 0x82F63B78, init and xor-out all ones), as ISA-L sums it with
// what the processor has. "123456789" -> 0xE3069283.
//
// `crc` continues an earlier call: Crc32c(b, Crc32c(a)) is the CRC of a followed by b.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same, never on more than the calling thread: for codecs, whose slices are threads' already.
uint32_t Crc32cAlone(std::span<const std::byte> bytes, uint32_t crc = 0);

// The CRC of a followed by b, from those of both: what threads summed apart is put together.
uint32_t Crc32cCombine(uint32_t a, uint32_t b, size_t b_bytes);

}  // namespace longhaul
