#include "experiments/train/store_membership.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "experiments/record/row_json.h"
#include "experiments/spec/round_plan.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/train_setup.h"
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

// Others may still be starting.
constexpr absl::Duration kPatienceAtFirst = absl::Minutes(2);

// Whoever writes more than so many bytes into a file is killed there.
void DieInTheNextWrite() {
  constexpr rlim_t kEnough = 4096;
  signal(SIGXFSZ, [](int) { kill(getpid(), SIGKILL); });
  const rlimit limit{kEnough, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// A folder in this process's own mount namespace on a disk of one page. A node's alone: anybody
// else's mounts are left alone.
absl::StatusOr<std::string> FullDisk() {
  const std::string folder = "/run/full";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::InternalError(absl::StrCat("make ", folder, ": ", strerror(errno)));
  }
  if (mount("full", folder.c_str(), "tmpfs", 0, "size=4k,mode=0700") != 0) {
    return absl::InternalError(
        absl::StrCat("mount a disk of one page at ", folder, ": ", strerror(errno)));
  }
  return folder;
}

class OverStore final : public StoreMembership {
 public:
  OverStore(const RunSpec& spec, c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Node> node,
            StorePlace place, EventSink& sink)
      : spec_(spec),
        bounds_{.steps = Steps(spec),
                .inner_steps = spec.outer.inner_steps,
                .groups = spec.outer.groups,
                .checkpoint_every = spec.checkpoint.every_steps},
        drawn_(ScriptOf(spec)),
        c10d_store_(store),
        store_(std::move(store), static_cast<int>(spec.schedule.stages),
               static_cast<int>(spec.outer.groups)),
        node_(std::move(node)),
        group_(place.rank.group),
        stage_(place.rank.stage),
        life_(place.life),
        phase_fd_(place.phase_fd),
        ranks_{std::move(place.rank)},
        sink_(sink) {
    ranks_[0].life = life_;
    const std::set<int64_t> absent = AbsentAtFirst(drawn_, spec.outer.groups);
    for (int g = 0; g < static_cast<int>(spec.outer.groups); ++g) {
      known_[g] = 0;
      if (!absent.contains(g)) expected_[g] = 0;
    }
  }

  absl::Status BeforeStep(Trainer& trainer, int64_t step) override;
  absl::StatusOr<Meeting> Meet(int64_t step) override;
  absl::StatusOr<bool> Commit(const absl::Status& exchanged) override;
  absl::Status BeforeCheckpoint(int64_t step, std::string* directory) override;
  void AfterCheckpoint(int64_t step) override;
  absl::Status AfterRound(Trainer& trainer, RoundRow* round) override;
  absl::Status MeetAtFirst() override;
  absl::StatusOr<bool> Join(Trainer& trainer) override;
  void SayOver() override { store_.Set("over", "1"); }
  const std::vector<LocalTelemetry>& ranks() const override { return ranks_; }
  bool TellsOf(const std::vector<int>& members) const override {
    return stage_ == 0 && group_ == members.front();
  }

 private:
  absl::Status Strike(Trainer& trainer, const Fault& fault, int64_t step);
  bool Concerns(const Fault& fault) const;
  void StrikeAt(Trainer& trainer, const Fault& fault, int64_t step);
  void AskLab(size_t fault, int64_t step);
  const Fault* AtCheckpoint(FaultKind what, int64_t step) const;
  void BeSlow();
  absl::Status GoOn(Trainer& trainer, RoundRow* round);
  absl::StatusOr<bool> WaitAndTake(Trainer& trainer);
  c10::intrusive_ptr<ProcessGroupLonghaul> Connect(const std::string& name, int index, int rank,
                                                   int size, absl::Duration patience);
  absl::Status HandOver(Trainer& trainer, int group, int life, int64_t step);
  absl::Duration PeerDeadline() const { return absl::Seconds(spec_.net.peer_deadline_s); }

  const RunSpec& spec_;
  const RoundBounds bounds_;
  const std::vector<Fault> drawn_;
  const c10::intrusive_ptr<c10d::Store> c10d_store_;
  RoundStore store_;
  const std::shared_ptr<Node> node_;
  const int group_, stage_, life_, phase_fd_;
  std::vector<LocalTelemetry> ranks_;
  EventSink& sink_;

  Lives expected_;  // who was to train this round
  Lives known_;     // the last life of every group that was ever heard of
  int64_t round_ = 0, attempt_ = 0;
  absl::Duration met_at_;  // when this rank had finished the round
  Decision now_;
  bool member_ = false;  // of an outer step, in this life
  Lives joined_;         // the members that `outer` joins; empty: it is not to be used
  std::string prefix_;
  absl::Duration step_began_ = absl::ZeroDuration();
  double slow_factor_ = 1;
  int64_t slow_until_ = 0;  // step
};

bool OverStore::Concerns(const Fault& fault) const {
  return fault.where.group == group_ && (fault.where.stage < 0 || fault.where.stage == stage_);
}

absl::Status OverStore::Strike(Trainer& trainer, const Fault& fault, int64_t step) {
  const bool tells = fault.where.stage == stage_ || stage_ == 0;
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
      trainer.Poison(group_, fault.factor);
      break;
    case FaultKind::kLeave:
      store_.Set(absl::StrCat("gone/", group_, "/", life_), "1");
      store_.Set(absl::StrCat("down/", group_, "/", life_), "left");
      return absl::CancelledError(absl::StrCat("left before step ", step, ", as the script says"));
    default:
      break;
  }
  return absl::OkStatus();
}

