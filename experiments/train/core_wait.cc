#include "experiments/train/core_wait.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace longhaul {

// A line of schedstat: ns on a core, ns of waiting for one, turns.
std::optional<absl::Duration> WaitedForCores() {
  std::error_code error;
  std::optional<absl::Duration> sum;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "schedstat");
    int64_t ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) {
      sum = sum.value_or(absl::ZeroDuration()) + absl::Nanoseconds(waited_ns);
    }
  }
  return sum;
}

std::optional<StolenTicks> StolenIn(const std::string& stat) {
  std::istringstream fields(stat);
  std::string name;
  if (!(fields >> name) || name != "cpu") return std::nullopt;
  StolenTicks out;
  // user nice system idle iowait irq softirq steal; what guests took is in user and nice.
  for (int i = 0; i < 8; ++i) {
    int64_t ticks = 0;
    if (!(fields >> ticks)) return std::nullopt;
    out.all += ticks;
    if (i == 7) out.stolen = ticks;
  }
  return out;
}

std::optional<StolenTicks> Stolen() {
  std::string first;
  std::getline(std::ifstream("/proc/stat"), first);
  return StolenIn(first);
}

}  // namespace longhaul
