#include "experiments/run/worker_pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/record/row_json.h"
#include "experiments/run/checkpoint_folder.h"
#include "experiments/run/endings.h"
#include "experiments/run/machine_limits.h"
#include "experiments/spec/files_table.h"
#include "experiments/spec/round_plan.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/worker_exit.h"

#include "netem/lab/lab.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr int kMasterPort = 29500;
constexpr int kEventsFd = 3;  // in the worker
constexpr int kPhaseFd = 4;
constexpr absl::Duration kHealthInterval = absl::Seconds(1);

absl::StatusOr<int> SpecFile(const RunSpec& spec) {
  const std::string text = ToToml(spec) + FilesTableText(spec);
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

WorkerPool::WorkerPool(const RunSpec& spec, Emulator& emulator, FdEventSink& sink, int events_fd,
                       std::function<void(const std::string&)> on_phase)
    : spec_(spec),
      emulator_(emulator),
      sink_(sink),
      events_fd_(events_fd),
      gates_(std::move(on_phase)),
      emulator_watch_(kHealthInterval + kAnswerDeadline),
      elastic_(spec.outer.on_group_loss == "continue"),
      script_(elastic_ ? ScriptOf(spec) : std::vector<Fault>()),
      links_(script_, emulator) {
  if (elastic_) gates_.WorkersMayEnd();
  gates_.OnAsk(
      [this](size_t worker, const std::string& words) { Asked(rank_of_gate_[worker], words); });
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
  checkpoint_directory_ = checkpoint_directory;
  if (elastic_) {
    RETURN_IF_ERROR(store_.Start(kMasterPort, [this](auto argv, auto fds) {
      return Spawn(/*node=*/0, std::move(argv), std::move(fds));
    }));
  }
  const int ranks = static_cast<int>(spec_.workers());
  // A checkpoint that all ranks have is one at which all groups were there.
  resumes_ = !CommonCheckpointSteps(checkpoint_directory, spec_.schedule.stages, spec_.outer.groups)
                  .empty();
  const std::set<int64_t> absent = resumes_ ? std::set<int64_t>() : AbsentAtFirst(script_);
  groups_ = GroupLives(static_cast<int>(spec_.outer.groups), absent);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!groups_.IsThere(GroupOf(rank))) continue;
    RETURN_IF_ERROR(Start(rank, /*life=*/0));
    groups_.Started(GroupOf(rank), MonotonicClock().Now());
  }
  return absl::OkStatus();
}

absl::StatusOr<pid_t> WorkerPool::Spawn(int node, std::vector<std::string> argv,
                                        std::vector<std::pair<int, int>> fds) {
  NodeCommand command;
  command.argv = std::move(argv);
  command.environment = {
      fmt::format("RANK={}", node), fmt::format("WORLD_SIZE={}", spec_.workers()),
      fmt::format("MASTER_ADDR={}", NodeAddress(0)), fmt::format("MASTER_PORT={}", kMasterPort),
      fmt::format("OMP_NUM_THREADS={}", spec_.limits.threads),
      // c10d warns that nodes have no host names; nodes have none.
      "TORCH_CPP_LOG_LEVEL=ERROR", "PATH=/usr/bin:/bin"};
  for (std::string& variable : GpuVariables(spec_.train.device)) {
    command.environment.push_back(std::move(variable));
  }
  for (const auto& [in_worker, own] : fds) command.inherit_fds[in_worker] = own;
  return SpawnInNode(emulator_, node, command);
}

