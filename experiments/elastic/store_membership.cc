#include "experiments/elastic/store_membership.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/elastic/own_faults.h"
#include "experiments/elastic/state_handover.h"
#include "experiments/elastic/worker_join.h"
#include "experiments/record/row_json.h"
#include "experiments/spec/round_plan.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/train_setup.h"
#include "plugin/core/clock.h"
#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

// Others may still be starting.
constexpr absl::Duration kPatienceAtFirst = absl::Minutes(2);

class OverStore final : public StoreMembership {
 public:
  OverStore(const RunSpec& spec, c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Node> node,
            StorePlace place, EventSink& sink)
      : spec_(spec),
        bounds_(RoundBoundsOf(spec)),
        c10d_store_(store),
        store_(std::move(store), static_cast<int>(spec.schedule.stages),
               static_cast<int>(spec.outer.groups)),
        node_(std::move(node)),
        group_(place.rank.group),
        stage_(place.rank.stage),
        life_(place.life),
        phase_fd_(place.phase_fd),
        ranks_{std::move(place.rank)},
        sink_(sink),
        faults_(ScriptOf(spec), bounds_,
                {.group = group_, .stage = stage_, .life = life_, .phase_fd = phase_fd_}, store_,
                sink_, [this] { handover_.AwaitTaken(); }),
        ip_(place.ip),
        interface_(place.interface),
        handover_(spec, c10d_store_, store_, node_,
                  {.rank = ranks_[0], .ip = ip_, .interface = interface_, .node = phase_fd_ >= 0},
                  sink_) {
    // A checkpoint that all have is one at which all were there.
    const std::set<int64_t> absent =
        place.resumes ? std::set<int64_t>() : AbsentAtFirst(faults_.script());
    for (int g = 0; g < static_cast<int>(spec.outer.groups); ++g) {
      known_[g] = 0;
      if (!absent.contains(g)) expected_[g] = 0;
    }
  }

  absl::Status BeforeStep(Trainer& trainer, int64_t step) override {
    return faults_.BeforeStep(trainer, step, expected_);
  }
  void AfterStep(const std::vector<StepReport>& reports) override {
    const StepReport& own = reports.front();
    faults_.AfterStep(own.step, own.forward + own.backward + own.optimizer);
  }
  absl::StatusOr<Meeting> Meet(int64_t step) override;
  absl::StatusOr<bool> Commit(const absl::Status& exchanged) override;
  absl::Status BeforeCheckpoint(int64_t step, std::string* directory) override {
    return faults_.BeforeCheckpoint(step, directory);
  }
  void AfterCheckpoint(int64_t step) override { faults_.AfterCheckpoint(step); }
  absl::Status AfterRound(Trainer& trainer, RoundRow* round) override;
  absl::Status MeetAtFirst() override;
  absl::StatusOr<bool> Join(Trainer& trainer) override;
  void SayOver() override { store_.Set("over", "1"); }
  const std::vector<LocalTelemetry>& ranks() const override { return ranks_; }
  bool TellsOf(const std::vector<int>& members) const override {
    return stage_ == 0 && group_ == members.front();
  }

 private:
  absl::Status FinishRound(Trainer& trainer, RoundRow* round);
  absl::StatusOr<bool> WaitAndTake(Trainer& trainer);
  c10::intrusive_ptr<ProcessGroupLonghaul> Connect(const std::string& name, int rank, int size,
                                                   absl::Duration patience) {
    return JoinOuter(spec_, c10d_store_, node_,
                     {.name = name, .stage = stage_, .rank = rank, .size = size}, patience);
  }
  absl::Duration PeerDeadline() const { return absl::Seconds(spec_.net.peer_deadline_s); }
  absl::Duration RoundDeadline() const { return absl::Seconds(spec_.outer.round_deadline_s); }

  const RunSpec& spec_;
  const RoundBounds bounds_;
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
  OwnFaults faults_;
  const std::string ip_, interface_;
  StateHandover handover_;
};

// Before anything is counted on the links: joining proves that they are crossed.
absl::Status OverStore::MeetAtFirst() {
  if (life_ > 0) return absl::OkStatus();
  RETURN_IF_ERROR(StatusFromTorch("the store", [&] { handover_.Connect(); }));
  if (expected_.size() < 2 || !expected_.contains(group_)) return absl::OkStatus();
  LocalTelemetry& rank = ranks_[0];
  const absl::Status met = StatusFromTorch("join the other groups", [&] {
    rank.outer = Connect(absl::StrCat("outer/first/", stage_),
                         static_cast<int>(std::distance(expected_.begin(), expected_.find(group_))),
                         static_cast<int>(expected_.size()), kPatienceAtFirst);
  });
  if (!met.ok()) return met;
  joined_ = expected_;
  for (const auto& [group, life] : expected_) rank.outer_groups.push_back(group);
  return met;
}

