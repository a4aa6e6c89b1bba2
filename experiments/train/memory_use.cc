#include "experiments/train/memory_use.h"

#include <fstream>
#include <string>

namespace longhaul {

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
