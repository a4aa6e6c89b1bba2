#include "experiments/launch/started_programs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "netem/kernel/posix.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

class Waiter {
 public:
  Waiter(std::vector<StartedProgram> programs, const EndingRules& rules,
         std::vector<ProgramEnd>* ends)
      : running_(std::move(programs)),
        rules_(rules),
        last_(running_.empty() ? -1 : running_.back().pid),
        ends_(ends),
        deadline_(MonotonicNow() + rules.timeout) {}

  int Run() {
    for (;;) {
      TakePending();  // before it is asked who has ended: by this signal, perhaps
      Reap();
      if (running_.empty()) return status_;
      siginfo_t info{};
      if (const int signal = NextSignal(info); signal > 0) {
        Take(signal, info);
      } else if (MonotonicNow() >= due_) {
        Escalate();
      } else if (MonotonicNow() >= deadline_) {
        deadline_ = absl::InfiniteFuture();
        if (over_) continue;
        over_ = true;
        status_ = kTimedOut;
        Tell(SIGTERM);
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
      if (status_ == 0) status_ = code;
      if (next_ == Next::kNothing) Tell(SIGTERM);
    } else if (last && rules_.last_decides && !running_.empty()) {
      over_ = true;
      Schedule(Next::kTell);
      Say(fmt::format("{} has ended; {} {} to end as well", name, Names(), GraceText()));
    }
  }

  int NextSignal(siginfo_t& info) const {
    const sigset_t signals = SignalsOfRun();
    const absl::Time next = std::min(due_, deadline_);
    if (next == absl::InfiniteFuture()) return sigwaitinfo(&signals, &info);
    const timespec left = absl::ToTimespec(std::max(next - MonotonicNow(), absl::ZeroDuration()));
    return sigtimedwait(&signals, &info, &left);
  }

  void TakePending() {
    const sigset_t signals = SignalsOfRun();
    const timespec now{};
    siginfo_t info{};
    for (int signal; (signal = sigtimedwait(&signals, &info, &now)) > 0;) Take(signal, info);
  }

  void Take(int signal, const siginfo_t& info) {
    if (signal == SIGCHLD) return;
    const bool of_terminal = info.si_code > 0;
    if (of_terminal && IsIgnored(signal)) return;
    const bool is_programs = signal == SIGINT && rules_.grace == absl::InfiniteDuration();
    if (!is_programs && status_ == 0) {
      status_ = 128 + signal;
      if (rules_.interrupted != nullptr) *rules_.interrupted = true;
    }
    const bool again = signal == SIGINT && std::exchange(interrupted_, true);
    if (!of_terminal) Send(signal);
    if (rules_.grace == absl::InfiniteDuration()) return;
    over_ = true;
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
    over_ = true;
    for (const StartedProgram& program : running_) {
      (rules_.kill != nullptr ? rules_.kill : KillProgramOf)(program.pid);
    }
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
  absl::Time deadline_;
};

}  // namespace

sigset_t SignalsOfRun() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGHUP, SIGQUIT, SIGINT}) sigaddset(&signals, signal);
  if (IsIgnored(SIGHUP)) sigdelset(&signals, SIGHUP);
  return signals;
}

int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules,
                    std::vector<ProgramEnd>* ends) {
  return Waiter(std::move(programs), rules, ends).Run();
}

}  // namespace longhaul
