#include "pp_group/local_rank.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "pp_group/schedule.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<RankState>> NewRankState(
    const TrainSpec& spec, const LocalRank& rank, const std::function<absl::Duration()>* now) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule);
  if (!schedule.ok()) return schedule.status();
  auto state = std::make_unique<RankState>();
  state->rank = rank;
  state->stage = std::make_unique<GptStage>(spec.model, rank.stage, spec.stages, spec.seed);
  state->pipeline = std::make_unique<PipelineRank>(
      state->stage.get(), rank.boundary,
      schedule->program(rank.stage, spec.stages, static_cast<int>(spec.microbatches)),
      spec.batch_rows / spec.microbatches, now);
  state->optimizer = std::make_unique<AdamW>(spec.inner, state->stage->layout());
  if (spec.outer.inner_steps == 0) return state;
  absl::StatusOr<std::unique_ptr<OuterSync>> outer =
      OuterSync::Create(spec.outer, rank.group, spec.groups, rank.stage, spec.seed,
                        state->stage->parameters(), rank.outer);
  if (!outer.ok()) return outer.status();
  state->outer = *std::move(outer);
  return state;
}

Checkpoint CheckpointOf(RankState& state, int64_t step, const std::string& spec) {
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

absl::Status CanRestore(const Checkpoint& checkpoint, RankState& state) {
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

absl::Status Restore(const Checkpoint& checkpoint, RankState& state) {
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

}  // namespace longhaul
