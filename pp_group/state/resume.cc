#include "pp_group/state/resume.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/finite.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/step_agreement.h"
#include "pp_group/train_spec.h"

namespace longhaul {
namespace {

// Tensors of a checkpoint by name.
std::vector<std::pair<std::string, at::Tensor>> TensorsOf(const RankState& state, int64_t step) {
  std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"parameters", state.stage->parameters()},
      {"adamw.first_moment", state.optimizer->first_moment()},
      {"adamw.second_moment", state.optimizer->second_moment()}};
  if (state.past != nullptr) {
    for (auto& named : state.past->Tensors()) tensors.push_back(std::move(named));
  }
  if (state.outer == nullptr) return tensors;
  for (auto& named : state.outer->Tensors(step)) tensors.push_back(std::move(named));
  return tensors;
}

// Of what crosses between groups, by fragment.
std::string CodecSection(int64_t fragment) {
  return fragment == 0 ? "outer.codec_state" : absl::StrCat("outer.codec_state.", fragment);
}
int64_t FragmentsOf(const RankState& state) {
  return state.outer == nullptr ? 0 : state.outer->fragments();
}

constexpr char kChannelSection[] = "boundary.channels";

absl::StatusOr<Checkpoint> CheckpointOf(const RankState& state, int64_t step,
                                        const std::string& spec) {
  Checkpoint checkpoint{.step = step,
                        .group = state.rank.group,
                        .stage = state.rank.stage,
                        .spec = spec,
                        .sections = {}};
  for (const auto& [name, tensor] : TensorsOf(state, step)) {
    const at::Tensor host = tensor.cpu();
    if (!AllFinite(host)) {
      return absl::OutOfRangeError(absl::StrCat(
          "step ", step, ", group ", state.rank.group, ", stage ", state.rank.stage,
          ": NaN or Inf in ", name, ", so that no checkpoint of this step is written"));
    }
    const auto* bytes = static_cast<const std::byte*>(host.const_data_ptr());
    checkpoint.sections.emplace_back(name, std::vector<std::byte>(bytes, bytes + tensor.nbytes()));
  }
  for (int64_t f = 0; f < FragmentsOf(state); ++f) {
    checkpoint.sections.emplace_back(CodecSection(f), state.outer->exchange(f).SaveCodecState());
  }
  if (state.rank.boundary_state != nullptr) {
    ASSIGN_OR_RETURN(const std::string channels, state.rank.boundary_state->Save());
    const auto bytes = std::as_bytes(std::span(channels));
    checkpoint.sections.emplace_back(kChannelSection,
                                     std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return checkpoint;
}

// A checkpoint whose every section has been checked against the rank that it is for.
struct Loaded {
  Checkpoint checkpoint;
  std::vector<GroupAverage::CodecStates> outer_codecs;  // by fragment
  std::string_view channels;                            // in `checkpoint`
};

absl::Status InSection(const std::string& section, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("checkpoint section '", section,
                                                  "': ", std::string(status.message())));
}

absl::Status CheckSections(const RankState& state, Loaded* loaded) {
  const Checkpoint& checkpoint = loaded->checkpoint;
  for (const auto& [name, tensor] : TensorsOf(state, checkpoint.step)) {
    if (absl::Status status = checkpoint.Section(name, tensor.nbytes()).status(); !status.ok()) {
      return status;
    }
  }
  for (int64_t f = 0; f < FragmentsOf(state); ++f) {
    ASSIGN_OR_RETURN(const auto saved, checkpoint.Section(CodecSection(f)));
    auto codec = state.outer->exchange(f).ParseCodecState(saved);
    if (!codec.ok()) return InSection(CodecSection(f), codec.status());
    loaded->outer_codecs.push_back(*std::move(codec));
  }
  if (state.rank.boundary_state == nullptr) {
    if (!checkpoint.Section(kChannelSection).ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint section '", kChannelSection,
                     "' holds what boundary channels remember, and this run's have no memory"));
  }
  ASSIGN_OR_RETURN(const auto channels, checkpoint.Section(kChannelSection));
  loaded->channels = {reinterpret_cast<const char*>(channels.data()), channels.size()};
  const absl::Status status = state.rank.boundary_state->Check(loaded->channels);
  return status.ok() ? status : InSection(kChannelSection, status);
}