absl::Status WorkerPool::Start(int rank, int life) {
  ASSIGN_OR_RETURN(int spec_fd, SpecFile(spec_));
  ASSIGN_OR_RETURN(int phase_fd, gates_.AddWorker(/*anew=*/life > 0));
  rank_of_gate_.push_back(rank);
  std::vector<std::string> argv = {"/proc/self/exe",
                                   "worker",
                                   "/proc/self/fd/0",
                                   "--events-fd",
                                   fmt::format("{}", kEventsFd),
                                   "--phase-fd",
                                   fmt::format("{}", kPhaseFd),
                                   "--interface",
                                   "net0"};
  if (!checkpoint_directory_.empty()) {
    argv.insert(argv.end(), {"--checkpoints", checkpoint_directory_});
  }
  if (spec_.trace) {
    argv.insert(argv.end(),
                {"--trace-steps", fmt::format("{}:{}", spec_.trace->first, spec_.trace->last)});
  }
  if (elastic_) argv.insert(argv.end(), {"--life", fmt::format("{}", life)});
  if (elastic_ && resumes_) argv.emplace_back("--resumes");
  absl::StatusOr<pid_t> pid =
      Spawn(rank, std::move(argv),
            {{0, spec_fd}, {1, 2}, {2, 2}, {kEventsFd, events_fd_}, {kPhaseFd, phase_fd}});
  close(spec_fd);
  close(phase_fd);
  if (!pid.ok()) return pid.status();
  running_[*pid] = rank;
  return absl::OkStatus();
}

bool WorkerPool::Runs(int group) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& worker) { return GroupOf(worker.second) == group; });
}

// Its peers learn it from the store. What is left of the group has a moment to notice and to tell
// what it has to tell, is ended then, and starts anew together.
absl::Status WorkerPool::GroupLost(int group, const std::string& how) {
  const GroupLives::Loss loss = groups_.Lose(group, MonotonicClock().Now());
  if (loss == GroupLives::Loss::kNone) return absl::OkStatus();
  SetInStore("down", group);
  if (loss == GroupLives::Loss::kState) Tell("lost", group, how);
  return CheckAGroupIsLeft(group, how);
}

void WorkerPool::SetInStore(const char* key, int group) {
  store_.Set(fmt::format("{}/{}/{}", key, group, groups_.Life(group)));
}

void WorkerPool::Tell(const std::string& what, int group, const std::string& said) {
  sink_.Emit(EventOf("fault", FaultRow{.number = 0,
                                       .step = 0,
                                       .what = what,
                                       .place = fmt::format("group {}", group),
                                       .group_index = group,
                                       .said = said}));
}

absl::Status WorkerPool::CheckAGroupIsLeft(int group, const std::string& how) const {
  if (groups_.AnyHolds()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format(
      "group {} was lost ({}), and no other is left that holds the training's state", group, how));
}

absl::Status WorkerPool::StartAnew(int group) {
  const GroupLives::Next next = groups_.WhatNext(group, MonotonicClock().Now());
  if (next == GroupLives::Next::kGiveUp) {
    Tell("given_up", group,
         fmt::format("{} lives in a row ended before an outer step, each within {:g} s",
                     groups_.FailedStarts(group), absl::ToDoubleSeconds(GroupLives::kLongLife)));
  }
  if (next != GroupLives::Next::kStart) {
    SetInStore("gone", group);
    return absl::OkStatus();
  }
  for (int r = 0; r < static_cast<int>(spec_.ranks()); ++r) {
    const int rank = group * static_cast<int>(spec_.ranks()) + r;
    RETURN_IF_ERROR(Start(rank, groups_.Life(group)));
  }
  return absl::OkStatus();
}

absl::Status WorkerPool::Ended(int rank, int wait_status) {
  const int group = GroupOf(rank);
  const int exit = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  if (exit == 1) {  // it says why the run cannot go on
    return absl::UnavailableError(
        fmt::format("rank {}: {}", rank, HowItEnded(wait_status, killed_by_)));
  }
  absl::Status lost;
  if (exit == kExitLeft) {
    groups_.Leave(group, MonotonicClock().Now());
    lost = CheckAGroupIsLeft(group, "it left, as the script says");
  } else if (exit != 0) {
    lost = GroupLost(group, HowItEnded(wait_status, killed_by_));
  }
  if (!lost.ok() || !groups_.IsLost(group) || Runs(group)) return lost;
  return StartAnew(group);
}

