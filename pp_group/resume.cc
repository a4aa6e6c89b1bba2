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

CodecState* CodecStateOf(const RankState& state) {
  return state.outer == nullptr ? nullptr : state.outer->codec_state();
}
constexpr char kCodecSection[] = "outer.codec_state";

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

Checkpoint CheckpointOf(const RankState& state, int64_t step, const std::string& spec) {
  Checkpoint checkpoint{.step = step,
                        .group = state.rank.group,
                        .stage = state.rank.stage,
                        .spec = spec,
                        .sections = {}};
  for (const auto& [name, tensor] : TensorsOf(state)) {
    const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    checkpoint.sections.emplace_back(name, std::vector<std::byte>(bytes, bytes + tensor.nbytes()));
  }
  if (CodecState* codec = CodecStateOf(state); codec != nullptr) {
    std::vector<std::byte> bytes(codec->bytes());
    codec->Save(bytes);
    checkpoint.sections.emplace_back(kCodecSection, std::move(bytes));
  }
  return checkpoint;
}

absl::Status CanRestore(const Checkpoint& checkpoint, const RankState& state) {
  for (const auto& [name, tensor] : TensorsOf(state)) {
    if (absl::Status status = checkpoint.Section(name, tensor.nbytes()).status(); !status.ok()) {
      return status;
    }
  }
  if (CodecState* codec = CodecStateOf(state); codec != nullptr) {
    return checkpoint.Section(kCodecSection, codec->bytes()).status();
  }
  return absl::OkStatus();
}

absl::Status Restore(const Checkpoint& checkpoint, const RankState& state) {
  if (CodecState* codec = CodecStateOf(state); codec != nullptr) {
    const auto bytes = checkpoint.Section(kCodecSection, codec->bytes());
    if (!bytes.ok()) return bytes.status();
    if (absl::Status status = codec->Load(*bytes); !status.ok()) return status;
  }
  for (const auto& [name, tensor] : TensorsOf(state)) {
    const auto bytes = checkpoint.Section(name, tensor.nbytes());
    if (!bytes.ok()) return bytes.status();
    std::memcpy(tensor.data_ptr(), bytes->data(), bytes->size());
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
absl::StatusOr<Checkpoint> ReadFor(const std::string& directory, int64_t step,
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
  if (absl::Status status = CanRestore(*checkpoint, state); !status.ok()) return status;
  return checkpoint;
}

}  // namespace

absl::Status SaveRanks(std::span<const std::unique_ptr<RankState>> ranks,
                       const std::string& directory, int64_t step, const std::string& spec) {
  for (const auto& state : ranks) {
    absl::Status status = WriteCheckpoint(directory, CheckpointOf(*state, step, spec));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LoadRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                  const std::string& directory, const std::string& spec) {
  constexpr int64_t kNone = -1;
  std::vector<int64_t> newest;
  for (const auto& state : ranks) {
    const auto steps = CheckpointSteps(directory, state->rank.group, state->rank.stage);
    newest.push_back(steps.empty() ? kNone : steps.back());
  }
  const int64_t step = AgreeOnSmallest(ranks, newest);
  if (step == kNone) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint directory ", directory, ": not every rank has a checkpoint"));
  }
  std::vector<Checkpoint> checkpoints;
  absl::Status own;
  for (const auto& state : ranks) {
    absl::StatusOr<Checkpoint> checkpoint = ReadFor(directory, step, spec, *state);
    if (!checkpoint.ok()) {
      own = checkpoint.status();
      break;
    }
    checkpoints.push_back(*std::move(checkpoint));
  }
  // All or none: a rank that cannot load stops the others before anything has changed.
  const bool all = AgreeOnSmallest(ranks, std::vector<int64_t>(ranks.size(), own.ok())) == 1;
  if (!own.ok()) return own;
  if (!all) {
    return absl::DataLossError(
        absl::StrCat("checkpoint of step ", step, ": another rank cannot load its file"));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (absl::Status status = Restore(checkpoints[i], *ranks[i]); !status.ok()) return status;
  }
  return step;
}

}  // namespace longhaul
