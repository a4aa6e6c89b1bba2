#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace longhaul {

// SHA-256 (FIPS 180-4) of what is added, piece by piece.
class Sha256 {
 public:
  void Add(std::span<const std::byte> bytes);
  std::string Hex();  // 64 digits; nothing may be added after it

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 128> rest_{};  // what has not filled a block of 64 bytes yet
  size_t rest_bytes_ = 0;
  uint64_t bytes_ = 0;
};

// Of `bytes` at once. Names data in records.
std::string Sha256Hex(std::span<const std::byte> bytes);

}  // namespace longhaul
