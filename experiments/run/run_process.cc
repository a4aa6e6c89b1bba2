#include "experiments/run/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/launch/program_run.h"
#include "experiments/run/lab_main.h"
#include "experiments/run/memory_plan.h"
#include "experiments/run/stall_tracker.h"
#include "experiments/train/in_process.h"
#include "netem/lab/lab.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// What the kernel may need to take a lab apart on a busy machine.
constexpr absl::Duration kTimeToEnd = absl::Seconds(5);

absl::Status ErrnoStatus(const char* what) {
  return absl::InternalError(fmt::format("{}: {}", what, strerror(errno)));
}

// What a terminal sends to all its processes is the command's to answer: it ends the run in order.
// Blocked and not ignored, because that is what a started program inherits, too.
void LeaveTerminalSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

// The child of a loopback run. It dies with the command and leaves terminal signals to it.
[[noreturn]] void InProcessMain(const RunSpec& spec, const std::string& checkpoint_directory,
                                const Branching& branching, int events_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);   // the command died before the line above
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is the command's alone
  LeaveTerminalSignals();
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  sigprocmask(SIG_BLOCK, &terminate, nullptr);  // in_process.h
  FdEventSink sink(events_fd);
  const int64_t gpu_bytes = GpuBytesOfRank(spec, 0);
  _exit(RunInProcess(spec, checkpoint_directory, branching, gpu_bytes, sink).ok() ? 0 : 1);
}