// The rest of the time that the step before would have taken.
void OverStore::BeSlow() {
  const absl::Duration now = MonotonicClock().Now();
  if (slow_factor_ > 1 && step_began_ > absl::ZeroDuration()) {
    absl::SleepFor((slow_factor_ - 1) * (now - step_began_));
  }
  step_began_ = MonotonicClock().Now();
}

// A kill in the middle of a pass: at the first such action.
void OverStore::StrikeAt(Trainer& trainer, const Fault& fault, int64_t step) {
  const Op op = fault.during == FaultMoment::kForward ? Op::kForward : Op::kBackward;
  const bool tells = fault.where.stage == stage_ || stage_ == 0;
  trainer.OnAction([this, op, fault, step, tells](const Action& action) {
    if (action.op != op) return;
    if (tells) EmitFault(fault, step, "", sink_);
    raise(SIGKILL);
  });
}

// What the lab does: the first rank that asks has it done before it goes on.
void OverStore::AskLab(size_t number, int64_t step) {
  const Fault& fault = drawn_[number];
  if (fault.for_steps > 0 && step == fault.at_step + fault.for_steps) {
    PassPhase(phase_fd_, absl::StrCat(kAskMend, number));
  }
  if (step != fault.at_step) return;
  if (fault.what == FaultKind::kJoin) {
    if (expected_.contains(static_cast<int>(fault.where.group))) return;  // it is there
    const int64_t round = (step + bounds_.inner_steps - 1) / bounds_.inner_steps;
    store_.Set(absl::StrCat("r", round, "/coming/", fault.where.group), "1");
  }
  PassPhase(phase_fd_, absl::StrCat(kAskStrike, number));
}

absl::Status OverStore::BeforeStep(Trainer& trainer, int64_t step) {
  if (step >= slow_until_) slow_factor_ = 1;
  BeSlow();
  const absl::Status told = StatusFromTorch("the store", [&] {
    for (size_t i = 0; i < drawn_.size(); ++i) {
      if (IsOfLab(drawn_[i])) AskLab(i, step);
    }
  });
  if (!told.ok()) return told;
  for (const Fault& fault : drawn_) {
    if (IsOfLab(fault) || fault.during == FaultMoment::kCheckpoint ||
        fault.what == FaultKind::kDiskFull) {
      continue;
    }
    const longhaul::Strike at = StrikeOf(fault, bounds_);
    if (at.step != step || !Concerns(fault) || fault.during == FaultMoment::kOuter) continue;
    // What the steps before sent is under way, so that the fault costs none of them.
    if (absl::Status s = trainer.FinishSends(); !s.ok()) return s;
    if (fault.during == FaultMoment::kForward || fault.during == FaultMoment::kBackward) {
      StrikeAt(trainer, fault, step);
      continue;
    }
    absl::Status struck;
    const absl::Status asked =
        StatusFromTorch("the store", [&] { struck = Strike(trainer, fault, step); });
    if (!asked.ok()) return asked;
    if (!struck.ok()) return struck;
  }
  return absl::OkStatus();
}

