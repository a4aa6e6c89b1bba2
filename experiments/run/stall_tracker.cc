#include "experiments/run/stall_tracker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "netem/kernel/scheduling.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

std::string ReadProc(pid_t pid, const char* file) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(pid) + "/" + file).rdbuf();
  return text.str();
}

// What follows the name in /proc/PID/stat: state, parent, ... The name may hold anything.
std::istringstream AfterName(const std::string& stat) {
  const size_t end = stat.rfind(')');
  return std::istringstream(end == std::string::npos ? "" : stat.substr(end + 1));
}

std::vector<pid_t> ChildrenByScan(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::istringstream fields = AfterName(ReadProc(pid, "stat"));
    char state = 0;
    pid_t its_parent = 0;
    if (fields >> state >> its_parent && its_parent == parent) children.push_back(pid);
  }
  return children;
}

// Of every thread of the process, in the order of their ids.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  std::vector<pid_t> children;
  std::error_code error;
  bool told = false;
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream list(task.path() / "children");
    told = told || list.is_open();
    for (pid_t pid; list >> pid;) children.push_back(pid);
  }
  if (!told) children = ChildrenByScan(parent);  // a kernel without CONFIG_PROC_CHILDREN
  std::sort(children.begin(), children.end());
  return children;
}

// The launcher gives it to every worker, before and after its exec.
int RankOf(pid_t pid) {
  const std::string environment = '\0' + ReadProc(pid, "environ");
  const std::string name("\0RANK=", 6);
  const size_t at = environment.find(name);
  return at == std::string::npos ? -1 : std::atoi(environment.c_str() + at + name.size());
}

// nullopt: the command is gone; then the kernel ends the lab.
std::optional<char> StateAt(int stat_fd) {
  char text[512];
  const ssize_t n = pread(stat_fd, text, sizeof text, 0);
  if (n <= 0) return std::nullopt;
  return StateLetter(std::string(text, static_cast<size_t>(n)));
}

}  // namespace

absl::Duration LookInterval(absl::Duration deadline) {
  return std::clamp(deadline / 8, absl::Milliseconds(50), absl::Seconds(1));
}

void StallTracker::Look(absl::Duration now) {
  const absl::Duration missed = now_ ? now - *now_ - interval_ : absl::ZeroDuration();
  if (missed > interval_) {
    for (auto& [who, still] : still_) still.since += missed;
  }
  std::erase_if(still_, [&](const auto& entry) { return entry.second.look != look_; });
  now_ = now;
  ++look_;
}

void StallTracker::Saw(int64_t who, bool is_still) {
  if (!is_still) {
    still_.erase(who);
    return;
  }
  still_.try_emplace(who, Still{*now_, look_}).first->second.look = look_;
}

std::optional<StallTracker::Standstill> StallTracker::Longest() const {
  std::optional<Standstill> longest;
  for (const auto& [who, still] : still_) {
    if (still.look != look_) continue;
    const absl::Duration lasted = *now_ - still.since;
    if (!longest || lasted > longest->lasted) longest = Standstill{who, lasted};
  }
  return longest;
}

absl::Duration StoppedProcesses::StoppedFor(pid_t pid, absl::Duration now) {
  const std::optional<char> state = StateLetter(ReadProc(pid, "stat"));
  if (state && StandsStill(*state)) return now - since_.emplace(pid, now).first->second;
  since_.erase(pid);
  return absl::ZeroDuration();
}

std::optional<char> StateLetter(const std::string& stat) {
  std::istringstream fields = AfterName(stat);
  char state = 0;
  if (fields >> state) return state;
  return std::nullopt;
}

bool StandsStill(char state) { return state == 'T' || state == 't'; }

LabMonitor::LabMonitor(pid_t first, Kind kind, absl::Duration interval)
    : first_(first), kind_(kind), watch_(interval) {}

std::optional<LabMonitor::Finding> LabMonitor::Look(absl::Duration now) {
  std::map<pid_t, std::string> all;
  if (kind_ == Kind::kOneProcess) {
    all[first_] = "the run's process";
  } else {
    all[first_] = "the lab's keeper";
    const std::vector<pid_t> inits = ChildrenOf(first_);
    const std::vector<pid_t> bodies = inits.empty() ? inits : ChildrenOf(inits.front());
    if (!inits.empty()) all[inits.front()] = "the lab's first process";
    if (!bodies.empty()) {
      all[bodies.front()] = "the lab's own process, which runs the links";
      for (const pid_t worker : ChildrenOf(bodies.front())) all[worker] = "";
    }
  }
  watch_.Look(now);
  std::map<pid_t, char> states;
  for (const auto& [pid, who] : all) {
    const std::optional<char> state = StateLetter(ReadProc(pid, "stat"));
    if (!state) continue;
    states[pid] = *state;
    watch_.Saw(pid, StandsStill(*state));
  }
  const std::optional<StallTracker::Standstill> longest = watch_.Longest();
  if (!longest) return std::nullopt;
  const auto pid = static_cast<pid_t>(longest->who);
  const std::string& who = all[pid];
  const int rank = who.empty() ? RankOf(pid) : -1;
  return Finding{pid, who.empty() && rank < 0 ? "a process of the lab" : who, rank, states[pid],
                 longest->lasted};
}

CommandWatch::CommandWatch(int stat_fd, absl::Duration deadline)
    : stat_fd_(stat_fd), deadline_(deadline), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (stat_fd_ < 0 || !stop_.ok()) return;
  thread_ = ThreadWithoutSignals([this] { Main(); });
}

CommandWatch::~CommandWatch() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void CommandWatch::Main() {
  const absl::Duration interval = LookInterval(deadline_);
  const timespec wait = absl::ToTimespec(interval);
  StallTracker watch(interval);
  pollfd stop{stop_.get(), POLLIN, 0};
  while (ppoll(&stop, 1, &wait, nullptr) <= 0) {
    watch.Look(MonotonicClock().Now());
    const std::optional<char> state = StateAt(stat_fd_);
    watch.Saw(0, state && StandsStill(*state));
    const auto still = watch.Longest();
    // No word of it: the pipe may be full. The exit status says it.
    if (still && still->lasted >= deadline_) _exit(kExitCommandStoodStill);
  }
}

}  // namespace longhaul
