#include "compressors/numbers/sha256.h"

#include <array>
#include <cstdlib>

namespace longhaul {
namespace {

// These calls fail only where memory is out or a policy of the machine forbids SHA-256; a name that
// stands for no bytes would be worse than an end.
void MustBe1(int result) {
  if (result != 1) std::abort();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  MustBe1(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::Add(std::span<const std::byte> bytes) {
  MustBe1(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::Hex() {
  std::array<unsigned char, 32> digest;
  MustBe1(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

std::string Sha256Hex(std::string_view text) { return Sha256Hex(std::as_bytes(std::span(text))); }

}  // namespace longhaul