// A worker waits for the answer meanwhile.
void WorkerPool::Asked(int rank, const std::string& words) {
  const auto number = [&words](std::string_view before) {
    return static_cast<size_t>(std::strtoull(words.c_str() + before.size(), nullptr, 10));
  };
  absl::Status done;
  if (words == kAskMember) groups_.Met(GroupOf(rank));
  if (words.starts_with(kAskStrike)) done = Strike(number(kAskStrike));
  if (words.starts_with(kAskMend)) done = links_.Mend(number(kAskMend));
  if (!done.ok() && asked_.ok()) asked_ = done;
}

absl::Status WorkerPool::Strike(size_t number) {
  if (number >= script_.size() || !struck_.insert(number).second) return absl::OkStatus();
  const Fault& fault = script_[number];
  EmitFault(fault, fault.at_step, "", sink_);
  if (fault.where.kind == FaultPlace::Kind::kLab) raise(SIGKILL);
  if (fault.what == FaultKind::kJoin) return StartJoiner(static_cast<int>(fault.where.group));
  return links_.Strike(number, MonotonicClock().Now());
}

// One that is still leaving comes when it has left.
absl::Status WorkerPool::StartJoiner(int group) {
  groups_.Want(group);
  return !groups_.IsThere(group) && !Runs(group) ? StartAnew(group) : absl::OkStatus();
}

void WorkerPool::EndTheStopped() {
  const absl::Duration now = MonotonicClock().Now();
  const absl::Duration deadline = absl::Seconds(spec_.net.peer_deadline_s);
  std::vector<RunningWorker> workers;
  for (const auto& [pid, rank] : running_) {
    workers.push_back({pid, GroupOf(rank), stopped_.StoppedFor(pid, now)});
  }
  for (const pid_t pid : WorkersToTerminate(workers, groups_, now, deadline)) kill(pid, SIGKILL);
  store_.EndIfStopped(now, deadline);
}

absl::Status WorkerPool::Reap() {
  absl::Status first;
  int wait_status = 0;
  for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (const absl::Status store = store_.Ended(pid); !store.ok()) {
      if (first.ok()) sink_.EmitFailure(-1, 0, first = store);
      continue;
    }
    const auto it = running_.find(pid);
    if (it == running_.end()) continue;  // an orphan: the lab's first process inherits them
    const int rank = it->second;
    running_.erase(it);
    stopped_.Forget(pid);
    if (elastic_ && !killed_ && first.ok() && !over_) {
      first = Ended(rank, wait_status);
      if (!first.ok()) sink_.EmitFailure(-1, 0, first);
      continue;
    }
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
  for (const size_t worker : gates_.TakeJoined()) {
    groups_.Holds(GroupOf(rank_of_gate_[worker]));
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
    if (failed.ok()) failed = links_.MendDue(clock.Now());
    if (failed.ok()) failed = std::exchange(asked_, absl::OkStatus());
    // Without its links no worker gets anywhere: end now, and say what broke.
    if (failed.ok() && clock.Now() >= health_at) {
      failed = CheckLinks(Patience::kDeadline);
      if (elastic_) EndTheStopped();
      health_at = clock.Now() + kHealthInterval;
    }
    if (running_.empty() && first.ok()) first = failed.ok() ? links_.MendAll() : failed;
    if (running_.empty()) return first;
    if (!failed.ok() && first.ok()) {
      if (!absl::IsDeadlineExceeded(failed)) {
        if (absl::Status s = CheckLinks(Patience::kNone); !s.ok()) failed = s;
      }
      first = failed;
      over_ = true;
      kill_at = KillDeadline(failed, clock.Now(), grace);
      health_at = absl::InfiniteDuration();
      gates_.OpenAll();
    }
    if (clock.Now() >= kill_at) {
      for (const auto& [pid, rank] : running_) kill(pid, SIGKILL);
      killed_ = true;
      kill_at = absl::InfiniteDuration();
    }
    Sleep(std::min({kill_at, health_at, links_.next_end()}) - clock.Now());
  }
}

}  // namespace longhaul
