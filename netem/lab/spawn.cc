#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "netem/kernel/posix.h"
#include "netem/lab/lab.h"

namespace longhaul {
namespace {

// Everything the child needs, made before the fork: the caller may have other threads, so between
// fork and exec only async-signal-safe calls are allowed.
struct Plan {
  int netns_fd;
  const char* host_name;
  pid_t parent;
  int report_fd;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<int> sources;  // ours, moved out of the way of the targets in the child
  std::vector<int> targets;  // ascending; 0, 1, 2 always there
  sigset_t original_mask;
};

struct Failure {
  const char* step;  // a string literal: the address is good in both processes
  int error;
};

[[noreturn]] void Give(const Plan& plan, const char* step) {
  const Failure failure{step, errno};
  if (write(plan.report_fd, &failure, sizeof failure) < 0) _exit(126);
  _exit(127);
}

void PlaceDescriptors(Plan& plan) {
  const int above = plan.targets.back() + 1;
  plan.report_fd = fcntl(plan.report_fd, F_DUPFD_CLOEXEC, above);
  if (plan.report_fd < 0) _exit(126);
  for (int& source : plan.sources) {
    source = fcntl(source, F_DUPFD_CLOEXEC, above);
    if (source < 0) Give(plan, "duplicate a descriptor");
  }
  int first_free = 0;
  for (size_t i = 0; i < plan.targets.size(); ++i) {
    const int target = plan.targets[i];
    if (dup2(plan.sources[i], target) < 0) Give(plan, "place a descriptor");
    if (first_free < target) syscall(SYS_close_range, first_free, target - 1, 0);
    first_free = target + 1;
  }
  if (plan.report_fd > first_free) syscall(SYS_close_range, first_free, plan.report_fd - 1, 0);
  syscall(SYS_close_range, plan.report_fd + 1, ~0u, 0);
}

[[noreturn]] void RunChild(Plan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(126);
  if (const char* step = EnterNode(plan.netns_fd, plan.host_name)) Give(plan, step);
  PlaceDescriptors(plan);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_DFL) {
      signal(number, SIG_DFL);
    }
  }
  sigprocmask(SIG_SETMASK, &plan.original_mask, nullptr);
  execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  Give(plan, "exec");
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status ReadFailure(const Fd& report, const NodeCommand& command) {
  Failure failure{};
  ssize_t n = 0;
  while ((n = read(report.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
  }
  if (n != sizeof failure) return absl::OkStatus();
  return ErrnoStatus(fmt::format("start {} in its node: {}", command.argv[0], failure.step),
                     failure.error);
}

}  // namespace

const char* EnterNode(int netns_fd, const char* host_name) {
  if (setns(netns_fd, CLONE_NEWNET) != 0) return "enter the network namespace";
  if (host_name[0] != '\0') {
    if (unshare(CLONE_NEWUTS) != 0) return "unshare the host name";
    if (sethostname(host_name, strlen(host_name)) != 0) return "set the host name";
  }
  if (unshare(CLONE_NEWNS) != 0) return "unshare mounts";
  if (mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return "make mounts slave";
  // Libraries list interfaces in /sys/class/net; the old mount shows the old namespace's.
  umount2("/sys", MNT_DETACH);
  if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return "mount a fresh /sys (a container that masks /sys forbids it)";
  }
  return nullptr;
}

absl::StatusOr<pid_t> SpawnInNamespace(int netns_fd, const NodeCommand& command) {
  if (command.argv.empty()) return absl::InvalidArgumentError("spawn: empty argv");
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus("spawn: pipe", errno);
  const Fd reports(report[0]);
  Fd reporter(report[1]);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.ok()) return ErrnoStatus("spawn: open /dev/null", errno);

  std::map<int, int> placed = command.inherit_fds;
  for (int fd : {0, 1, 2}) placed.emplace(fd, null.get());
  Plan plan{netns_fd,
            command.host_name.c_str(),
            getpid(),
            reporter.get(),
            Pointers(command.argv),
            Pointers(command.environment),
            {},
            {},
            {}};
  for (const auto& [target, source] : placed) {
    plan.targets.push_back(target);
    plan.sources.push_back(source);
  }
  // No signal handler of ours may run in the child before exec resets it.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &plan.original_mask);
  const pid_t child = fork();
  if (child == 0) RunChild(plan);
  const int fork_errno = errno;
  pthread_sigmask(SIG_SETMASK, &plan.original_mask, nullptr);
  if (child < 0) return ErrnoStatus("spawn: fork", fork_errno);
  reporter.reset();
  if (auto s = ReadFailure(reports, command); !s.ok()) {
    waitpid(child, nullptr, 0);
    return s;
  }
  return child;
}

absl::StatusOr<pid_t> SpawnInNode(const Emulator& emulator, int node, const NodeCommand& command) {
  const int nodes = static_cast<int>(emulator.topology().nodes.size());
  if (node < 0 || node >= nodes) {
    return absl::InvalidArgumentError(fmt::format("spawn: no node {} of {}", node, nodes));
  }
  NodeCommand named = command;
  if (named.host_name.empty()) named.host_name = emulator.topology().nodes[node].name;
  return SpawnInNamespace(emulator.node_netns_fd(node), named);
}

}  // namespace longhaul
