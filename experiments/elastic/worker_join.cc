#include "experiments/elastic/worker_join.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "experiments/elastic/round_store.h"
#include "experiments/train/train_setup.h"
#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// How often its launcher has started this group before; its lives before are over. Stage 0's.
int64_t CountLife(c10d::Store& store, int group) {
  const int64_t life = store.add(absl::StrCat("starts/", group), 1) - 1;
  for (int64_t before = 0; before < life; ++before) {
    store.set(absl::StrCat("down/", group, "/", before), std::vector<uint8_t>{'1'});
  }
  if (life > 0) store.add(kLossesKey, 1);
  return life;
}

// Rank 0's number, for every rank of the group. Throws what c10d does.
int64_t FromFirst(ProcessGroupLonghaul& group, int64_t own) {
  if (group.getSize() == 1) return own;
  std::vector<at::Tensor> input = {at::full({1}, own, at::kLong)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (int r = 0; r < group.getSize(); ++r) all[0].push_back(at::empty({1}, at::kLong));
  group.allgather(all, input, {})->wait();
  return all[0][0].item<int64_t>();
}

// Rank 0's answer for every rank: over the pipelines, then over the groups. Throws what c10d does.
int64_t FromRankZero(const LocalTelemetry& rank, int64_t own) {
  int64_t value = rank.rank == 0 ? own : INT64_MAX;
  for (const auto& group : {rank.plain, rank.outer}) {
    if (group == nullptr || group->getSize() == 1) continue;
    std::vector<at::Tensor> input = {at::full({1}, value, at::kLong)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int r = 0; r < group->getSize(); ++r) all[0].push_back(at::empty({1}, at::kLong));
    group->allgather(all, input, {})->wait();
    for (const at::Tensor& theirs : all[0]) value = std::min(value, theirs.item<int64_t>());
  }
  return value;
}

// Equal for equal specs.
int64_t HashOf(const RunSpec& spec) {
  const std::string text = ToToml(spec);
  return static_cast<int64_t>(
      std::stoull(Sha256Hex(std::as_bytes(std::span(text))).substr(0, 15), nullptr, /*base=*/16));
}

// As many digits of a hash as a number of the groups' holds.
constexpr size_t kDigits = 15;

absl::Status OtherFile(const FileContent& file, const std::string& there) {
  return absl::FailedPreconditionError(
      absl::StrCat(file.key, " (", file.value, "): SHA-256 ", there, " at rank 0, ",
                   file.sha256.substr(0, there.size()), " here: give all hosts the same files"));
}

// Each host has read its own; a lab's workers have what was planned.
absl::Status AgreeOnFiles(const RunSpec& spec, const LocalTelemetry& rank) {
  absl::Status agreed;
  for (const FileContent& file : spec.files) {
    const int64_t own = std::stoll(file.sha256.substr(0, kDigits), nullptr, /*base=*/16);
    int64_t there = 0;
    try {
      there = FromRankZero(rank, own);
    } catch (...) {
      return StatusOfCurrentException("comparing files with rank 0");
    }
    if (there == own || !agreed.ok()) continue;
    agreed = OtherFile(file, absl::StrCat(absl::Hex(there, absl::kZeroPad15)));
  }
  return agreed;
}

absl::Status AgreeWithRankZero(const RunSpec& spec, const LocalTelemetry& rank, bool lab,
                               EventSink& sink) {
  int64_t id = absl::ToUnixMicros(absl::Now());
  const int64_t own_spec = HashOf(spec);
  int64_t spec_of_rank_0 = 0;
  try {
    id = FromRankZero(rank, id);
    spec_of_rank_0 = FromRankZero(rank, own_spec);
  } catch (...) {
    return StatusOfCurrentException("agreeing with rank 0");
  }
  if (spec_of_rank_0 != own_spec) {
    return absl::InvalidArgumentError(
        "this rank's spec, with its --set, is not rank 0's: start all ranks with the same");
  }
  RETURN_IF_ERROR(lab ? absl::OkStatus() : AgreeOnFiles(spec, rank));
  sink.Emit({{"event", "attempt"}, {"id", id}});
  return absl::OkStatus();
}

// The same where groups come and go, by what the first rank of all put into the store.
absl::Status AgreeThroughStore(const RunSpec& spec, const Joined& joined, EventSink& sink) {
  RoundStore store(joined.store, static_cast<int>(spec.schedule.stages),
                   static_cast<int>(spec.outer.groups));
  std::string id, first_spec, first_files;
  const std::string own_spec = absl::StrCat(HashOf(spec));
  RETURN_IF_ERROR(StatusFromTorch("the store", [&] {
    id = store.Settle("attempt", absl::StrCat(absl::ToUnixMicros(absl::Now())));
    first_spec = store.Settle("spec", own_spec);
    first_files = store.Settle("files", ContentsText(spec.files));
  }));
  int64_t number = 0;
  if (!absl::SimpleAtoi(id, &number)) {
    return absl::InternalError(absl::StrCat("the store numbers this run '", id, "'"));
  }
  if (first_spec != own_spec) {
    return absl::InvalidArgumentError(
        "this rank's spec, with its --set, is not that of the run which this store serves: start "
        "all groups with the same, and a store for each run");
  }
  if (const auto other = ContentConflict(ReadContents(first_files), spec.files); !other.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(other, ": give all hosts the files of the run that this store serves"));
  }
  sink.Emit({{"event", "attempt"}, {"id", number}, {"life", joined.life}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Joined> JoinRun(const RunSpec& spec, const WorkerPlace& place,
                               std::shared_ptr<Node> node) {
  const int count = static_cast<int>(spec.ranks());  // of a group
  const int groups = static_cast<int>(spec.outer.groups);
  const int own_group = place.rank / count, own_rank = place.rank % count;
  std::vector<LocalTelemetry> stages = StagesOfRank(spec, own_group, own_rank);
  LocalTelemetry& first = stages.front();
  c10::intrusive_ptr<c10d::TCPStore> store;
  int life = std::max(0, place.life);
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(place.master_port);
    const bool elastic = spec.outer.on_group_loss == "continue";
    options.waitWorkers = !elastic;
    options.isServer =
        place.rank == 0 && !elastic && getenv("TORCHELASTIC_USE_AGENT_STORE") == nullptr;
    options.numWorkers = place.world_size;
    options.timeout =
        std::chrono::milliseconds(static_cast<int64_t>(spec.net.peer_deadline_s * 1000) + 60'000);
    store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
    const auto join = [&](GroupKind kind, int index, int group_rank, int size) {
      auto group_options = ToGroupOptions(spec, kind, index, node);
      if (life > 0) absl::StrAppend(&group_options->group_name, "/life", life);
      auto prefixed = c10::make_intrusive<c10d::PrefixStore>(group_options->group_name, store);
      return c10::make_intrusive<ProcessGroupLonghaul>(prefixed, group_rank, size, group_options);
    };
    const int64_t counted = place.counts_lives && own_rank == 0 ? CountLife(*store, own_group) : 0;
    // Of no life by its name where lives are counted: it is how the others hear of the count.
    first.plain = join(GroupKind::kPlain, own_group, own_rank, count);
    if (place.counts_lives) life = static_cast<int>(FromFirst(*first.plain, counted));
    first.boundary = join(GroupKind::kBoundary, own_group, own_rank, count);
    // Ascending on every rank, so that nobody waits for who waits for another.
    for (LocalTelemetry& stage : stages) {
      stage.plain = first.plain;
      stage.boundary = first.boundary;
      if (const std::optional<int> end = TiedPlaceOf(spec, stage.stage)) {
        stage.tied = join(GroupKind::kTied, own_group, *end, 2);
      }
      if (groups > 1 && !elastic)
        stage.outer = join(GroupKind::kOuter, stage.stage, own_group, groups);
      if (spec.model.expert_parallel > 1)
        stage.experts = join(GroupKind::kExperts, stage.stage, own_group, groups);
    }
  } catch (const c10::Error& e) {  // the first line: the rest is torch's stack trace
    return absl::UnavailableError(
        absl::StrCat("rank ", place.rank, " joining through the store at ", place.master_address,
                     ":", place.master_port, ": ", FirstLine(e.what_without_backtrace())));
  } catch (const std::exception& e) {
    return absl::UnavailableError(
        absl::StrCat("rank ", place.rank, " joining through the store at ", place.master_address,
                     ":", place.master_port, ": ", FirstLine(e.what())));
  }
  for (LocalTelemetry& stage : stages) stage.life = life;
  return Joined{std::move(store), std::move(stages), life};
}

absl::Status AgreeOnTheRun(const RunSpec& spec, const WorkerPlace& place, const Joined& joined,
                           EventSink& sink) {
  if (place.counts_lives) return AgreeThroughStore(spec, joined, sink);
  if (spec.outer.on_group_loss == "continue") return absl::OkStatus();
  return AgreeWithRankZero(spec, joined.rank(), /*lab=*/place.phase_fd >= 0, sink);
}

c10::intrusive_ptr<ProcessGroupLonghaul> JoinOuter(const RunSpec& spec,
                                                   const c10::intrusive_ptr<c10d::Store>& store,
                                                   std::shared_ptr<Node> node, OuterPlace place,
                                                   absl::Duration patience) {
  auto options = ToGroupOptions(spec, GroupKind::kOuter, place.stage, std::move(node));
  const auto lasting = options->timeout;
  options->group_name = place.name;
  options->timeout = std::chrono::milliseconds(absl::ToInt64Milliseconds(patience));
  auto prefixed = c10::make_intrusive<c10d::PrefixStore>(place.name, store);
  auto group = c10::make_intrusive<ProcessGroupLonghaul>(prefixed, place.rank, place.size, options);
  group->setTimeout(lasting);
  return group;
}

}  // namespace longhaul
