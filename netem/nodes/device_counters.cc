#include "netem/nodes/device_counters.h"

#include <array>
#include <sstream>

#include "netem/kernel/posix.h"

namespace longhaul {

absl::StatusOr<DeviceCounters> ReadDeviceCounters(const std::string& device) {
  // /proc/net would be the process's.
  std::istringstream words(ReadFileOrEmpty("/proc/thread-self/net/dev"));
  std::string word;
  while (words >> word && word != device + ":") {
  }
  if (!words) return absl::NotFoundError(device + " is not in /proc/thread-self/net/dev");
  // Eight columns of what was received, then bytes, packets, errors and drops of what was sent.
  std::array<int64_t, 12> columns{};
  for (int64_t& column : columns) words >> column;
  if (!words) return absl::DataLossError(device + ": too few columns in /proc net/dev");
  return DeviceCounters{columns[0], columns[1], columns[8], columns[9], columns[11]};
}

}  // namespace longhaul
