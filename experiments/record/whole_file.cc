#include "experiments/record/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace longhaul {
namespace {

constexpr int kMostLinks = 40;  // as the kernel

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(
      fmt::format("cannot write {}: {}", path,
                  error == EISDIR ? std::string("it is a folder") : std::strerror(error)));
}

// Where the bytes of `path` go: past its symbolic links, of which the last may lead to nothing yet.
struct Target {
  std::string path;
  int descriptor = -1;  // of this process, as /dev/stdout is 1
  bool regular = true;  // or not there
  mode_t mode = 0;      // 0: not there
};

absl::StatusOr<Target> TargetOf(const std::string& path) {
  Target target{path};
  for (int links = 0;; ++links) {
    absl::string_view name = target.path;
    if ((absl::ConsumePrefix(&name, "/proc/self/fd/") || absl::ConsumePrefix(&name, "/dev/fd/")) &&
        absl::SimpleAtoi(name, &target.descriptor)) {
      target.regular = false;
      return target;
    }
    std::error_code error;
    const auto link = std::filesystem::read_symlink(target.path, error);
    if (error) break;
    if (links == kMostLinks) return CannotWrite(path, ELOOP);
    target.path = (std::filesystem::path(target.path).parent_path() / link).string();
  }
  struct stat found;
  if (stat(target.path.c_str(), &found) != 0) {
    if (errno == ENOENT) return target;
    return CannotWrite(path, errno);
  }
  if (S_ISDIR(found.st_mode)) return CannotWrite(path, EISDIR);
  target.regular = S_ISREG(found.st_mode);
  target.mode = found.st_mode & 07777;
  return target;
}

std::string PartOf(const std::string& target) {
  return fmt::format("{}.{}.part", target, getpid());
}

// A new file that nobody else has open.
int MakePart(const std::string& part) {
  unlink(part.c_str());
  return open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

}  // namespace

absl::StatusOr<WholeFile> WholeFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const Target target, TargetOf(path));
  WholeFile file(path);
  file.target_ = target.path;
  if (target.descriptor >= 0) {
    std::fflush(target.descriptor == 2 ? stderr : stdout);
    file.fd_ = fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0);
  } else if (!target.regular) {
    file.fd_ = open(target.path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    file.part_ = PartOf(target.path);
    file.fd_ = MakePart(file.part_);
    if (file.fd_ >= 0 && target.mode != 0) fchmod(file.fd_, target.mode);
  }
  if (file.fd_ < 0) return CannotWrite(path, errno);
  return file;
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      part_(std::move(other.part_)),
      fd_(std::exchange(other.fd_, -1)),
      error_(other.error_) {}

WholeFile::~WholeFile() { Discard(); }

void WholeFile::Discard() {
  if (fd_ < 0) return;
  close(std::exchange(fd_, -1));
  if (!part_.empty()) unlink(part_.c_str());
}

void WholeFile::Write(std::string_view bytes) {
  while (error_ == 0 && !bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written >= 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) error_ = errno;
  }
}

absl::Status WholeFile::Close() {
  if (error_ == 0 && close(std::exchange(fd_, -1)) != 0) error_ = errno;
  if (error_ == 0 && !part_.empty() && rename(part_.c_str(), target_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  Discard();
  if (!part_.empty()) unlink(part_.c_str());
  return CannotWrite(path_, error_);
}

absl::Status WriteWholeFile(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(WholeFile file, WholeFile::Open(path));
  file.Write(text);
  return file.Close();
}

absl::Status CheckWritable(const std::string& path) {
  ASSIGN_OR_RETURN(const Target target, TargetOf(path));
  if (!target.regular) return absl::OkStatus();
  const std::string part = PartOf(target.path);
  const int fd = MakePart(part);
  if (fd < 0) return CannotWrite(path, errno);
  close(fd);
  unlink(part.c_str());
  return absl::OkStatus();
}

}  // namespace longhaul
