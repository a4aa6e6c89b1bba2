#include "experiments/record/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

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
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string text = fmt::format("{}: cannot be read: {}", path, strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  }
  constexpr size_t kPiece = 1 << 18;
  // Not made anew for each of thousands of small files.
  thread_local const auto piece = std::make_unique_for_overwrite<unsigned char[]>(kPiece);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  bool hashed = EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  ssize_t n = 0;
  while ((n = read(fd, piece.get(), kPiece)) > 0 || (n < 0 && errno == EINTR)) {
    if (n < 0) continue;
    hashed = EVP_DigestUpdate(context.get(), piece.get(), static_cast<size_t>(n)) == 1 && hashed;
  }
  const int failed = n < 0 ? errno : 0;
  close(fd);
  if (failed != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: cannot be read: {}", path, strerror(failed)));
  }
  hashed = EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1 && hashed;
  if (!hashed) return absl::InternalError(fmt::format("{}: SHA-256 failed", path));
  return Hex(digest);
}

}  // namespace longhaul
