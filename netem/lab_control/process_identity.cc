#include "netem/lab_control/process_identity.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

namespace longhaul {
namespace {

Fd OpenPid(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// Of /proc/PID/stat, by the numbers of proc(5): 4 is the parent, 22 the start. "": no such process.
// The second field, a name, may hold blanks and brackets.
std::string StatField(pid_t pid, int number) {
  const std::string stat = ReadFileOrEmpty(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int at = 3; at <= number; ++at) fields >> field;
  return fields ? field : "";
}

pid_t PidOf(const Fd& process) {
  const std::string facts = ReadFileOrEmpty(fmt::format("/proc/self/fdinfo/{}", process.get()));
  const size_t at = facts.find("\nPid:");
  return at == std::string::npos ? -1 : atoi(facts.c_str() + at + 5);
}

}  // namespace

std::string IdentityOf(pid_t pid) {
  const std::string start = StatField(pid, 22);
  struct stat space {};
  if (start.empty() || stat("/proc/self/ns/pid", &space) != 0) return "";
  return fmt::format("{} {} {} {}", pid, start, space.st_ino,
                     ReadFileOrEmpty("/proc/sys/kernel/random/boot_id"));
}

Fd OpenProcess(const std::string& identity) {
  const pid_t pid = atoi(identity.c_str());
  if (pid <= 0) return Fd();
  Fd process = OpenPid(pid);
  // Compared after it was opened: what is held from then on is this one.
  return process.ok() && IdentityOf(pid) == identity ? std::move(process) : Fd();
}

std::vector<Fd> WithChildren(Fd process) {
  std::vector<Fd> found;
  const pid_t parent = PidOf(process);
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  while (const dirent* entry = processes == nullptr ? nullptr : readdir(processes.get())) {
    const pid_t pid = atoi(entry->d_name);
    if (pid <= 0 || parent <= 0 || StatField(pid, 4) != fmt::format("{}", parent)) continue;
    Fd child = OpenPid(pid);
    if (child.ok() && StatField(pid, 4) == fmt::format("{}", parent)) {
      found.push_back(std::move(child));
    }
  }
  found.push_back(std::move(process));
  return found;
}

void KillProcess(const Fd& process) {
  syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

bool EndedWithin(const Fd& process, absl::Duration patience) {
  const absl::Time end = MonotonicNow() + patience;
  for (;;) {
    pollfd ended{process.get(), POLLIN, 0};
    const absl::Duration left = std::max(end - MonotonicNow(), absl::ZeroDuration());
    const timespec limit = absl::ToTimespec(left);
    if (ppoll(&ended, 1, &limit, nullptr) > 0) return true;
    if (left <= absl::ZeroDuration()) return false;
  }
}

}  // namespace longhaul