absl::Status Restore(Loaded loaded, const RankState& state) {
  if (state.rank.boundary_state != nullptr) {
    const absl::Status status = state.rank.boundary_state->Load(loaded.channels);
    if (!status.ok()) return InSection(kChannelSection, status);
  }
  for (size_t f = 0; f < loaded.outer_codecs.size(); ++f) {
    GroupAverage& exchange = state.outer->exchange(static_cast<int64_t>(f));
    exchange.SetCodecState(std::move(loaded.outer_codecs[f]));
  }
  for (const auto& [name, tensor] : TensorsOf(state, loaded.checkpoint.step)) {
    ASSIGN_OR_RETURN(const auto bytes, loaded.checkpoint.Section(name, tensor.nbytes()));
    at::Tensor host = tensor.is_cpu() ? tensor : at::empty(tensor.sizes(), at::kFloat);
    std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
    tensor.copy_(host);
  }
  return absl::OkStatus();
}

// Reads and checks the file of one rank; changes nothing.
absl::StatusOr<std::unique_ptr<Loaded>> ReadFor(const std::string& directory, int64_t step,
                                                const std::string& spec, const RankState& state) {
  const std::string path = CheckpointPath(directory, state.rank.group, state.rank.stage, step);
  ASSIGN_OR_RETURN(Checkpoint checkpoint, ReadCheckpoint(path));
  if (checkpoint.spec != spec) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", path, " is of another run: ", FirstDifference(checkpoint.spec, spec)));
  }
  if (checkpoint.step != step || checkpoint.group != state.rank.group ||
      checkpoint.stage != state.rank.stage) {
    return absl::DataLossError(absl::StrCat("checkpoint ", path, " holds step ", checkpoint.step,
                                            " of group ", checkpoint.group, ", stage ",
                                            checkpoint.stage, ": renamed?"));
  }
  auto loaded = std::make_unique<Loaded>();
  loaded->checkpoint = std::move(checkpoint);
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
    ASSIGN_OR_RETURN(Checkpoint checkpoint, CheckpointOf(*state, step, spec));
    checkpoints.push_back(std::move(checkpoint));
  }
  return checkpoints;
}

absl::StatusOr<LoadedStep> LoadRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                     const std::string& directory, const std::string& spec) {
  std::vector<std::unique_ptr<Loaded>> tried;
  StepLoad load{.directory = directory, .newest = {}, .try_step = {}, .restore = {}};
  load.newest = [&](int64_t limit) {
    int64_t newest = INT64_MAX;
    for (const auto& state : ranks) {
      std::vector<int64_t> steps = CheckpointSteps(directory, state->rank.group, state->rank.stage);
      std::erase_if(steps, [limit](int64_t step) { return step > limit; });
      newest = std::min(newest, steps.empty() ? -1 : steps.back());
    }
    return newest;
  };
  load.try_step = [&](int64_t step) -> absl::Status {
    tried.clear();
    for (const auto& state : ranks) {
      ASSIGN_OR_RETURN(std::unique_ptr<Loaded> loaded, ReadFor(directory, step, spec, *state));
      tried.push_back(std::move(loaded));
    }
    return absl::OkStatus();
  };
  load.restore = [&]() -> absl::Status {
    for (size_t i = 0; i < ranks.size(); ++i) {
      RETURN_IF_ERROR(Restore(std::move(*tried[i]), *ranks[i]));
    }
    return absl::OkStatus();
  };
  return LoadNewestStep(ranks, load);
}

}  // namespace longhaul
