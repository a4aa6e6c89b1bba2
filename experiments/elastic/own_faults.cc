#include "experiments/elastic/own_faults.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/temporary_folder.h"
#include "plugin/core/clock.h"
#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

// What a stopped process is woken by: itself cannot.
void WakeLater(double seconds) {
  const pid_t sleeper = getpid();
  if (fork() != 0) return;
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<int64_t>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  while (nanosleep(&left, &left) != 0) {
  }
  kill(sleeper, SIGCONT);
  _exit(0);
}

// Whoever writes more than so many bytes into a file is killed there.
void DieInTheNextWrite() {
  constexpr rlim_t kEnough = 4096;
  signal(SIGXFSZ, [](int) { kill(getpid(), SIGKILL); });
  const rlimit limit{kEnough, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace

bool EndsLife(const Fault& fault) {
  return fault.what == FaultKind::kKill || fault.what == FaultKind::kLeave ||
         (fault.what == FaultKind::kStop && fault.for_s == 0);
}

bool StrikesWorker(const Fault& fault, int64_t group, int64_t stage) {
  return fault.where.group == group && (fault.where.stage < 0 || fault.where.stage == stage);
}

bool WorkerTells(const Fault& fault, int64_t stage) {
  return fault.where.stage == stage || stage == 0;
}

bool StrikesAtCheckpoint(const Fault& fault, FaultKind what, int64_t step,
                         const RoundBounds& bounds) {
  if (fault.what != what) return false;
  if (what == FaultKind::kKill) {
    return fault.during == FaultMoment::kCheckpoint && StrikeOf(fault, bounds).step == step;
  }
  return step >= fault.at_step && step < fault.at_step + bounds.checkpoint_every;
}

int64_t MendStep(const Fault& fault) {
  return fault.for_steps > 0 ? fault.at_step + fault.for_steps : 0;
}

bool OwnFaults::Concerns(const Fault& fault) const {
  return StrikesWorker(fault, place_.group, place_.stage);
}

absl::Status OwnFaults::Strike(Trainer& trainer, const Fault& fault, int64_t step) {
  const bool tells = WorkerTells(fault, place_.stage);
  const bool ends = fault.what == FaultKind::kStop && fault.for_s > 0;
  if (tells) EmitFault(fault, step, ends ? absl::StrCat("for ", fault.for_s, " s") : "", sink_);
  switch (fault.what) {
    case FaultKind::kKill:
      raise(SIGKILL);
      break;
    case FaultKind::kStop:
      if (fault.for_s > 0) WakeLater(fault.for_s);
      raise(SIGSTOP);
      break;
    case FaultKind::kSlow:
      slow_factor_ = fault.factor;
      slow_until_ = fault.for_steps > 0 ? step + fault.for_steps : bounds_.steps + 1;
      break;
    case FaultKind::kPoison:
      trainer.Poison(place_.group, fault.factor);
      break;
    case FaultKind::kLeave:
      store_.Set(absl::StrCat("gone/", place_.group, "/", place_.life), "1");
      store_.Set(absl::StrCat("down/", place_.group, "/", place_.life), "left");
      return absl::CancelledError(absl::StrCat("left before step ", step, ", as the script says"));
    default:
      break;
  }
  return absl::OkStatus();
}

// The rest of the time that the step's compute would have taken. What it waited for others is no
// part of it: two slow stages would be slow for each other's sleep, and ever slower.
void OwnFaults::AfterStep(int64_t step, absl::Duration compute) {
  if (step < slow_until_) absl::SleepFor((slow_factor_ - 1) * compute);
}

// A kill in the middle of a pass: at the first such action.
void OwnFaults::StrikeAt(Trainer& trainer, const Fault& fault, int64_t step) {
  const Op op = fault.during == FaultMoment::kForward ? Op::kForward : Op::kBackward;
  const bool tells = WorkerTells(fault, place_.stage);
  trainer.OnAction([this, op, fault, step, tells](const Action& action) {
    if (action.op != op) return;
    if (tells) EmitFault(fault, step, "", sink_);
    raise(SIGKILL);
  });
}

// What the lab does: the first rank that asks has it done before it goes on.
void OwnFaults::AskLab(size_t number, int64_t step, const Lives& expected) {
  const Fault& fault = script_[number];
  if (step == MendStep(fault)) {
    PassPhase(place_.phase_fd, absl::StrCat(kAskMend, number));
  }
  if (step != fault.at_step) return;
  if (fault.what == FaultKind::kJoin) {
    if (expected.contains(static_cast<int>(fault.where.group))) return;  // it is there
    const int64_t round = bounds_.plan().RoundOf(step);
    store_.Set(absl::StrCat("r", round, "/coming/", fault.where.group), "1");
  }
  PassPhase(place_.phase_fd, absl::StrCat(kAskStrike, number));
}

absl::Status OwnFaults::BeforeStep(Trainer& trainer, int64_t step, const Lives& expected) {
  RETURN_IF_ERROR(StatusFromTorch("the store", [&] {
    for (size_t i = 0; i < script_.size(); ++i) {
      if (IsOfLab(script_[i])) AskLab(i, step, expected);
    }
  }));
  for (const Fault& fault : script_) {
    if (IsOfLab(fault) || fault.during == FaultMoment::kCheckpoint ||
        fault.during == FaultMoment::kTransfer || fault.what == FaultKind::kDiskFull) {
      continue;
    }
    const longhaul::Strike at = StrikeOf(fault, bounds_);
    if (at.step != step || !Concerns(fault) || fault.during == FaultMoment::kOuter) continue;
    // What the steps before sent is under way, so that the fault costs none of them.
    RETURN_IF_ERROR(trainer.FinishSends());
    if (EndsLife(fault)) {
      RETURN_IF_ERROR(StatusFromTorch("the store", before_end_));
    }
    if (fault.during == FaultMoment::kForward || fault.during == FaultMoment::kBackward) {
      StrikeAt(trainer, fault, step);
      continue;
    }
    absl::Status struck;
    RETURN_IF_ERROR(StatusFromTorch("the store", [&] { struck = Strike(trainer, fault, step); }));
    if (!struck.ok()) return struck;
  }
  return absl::OkStatus();
}

void OwnFaults::AtOuterStep(int64_t step) {
  for (const Fault& fault : script_) {
    if (fault.during != FaultMoment::kOuter || !Concerns(fault)) continue;
    if (StrikeOf(fault, bounds_).step != step) continue;
    if (WorkerTells(fault, place_.stage)) EmitFault(fault, step, "", sink_);
    raise(SIGKILL);
  }
}

std::function<void()> OwnFaults::InTransfer(int64_t step) const {
  for (const Fault& fault : script_) {
    // One worker of a group is enough, and tells.
    const bool own = fault.where.group == place_.group &&
                     std::max<int64_t>(0, fault.where.stage) == place_.stage;
    if (fault.during != FaultMoment::kTransfer || !own) continue;
    if (StrikeOf(fault, bounds_).step != step) continue;
    return [this, fault, step] {
      EmitFault(fault, step + 1, "", sink_);
      raise(SIGKILL);
    };
  }
  return {};
}

const Fault* OwnFaults::AtCheckpoint(FaultKind what, int64_t step) const {
  const auto at = std::find_if(script_.begin(), script_.end(), [&](const Fault& f) {
    return Concerns(f) && StrikesAtCheckpoint(f, what, step, bounds_);
  });
  return at == script_.end() ? nullptr : &*at;
}

absl::Status OwnFaults::BeforeCheckpoint(int64_t step, std::string* directory) {
  if (const Fault* kill = AtCheckpoint(FaultKind::kKill, step)) {
    if (WorkerTells(*kill, place_.stage)) EmitFault(*kill, step + 1, "", sink_);
    RETURN_IF_ERROR(StatusFromTorch("the store", before_end_));
    DieInTheNextWrite();
  }
  if (const Fault* full = AtCheckpoint(FaultKind::kDiskFull, step)) {
    if (WorkerTells(*full, place_.stage)) EmitFault(*full, step, "", sink_);
    *directory = "/run/full";
    return MountMemoryDisk(*directory, "size=4k,mode=0700");  // one page
  }
  return absl::OkStatus();
}

void OwnFaults::AfterCheckpoint(int64_t step) {
  while (AtCheckpoint(FaultKind::kKill, step) != nullptr) pause();  // until the writer dies
}

}  // namespace longhaul
