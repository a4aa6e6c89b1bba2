#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace longhaul {

// SHA-256 (FIPS 180-4) of what is added, piece by piece, by OpenSSL. A target of its own,
// longhaul::sha256: who encodes tensors needs no libcrypto.
class Sha256 {
 public:
  Sha256();
  void Add(std::span<const std::byte> bytes);
  std::string Hex();  // 64 digits in lower case; nothing may be added after it

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Of all bytes at once. Names data in records.
std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Sha256Hex(std::string_view text);

}  // namespace longhaul
