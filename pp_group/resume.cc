#include "pp_group/resume.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/checkpoint.h"
#include "pp_group/train_spec.h"

namespace longhaul {
namespace {

// Tensors of a checkpoint by name.
std::vector<std::pair<std::string, at::Tensor>> TensorsOf(const RankState& state) {
  std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"parameters", state.stage->parameters()},
      {"adamw.first_moment", state.optimizer->first_moment()},
      {"adamw.second_moment", state.optimizer->second_moment()}};
  if (state.outer != nullptr) {
    tensors.emplace_back("outer.theta_start", state.outer->theta_start());
    tensors.emplace_back("outer.momentum", state.outer->momentum());
  }
  return tensors;
}

constexpr char kCodecSection[] = "outer.codec_state";
constexpr char kChannelSection[] = "boundary.channels";

// One round of the agreement: allgather of one int64 per rank, all local ranks posted before any
// is waited for.
using BackendOf = c10::intrusive_ptr<c10d::Backend> (*)(const RankState&);
void SmallestOver(std::span<const std::unique_ptr<RankState>> ranks, BackendOf backend_of,
                  std::vector<int64_t>* offers) {
  std::vector<WorkPtr> works;
  std::vector<std::vector<std::vector<at::Tensor>>> outputs(ranks.size());
  std::vector<std::vector<at::Tensor>> inputs(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto backend = backend_of(*ranks[i]);
    inputs[i] = {at::full({1}, (*offers)[i], at::kLong)};
    outputs[i].resize(1);
    for (int r = 0; r < backend->getSize(); ++r) {
      outputs[i][0].push_back(at::empty({1}, at::kLong));
    }
    works.push_back(backend->allgather(outputs[i], inputs[i]));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    WaitAndReset(&works[i]);
    for (const at::Tensor& offer : outputs[i][0]) {
      (*offers)[i] = std::min((*offers)[i], offer.item<int64_t>());
    }
  }
}

absl::StatusOr<Checkpoint> CheckpointOf(const RankState& state, int64_t step,
                                        const std::string& spec) {
  Checkpoint checkpoint{.step = step,
                        .group = state.rank.group,
                        .stage = state.rank.stage,
                        .spec = spec,
                        .sections = {}};
  for (const auto& [name, tensor] : TensorsOf(state)) {
    const at::Tensor host = tensor.cpu();
    const auto* bytes = static_cast<const std::byte*>(host.const_data_ptr());
    checkpoint.sections.emplace_back(name, std::vector<std::byte>(bytes, bytes + tensor.nbytes()));
  }
  if (const GroupAverage* exchange = state.exchange(); exchange != nullptr) {
    checkpoint.sections.emplace_back(kCodecSection, exchange->SaveCodecState());
  }
  if (state.rank.boundary_state != nullptr) {
    const absl::StatusOr<std::string> channels = state.rank.boundary_state->Save();
    if (!channels.ok()) return channels.status();
    const auto bytes = std::as_bytes(std::span(*channels));
    checkpoint.sections.emplace_back(kChannelSection,
                                     std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return checkpoint;
}

// A checkpoint whose every section has been checked against the rank that it is for.
struct Loaded {
  Checkpoint checkpoint;
  std::unique_ptr<CodecState> outer_codec;
  std::string_view channels;  // in `checkpoint`
};

absl::Status InSection(const char* section, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("checkpoint section '", section,
                                                  "': ", std::string(status.message())));
}

absl::Status CheckSections(const RankState& state, Loaded* loaded) {
  const Checkpoint& checkpoint = loaded->checkpoint;
  for (const auto& [name, tensor] : TensorsOf(state)) {
    if (absl::Status status = checkpoint.Section(name, tensor.nbytes()).status(); !status.ok()) {
      return status;
    }
  }
  if (const GroupAverage* exchange = state.exchange(); exchange != nullptr) {
    const auto saved = checkpoint.Section(kCodecSection);
    if (!saved.ok()) return saved.status();
    auto codec = exchange->ParseCodecState(*saved);
    if (!codec.ok()) return InSection(kCodecSection, codec.status());
    loaded->outer_codec = *std::move(codec);
  }
  if (state.rank.boundary_state == nullptr) {
    if (!checkpoint.Section(kChannelSection).ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint section '", kChannelSection,
                     "' holds what boundary channels remember, and this run's have no memory"));
  }
  const auto channels = checkpoint.Section(kChannelSection);
  if (!channels.ok()) return channels.status();
  loaded->channels = {reinterpret_cast<const char*>(channels->data()), channels->size()};
  const absl::Status status = state.rank.boundary_state->Check(loaded->channels);
  return status.ok() ? status : InSection(kChannelSection, status);
}

absl::Status Restore(Loaded loaded, const RankState& state) {
  if (state.rank.boundary_state != nullptr) {
    const absl::Status status = state.rank.boundary_state->Load(loaded.channels);
    if (!status.ok()) return InSection(kChannelSection, status);
  }
  if (GroupAverage* exchange = state.exchange(); exchange != nullptr) {
    exchange->SetCodecState(std::move(loaded.outer_codec));
  }
  for (const auto& [name, tensor] : TensorsOf(state)) {
    const auto bytes = loaded.checkpoint.Section(name, tensor.nbytes());
    if (!bytes.ok()) return bytes.status();
    at::Tensor host = tensor.is_cpu() ? tensor : at::empty(tensor.sizes(), at::kFloat);
    std::memcpy(host.data_ptr(), bytes->data(), bytes->size());
    tensor.copy_(host);
  }
  return absl::OkStatus();
}

