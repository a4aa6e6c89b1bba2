#include "plugin/swarm/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::FailedPreconditionError(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("open", path, errno);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? absl::OkStatus() : Failed("write to disk", path, error);
}

// "a/b/" of "a/b/c/"; "." where there is no folder before.
std::string Parent(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

absl::Status CheckRoom(const Manifest& manifest, const std::string& files) {
  int64_t missing = TotalBytes(manifest);
  for (const ManifestFile& file : manifest.files) {
    struct stat about {};
    if (stat((files + "/" + file.path).c_str(), &about) != 0) continue;
    missing -= std::min<int64_t>(file.bytes, int64_t{about.st_blocks} * 512);
  }
  struct statvfs disk {};
  if (statvfs(files.c_str(), &disk) != 0) return Failed("ask for room in", files, errno);
  const int64_t room = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (room >= missing) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{}: {} bytes are still to come and the disk has room for {}", files, missing, room));
}

absl::Status CheckSame(const Manifest& manifest, const std::string& path) {
  const std::string kept_path = path + "/manifest.json";
  if (!fs::exists(kept_path)) return WriteManifest(manifest, kept_path);
  const absl::StatusOr<Manifest> kept = ReadManifest(kept_path);
  if (kept.ok() && *kept == manifest) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} is the partial of another manifest ({}): remove it, or fetch into another folder", path,
      kept.ok() ? "SHA-256 " + ManifestDigest(*kept) : "unreadable"));
}

absl::Status MakeFolders(const Manifest& manifest, const std::string& files) {
  for (const ManifestFile& file : manifest.files) {
    std::error_code error;
    const fs::path path = fs::path(files) / file.path;
    fs::create_directories(path.parent_path(), error);
    if (error) return Failed("make folder", path.parent_path().string(), error.value());
    if (file.bytes > 0 || fs::exists(path)) continue;  // nobody sends an empty file
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return Failed("create", path.string(), errno);
    close(fd);
  }
  return absl::OkStatus();
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

PartialFolder::PartialFolder(std::string into, int lock_fd)
    : into_(WithoutSlash(std::move(into))), path_(into_ + ".partial"), lock_fd_(lock_fd) {}

PartialFolder::~PartialFolder() { close(lock_fd_); }

absl::StatusOr<std::unique_ptr<PartialFolder>> PartialFolder::Open(const Manifest& manifest,
                                                                   const std::string& into) {
  const std::string path = WithoutSlash(into) + ".partial";
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Failed("make folder", path, error.value());
  const std::string lock = path + "/lock";
  const int lock_fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_fd < 0) return Failed("create", lock, errno);
  std::unique_ptr<PartialFolder> folder(new PartialFolder(into, lock_fd));
  if (flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: another fetch is at work in it", folder->path()));
  }
  RETURN_IF_ERROR(CheckSame(manifest, path));
  RETURN_IF_ERROR(MakeFolders(manifest, folder->files()));
  RETURN_IF_ERROR(CheckRoom(manifest, folder->files()));
  return folder;
}

absl::Status PartialFolder::Finish(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckFiles(manifest, files()));
  for (const ManifestFile& file : manifest.files) {
    RETURN_IF_ERROR(Sync(files() + "/" + file.path));
    RETURN_IF_ERROR(Sync(Parent(files() + "/" + file.path)));
  }
  if (renameat2(AT_FDCWD, files().c_str(), AT_FDCWD, into_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) {
      return absl::AlreadyExistsError(
          fmt::format("{} has come into being meanwhile; the files are in {}", into_, files()));
    }
    return Failed("rename to", into_, errno);
  }
  std::error_code ignored;  // what is left of it is empty
  fs::remove_all(path_, ignored);
  return Sync(Parent(into_));
}

absl::Status CheckInto(const Manifest& manifest, const std::string& into) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(into, error))) return absl::NotFoundError(into);
  if (fs::is_directory(into, error)) {
    if (const auto status = CheckFiles(manifest, into); status.ok()) return status;
  }
  return absl::AlreadyExistsError(
      fmt::format("{} is there and holds something else: remove it, or choose another", into));
}

}  // namespace longhaul
