#include "pp_group/outer_round.h"

#include <utility>

#include <ATen/ATen.h>

#include "pp_group/c10d_status.h"
#include "pp_group/poison.h"

namespace longhaul {

absl::Status OuterRound::Run(int64_t step) {
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    if (state->poison != 1) state->stage->parameters().mul_(std::exchange(state->poison, 1));
    // The outer step computes on the host: of a stage on a device, on a copy of its parameters.
    state->host_parameters.copy_(state->stage->parameters());
    if (absl::Status status = state->outer->Encode(step); !status.ok()) return status;
    state->report.outer += now_() - start;
  }
  if (absl::Status status = MeetAndExchange(step); !status.ok()) return status;
  // Not before: a stage whose exchange failed is not there to tell its norms.
  if (spec_.stages > 1 && spec_.groups > 1) GatherNormsOfStages();
  if (absl::Status status = Apply(); !status.ok()) return status;
  busy_ = nullptr;
  return absl::OkStatus();
}

// Until an exchange is whole on all members; without a keeper the first one must be.
absl::Status OuterRound::MeetAndExchange(int64_t step) {
  for (int64_t attempt = 1;; ++attempt) {
    const absl::Duration start = now_();
    if (keeper_ != nullptr) {
      const absl::StatusOr<Meeting> meeting = keeper_->Meet(step);
      if (!meeting.ok()) return meeting.status();
      for (const Meeting::Peers& peers : meeting->peers) {
        for (auto& state : ranks_) {
          if (state->rank.group != peers.group || state->rank.stage != peers.stage) continue;
          state->outer->exchange().SetMembers(meeting->members, peers.backend);
        }
      }
    }
    for (auto& state : ranks_) {
      state->report.met += now_() - start;
      state->report.attempts = attempt;
    }
    if (keeper_ == nullptr) return ExchangeDeltas();
    absl::Status exchanged;
    const absl::Status thrown =
        StatusFromTorch("exchange of outer deltas", [&] { exchanged = ExchangeDeltas(); });
    const absl::StatusOr<bool> committed = keeper_->Commit(thrown.ok() ? exchanged : thrown);
    if (!committed.ok()) return committed.status();
    if (*committed) return absl::OkStatus();
  }
}

// One exchange between the members that are set.
absl::Status OuterRound::ExchangeDeltas() {
  squared_norms_.clear();
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    state->outer->exchange().Send();
    state->report.outer += now_() - start;
  }
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    auto squared = state->outer->SquaredNorms();
    if (!squared.ok()) return squared.status();
    squared_norms_.push_back({*std::move(squared)});
    state->report.outer += now_() - start;
  }
  return absl::OkStatus();
}

void OuterRound::GatherNormsOfStages() {
  std::vector<WorkPtr> works;
  std::vector<std::vector<std::vector<at::Tensor>>> outputs(ranks_.size());
  std::vector<std::vector<at::Tensor>> inputs(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    inputs[i] = {at::tensor(squared_norms_[i].front(), at::kDouble)};
    outputs[i].resize(1);
    for (int s = 0; s < spec_.stages; ++s) outputs[i][0].push_back(at::empty_like(inputs[i][0]));
    works.push_back(ranks_[i]->rank.plain->allgather(outputs[i], inputs[i]));
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    WaitAndReset(&works[i]);
    squared_norms_[i].clear();
    for (const at::Tensor& stage : outputs[i][0]) {
      const auto* of_members = stage.const_data_ptr<double>();
      squared_norms_[i].emplace_back(of_members, of_members + stage.numel());
    }
  }
}

absl::Status OuterRound::Apply() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankState& state = *ranks_[i];
    const absl::Duration start = now_();
    const std::vector<int>& members = state.outer->exchange().members();
    const std::vector<bool> poisoned = PoisonedMembers(NormsOverStages(squared_norms_[i]));
    if (absl::Status status = state.outer->Finish(poisoned); !status.ok()) return status;
    state.stage->parameters().copy_(state.host_parameters);
    state.report.members = members;
    for (size_t m = 0; m < members.size(); ++m) {
      if (!poisoned[m]) continue;
      state.report.left_out.push_back(members[m]);
      if (members[m] != state.rank.group) continue;
      state.outer->exchange().ForgetCodecState();
      if (state.optimizer != nullptr) state.optimizer->ForgetMoments();
    }
    state.report.outer += now_() - start;
    state.report.outer_synced = true;
    state.report.outer_bytes_sent = state.exchange()->bytes_sent();
    lowest_member_ = members.front();
  }
  return absl::OkStatus();
}

}  // namespace longhaul
