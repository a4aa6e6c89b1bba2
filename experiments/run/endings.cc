#include "experiments/run/endings.h"

#include <algorithm>
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

constexpr absl::Duration kTimeToTell = absl::Seconds(5);
constexpr absl::Duration kTimeOfALostGroup = absl::Milliseconds(500);

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

void RootCause::Observe(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  const int rank = event.value("rank", -1);
  if (kind == "step") last_step_[rank] = event.value("step", int64_t{0});
  if (kind == "failed") {
    if (rank >= 0) failed_.insert(rank);  // the lab tells of a worker that ended
    if (event.value("stood_still", false)) {
      StoodStill(Describe(event));
    } else if (!cause_) {
      Replace(rank, Describe(event));
      diverged_ = event.value("diverged", false);
      invalid_ = event.value("invalid", false);
    }
  }
  if (kind == "exited" && event.value("by_signal", false) && !killed_by_signal_ && !stood_still_) {
    Replace(rank, Describe(event));
    killed_by_signal_ = true;
  }
}

void RootCause::StoodStill(const std::string& message) {
  if (stood_still_) return;
  Replace(/*rank=*/-1, message);
  stood_still_ = true;
}

void RootCause::Fail(const std::string& message) {
  if (!cause_) Replace(/*rank=*/-1, message);
}

void RootCause::Replace(int rank, const std::string& message) {
  cause_ = message;
  rank_ = rank;
  diverged_ = invalid_ = false;
}

std::string RootCause::Describe(const nlohmann::json& event) const {
  const int rank = event.value("rank", -1);
  const std::string who = event.value("who", "the lab");
  const std::string where = rank >= 0 ? fmt::format("rank {} after step {}", rank, last_step(rank))
                            : last_step() > 0 ? fmt::format("{} after step {}", who, last_step())
                                              : who;
  return fmt::format("{}: {}", where, event.value("message", "no reason given"));
}

absl::Status RootCause::status() const {
  if (!cause_) return absl::OkStatus();
  const size_t others = failed_.size() - failed_.count(rank_);
  std::string message = *cause_;
  if (others > 0) {
    message += fmt::format(" ({} other rank{} ended with it)", others, others == 1 ? "" : "s");
  }
  if (diverged_) return absl::OutOfRangeError(message);
  if (invalid_) return absl::FailedPreconditionError(message);
  return absl::UnavailableError(message);
}

int64_t RootCause::last_step(int rank) const {
  const auto found = last_step_.find(rank);
  return found == last_step_.end() ? 0 : found->second;
}

int64_t RootCause::last_step() const {
  int64_t last = 0;
  for (const auto& [rank, step] : last_step_) last = std::max(last, step);
  return last;
}

absl::Duration GraceToEnd(const RunSpec& spec) {
  return absl::Seconds(spec.net.peer_deadline_s) + kTimeToTell;
}

absl::Duration KillDeadline(const absl::Status& failed, absl::Duration now, absl::Duration grace) {
  return absl::IsDeadlineExceeded(failed) ? now : now + grace;
}

std::vector<pid_t> WorkersToTerminate(std::span<const RunningWorker> workers,
                                      const GroupLives& groups, absl::Duration now,
                                      absl::Duration deadline) {
  std::vector<pid_t> ended;
  for (const RunningWorker& worker : workers) {
    if (groups.IsLostFor(worker.group, kTimeOfALostGroup, now) || worker.stopped_for > deadline) {
      ended.push_back(worker.pid);
    }
  }
  return ended;
}

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
           ": out of memory (OOM kill in this control group); make the run smaller or give it more "
           "memory";
  }
  if (Rose(before_.machine, now.machine)) {
    return text +
           ": possibly out of memory: the kernel's OOM killer was active on this machine (see "
           "dmesg); make the run smaller or give it more memory";
  }
  if (before_.group || before_.machine) {
    return text + " by another process: the kernel counted no out-of-memory kill";
  }
  return text + "; cause unknown: this kernel exposes no OOM counters";
}

}  // namespace longhaul
