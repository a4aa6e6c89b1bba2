#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace longhaul {

// SHA-256 (FIPS 180-4) of `bytes` as 64 hex digits. Names data in records.
std::string Sha256Hex(std::span<const std::byte> bytes);

}  // namespace longhaul
