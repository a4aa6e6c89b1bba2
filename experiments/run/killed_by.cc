#include "experiments/run/killed_by.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace longhaul {
namespace {

// The number behind "oom_kill " at the start of a line.
std::optional<int64_t> OomKills(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("oom_kill ")) return std::atoll(line.c_str() + 9);
  }
  return std::nullopt;
}

// Where the counts of the control group of /proc/self/cgroup's text may stand. A container often
// sees its own group as the root.
std::vector<std::string> GroupFiles(const std::string& cgroups) {
  std::vector<std::string> files;
  std::istringstream lines(cgroups);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) {
      files.push_back("/sys/fs/cgroup" + path + "/memory.events");
    } else if (line.find(":memory:") != std::string::npos) {
      files.push_back("/sys/fs/cgroup/memory" + path + "/memory.oom_control");
    }
  }
  files.emplace_back("/sys/fs/cgroup/memory.events");
  files.emplace_back("/sys/fs/cgroup/memory/memory.oom_control");
  return files;
}

bool Rose(const std::optional<int64_t>& before, const std::optional<int64_t>& after) {
  return before && after && *after > *before;
}

}  // namespace

KilledBy::KilledBy(ReadFile read) : read_(std::move(read)), before_(Count()) {}

std::optional<std::string> KilledBy::ReadWholeFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

std::optional<int64_t> KilledBy::CountOfGroup() const {
  for (const std::string& file : GroupFiles(read_("/proc/self/cgroup").value_or(""))) {
    if (const auto kills = OomKills(read_(file))) return kills;
  }
  return std::nullopt;
}

KilledBy::Kills KilledBy::Count() const {
  return {CountOfGroup(), OomKills(read_("/proc/vmstat"))};
}

std::string KilledBy::Text(int signal) const {
  const std::string text = fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  if (signal != SIGKILL) return text;
  const Kills now = Count();
  if (Rose(before_.group, now.group)) {
    return text +
           ": memory ran out, says the kernel (its control group has had an out-of-memory kill "
           "since the run began); make the run smaller or give it more memory";
  }
  if (Rose(before_.machine, now.machine)) {
    return text +
           " while the kernel killed for lack of memory on this machine (dmesg names whom); make "
           "the run smaller or give it more memory";
  }
  if (before_.group || before_.machine) {
    return text + " by another process: the kernel counted no out-of-memory kill";
  }
  return text + "; whether memory ran out can't be told here";
}

}  // namespace longhaul