// The smallest of every rank's `offers` ([i] of local rank i) over all S*G ranks: over the plain
// group of each pipeline, then over the peers of each stage. Throws what c10d does.
int64_t AgreeOnSmallest(std::span<const std::unique_ptr<RankState>> ranks,
                        std::vector<int64_t> offers) {
  if (ranks.front()->stage->layout().stages > 1) {
    SmallestOver(
        ranks, [](const RankState& s) { return s.rank.plain; }, &offers);
  }
  if (ranks.front()->rank.outer != nullptr) {
    SmallestOver(
        ranks, [](const RankState& s) { return s.rank.outer; }, &offers);
  }
  return *std::min_element(offers.begin(), offers.end());
}

// Reads and checks the file of one rank; changes nothing.
absl::StatusOr<std::unique_ptr<Loaded>> ReadFor(const std::string& directory, int64_t step,
                                                const std::string& spec, const RankState& state) {
  const std::string path = CheckpointPath(directory, state.rank.group, state.rank.stage, step);
  absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
  if (!checkpoint.ok()) return checkpoint.status();
  if (checkpoint->spec != spec) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", path, " is of another run: ", FirstDifference(checkpoint->spec, spec)));
  }
  if (checkpoint->step != step || checkpoint->group != state.rank.group ||
      checkpoint->stage != state.rank.stage) {
    return absl::DataLossError(absl::StrCat("checkpoint ", path, " holds step ", checkpoint->step,
                                            " of group ", checkpoint->group, ", stage ",
                                            checkpoint->stage, ": renamed?"));
  }
  auto loaded = std::make_unique<Loaded>();
  loaded->checkpoint = *std::move(checkpoint);
  if (absl::Status status = CheckSections(state, loaded.get()); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
  }
  return loaded;
}

}  // namespace

absl::StatusOr<std::vector<Checkpoint>> CheckpointsOf(
    std::span<const std::unique_ptr<RankState>> ranks, int64_t step, const std::string& spec) {
  std::vector<Checkpoint> checkpoints;
  for (const auto& state : ranks) {
    absl::StatusOr<Checkpoint> checkpoint = CheckpointOf(*state, step, spec);
    if (!checkpoint.ok()) return checkpoint.status();
    checkpoints.push_back(*std::move(checkpoint));
  }
  return checkpoints;
}

namespace {

// How a rank fares with its file of a step; the smallest over all ranks is what all do.
enum Fare : int64_t { kRefused, kDamaged, kWhole };

// Of a step that all ranks may have: every local rank's file, or why not.
struct Tried {
  std::vector<std::unique_ptr<Loaded>> checkpoints;
  absl::Status own;
  Fare fare = kWhole;
};

Tried TryStep(std::span<const std::unique_ptr<RankState>> ranks, const std::string& directory,
              int64_t step, const std::string& spec) {
  Tried tried;
  for (const auto& state : ranks) {
    absl::StatusOr<std::unique_ptr<Loaded>> loaded = ReadFor(directory, step, spec, *state);
    if (loaded.ok()) {
      tried.checkpoints.push_back(*std::move(loaded));
      continue;
    }
    tried.own = loaded.status();
    const bool older_may_do = absl::IsDataLoss(tried.own) || absl::IsNotFound(tried.own);
    tried.fare = older_may_do ? kDamaged : kRefused;
    break;
  }
  return tried;
}

// The newest step, at most `limit`, of which every rank has a file; -1: none.
int64_t NewestStep(std::span<const std::unique_ptr<RankState>> ranks, const std::string& directory,
                   int64_t limit) {
  std::vector<int64_t> newest;
  for (const auto& state : ranks) {
    std::vector<int64_t> steps = CheckpointSteps(directory, state->rank.group, state->rank.stage);
    std::erase_if(steps, [limit](int64_t step) { return step > limit; });
    newest.push_back(steps.empty() ? -1 : steps.back());
  }
  return AgreeOnSmallest(ranks, newest);
}

}  // namespace

absl::StatusOr<LoadedStep> LoadRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                     const std::string& directory, const std::string& spec) {
  LoadedStep result{.step = INT64_MAX, .damaged = {}};
  absl::Status none = absl::NotFoundError(
      absl::StrCat("checkpoint directory ", directory, ": not every rank has a checkpoint"));
  Tried tried;
  for (;;) {
    result.step = NewestStep(ranks, directory, result.step);
    if (result.step < 0) return none;
    tried = TryStep(ranks, directory, result.step, spec);
    // All or none: a rank that cannot load stops the others before anything has changed.
    const int64_t fare = AgreeOnSmallest(ranks, std::vector<int64_t>(ranks.size(), tried.fare));
    if (fare == kWhole) break;
    const absl::Status why =
        !tried.own.ok() ? tried.own
                        : absl::DataLossError(absl::StrCat("checkpoint of step ", result.step,
                                                           ": another rank cannot load its file"));
    if (fare == kRefused) return why;
    if (absl::IsNotFound(none)) none = why;  // the newest damage, where no older step is whole
    if (!tried.own.ok()) result.damaged.emplace_back(tried.own.message());
    --result.step;
  }
  absl::Status own;
  for (size_t i = 0; i < ranks.size() && own.ok(); ++i) {
    own = Restore(std::move(*tried.checkpoints[i]), *ranks[i]);
  }
  // Nobody sends before everybody's channels know which message comes next.
  const bool restored = AgreeOnSmallest(ranks, std::vector<int64_t>(ranks.size(), own.ok())) == 1;
  if (!own.ok()) return own;
  if (!restored) {
    return absl::InternalError(
        absl::StrCat("checkpoint of step ", result.step, ": another rank failed to take it over"));
  }
  return result;
}

}  // namespace longhaul
