#include "plugin/swarm/file_digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "compressors/numbers/sha256.h"

namespace longhaul {
namespace {

constexpr size_t kReadBytes = 1 << 20;

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::FailedPreconditionError(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

absl::StatusOr<FileDigest> DigestOpen(int fd, const std::string& path) {
  Sha256 sha;
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kReadBytes);
  int64_t bytes = 0;
  while (true) {
    const ssize_t got = read(fd, buffer.get(), kReadBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path, errno);
    if (got == 0) return FileDigest{bytes, sha.Hex()};
    sha.Add({buffer.get(), static_cast<size_t>(got)});
    bytes += got;
  }
}

}  // namespace

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  // A FIFO would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Failed("open", path, errno);
  struct stat about {};
  absl::StatusOr<FileDigest> digest =
      fstat(fd, &about) == 0 && S_ISREG(about.st_mode)
          ? DigestOpen(fd, path)
          : absl::FailedPreconditionError(fmt::format("{} is not a regular file", path));
  close(fd);
  return digest;
}

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::file_status status = it->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is neither a folder nor a regular file: links, pipes and devices do not travel",
          it->path().string()));
    }
    files.push_back(it->path().lexically_relative(folder).string());
  }
  if (error) {
    return absl::InvalidArgumentError(fmt::format("list {}: {}", folder, error.message()));
  }
  if (files.empty()) return absl::InvalidArgumentError(fmt::format("{}: no files in it", folder));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace longhaul