const Fault* OverStore::AtCheckpoint(FaultKind what, int64_t step) const {
  const auto at = std::find_if(drawn_.begin(), drawn_.end(), [&](const Fault& f) {
    if (f.what != what || !Concerns(f)) return false;
    if (what == FaultKind::kKill) {
      return f.during == FaultMoment::kCheckpoint && StrikeOf(f, bounds_).step == step;
    }
    return step >= f.at_step && step < f.at_step + bounds_.checkpoint_every;
  });
  return at == drawn_.end() ? nullptr : &*at;
}

absl::Status OverStore::BeforeCheckpoint(int64_t step, std::string* directory) {
  if (const Fault* kill = AtCheckpoint(FaultKind::kKill, step)) {
    if (kill->where.stage == stage_ || stage_ == 0) EmitFault(*kill, step + 1, "", sink_);
    DieInTheNextWrite();
  }
  if (const Fault* full = AtCheckpoint(FaultKind::kDiskFull, step)) {
    if (full->where.stage == stage_ || stage_ == 0) EmitFault(*full, step, "", sink_);
    absl::StatusOr<std::string> folder = FullDisk();
    if (!folder.ok()) return folder.status();
    *directory = *std::move(folder);
  }
  return absl::OkStatus();
}

void OverStore::AfterCheckpoint(int64_t step) {
  while (AtCheckpoint(FaultKind::kKill, step) != nullptr) pause();  // until the writer dies
}

// Before anything is counted on the links: joining proves that they are crossed.
absl::Status OverStore::MeetAtFirst() {
  if (life_ > 0 || expected_.size() < 2 || !expected_.contains(group_)) return absl::OkStatus();
  LocalTelemetry& rank = ranks_[0];
  const absl::Status met = StatusFromTorch("join the other groups", [&] {
    rank.outer = Connect(absl::StrCat("outer/first/", stage_), stage_,
                         static_cast<int>(std::distance(expected_.begin(), expected_.find(group_))),
                         static_cast<int>(expected_.size()), kPatienceAtFirst);
  });
  if (!met.ok()) return met;
  joined_ = expected_;
  for (const auto& [group, life] : expected_) rank.outer_groups.push_back(group);
  return met;
}

c10::intrusive_ptr<ProcessGroupLonghaul> OverStore::Connect(const std::string& name, int index,
                                                            int rank, int size,
                                                            absl::Duration patience) {
  auto options = ToGroupOptions(spec_, GroupKind::kOuter, index, node_);
  options->group_name = name;
  // Who does not come is found by this; afterwards by its silence, however long a transfer lasts.
  options->timeout = std::chrono::milliseconds(absl::ToInt64Milliseconds(patience));
  auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, c10d_store_);
  auto group = c10::make_intrusive<ProcessGroupLonghaul>(prefixed, rank, size, options);
  group->setTimeout(ToGroupOptions(spec_, GroupKind::kOuter, index, node_)->timeout);
  return group;
}

