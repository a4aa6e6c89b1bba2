#include "pp_group/state/reshard.h"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/state/resume.h"
#include "pp_group/step_agreement.h"

namespace longhaul {
namespace {

// What one rank takes over, read and checked before anything changes.
struct Taken {
  std::vector<std::pair<at::Tensor, std::vector<float>>> tensors;  // target, values
  GroupAverage::CodecStates outer_codec;
  std::string channels;  // "": they start anew
};

absl::Status TakeTensors(LeftCheckpoints& left, const RankState& state, Taken* taken) {
  const StageLayout& layout = state.stage->layout();
  const int group = state.rank.group;
  const auto take = [&](const std::string& section, const at::Tensor& target) {
    std::vector<float> values(static_cast<size_t>(layout.flat_elements));
    absl::Status filled = left.Fill(section, group, layout, values);
    if (filled.ok()) taken->tensors.emplace_back(target, std::move(values));
    return filled;
  };
  absl::Status s = take("parameters", state.stage->parameters());
  if (s.ok()) s = take("adamw.first_moment", state.optimizer->first_moment());
  if (s.ok()) s = take("adamw.second_moment", state.optimizer->second_moment());
  if (!s.ok() || state.outer == nullptr || !state.outer->theta_start().defined()) return s;
  // A run without outer steps left no start: the round begins with its parameters.
  s = take(left.has_outer() ? "outer.theta_start" : "parameters", state.outer->theta_start());
  if (!left.has_outer()) return s;
  for (const auto& [section, tensor] : state.outer->state()) {
    if (s.ok()) s = take(section, tensor);
  }
  return s;
}

// The memory of codecs, where it fits; told where it is left behind.
absl::Status TakeCodecs(LeftCheckpoints& left, const RankState& state, Taken* taken,
                        std::set<std::string>* dropped) {
  ASSIGN_OR_RETURN(const auto same, left.SameRank(state.rank.group, state.rank.stage));
  const Checkpoint* file = same;
  // Of several fragments it begins anew: an error of a moment.
  if (state.outer != nullptr) {
    const GroupAverage* const exchange = &state.outer->exchange();
    const auto saved = file == nullptr ? absl::StatusOr<std::span<const std::byte>>(
                                             absl::NotFoundError("stages or groups are others"))
                                       : file->Section("outer.codec_state");
    auto codec = saved.ok() ? exchange->ParseCodecState(*saved)
                            : absl::StatusOr<GroupAverage::CodecStates>(saved.status());
    if (codec.ok()) taken->outer_codec = *std::move(codec);
    if (!codec.ok() && !exchange->SaveCodecState().empty()) {
      dropped->insert("what the outer codec remembered");
    }
  }
  if (state.rank.boundary_state == nullptr) return absl::OkStatus();
  const auto saved = file == nullptr ? absl::StatusOr<std::span<const std::byte>>(
                                           absl::NotFoundError("stages or groups are others"))
                                     : file->Section("boundary.channels");
  if (saved.ok()) {
    const std::string text(reinterpret_cast<const char*>(saved->data()), saved->size());
    if (state.rank.boundary_state->Check(text).ok()) taken->channels = text;
  }
  if (taken->channels.empty() && state.stage->layout().stages > 1) {
    dropped->insert("what boundary channels remembered");
  }
  return absl::OkStatus();
}

absl::Status TakeOver(const RankState& state, Taken& taken) {
  if (!taken.channels.empty()) {
    RETURN_IF_ERROR(state.rank.boundary_state->Load(taken.channels));
  }
  if (!taken.outer_codec.empty())
    state.outer->exchange().SetCodecState(std::move(taken.outer_codec));
  for (auto& [target, values] : taken.tensors) {
    target.copy_(at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat)
                     .view(target.sizes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Restored> RestoreRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                      const std::string& directory, const TrainSpec& spec,
                                      const std::string& text) {
  std::vector<Taken> taken;
  std::set<std::string> dropped;
  std::string changes;
  StepLoad load{.directory = directory, .newest = {}, .try_step = {}, .restore = {}};
  load.newest = [&](int64_t limit) {
    int64_t newest = -1;
    for (const int64_t step : CheckpointSteps(directory, 0, 0)) {
      if (step <= limit) newest = std::max(newest, step);
    }
    return newest;
  };
  load.try_step = [&](int64_t step) -> absl::Status {
    taken.clear();
    dropped.clear();
    ASSIGN_OR_RETURN(auto left, LeftCheckpoints::Open(directory, step, spec, text));
    changes = left.changes();
    for (const auto& state : ranks) {
      Taken& one = taken.emplace_back();
      RETURN_IF_ERROR(TakeTensors(left, *state, &one));
      RETURN_IF_ERROR(TakeCodecs(left, *state, &one, &dropped));
    }
    if (left.groups() < spec.groups) {
      dropped.insert(absl::StrCat("AdamW's moments of groups that were not there: groups from ",
                                  left.groups(), " on have group 0's"));
    }
    if (left.groups() > spec.groups) {
      dropped.insert(absl::StrCat("AdamW's moments of groups from ", spec.groups, " on"));
    }
    return absl::OkStatus();
  };
  load.restore = [&]() -> absl::Status {
    for (size_t i = 0; i < ranks.size(); ++i) {
      RETURN_IF_ERROR(TakeOver(*ranks[i], taken[i]));
    }
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(LoadedStep loaded, LoadNewestStep(ranks, load));
  return Restored{.step = loaded.step,
                  .changes = std::move(changes),
                  .dropped = {dropped.begin(), dropped.end()},
                  .passed_over = std::move(loaded.passed_over)};
}

absl::Status CheckRestorable(const std::string& directory, const TrainSpec& spec,
                             const std::string& text) {
  const std::vector<int64_t> steps = CheckpointSteps(directory, 0, 0);
  absl::Status newest = absl::NotFoundError(absl::StrCat(
      "checkpoint directory ", directory, ": no checkpoint of group 0, stage 0 in it"));
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const absl::Status opened = LeftCheckpoints::Open(directory, *step, spec, text).status();
    // As LoadNewestStep does: a file that is damaged or of another run is passed over.
    const bool unusable =
        absl::IsDataLoss(opened) || absl::IsNotFound(opened) || absl::IsInvalidArgument(opened);
    if (!unusable) return opened;
    if (absl::IsNotFound(newest)) newest = opened;
  }
  return newest;
}

}  // namespace longhaul