absl::StatusOr<Meeting> OverStore::Meet(int64_t step) {
  const int64_t round = bounds_.plan().RoundOf(step);
  if (round != round_) {
    round_ = round;
    attempt_ = 0;
    met_at_ = MonotonicClock().Now();
  }
  ++attempt_;
  const Question question{
      .round = absl::StrCat("r", round_, "/"),
      .attempt = attempt_,
      .expected = expected_,
      .known = known_,
      .last = step == bounds_.steps,
      .died_waiting = handover_.swarmed(),
      .deadline = MeetingDeadline(attempt_, met_at_, MonotonicClock().Now(), RoundDeadline())};
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
  const std::string too_few =
      TooFewMembers(round_, step, members, spec_.outer.groups, spec_.outer.min_groups);
  if (!too_few.empty()) return absl::FailedPreconditionError(too_few);
  Meeting meeting;
  for (const auto& [group, life] : now_.members) meeting.members.push_back(group);
  faults_.AtOuterStep(step);
  LocalTelemetry& rank = ranks_[0];
  if (joined_ != now_.members && members > 1) {
    if (rank.outer) rank.earlier_outer.push_back({rank.outer, rank.outer_groups});
    joined_.clear();
    const auto place = std::find(meeting.members.begin(), meeting.members.end(), group_);
    const absl::Status connected = StatusFromTorch("join the members of a round", [&] {
      rank.outer = Connect(absl::StrCat("outer/", prefix_, stage_),
                           static_cast<int>(place - meeting.members.begin()),
                           static_cast<int>(members), 2 * PeerDeadline());
    });
    rank.outer_groups = meeting.members;
    if (!connected.ok()) {  // somebody has gone meanwhile
      rank.outer = nullptr;
      RETURN_IF_ERROR(Commit(connected).status());
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
      ExchangeDeadline(MonotonicClock().Now(), PeerDeadline(), RoundDeadline());
  for (;;) {
    const std::optional<std::string> seen =
        OutcomeOf(store_, prefix_, now_.members, MonotonicClock().Now() >= deadline);
    std::string settled;
    if (seen) {
      settled = store_.Settle(outcome, *seen);
    } else if (store_.Await(outcome, absl::Milliseconds(50))) {
      settled = store_.Get(outcome);
    } else {
      continue;
    }
    if (settled != "go") joined_.clear();
    return settled == "go";
  }
}

absl::Status OverStore::AfterRound(Trainer& trainer, RoundRow* round) {
  absl::Status status;
  const absl::Status asked =
      StatusFromTorch("the store", [&] { status = FinishRound(trainer, round); });
  return asked.ok() ? status : asked;
}

absl::Status OverStore::FinishRound(Trainer& trainer, RoundRow* round) {
  round->round = round_;
  std::vector<int> lost, joiners;
  for (const auto& [group, life] : expected_) {
    if (!now_.members.contains(group)) lost.push_back(group);
  }
  for (const auto& [group, life] : now_.joiners) joiners.push_back(group);
  round->lost = GroupList(lost);
  round->joiners = GroupList(joiners);
  handover_.ToAll(trainer, round->last_step, now_, faults_.InTransfer(round->last_step));
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
  handover_.Connect();
  store_.Set("join/" + who, ip_);
  for (int64_t losses = -1; !store_.Await("welcome/" + who, absl::Seconds(1));) {
    if (store_.Has("over")) return false;
    if (phase_fd_ >= 0 || losses == store_.Losses()) continue;  // a lab sees it by itself
    losses = store_.Losses();
    if (store_.AnyHolds()) continue;
    return absl::FailedPreconditionError(
        "no group is left that holds the training's state: begin again, with a new store, from "
        "the newest checkpoint that all have");
  }
  const absl::Duration begun = MonotonicClock().Now();
  const int64_t received = ReceivedOn(interface_);
  const std::vector<std::string> words = absl::StrSplit(store_.Get("welcome/" + who), '|');
  int64_t step = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &step)) {
    return absl::InternalError("the store's welcome says no step");
  }
  ASSIGN_OR_RETURN(const auto there, LivesFrom(words[1]));
  ASSIGN_OR_RETURN(const auto givers, LivesFrom(words[2]));
  expected_ = there;
  for (const auto& [group, life] : expected_) known_[group] = life;
  std::string said;
  const absl::Status taken =
      handover_.Take(trainer, step, givers, expected_, faults_.InTransfer(step), &said);
  if (!taken.ok()) return taken;
  const double took_s = absl::ToDoubleSeconds(MonotonicClock().Now() - begun);
  sink_.Emit({{"event", "fact"},
              {"key", absl::StrCat("joined_after_step_", step, "_rank_", ranks_[0].rank)},
              {"value", absl::StrCat("took ", said, " in ", took_s, " s; ", interface_, " counted ",
                                     ReceivedOn(interface_) - received)}});
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
