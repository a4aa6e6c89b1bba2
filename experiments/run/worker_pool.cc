#include "experiments/run/worker_pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "netem/lab/lab.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr int kMasterPort = 29500;
constexpr int kEventsFd = 3;  // in the worker
constexpr int kPhaseFd = 4;
constexpr absl::Duration kHealthInterval = absl::Seconds(1);

absl::StatusOr<int> SpecFile(const RunSpec& spec) {
  const std::string text = ToToml(spec);
  const int fd = memfd_create("longhaul-spec", MFD_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::InternalError(fmt::format("hand the spec to the workers: {}", strerror(errno)));
  }
  return fd;
}

std::string HowItEnded(int wait_status, const KilledBy& killed_by) {
  if (WIFSIGNALED(wait_status)) {
    return "the worker was " + killed_by.Text(WTERMSIG(wait_status));
  }
  return fmt::format("the worker ended with status {}", WEXITSTATUS(wait_status));
}

}  // namespace

WorkerPool::WorkerPool(const RunSpec& spec, const Emulator& emulator, FdEventSink& sink,
                       int events_fd, std::function<void(const std::string&)> on_phase)
    : spec_(spec),
      emulator_(emulator),
      sink_(sink),
      events_fd_(events_fd),
      gates_(std::move(on_phase)),
      emulator_watch_(kHealthInterval + kAnswerDeadline) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  child_signal_fd_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

WorkerPool::~WorkerPool() {
  for (const auto& [pid, rank] : running_) {
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close(child_signal_fd_);
}

absl::Status WorkerPool::StartAll(const std::string& checkpoint_directory) {
  const int ranks = static_cast<int>(spec_.schedule.stages * spec_.outer.groups);
  for (int rank = 0; rank < ranks; ++rank) {
    if (absl::Status s = Start(rank, checkpoint_directory); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status WorkerPool::Start(int rank, const std::string& checkpoint_directory) {
  absl::StatusOr<int> spec_fd = SpecFile(spec_);
  if (!spec_fd.ok()) return spec_fd.status();
  absl::StatusOr<int> phase_fd = gates_.AddWorker();
  if (!phase_fd.ok()) return phase_fd.status();
  NodeCommand command;
  command.argv = {"/proc/self/exe",
                  "worker",
                  "/proc/self/fd/0",
                  "--events-fd",
                  fmt::format("{}", kEventsFd),
                  "--phase-fd",
                  fmt::format("{}", kPhaseFd),
                  "--interface",
                  "net0"};
  if (!checkpoint_directory.empty()) {
    command.argv.insert(command.argv.end(), {"--checkpoints", checkpoint_directory});
  }
  command.environment = {fmt::format("RANK={}", rank),
                         fmt::format("WORLD_SIZE={}", spec_.schedule.stages * spec_.outer.groups),
                         fmt::format("MASTER_ADDR={}", NodeAddress(0)),
                         fmt::format("MASTER_PORT={}", kMasterPort),
                         fmt::format("OMP_NUM_THREADS={}", spec_.limits.threads),
                         // c10d warns that nodes have no host names; nodes have none.
                         "TORCH_CPP_LOG_LEVEL=ERROR", "PATH=/usr/bin:/bin"};
  command.inherit_fds = {
      {0, *spec_fd}, {1, 2}, {2, 2}, {kEventsFd, events_fd_}, {kPhaseFd, *phase_fd}};
  absl::StatusOr<pid_t> pid = SpawnInNode(emulator_, rank, command);
  close(*spec_fd);
  close(*phase_fd);
  if (!pid.ok()) return pid.status();
  running_[*pid] = rank;
  return absl::OkStatus();
}

absl::Status WorkerPool::Reap() {
  absl::Status first;
  int wait_status = 0;
  for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto it = running_.find(pid);
    if (it == running_.end()) continue;  // an orphan: the lab's first process inherits them
    const int rank = it->second;
    running_.erase(it);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) continue;
    if (killed_ && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) continue;
    const std::string how = HowItEnded(wait_status, killed_by_);
    sink_.Emit({{"event", "exited"},
                {"rank", rank},
                {"message", how},
                {"by_signal", WIFSIGNALED(wait_status) != 0}});
    if (first.ok()) first = absl::UnavailableError(fmt::format("rank {}: {}", rank, how));
  }
  return first;
}

void WorkerPool::Sleep(absl::Duration at_most) {
  std::vector<pollfd> fds = {{child_signal_fd_, POLLIN, 0}};
  for (const int fd : gates_.fds()) fds.push_back({fd, POLLIN, 0});
  const timespec limit =
      absl::ToTimespec(std::clamp(at_most, absl::ZeroDuration(), absl::Hours(1)));
  if (ppoll(fds.data(), fds.size(), &limit, nullptr) <= 0) return;
  signalfd_siginfo ignored;
  while (read(child_signal_fd_, &ignored, sizeof ignored) > 0) {
  }
  for (size_t worker = 0; worker + 1 < fds.size(); ++worker) {
    if (fds[worker + 1].revents != 0) gates_.Arrived(worker);
  }
}

// An emulator that does not answer is given the time that a silent peer is given; none where
// workers have lost each other already, which follows from it.
absl::Status WorkerPool::CheckLinks(Patience patience) {
  absl::Status health = emulator_.health();
  emulator_watch_.Look(MonotonicClock().Now());
  emulator_watch_.Saw(0, absl::IsDeadlineExceeded(health));
  const auto still = emulator_watch_.Longest();
  if (still) {
    const absl::Duration deadline = absl::Seconds(spec_.net.peer_deadline_s);
    const absl::Duration silent = still->lasted + kAnswerDeadline;
    if (patience == Patience::kDeadline && silent < deadline) return absl::OkStatus();
    health = absl::DeadlineExceededError(fmt::format(
        "the emulator stood still: its thread has not answered for {:.1f} s, deadline {:g} s "
        "(net.peer_deadline_s)",
        absl::ToDoubleSeconds(silent), spec_.net.peer_deadline_s));
  }
  // At once, before the workers tell what follows from it.
  if (!health.ok()) sink_.EmitFailure(-1, 0, health);
  return health;
}

absl::Status WorkerPool::WaitForAll(absl::Duration grace) {
  absl::Status first;
  absl::Duration kill_at = absl::InfiniteDuration();
  const Clock& clock = MonotonicClock();
  absl::Duration health_at = clock.Now();
  for (;;) {
    absl::Status failed = Reap();
    // Without its links no worker gets anywhere: end now, and say what broke.
    if (failed.ok() && clock.Now() >= health_at) {
      failed = CheckLinks(Patience::kDeadline);
      health_at = clock.Now() + kHealthInterval;
    }
    if (running_.empty()) return first.ok() ? failed : first;
    if (!failed.ok() && first.ok()) {
      if (!absl::IsDeadlineExceeded(failed)) {
        if (absl::Status s = CheckLinks(Patience::kNone); !s.ok()) failed = s;
      }
      first = failed;
      const bool stuck = absl::IsDeadlineExceeded(failed);
      kill_at = clock.Now() + (stuck ? absl::ZeroDuration() : grace);
      health_at = absl::InfiniteDuration();
      gates_.OpenAll();
    }
    if (clock.Now() >= kill_at) {
      for (const auto& [pid, rank] : running_) kill(pid, SIGKILL);
      killed_ = true;
      kill_at = absl::InfiniteDuration();
    }
    Sleep(std::min(kill_at, health_at) - clock.Now());
  }
}

}  // namespace longhaul
