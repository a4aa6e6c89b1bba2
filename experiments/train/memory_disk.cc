#include "experiments/train/memory_disk.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

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

std::optional<int64_t> PeakPrivateBytes() {
  std::ifstream status("/proc/self/status");
  int64_t peak_kib = -1, file_kib = -1;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) peak_kib = std::stoll(line.substr(6));
    if (line.starts_with("RssFile:")) file_kib = std::stoll(line.substr(8));
  }
  if (peak_kib < 0 || file_kib < 0) return std::nullopt;
  return (peak_kib - file_kib) * 1024;
}

}  // namespace longhaul
