#include "experiments/command/net_programs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "netem/kernel/posix.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

constexpr int kInterrupted = 128 + SIGINT;

class Waiter {
 public:
  Waiter(std::vector<StartedProgram> programs, const EndingRules& rules)
      : running_(std::move(programs)),
        rules_(rules),
        last_(running_.empty() ? -1 : running_.back().pid) {}

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
    for (pid_t ended; (ended = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      const auto program = std::find_if(running_.begin(), running_.end(),
                                        [&](const auto& one) { return one.pid == ended; });
      if (program == running_.end()) continue;
      const std::string name = program->name;
      running_.erase(program);
      Ended(name, ended == last_,
            WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status));
    }
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

}  // namespace

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

int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules) {
  return Waiter(std::move(programs), rules).Run();
}

}  // namespace longhaul
