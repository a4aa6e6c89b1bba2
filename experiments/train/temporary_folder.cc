#include "experiments/train/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "longhaul-state-";
constexpr size_t kDrawn = 6;  // characters that mkdtemp draws
constexpr char kLock[] = "lock";

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " ", path, ": ", std::strerror(error),
                   "; TMPDIR names another folder for temporary files"));
}

// A folder of this user's in which nothing was made or removed for so long.
bool MayBeLeftOver(int folder, absl::Duration age) {
  struct stat about {};
  return fstat(folder, &about) == 0 && about.st_uid == geteuid() &&
         absl::Now() - absl::TimeFromTimespec(about.st_ctim) >= age;
}

// The lock is held while its folder is removed, so that two who clean up do not meet in it. One
// without a lock was killed before it had one.
void RemoveIfNobodyHolds(const std::string& path, absl::Duration age) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  const int lock = openat(folder, kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  const bool none = lock < 0 && errno == ENOENT;
  const bool mine = MayBeLeftOver(folder, age) && (none || flock(lock, LOCK_EX | LOCK_NB) == 0);
  std::error_code ignored;
  if (mine) fs::remove_all(path, ignored);  // follows no links
  if (lock >= 0) close(lock);
  close(folder);
}

void RemoveLeftovers(const fs::path& temporary, absl::Duration age) {
  std::error_code error;
  for (fs::directory_iterator at(temporary, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() == kPrefix.size() + kDrawn && name.starts_with(kPrefix)) {
      RemoveIfNobodyHolds(at->path().string(), age);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Make(
    absl::Duration leftover_age) {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) return Failed("find the temporary folder", temporary.string(), error.value());
  RemoveLeftovers(temporary, leftover_age);
  std::string path =
      (temporary / absl::StrCat(std::string(kPrefix), std::string(kDrawn, 'X'))).string();
  if (mkdtemp(path.data()) == nullptr) return Failed("make a folder", path, errno);
  const std::string lock = absl::StrCat(path, "/", kLock);
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const absl::Status failed = Failed("make and lock", lock, errno);
    if (fd >= 0) close(fd);
    std::error_code ignored;
    fs::remove_all(path, ignored);
    return failed;
  }
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path), fd));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_fd_);
}

absl::Status MountMemoryDisk(const std::string& folder, const std::string& options) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::InternalError(absl::StrCat("make ", folder, ": ", strerror(errno)));
  }
  if (mount("longhaul", folder.c_str(), "tmpfs", 0, options.c_str()) != 0) {
    return absl::InternalError(
        absl::StrCat("mount a disk in memory (", options, ") at ", folder, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
