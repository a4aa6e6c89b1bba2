#include "experiments/record/sha256.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

namespace longhaul {
namespace {

std::string Hex(const std::array<unsigned char, SHA256_DIGEST_LENGTH>& digest) {
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

std::string Sha256Hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return Hex(digest);
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  if (file == nullptr) {
    const std::string text = fmt::format("{}: cannot be read: {}", path, strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  bool hashed = EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<unsigned char> piece(1 << 20);
  for (size_t n = 0; (n = fread(piece.data(), 1, piece.size(), file.get())) > 0;) {
    hashed = EVP_DigestUpdate(context.get(), piece.data(), n) == 1 && hashed;
  }
  if (ferror(file.get()) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: cannot be read: {}", path, strerror(errno)));
  }
  hashed = EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1 && hashed;
  if (!hashed) return absl::InternalError(fmt::format("{}: SHA-256 failed", path));
  return Hex(digest);
}

}  // namespace longhaul
