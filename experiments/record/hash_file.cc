#include "experiments/record/hash_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "compressors/numbers/sha256.h"

namespace longhaul {

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string text = fmt::format("{}: cannot be read: {}", path, strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  }
  constexpr size_t kPiece = 1 << 18;
  // Not made anew for each of thousands of small files.
  thread_local const auto piece = std::make_unique_for_overwrite<std::byte[]>(kPiece);
  Sha256 hash;
  ssize_t n = 0;
  while ((n = read(fd, piece.get(), kPiece)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) hash.Add({piece.get(), static_cast<size_t>(n)});
  }
  const int failed = n < 0 ? errno : 0;
  close(fd);
  if (failed != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: cannot be read: {}", path, strerror(failed)));
  }
  return hash.Hex();
}

}  // namespace longhaul
