#include "experiments/train/memory_disk.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace longhaul {

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
