#include "experiments/record/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

// A file without a name, also where O_TMPFILE is unknown (overlayfs, NFS).
int NamelessFile(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.reserve-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

DiskReserve::DiskReserve(DiskReserve&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DiskReserve& DiskReserve::operator=(DiskReserve&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DiskReserve::~DiskReserve() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DiskReserve::Take(const std::string& folder, int64_t bytes) {
  if (fd_ >= 0) return absl::OkStatus();
  fd_ = NamelessFile(folder);
  const int error = fd_ < 0 ? errno : posix_fallocate(fd_, 0, bytes);
  if (error == 0) return absl::OkStatus();
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (error != ENOSPC && error != EDQUOT) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("keep {} KiB of the disk of {} for how a run ends: the disk is full ({}); free "
                  "some space",
                  bytes >> 10, folder, std::strerror(error)));
}

bool DiskReserve::Release() {
  if (fd_ < 0) return false;
  // Closing would not do: the run's processes have inherited the file.
  const bool released = ftruncate(fd_, 0) == 0;
  close(std::exchange(fd_, -1));
  return released;
}

}  // namespace longhaul
