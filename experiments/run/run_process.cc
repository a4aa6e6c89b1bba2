#include "experiments/run/run_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "experiments/run/lab_main.h"
#include "experiments/train/in_process.h"
#include "netem/lab.h"

namespace longhaul {
namespace {

absl::Status ErrnoStatus(const char* what) {
  return absl::InternalError(fmt::format("{}: {}", what, strerror(errno)));
}

// The child of a loopback run. It dies with the command and leaves terminal signals to it.
[[noreturn]] void InProcessMain(const RunSpec& spec, const std::string& checkpoint_directory,
                                int events_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);   // the command died before the line above
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is the command's alone
  signal(SIGINT, SIG_IGN);
  FdEventSink sink(events_fd);
  _exit(RunInProcess(spec, checkpoint_directory, sink).ok() ? 0 : 1);
}

absl::StatusOr<pid_t> StartProcess(const RunSpec& spec, const std::string& checkpoint_directory,
                                   int events_fd) {
  if (spec.net.transport == "loopback") {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) InProcessMain(spec, checkpoint_directory, events_fd, parent);
    if (child < 0) return ErrnoStatus("fork the run's process");
    return child;
  }
  absl::StatusOr<LabProcess> lab = StartLab(
      [&] {
        signal(SIGINT, SIG_IGN);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        return LabMain(spec, checkpoint_directory, events_fd);
      },
      {events_fd});
  if (!lab.ok()) return lab.status();
  return lab->pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunProcess>> RunProcess::Start(
    const RunSpec& spec, const std::string& checkpoint_directory) {
  int events[2];
  if (pipe2(events, O_CLOEXEC) != 0) return ErrnoStatus("make the event pipe");
  absl::StatusOr<pid_t> pid = StartProcess(spec, checkpoint_directory, events[1]);
  close(events[1]);
  if (!pid.ok()) {
    close(events[0]);
    return pid.status();
  }
  return std::unique_ptr<RunProcess>(new RunProcess(*pid, events[0]));
}

RunProcess::~RunProcess() {
  Kill();
  close(reader_.fd());
}

absl::StatusOr<EventReader::More> RunProcess::Read(
    const std::function<void(const nlohmann::json&)>& handle) {
  return reader_.Read([&](const nlohmann::json& event) {
    See(event);
    handle(event);
  });
}

void RunProcess::See(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "step") last_step_[event.value("rank", -1)] = event.value("step", int64_t{0});
  if (kind == "failed" && !failure_) {
    failure_ = Describe(event);
    diverged_ = event.value("diverged", false);
    invalid_ = event.value("invalid", false);
  }
  // A killed worker is the cause of what its peers report, whichever came first.
  if (kind == "exited" && event.value("by_signal", false) && !killed_by_signal_) {
    failure_ = Describe(event) + (failure_ ? "; before that, " + *failure_ : "");
    killed_by_signal_ = true;
  }
}

std::string RunProcess::Describe(const nlohmann::json& event) {
  const int rank = event.value("rank", -1);
  const std::string where = rank < 0 ? std::string("the lab")
                                     : fmt::format("rank {} after step {}", rank, last_step_[rank]);
  return fmt::format("{}: {}", where, event.value("message", "no reason given"));
}

absl::Status RunProcess::Finish() {
  int status = 0;
  while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  if (failure_) {
    if (diverged_) return absl::OutOfRangeError(*failure_);
    if (invalid_) return absl::FailedPreconditionError(*failure_);
    return absl::UnavailableError(*failure_);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  // A lab ends with 128 + the signal that ended the process with its links.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  int64_t last = 0;
  for (const auto& [rank, step] : last_step_) last = std::max(last, step);
  return absl::UnavailableError(fmt::format(
      "after step {}, the run's process {}; what was measured until then is recorded: run it again",
      last,
      signal > 0 ? "was " + killed_by_.Text(signal)
                 : fmt::format("ended with status {} and gave no reason", WEXITSTATUS(status))));
}

void RunProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace longhaul
