#include "experiments/elastic/state_handover.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/elastic/worker_join.h"
#include "experiments/train/fault_event.h"
#include "experiments/train/rank_events.h"
#include "plugin/core/clock.h"
#include "pp_group/c10d_status.h"

namespace longhaul {

StateHandover::StateHandover(const RunSpec& spec, c10::intrusive_ptr<c10d::Store> c10d_store,
                             RoundStore& store, std::shared_ptr<Node> node, Place place,
                             EventSink& sink)
    : spec_(spec),
      c10d_store_(std::move(c10d_store)),
      store_(store),
      node_(std::move(node)),
      rank_(place.rank),
      sink_(sink),
      swarm_(spec,
             {.group = rank_.group,
              .stage = rank_.stage,
              .life = rank_.life,
              .ip = place.ip,
              .interface = place.interface,
              .node = place.node},
             c10d_store_, sink) {}

void StateHandover::Connect() {
  if (Swarm()) swarm_.Connect();
}

void StateHandover::Welcome(int group, int life, int64_t step, const Decision& now) {
  Lives there = now.members;
  there.insert(now.joiners.begin(), now.joiners.end());
  store_.Set(absl::StrCat("welcome/", group, "/", life, "/", rank_.stage),
             absl::StrCat(step, "|", LivesText(there), "|", LivesText(now.members)));
}

absl::Status StateHandover::HandOver(Trainer& trainer, int group, int life) {
  const std::string who = absl::StrCat(group, "/", life, "/", rank_.stage);
  absl::Status given;
  const absl::Status connected = StatusFromTorch("hand the state over", [&] {
    const auto pair = JoinOuter(
        spec_, c10d_store_, node_,
        {.name = "handover/" + who, .stage = rank_.stage, .rank = 0, .size = 2}, Patience());
    given = trainer.GiveState(rank_.stage, *pair, 1);
  });
  if (!connected.ok() || !given.ok()) return connected.ok() ? given : connected;
  // Sent is not taken: who goes on now may be lost before it is.
  for (const absl::Duration by = MonotonicClock().Now() + Patience();;) {
    if (store_.Await("taken/" + who, absl::Milliseconds(100))) return absl::OkStatus();
    if (store_.Down(group, life)) return absl::UnavailableError("it was lost while it took over");
    if (MonotonicClock().Now() >= by) return absl::DeadlineExceededError("it does not take over");
  }
}

void StateHandover::ToAll(Trainer& trainer, int64_t step, const Decision& now,
                          std::function<void()> midway) {
  if (Swarm()) {
    swarm_.Stop();  // of the round before
    given_to_ = now.joiners;
    swarmed_ = !now.joiners.empty();
    if (now.joiners.empty()) return;
    for (const auto& [group, life] : now.joiners) Welcome(group, life, step, now);
    swarm_.Give(trainer, step, now, std::move(midway));
    return;
  }
  if (rank_.group != now.members.begin()->first) return;
  for (const auto& [group, life] : now.joiners) {
    Welcome(group, life, step, now);
    if (absl::Status s = HandOver(trainer, group, life); !s.ok()) {
      EmitFault({.what = FaultKind::kJoin, .where = {.group = group}}, step,
                std::string(s.message().substr(0, 200)), sink_);
    }
  }
}

void StateHandover::AwaitTaken() {
  for (const auto& [group, life] : given_to_) {
    for (int stage = 0; stage < store_.stages(); ++stage) {
      const std::string taken = absl::StrCat("taken/", group, "/", life, "/", stage);
      while (!store_.Await(taken, absl::Seconds(1)) && !store_.Down(group, life)) {
      }
    }
  }
}

absl::Status StateHandover::Take(Trainer& trainer, int64_t step, const Lives& givers,
                                 const Lives& there, std::function<void()> midway,
                                 std::string* said) {
  swarmed_ = Swarm();
  if (Swarm()) {
    Lives others = there;
    std::erase_if(others, [&](const auto& other) {
      return other.first == rank_.group || givers.contains(other.first);
    });
    return swarm_.Take(trainer, step, givers, others, std::move(midway), store_, said);
  }
  const int giver = givers.begin()->first;
  *said = absl::StrCat("the state of group ", giver);
  const std::string who = absl::StrCat(rank_.group, "/", rank_.life, "/", rank_.stage);
  absl::Status taken;
  const absl::Status connected = StatusFromTorch("take the state over", [&] {
    const auto pair = JoinOuter(
        spec_, c10d_store_, node_,
        {.name = "handover/" + who, .stage = rank_.stage, .rank = 1, .size = 2}, Patience());
    taken = trainer.TakeState(step, *pair, 0);
    if (taken.ok()) EmitState(rank_, giver, *pair, sink_);
  });
  return connected.ok() ? taken : connected;
}

}  // namespace longhaul