absl::StatusOr<pid_t> StartProcess(const RunSpec& spec, const std::string& checkpoint_directory,
                                   const Branching& branching, int events_fd) {
  if (spec.program) {
    ASSIGN_OR_RETURN(const LabProcess lab,
                     StartLab(
                         [&spec, events_fd, outside = PidNamespace()] {
                           LeaveTerminalSignals();
                           dup2(STDERR_FILENO, STDOUT_FILENO);
                           return ProgramMain(spec, events_fd, outside);
                         },
                         {events_fd}, LabLifetime::kWithCaller, {}, LabNetwork::kCallers));
    return lab.pid;
  }
  if (spec.net.transport == "loopback") {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) InProcessMain(spec, checkpoint_directory, branching, events_fd, parent);
    if (child < 0) return ErrnoStatus("fork the run's process");
    return child;
  }
  // By our /proc, which the lab cannot see.
  const Fd own_stat(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  ASSIGN_OR_RETURN(LabProcess lab, StartLab(
                                       [&] {
                                         LeaveTerminalSignals();
                                         dup2(STDERR_FILENO, STDOUT_FILENO);
                                         return LabMain(spec, checkpoint_directory, events_fd,
                                                        own_stat.get());
                                       },
                                       {events_fd, own_stat.get()}));
  return lab.pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunProcess>> RunProcess::Start(
    const RunSpec& spec, const std::string& checkpoint_directory, const Branching& branching) {
  int events[2];
  if (pipe2(events, O_CLOEXEC) != 0) return ErrnoStatus("make the event pipe");
  absl::StatusOr<pid_t> pid = StartProcess(spec, checkpoint_directory, branching, events[1]);
  close(events[1]);
  if (!pid.ok()) {
    close(events[0]);
    return pid.status();
  }
  std::unique_ptr<RunProcess> run(new RunProcess(spec, *pid, events[0]));
  RETURN_IF_ERROR(run->Watch());
  return run;
}

RunProcess::RunProcess(const RunSpec& spec, pid_t pid, int events_fd)
    : pid_(pid),
      reader_(events_fd),
      spec_(spec),
      one_process_(spec.net.transport == "loopback" && !spec.program),
      workers_may_go_(spec.outer.on_group_loss == "continue"),
      deadline_(absl::Seconds(spec.net.peer_deadline_s)),
      watch_(pid, one_process_ ? LabMonitor::Kind::kOneProcess : LabMonitor::Kind::kLab,
             LookInterval(deadline_)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

absl::Status RunProcess::Watch() {
  fcntl(reader_.fd(), F_SETFL, O_NONBLOCK);
  const timespec interval = absl::ToTimespec(LookInterval(deadline_));
  const itimerspec every{interval, interval};
  bool watched = timerfd_settime(timer_.get(), 0, &every, nullptr) == 0;
  for (const int fd : {reader_.fd(), timer_.get()}) {
    epoll_event event{EPOLLIN, {.fd = fd}};
    watched = watched && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  return watched ? absl::OkStatus() : ErrnoStatus("watch a run's events and processes");
}

RunProcess::~RunProcess() {
  Kill();
  close(reader_.fd());
}

absl::StatusOr<EventReader::More> RunProcess::Read(
    const std::function<void(const nlohmann::json&)>& handle) {
  epoll_event ready[2];
  const int count = epoll_wait(epoll_.get(), ready, 2, -1);
  EventReader::More more = EventReader::More::kYes;
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.fd == timer_.get()) {
      uint64_t looks = 0;
      if (read(timer_.get(), &looks, sizeof looks) > 0) Look();
      continue;
    }
    absl::StatusOr<EventReader::More> read = reader_.Read([&](const nlohmann::json& event) {
      cause_.Observe(event);
      handle(event);
    });
    if (!read.ok()) return read;
    more = *read;
  }
  return more;
}

// A peer that says first what followed from a standstill does not hide it: from then on a process
// that stands still is the cause at once.
void RunProcess::Look() {
  const std::optional<LabMonitor::Finding> found = watch_.Look(MonotonicClock().Now());
  if (found && found->rank >= 0 && workers_may_go_) return;  // the lab starts its group anew
  if (!found || over_ || cause_.stood_still()) return;
  if (found->lasted < (cause_.known() || ended_ ? LookInterval(deadline_) : deadline_)) return;
  cause_.StoodStill(Describe(*found));
  kill(pid_, SIGKILL);  // the kernel takes the rest, stopped or not
}

std::string RunProcess::Describe(const LabMonitor::Finding& found) const {
  std::string who = found.who;
  if (found.rank >= 0) {
    const int64_t ranks = spec_.ranks();
    who = fmt::format("rank {} (group {} {} {})", found.rank, found.rank / ranks,
                      spec_.schedule.chunks == 1 ? "stage" : "rank", found.rank % ranks);
  }
  return fmt::format(
      "{} stood still since step {}: process {} is {} (state {}) for {:.1f} s, deadline {:g} s "
      "(net.peer_deadline_s)",
      who, found.rank < 0 ? cause_.last_step() : cause_.last_step(found.rank), found.pid,
      found.state == 't' ? "held by a debugger" : "stopped", found.state,
      absl::ToDoubleSeconds(found.lasted), absl::ToDoubleSeconds(deadline_));
}

// A process on the way that is stopped keeps the others from ending, so they are looked at; one
// whose thread a debugger holds cannot even be killed. nullopt: it had to be, or is left behind so.
std::optional<int> RunProcess::Wait(absl::Duration at_most) {
  const absl::Duration interval = std::min(LookInterval(deadline_), at_most);
  const timespec pause = absl::ToTimespec(interval);
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd gone{process.get(), POLLIN, 0};
  const absl::Duration end = MonotonicClock().Now() + at_most;
  while (ppoll(&gone, process.ok() ? 1 : 0, &pause, nullptr) <= 0) {
    if (MonotonicClock().Now() >= end) {
      kill(pid_, SIGKILL);
      return std::nullopt;
    }
    Look();
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

absl::Status RunProcess::Finish() {
  ended_ = true;
  const std::optional<int> ended = Wait(deadline_ + kTimeToEnd);
  const pid_t pid = std::exchange(pid_, 0);
  if (!ended) {
    cause_.Fail(
        fmt::format("after step {}, the run's process {} had nothing more to say and did not "
                    "end within {:g} s",
                    cause_.last_step(), pid, absl::ToDoubleSeconds(deadline_ + kTimeToEnd)));
  }
  const int status = ended.value_or(0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitCommandStoodStill && !cause_.stood_still()) {
    return absl::UnavailableError(fmt::format(
        "this command itself stood still since step {}: process {} was stopped for longer than the "
        "deadline of {:g} s (net.peer_deadline_s), so the lab ended the run; what was measured "
        "until then is recorded",
        cause_.last_step(), getpid(), absl::ToDoubleSeconds(deadline_)));
  }
  RETURN_IF_ERROR(cause_.status());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  // A lab ends with 128 + the signal that ended the process with its links.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  return absl::UnavailableError(fmt::format(
      "after step {}, the run's process {}; what was measured until then is recorded",
      cause_.last_step(),
      signal > 0 ? "was " + killed_by_.Text(signal)
                 : fmt::format("ended with status {} and gave no reason", WEXITSTATUS(status))));
}

bool RunProcess::AskToStop() const { return one_process_ && pid_ > 0 && kill(pid_, SIGTERM) == 0; }

void RunProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  over_ = true;  // nobody is asked any more
  (void)Wait(kTimeToEnd);
  pid_ = 0;
}

}  // namespace longhaul
