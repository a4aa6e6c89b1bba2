#include "netem/lab_control/node_entry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "netem/lab/lab.h"
#include "netem/lab/lab_mounts.h"
#include "netem/lab_control/lab_client.h"

namespace longhaul {
namespace {

// The order of an answer to "enter".
enum Space { kUser, kMount, kPid, kNet, kSpaces };

absl::StatusOr<std::vector<Fd>> NamespacesOf(const LabStore& store, const std::string& lab,
                                             const std::string& node, std::string& address) {
  ASSIGN_OR_RETURN(auto answer, AskLab(store, lab, {{"do", "enter"}, {"node", node}}));
  if (answer.fds.size() != kSpaces) {
    // The kernel leaves out what the receiver may not hold.
    return ErrnoStatus(fmt::format("lab '{}': {} of {} namespaces came", lab, answer.fds.size(),
                                   static_cast<int>(kSpaces)),
                       EMFILE);
  }
  address = answer.message.value("address", "");
  return std::move(answer.fds);
}

// A lab made by root shares our user namespace, and entering the one we are in is an error.
absl::Status EnterUserNamespace(const Fd& space) {
  struct stat own {
  }, wanted{};
  if (stat("/proc/self/ns/user", &own) == 0 && fstat(space.get(), &wanted) == 0 &&
      own.st_ino == wanted.st_ino && own.st_dev == wanted.st_dev) {
    return absl::OkStatus();
  }
  if (setns(space.get(), CLONE_NEWUSER) == 0) return absl::OkStatus();
  return ErrnoStatus("enter the lab's user namespace", errno);
}

// The caller's folder, which the program is to find at the same place.
struct Folder {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

absl::StatusOr<Folder> CallersFolder() {
  char path[PATH_MAX];
  struct stat facts {};
  // "(unreachable)/...": of another mount namespace, or below something mounted over it.
  if (getcwd(path, sizeof path) == nullptr || path[0] != '/' || stat(".", &facts) != 0) {
    return absl::FailedPreconditionError(
        "exec: the folder you are in has been deleted, or has no path any more; cd to another");
  }
  return Folder{path, facts.st_dev, facts.st_ino};
}

struct Program {
  std::vector<char*> argv;
  sigset_t mask;  // of signals blocked, as the program is to find it
  Folder folder;
  int netns_fd;
  const char* host_name;
  int parent_alive_fd;  // closed in the parent only by its death
  int report_fd;
};

struct Failure {
  const char* step;  // a string literal
  int error;         // 0: none
};
constexpr std::string_view kExec = "exec";

// The program starts where its caller is or not at all: elsewhere it would read and write other
// files. What it looks for under /run is the host's. Null, or the step that failed.
const char* EnterFolder(const Program& program) {
  const char* search = getenv("PATH");
  std::istringstream folders(search == nullptr ? "" : search);
  std::vector<std::string> under_run = {program.folder.path, program.argv[0]};
  for (std::string folder; std::getline(folders, folder, ':');) under_run.push_back(folder);
  for (const std::string& path : under_run) {
    if (!ShowHostRun(path).ok()) return "show what the host has under /run";
  }
  if (chdir(program.folder.path.c_str()) != 0) return "enter the folder";
  struct stat here {};
  if (stat(".", &here) != 0) return "look at the folder";
  errno = 0;
  const bool same = here.st_dev == program.folder.device && here.st_ino == program.folder.inode;
  return same ? nullptr : "find the same folder";
}

// What is to be said of a step that failed in the child.
std::string WhyNotStarted(const Failure& failure, const Program& program) {
  const std::string why = failure.error == 0 ? "" : fmt::format(": {}", strerror(failure.error));
  if (!std::string_view(failure.step).ends_with("folder")) return failure.step + why;
  return fmt::format(
      "cannot {} {}{}: inside the lab it is hidden, is another one, or was mounted after the lab "
      "was "
      "up; start from a folder that both see, or take the lab down and up again (the host's /run "
      "is "
      "/run/host there)",
      failure.step, program.folder.path, why);
}

[[noreturn]] void RunChild(const Program& program) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd gone{program.parent_alive_fd, POLLIN, 0};
  if (poll(&gone, 1, 0) != 0) _exit(126);
  const char* step = EnterNode(program.netns_fd, program.host_name);
  if (step == nullptr) {
    step = EnterFolder(program);
  }
  if (step == nullptr) {
    sigprocmask(SIG_SETMASK, &program.mask, nullptr);
    execvp(program.argv[0], program.argv.data());
    step = kExec.data();
  }
  const Failure failure{step, errno};
  if (write(program.report_fd, &failure, sizeof failure) < 0) _exit(126);
  _exit(127);
}

// Waited for by WaitForChild, so blocked from before the child is there.
sigset_t SignalsOfExec() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// Passes on what another process sends us. What a terminal sends goes to its whole foreground
// group: the program has it already, and decides what it means.
int WaitForChild(pid_t child) {
  const sigset_t signals = SignalsOfExec();
  int status = 0;
  for (;;) {
    if (waitpid(child, &status, WNOHANG) == child) break;
    siginfo_t info{};
    int signal = sigwaitinfo(&signals, &info);
    if (signal <= 0 || signal == SIGCHLD || info.si_code > 0) continue;
    if (info.si_code == SI_QUEUE && info.si_value.sival_int == SIGKILL) signal = SIGKILL;
    kill(child, signal);
    kill(child, SIGCONT);  // one that is stopped would not hear it
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// In a PID namespace whose first process is dead no process can begin.
bool LabHasEnded() {
  const pid_t probe = fork();
  if (probe == 0) _exit(0);
  if (probe > 0) waitpid(probe, nullptr, 0);
  return probe < 0;
}

// As a shell's, where a program cannot be started.
int StatusOfFailure(int error) { return error == ENOENT || error == ENOTDIR ? 127 : 126; }

}  // namespace

void KillProgramOf(pid_t waiting) {
  sigqueue(waiting, SIGTERM, sigval{.sival_int = SIGKILL});
  kill(waiting, SIGCONT);
}

absl::StatusOr<int> RunInNode(const LabStore& store, const std::string& lab,
                              const std::string& node, const std::vector<std::string>& argv) {
  if (argv.empty()) return absl::InvalidArgumentError("exec: want a program");
  ASSIGN_OR_RETURN(auto folder, CallersFolder());
  std::string address;
  ASSIGN_OR_RETURN(auto spaces, NamespacesOf(store, lab, node, address));
  Program program{};
  program.folder = std::move(folder);
  for (const std::string& word : argv) program.argv.push_back(const_cast<char*>(word.c_str()));
  program.argv.push_back(nullptr);
  int alive[2], report[2];
  if (pipe2(alive, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
    return ErrnoStatus("exec: pipe", errno);
  }
  program.parent_alive_fd = alive[0];
  program.report_fd = report[1];
  program.netns_fd = spaces[kNet].get();
  program.host_name = node.c_str();
  setenv("LONGHAUL_NODE", fmt::format("{}/{}", lab, node).c_str(), 1);

  RETURN_IF_ERROR(EnterUserNamespace(spaces[kUser]));
  if (setns(spaces[kMount].get(), CLONE_NEWNS) != 0) {
    return ErrnoStatus("enter the lab's mount namespace", errno);
  }
  if (setns(spaces[kPid].get(), CLONE_NEWPID) != 0) {
    return ErrnoStatus("enter the lab's PID namespace", errno);
  }
  const sigset_t signals = SignalsOfExec();
  sigprocmask(SIG_BLOCK, &signals, &program.mask);
  const pid_t child = fork();
  if (child == 0) {
    close(alive[1]);
    RunChild(program);
  }
  if (child < 0) return ErrnoStatus("exec: fork", errno);
  close(report[1]);
  Failure failure{};
  const ssize_t failed = read(report[0], &failure, sizeof failure);
  if (failed == sizeof failure) {
    waitpid(child, nullptr, 0);
    const std::string why =
        fmt::format("{} in {}/{}: {}", argv[0], lab, node, WhyNotStarted(failure, program));
    if (failure.step != kExec) return absl::FailedPreconditionError(why);
    fmt::print(stderr, "longhaul: {}\n", why);
    return StatusOfFailure(failure.error);
  }
  const int status = WaitForChild(child);
  if (status == 128 + SIGKILL && LabHasEnded()) {
    fmt::print(stderr, "longhaul: lab '{}' has ended, and {} in {} with it\n", lab, argv[0], node);
  }
  return status;
}

absl::Status EnterNodeNetwork(const LabStore& store, const std::string& lab,
                              const std::string& node, std::string& address) {
  ASSIGN_OR_RETURN(auto spaces, NamespacesOf(store, lab, node, address));
  RETURN_IF_ERROR(EnterUserNamespace(spaces[kUser]));
  if (setns(spaces[kNet].get(), CLONE_NEWNET) != 0) {
    return ErrnoStatus("enter the node's network namespace", errno);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
