#include "netem/lab/lab.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status_macros.h"
#include "netem/kernel/posix.h"
#include "netem/lab/lab_mounts.h"

namespace longhaul {
namespace {

// Three processes: the keeper (a child of the command, outside the PID namespace), init (PID 1
// inside, reaps orphans) and the body. Each dies with the one before it.

constexpr int kExitLabFailed = 126;

// No lab without these: where they are forbidden there is nothing to fall back on.
constexpr std::string_view kUserNamespaceHelp =
    "; run as root, or allow user namespaces: sysctl -w user.max_user_namespaces=10000, and on "
    "Ubuntu sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";

absl::Status MapToRoot(uid_t uid, gid_t gid) {
  // Without "deny" the kernel refuses a gid_map from an ordinary user.
  RETURN_IF_ERROR(WriteFile("/proc/self/setgroups", "deny"));
  RETURN_IF_ERROR(WriteFile("/proc/self/uid_map", fmt::format("0 {} 1", uid)));
  return WriteFile("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

absl::Status UnshareAll(LabNetwork network) {
  const int spaces = CLONE_NEWNS | CLONE_NEWPID | (network == LabNetwork::kOwn ? CLONE_NEWNET : 0);
  if (unshare(spaces) == 0) return absl::OkStatus();
  if (errno != EPERM) return ErrnoStatus("lab: unshare mount, network, PID namespaces", errno);
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0 || unshare(spaces) != 0) {
    return absl::PermissionDeniedError(fmt::format("lab: unshare a user namespace as uid {}: {}{}",
                                                   uid, strerror(errno), kUserNamespaceHelp));
  }
  if (auto s = MapToRoot(uid, gid); !s.ok()) {
    return absl::PermissionDeniedError(
        fmt::format("lab: {}{}", std::string(s.message()), kUserNamespaceHelp));
  }
  return absl::OkStatus();
}

void CloseAllBut(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned first = 3;
  for (int fd : keep) {
    if (fd < static_cast<int>(first)) continue;
    if (static_cast<int>(first) < fd) syscall(SYS_close_range, first, fd - 1, 0);
    first = fd + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0);
}

// Reports a set-up failure to StartLab and ends this process.
[[noreturn]] void Fail(const Fd& report, const absl::Status& status) {
  const std::string text =
      fmt::format("{}{}", static_cast<char>(status.code()), std::string(status.message()));
  if (write(report.get(), text.data(), text.size()) < 0) perror("lab: report");
  _exit(kExitLabFailed);
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

// Waits for `child`, reaping every other child on the way; passes SIGTERM on to it. The signals
// must be blocked.
int SuperviseChild(pid_t child, const sigset_t& signals) {
  for (;;) {
    int wait_status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(-1, &wait_status, WNOHANG)) > 0) {
      if (ended == child) return ExitCode(wait_status);
    }
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == SIGTERM) kill(child, SIGTERM);
  }
}

struct LabStart {
  std::function<int()> body;
  std::vector<int> keep_fds;
  LabLifetime lifetime;
  LabCompanion companion;
  LabNetwork network;
  Fd report;       // set-up failures to StartLab; closed when the body runs
  sigset_t watch;  // what keeper and init wait for
  sigset_t original_mask;
};

[[noreturn]] void RunToEnd(const std::function<int()>& body, LabStart& start) {
  start.report.reset();
  sigprocmask(SIG_SETMASK, &start.original_mask, nullptr);
  const int code = body();
  fflush(nullptr);
  _exit(code);
}

[[noreturn]] void RunBody(LabStart& start) {
  signal(SIGINT, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  RunToEnd(start.body, start);
}

[[noreturn]] void RunCompanion(LabStart& start, pid_t keeper) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(kExitLabFailed);
  std::vector<int> keep = start.companion.keep_fds;
  keep.push_back(start.report.get());
  CloseAllBut(keep);
  RunToEnd(start.companion.body, start);
}

// A descriptor of the companion's process; not ok() where there is none.
absl::StatusOr<Fd> StartCompanion(LabStart& start) {
  if (start.companion.body == nullptr) return Fd();
  const pid_t keeper = getpid();
  const pid_t companion = fork();
  if (companion < 0) return ErrnoStatus("lab: fork the process beside it", errno);
  if (companion == 0) RunCompanion(start, keeper);
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, companion, 0)));
  if (!process.ok()) return ErrnoStatus("lab: open the process beside it", errno);
  return process;
}

// Its number may be another's by now, if it ended by itself.
void EndCompanion(const Fd& process) {
  if (!process.ok()) return;
  syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  pollfd ended{process.get(), POLLIN, 0};
  poll(&ended, 1, -1);
}