absl::StatusOr<Meeting> OverStore::Meet(int64_t step) {
  const int64_t round = (step + bounds_.inner_steps - 1) / bounds_.inner_steps;
  if (round != round_) {
    round_ = round;
    attempt_ = 0;
    met_at_ = MonotonicClock().Now();
  }
  ++attempt_;
  const Question question{.round = absl::StrCat("r", round_, "/"),
                          .attempt = attempt_,
                          .expected = expected_,
                          .known = known_,
                          .last = step == bounds_.steps,
                          .deadline = (attempt_ == 1 ? met_at_ : MonotonicClock().Now()) +
                                      absl::Seconds(spec_.outer.round_deadline_s)};
  prefix_ = question.prefix();
  store_.Set(absl::StrCat(prefix_, "done/", group_, "/", stage_), "1");
  now_ = WhoMeets(store_, question);
  const auto own = now_.members.find(group_);
  if (own == now_.members.end() || own->second != life_) {
    return absl::AbortedError(
        attempt_ > kMostExchanges
            ? absl::StrCat("round ", round_, " was settled without group ", group_,
                           ", which another one could not reach in ", attempt_ - 1, " exchanges")
            : absl::StrCat("round ", round_, " was settled without group ", group_,
                           ", which was late by outer.round_deadline_s = ",
                           spec_.outer.round_deadline_s, " s"));
  }
  const auto members = static_cast<int64_t>(now_.members.size());
  if (members < spec_.outer.min_groups) {
    return absl::FailedPreconditionError(
        absl::StrCat("round ", round_, " (step ", step, "): ", members, " groups are left of ",
                     spec_.outer.groups, ", outer.min_groups is ", spec_.outer.min_groups));
  }
  Meeting meeting;
  for (const auto& [group, life] : now_.members) meeting.members.push_back(group);
  for (const Fault& fault : drawn_) {
    if (fault.during != FaultMoment::kOuter || !Concerns(fault)) continue;
    if (StrikeOf(fault, bounds_).step != step) continue;
    if (fault.where.stage == stage_ || stage_ == 0) EmitFault(fault, step, "", sink_);
    raise(SIGKILL);
  }
  LocalTelemetry& rank = ranks_[0];
  if (joined_ != now_.members && members > 1) {
    if (rank.outer) rank.earlier_outer.push_back({rank.outer, rank.outer_groups});
    joined_.clear();
    const auto place = std::find(meeting.members.begin(), meeting.members.end(), group_);
    const absl::Status connected = StatusFromTorch("join the members of a round", [&] {
      rank.outer = Connect(absl::StrCat("outer/", prefix_, stage_), stage_,
                           static_cast<int>(place - meeting.members.begin()),
                           static_cast<int>(members), 2 * PeerDeadline());
    });
    rank.outer_groups = meeting.members;
    if (!connected.ok()) {  // somebody has gone meanwhile
      rank.outer = nullptr;
      absl::StatusOr<bool> again = Commit(connected);
      if (!again.ok()) return again.status();
      return Meet(step);
    }
    joined_ = now_.members;
  }
  meeting.peers.push_back({group_, stage_, members > 1 ? rank.outer : nullptr});
  return meeting;
}

absl::StatusOr<bool> OverStore::Commit(const absl::Status& exchanged) {
  const std::string outcome = prefix_ + "outcome";
  if (!exchanged.ok()) {
    joined_.clear();
    return store_.Settle(outcome, "again") == "go"
               ? absl::StatusOr<bool>(absl::AbortedError(absl::StrCat(
                     "the others took the outer step that failed here: ", exchanged.message())))
               : absl::StatusOr<bool>(false);
  }
  store_.Set(absl::StrCat(prefix_, "have/", group_, "/", stage_), "1");
  const absl::Duration deadline =
      MonotonicClock().Now() + 2 * PeerDeadline() + absl::Seconds(spec_.outer.round_deadline_s);
  for (;;) {
    bool whole = true, lost = false;
    for (const auto& [group, life] : now_.members) {
      if (store_.AllStages(absl::StrCat(prefix_, "have/", group))) continue;
      whole = false;
      lost = lost || store_.Down(group, life);
    }
    std::string settled;
    if (whole) {
      settled = store_.Settle(outcome, "go");
    } else if (lost || MonotonicClock().Now() >= deadline) {
      settled = store_.Settle(outcome, "again");
    } else if (store_.Await(outcome, absl::Milliseconds(50))) {
      settled = store_.Get(outcome);
    } else {
      continue;
    }
    if (settled != "go") joined_.clear();
    return settled == "go";
  }
}

