#include "experiments/command/net_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "experiments/command/command.h"
#include "netem/kernel/posix.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

constexpr int kInterrupted = 128 + SIGINT;

class Waiter {
 public:
  Waiter(std::vector<StartedProgram> programs, const EndingRules& rules,
         std::vector<ProgramEnd>* ends)
      : running_(std::move(programs)),
        rules_(rules),
        last_(running_.empty() ? -1 : running_.back().pid),
        ends_(ends) {}

  int Run() {
    for (;;) {
      Reap();
      if (running_.empty()) return status_;
      siginfo_t info{};
      if (const int signal = NextSignal(info); signal > 0) {
        Take(signal, info);
      } else if (MonotonicNow() >= due_) {
        Escalate();
      }
    }
  }

 private:
  enum class Next { kNothing, kTell, kKill };

  // What has ended; the lab, which is our child too, is not among them.
  void Reap() {
    int wait_status = 0;
    rusage used{};
    for (pid_t ended; (ended = wait4(-1, &wait_status, WNOHANG, &used)) > 0;) {
      const auto program = std::find_if(running_.begin(), running_.end(),
                                        [&](const auto& one) { return one.pid == ended; });
      if (program == running_.end()) continue;
      const std::string name = program->name;
      running_.erase(program);
      const int code =
          WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
      if (ends_ != nullptr) ends_->push_back(EndOf(ended, code, used));
      Ended(name, ended == last_, code);
    }
  }

  static ProgramEnd EndOf(pid_t pid, int code, const rusage& used) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {.pid = pid,
            .status = code,
            .at = MonotonicNow(),
            .cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime),
            .peak_bytes = int64_t{used.ru_maxrss} << 10};
  }

  void Ended(const std::string& name, bool last, int code) {
    if (over_) return;
    if (code != 0) {
      over_ = true;
      status_ = code;
      if (next_ == Next::kNothing) Tell(SIGTERM);
    } else if (last && rules_.last_decides && !running_.empty()) {
      over_ = true;
      Schedule(Next::kTell);
      Say(fmt::format("{} has ended; {} {} to end as well", name, Names(), GraceText()));
    }
  }

  int NextSignal(siginfo_t& info) const {
    const sigset_t signals = SignalsOfRun();
    if (due_ == absl::InfiniteFuture()) return sigwaitinfo(&signals, &info);
    const timespec left = absl::ToTimespec(std::max(due_ - MonotonicNow(), absl::ZeroDuration()));
    return sigtimedwait(&signals, &info, &left);
  }

  void Take(int signal, const siginfo_t& info) {
    if (signal == SIGCHLD) return;
    const bool of_terminal = info.si_code > 0;
    const bool again = signal == SIGINT && std::exchange(interrupted_, true);
    if (!of_terminal) Send(signal);
    if (rules_.grace == absl::InfiniteDuration()) return;
    if (again) {
      Kill();
      return;
    }
    if (signal == SIGINT) {
      Say(fmt::format("interrupted: {} {} to end; Ctrl-C again kills", Names(), GraceText()));
    }
    Schedule(Next::kKill);
  }

  void Escalate() {
    if (next_ == Next::kTell) {
      Tell(SIGTERM);
    } else {
      Say(fmt::format("{} had not ended after {}: killed", Names(), Text(rules_.grace)));
      Kill();
    }
  }

  void Tell(int signal) {
    Send(signal);
    Schedule(Next::kKill);
  }

  void Kill() {
    if (interrupted_ && !over_) status_ = kInterrupted;
    over_ = true;
    for (const StartedProgram& program : running_) KillProgramOf(program.pid);
    next_ = Next::kNothing;
    due_ = absl::InfiniteFuture();
  }

  void Schedule(Next next) {
    next_ = next;
    due_ = MonotonicNow() + rules_.grace;
  }

  void Send(int signal) const {
    for (const StartedProgram& program : running_) {
      kill(program.pid, signal);
      kill(program.pid, SIGCONT);  // one that is stopped would not hear it
    }
  }

  std::string Names() const {
    std::string names;
    for (const StartedProgram& program : running_) {
      names += (names.empty() ? "" : ", ") + program.name;
    }
    return names;
  }

  static std::string Text(absl::Duration time) { return std::string(absl::FormatDuration(time)); }
  std::string GraceText() const {
    return (running_.size() == 1 ? "has " : "have ") + Text(rules_.grace);
  }
  static void Say(const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); }

  std::vector<StartedProgram> running_;
  const EndingRules rules_;
  const pid_t last_;
  std::vector<ProgramEnd>* const ends_;
  int status_ = 0;
  bool over_ = false;  // the status is known; how the others end no longer matters
  bool interrupted_ = false;
  Next next_ = Next::kNothing;
  absl::Time due_ = absl::InfiniteFuture();  // of `next_`
};

absl::StatusOr<size_t> NodeNamed(const Topology& topology, const std::string& name) {
  std::string known;
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    if (topology.nodes[i].name == name) return i;
    known += " " + topology.nodes[i].name;
  }
  return absl::NotFoundError(fmt::format("--node: no node '{}'; nodes:{}", name, known));
}

// Reads nothing, in place of our standard input.
absl::Status TakeNoInput() {
  const Fd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (empty.ok() && dup2(empty.get(), STDIN_FILENO) == STDIN_FILENO) return absl::OkStatus();
  return ErrnoStatus("give a program an empty standard input", errno);
}

}  // namespace

absl::StatusOr<pid_t> StartInNode(const LabStore& store, const LabSpec& spec,
                                  const NodeProgram& program, const NodeStart& start,
                                  const sigset_t& mask) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus("start a program: fork", errno);
  if (child > 0) return child;
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  absl::Status ready = start.keeps_input ? absl::OkStatus() : TakeNoInput();
  if (ready.ok() && start.before) ready = start.before();
  if (!ready.ok()) _exit(Fail(ready));
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  const auto status =
      RunInNode(store, spec.name, spec.topology.nodes[program.node].name, program.argv);
  const int exit_status = status.ok() ? *status : Fail(status.status());
  fflush(stdout);
  _exit(exit_status);
}

absl::StatusOr<std::vector<NodeProgram>> ProgramsOf(const Topology& topology,
                                                    const std::string& only,
                                                    const std::vector<std::string>& words) {
  std::vector<NodeProgram> programs;
  if (only.empty()) {
    for (size_t i = 0; i < topology.nodes.size(); ++i) programs.push_back({i, words});
  }
  std::string node = only;
  for (size_t at = 0; !node.empty();) {
    const auto index = NodeNamed(topology, node);
    if (!index.ok()) return index.status();
    programs.push_back({*index, {}});
    node.clear();
    for (; at < words.size() && node.empty(); ++at) {
      if (words[at] == "--node" && at + 2 < words.size() && words[at + 2] == "--") {
        node = words[at + 1];
        at += 2;
      } else {
        programs.back().argv.push_back(words[at]);
      }
    }
  }
  for (const NodeProgram& program : programs) {
    if (!program.argv.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("net run LINKS -- CMD: no CMD for node {}", topology.nodes[program.node].name));
  }
  return programs;
}

sigset_t SignalsOfRun() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGHUP, SIGQUIT, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules,
                    std::vector<ProgramEnd>* ends) {
  return Waiter(std::move(programs), rules, ends).Run();
}

}  // namespace longhaul