// PID 1. `keeper_alive` is the read end of a pipe whose only writer is the keeper: our parent has
// no PID in here, so getppid() cannot tell whether it died before the prctl.
[[noreturn]] void RunInit(LabStart& start, Fd keeper_alive) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd gone{keeper_alive.get(), POLLIN, 0};
  if (poll(&gone, 1, 0) != 0) _exit(kExitLabFailed);
  keeper_alive.reset();
  if (auto s = MountLab(); !s.ok()) Fail(start.report, s);
  std::vector<int> keep = start.keep_fds;
  keep.push_back(start.report.get());
  CloseAllBut(keep);
  const pid_t body = fork();
  if (body < 0) Fail(start.report, ErrnoStatus("lab: fork the body", errno));
  if (body == 0) RunBody(start);
  // Only the body may hold the caller's descriptors: their end must be seen when it ends.
  CloseAllBut({});
  start.report.release();
  _exit(SuperviseChild(body, start.watch));
}

// Out of the caller's session, and without its terminal or pipes, which would stay open.
absl::Status Detach() {
  setsid();
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.ok()) return ErrnoStatus("lab: open /dev/null", errno);
  for (int fd : {0, 1, 2}) {
    if (dup2(null.get(), fd) < 0)
      return ErrnoStatus("lab: leave the terminal for /dev/null", errno);
  }
  if (null.get() <= 2) null.release();  // it took the place of one that was closed
  return absl::OkStatus();
}

[[noreturn]] void RunKeeper(LabStart& start, pid_t command) {
  if (start.lifetime == LabLifetime::kDetached) {
    if (auto s = Detach(); !s.ok()) Fail(start.report, s);
  } else {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != command) _exit(kExitLabFailed);
  }
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  const auto companion = StartCompanion(start);
  if (!companion.ok()) Fail(start.report, companion.status());
  if (auto s = UnshareAll(start.network); !s.ok()) Fail(start.report, s);
  int alive[2];
  if (pipe2(alive, O_CLOEXEC) != 0) Fail(start.report, ErrnoStatus("lab: pipe", errno));
  const pid_t init = fork();
  if (init < 0) Fail(start.report, ErrnoStatus("lab: fork init", errno));
  if (init == 0) {
    close(alive[1]);
    RunInit(start, Fd(alive[0]));
  }
  CloseAllBut({alive[1], companion->get()});
  start.report.release();
  const int code = SuperviseChild(init, start.watch);
  EndCompanion(*companion);
  _exit(code);
}

absl::Status ReadReport(const Fd& report) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t n = read(report.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, n);
  }
  if (text.empty()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(text[0]), text.substr(1));
}

}  // namespace

absl::StatusOr<LabProcess> StartLab(std::function<int()> body, std::vector<int> keep_fds,
                                    LabLifetime lifetime, LabCompanion companion,
                                    LabNetwork network) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus("lab: pipe", errno);
  const Fd reports(report[0]);
  LabStart start{std::move(body), std::move(keep_fds), lifetime, std::move(companion),
                 network,         Fd(report[1]),       {},       {}};
  sigemptyset(&start.watch);
  sigaddset(&start.watch, SIGCHLD);
  sigaddset(&start.watch, SIGTERM);
  fflush(nullptr);  // or the child would write our buffered output again
  sigprocmask(SIG_BLOCK, &start.watch, &start.original_mask);
  const pid_t command = getpid();
  const pid_t keeper = fork();
  if (keeper == 0) RunKeeper(start, command);
  const int fork_errno = errno;
  sigprocmask(SIG_SETMASK, &start.original_mask, nullptr);
  if (keeper < 0) return ErrnoStatus("lab: fork", fork_errno);
  start.report.reset();
  if (auto s = ReadReport(reports); !s.ok()) {
    waitpid(keeper, nullptr, 0);
    return s;
  }
  return LabProcess{keeper};
}

absl::StatusOr<std::string> AskInLab(const std::function<absl::StatusOr<std::string>()>& question) {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return ErrnoStatus("lab: pipe", errno);
  const Fd reader(answer[0]);
  Fd writer(answer[1]);
  auto lab = StartLab(
      [&] {
        const absl::StatusOr<std::string> found = question();
        std::string text(1, static_cast<char>(found.status().code()));
        text += found.ok() ? *found : std::string(found.status().message());
        return write(writer.get(), text.data(), text.size()) < 0 ? 1 : 0;
      },
      {writer.get()});
  writer.reset();
  if (!lab.ok()) return lab.status();
  std::string text;
  char buffer[1024];
  for (ssize_t n = 0; (n = read(reader.get(), buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(lab->pid, &status, 0);
  if (text.empty()) {
    return absl::InternalError(fmt::format("lab: it ended without an answer, status {}", status));
  }
  const auto code = static_cast<absl::StatusCode>(text[0]);
  if (code != absl::StatusCode::kOk) return absl::Status(code, text.substr(1));
  return text.substr(1);
}

}  // namespace longhaul
