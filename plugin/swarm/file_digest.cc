#include "plugin/swarm/file_digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr size_t kReadBytes = 1 << 20;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Add(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }
  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
    return hex;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::FailedPreconditionError(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

absl::StatusOr<FileDigest> DigestOpen(int fd, const std::string& path) {
  Sha256 sha;
  const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  int64_t bytes = 0;
  while (true) {
    const ssize_t got = read(fd, buffer.get(), kReadBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path, errno);
    if (got == 0) return FileDigest{bytes, sha.Hex()};
    sha.Add(buffer.get(), static_cast<size_t>(got));
    bytes += got;
  }
}

}  // namespace

std::string Sha256Of(std::string_view text) {
  Sha256 sha;
  sha.Add(text.data(), text.size());
  return sha.Hex();
}

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
