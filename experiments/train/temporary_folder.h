#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

// A folder for large files of this process alone below the temporary folder (TMPDIR, else /tmp):
// "longhaul-state-XXXXXX", private to the user and removed with this object. While the process
// lives it holds the folder's file "lock" (flock), which the kernel lets go of however the process
// ends: what a kill leaves behind is removed by whoever makes the next one.
class TemporaryFolder {
 public:
  // First removes folders of this name and user that nobody holds and that are as old as that: a
  // younger one may be about to be locked. FailedPrecondition: the path and the system's word.
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make(
      absl::Duration leftover_age = absl::Minutes(1));
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  const std::string path_;
  const int lock_fd_;
};

// Mounts a disk in memory at `folder`, which is made where it is not there, in this process's own
// mount namespace: gone with the process, however it ends. A node's alone: anybody else's mounts
// are left alone. `options`: of tmpfs, as "size=4k,mode=0700". Internal: with the path.
absl::Status MountMemoryDisk(const std::string& folder, const std::string& options);

}  // namespace longhaul
