#include "experiments/run/stopped_processes.h"

#include <fstream>
#include <string>

#include <fmt/format.h>

namespace longhaul {
namespace {

// proc(5): the state follows the name, which may have parentheses of its own.
bool IsStopped(pid_t pid) {
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 &&
         (stat[name_end + 2] == 'T' || stat[name_end + 2] == 't');
}

}  // namespace

absl::Duration StoppedProcesses::StoppedFor(pid_t pid, absl::Duration now) {
  if (!IsStopped(pid)) {
    since_.erase(pid);
    return absl::ZeroDuration();
  }
  return now - since_.emplace(pid, now).first->second;
}

}  // namespace longhaul