absl::Status OverStore::HandOver(Trainer& trainer, int group, int life, int64_t step) {
  Lives there = now_.members;
  there.insert(now_.joiners.begin(), now_.joiners.end());
  const std::string who = absl::StrCat(group, "/", life, "/", stage_);
  store_.Set("welcome/" + who, absl::StrCat(step, "|", LivesText(there)));
  absl::Status given;
  const absl::Status connected = StatusFromTorch("hand the state over", [&] {
    const auto pair = Connect("handover/" + who, stage_, 0, 2, 2 * PeerDeadline());
    given = trainer.GiveState(stage_, *pair, 1);
  });
  if (!connected.ok() || !given.ok()) return connected.ok() ? given : connected;
  // Sent is not taken: who goes on now may be lost before it is.
  for (const absl::Duration by = MonotonicClock().Now() + 2 * PeerDeadline();;) {
    if (store_.Await("taken/" + who, absl::Milliseconds(100))) return absl::OkStatus();
    if (store_.Down(group, life)) return absl::UnavailableError("it was lost while it took over");
    if (MonotonicClock().Now() >= by) return absl::DeadlineExceededError("it does not take over");
  }
}

absl::Status OverStore::AfterRound(Trainer& trainer, RoundRow* round) {
  absl::Status status;
  const absl::Status asked = StatusFromTorch("the store", [&] { status = GoOn(trainer, round); });
  return asked.ok() ? status : asked;
}

absl::Status OverStore::GoOn(Trainer& trainer, RoundRow* round) {
  round->round = round_;
  std::vector<int> lost, joiners;
  for (const auto& [group, life] : expected_) {
    if (!now_.members.contains(group)) lost.push_back(group);
  }
  for (const auto& [group, life] : now_.joiners) joiners.push_back(group);
  round->lost = GroupList(lost);
  round->joiners = GroupList(joiners);
  // One that is lost while it takes the state over is lost again, and is the next round's matter.
  if (group_ == now_.members.begin()->first) {
    for (const auto& [group, life] : now_.joiners) {
      if (absl::Status s = HandOver(trainer, group, life, round->last_step); !s.ok()) {
        EmitFault({.what = FaultKind::kJoin, .where = {.group = group}}, round->last_step,
                  std::string(s.message().substr(0, 200)), sink_);
      }
    }
  }
  if (!std::exchange(member_, true)) PassPhase(phase_fd_, kAskMember);
  expected_ = now_.members;
  expected_.insert(now_.joiners.begin(), now_.joiners.end());
  for (const auto& [group, life] : expected_) known_[group] = life;
  if (round->last_step == bounds_.steps) SayOver();
  return absl::OkStatus();
}

absl::StatusOr<bool> OverStore::Join(Trainer& trainer) {
  absl::StatusOr<bool> joined = false;
  const absl::Status asked = StatusFromTorch("the store", [&] { joined = WaitAndTake(trainer); });
  return asked.ok() ? joined : asked;
}

absl::StatusOr<bool> OverStore::WaitAndTake(Trainer& trainer) {
  const std::string who = absl::StrCat(group_, "/", life_, "/", stage_);
  store_.Set("join/" + who, "1");
  while (!store_.Await("welcome/" + who, absl::Seconds(1))) {
    if (store_.Has("over")) return false;
  }
  const std::pair<std::string, std::string> words =
      absl::StrSplit(store_.Get("welcome/" + who), absl::MaxSplits('|', 1));
  int64_t step = 0;
  const auto there = LivesFrom(words.second);
  if (!absl::SimpleAtoi(words.first, &step) || !there.ok()) {
    return absl::InternalError("the store's welcome says no step");
  }
  expected_ = *there;
  for (const auto& [group, life] : expected_) known_[group] = life;
  absl::Status taken;
  const absl::Status connected = StatusFromTorch("take the state over", [&] {
    taken =
        trainer.TakeState(step, *Connect("handover/" + who, stage_, 1, 2, 2 * PeerDeadline()), 0);
  });
  if (!connected.ok()) return connected;
  if (!taken.ok()) return taken;
  PassPhase(phase_fd_, kJoinedPhase);
  store_.Set("taken/" + who, "1");
  return true;
}

}  // namespace

std::unique_ptr<StoreMembership> StoreMembership::Create(const RunSpec& spec,
                                                         c10::intrusive_ptr<c10d::Store> store,
                                                         std::shared_ptr<Node> node,
                                                         StorePlace place, EventSink& sink) {
  return std::make_unique<OverStore>(spec, std::move(store), std::move(node), std::move(place),
                                     sink);
}

}  // namespace longhaul
