#include "experiments/elastic/state_handover.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiments/elastic/worker_join.h"
#include "experiments/record/count_events.h"
#include "experiments/record/row_json.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/rank_events.h"
#include "experiments/train/temporary_folder.h"
#include "plugin/core/clock.h"
#include "pp_group/c10d_status.h"
#include "pp_group/state/handover.h"

namespace longhaul {
namespace {

constexpr char kNodeDisk[] = "/run/state";

}  // namespace

int64_t ReceivedOn(const std::string& interface) {
  int64_t bytes = 0;
  if (!interface.empty()) {
    std::ifstream(absl::StrCat("/sys/class/net/", interface, "/statistics/rx_bytes")) >> bytes;
  }
  return bytes;
}

absl::StatusOr<std::string> SwarmHandover::MakeFolder(const std::string& name) {
  if (place_.node && !mounted_) {
    RETURN_IF_ERROR(MountMemoryDisk(kNodeDisk, "mode=0700"));
    mounted_ = true;
  }
  if (!place_.node && temporary_ == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFolder> made, TemporaryFolder::Make());
    temporary_ = std::move(made);
  }
  const std::string folder = absl::StrCat(place_.node ? kNodeDisk : temporary_->path(), "/", name);
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error)
    return absl::FailedPreconditionError(absl::StrCat("make ", folder, ": ", error.message()));
  return folder;
}

SharedState SwarmHandover::StateOf(int64_t step, const Lives& members, std::string folder,
                                   std::function<void()> midway) const {
  SharedState state{.step = step,
                    .stage = place_.stage,
                    .members = members,
                    .moments = !spec_.injected(),
                    .folder = std::move(folder),
                    .ip = place_.ip,
                    .midway = std::move(midway)};
  const double up = spec_.outer.joiner_up_mbit;
  if (std::isfinite(up)) state.up_bytes_per_s = static_cast<int64_t>(up * 125'000);
  return state;
}

void SwarmHandover::Tell(int64_t step, const std::string& what) {
  EmitFault({.what = FaultKind::kJoin, .where = {.group = place_.group}}, step, what.substr(0, 300),
            sink_);
}

// Payload alone: what the swarm's protocol adds is on the paths' counters.
void SwarmHandover::TellTaken(const StateTaken::Giver& giver) {
  const int64_t rank = place_.group * spec_.schedule.stages + place_.stage;
  const CrossingCount count{.life = place_.life,
                            .group_kind = CrossingKind::kState,
                            .rank = rank,
                            .peer = giver.group,
                            .codec = "none",
                            .tensors = giver.bytes > 0,
                            .payload_bytes = giver.bytes,
                            .message_bytes = giver.bytes};
  sink_.Emit(EventOf("crossing", count));
}

void SwarmHandover::Give(Trainer& trainer, int64_t step, const Decision& now,
                         std::function<void()> midway) {
  Stop();
  const auto place = std::distance(now.members.begin(), now.members.find(place_.group));
  absl::StatusOr<std::string> folder = MakeFolder(absl::StrCat("given-", step));
  absl::Status written = folder.status();
  if (written.ok()) {
    written = trainer.WriteState(place_.stage, static_cast<int>(place),
                                 static_cast<int>(now.members.size()), *folder);
  }
  if (written.ok()) {
    auto giver = StateGiver::Start(
        StateOf(step, now.members, *folder, std::move(midway)), place_.group, now.joiners,
        own_store_, static_cast<int>(spec_.schedule.stages), static_cast<int>(spec_.outer.groups));
    written = giver.status();
    if (giver.ok()) giver_ = *std::move(giver);
    given_step_ = step;
  }
  if (written.ok()) return;
  const std::string why = absl::StrCat("! ", std::string(written.message()));
  store_->set(absl::StrCat("swarm/", step, "/", place_.stage, "/", place_.group), why);
  Tell(step, std::string(written.message()));
}

void SwarmHandover::Stop() {
  if (giver_ == nullptr) return;
  const std::unique_ptr<StateGiver> ending = std::move(giver_);
  for (const std::string& word : ending->TakeWarnings()) Tell(given_step_, word);
}

// That the state came over the link, and no other way.
absl::Status SwarmHandover::CheckCounted(int64_t before, int64_t taken) const {
  if (place_.interface.empty()) return absl::OkStatus();
  const int64_t counted = ReceivedOn(place_.interface) - before;
  if (counted >= taken) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("a state of ", taken, " bytes was taken, and ",
                                                    place_.interface, " counted ", counted,
                                                    ": it did not cross the links"));
}

absl::Status SwarmHandover::Take(Trainer& trainer, int64_t step, const Lives& members,
                                 const Lives& others, std::function<void()> midway,
                                 RoundStore& store, std::string* said) {
  ASSIGN_OR_RETURN(const std::string folder, MakeFolder(absl::StrCat("taken-", step)));
  const int64_t before = ReceivedOn(place_.interface);
  SharedState state = StateOf(step, members, folder, std::move(midway));
  state.other_joiners = others;
  const absl::StatusOr<StateTaken> taken = TakeStateFromAll(
      state, place_.group, place_.life, 2 * absl::Seconds(spec_.net.peer_deadline_s), store);
  absl::Status status = taken.status();
  if (status.ok()) {
    for (const std::string& word : taken->words) Tell(step, word);
    absl::StrAppend(said, taken->bytes, " bytes, offered after ",
                    absl::ToDoubleSeconds(taken->offered), " s, there after ",
                    absl::ToDoubleSeconds(taken->arrived), " s");
    for (const StateTaken::Giver& giver : taken->givers) {
      absl::StrAppend(said, ", ", giver.name, " ", giver.bytes);
      TellTaken(giver);
    }
    status = CheckCounted(before, taken->bytes);
  }
  if (status.ok()) status = trainer.ReadState(step, taken->lost, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

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
