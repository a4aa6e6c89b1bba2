#include "experiments/elastic/swarm_handover.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/record/count_events.h"
#include "experiments/record/row_json.h"
#include "experiments/train/fault_event.h"
#include "experiments/train/memory_disk.h"
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
    if (absl::Status s = MountMemoryDisk(kNodeDisk, "mode=0700"); !s.ok()) return s;
    mounted_ = true;
  }
  if (!place_.node && temporary_ == nullptr) {
    absl::StatusOr<std::unique_ptr<TemporaryFolder>> made = TemporaryFolder::Make();
    if (!made.ok()) return made.status();
    temporary_ = *std::move(made);
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
  const absl::StatusOr<std::string> folder = MakeFolder(absl::StrCat("taken-", step));
  if (!folder.ok()) return folder.status();
  const int64_t before = ReceivedOn(place_.interface);
  SharedState state = StateOf(step, members, *folder, std::move(midway));
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
  if (status.ok()) status = trainer.ReadState(step, taken->lost, *folder);
  std::error_code ignored;
  std::filesystem::remove_all(*folder, ignored);
  return status;
}

}  // namespace longhaul
