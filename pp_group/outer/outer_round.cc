#include "pp_group/outer/outer_round.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"
#include "pp_group/outer/poison.h"
#include "pp_group/train_spec.h"

namespace longhaul {
namespace {

constexpr auto kWork = RankSpan::Kind::kExchange, kWaits = RankSpan::Kind::kExchangeWait;

}  // namespace

void OuterRound::Count(RankState& state, absl::Duration start, RankSpan::Kind kind,
                       const char* doing, const OuterExchange& e) const {
  state.report.outer +=
      Watched(state.rank.spans, {kind, start, now_(), std::nullopt, doing, e.begun, e.fragment});
}

template <typename First, typename Second>
absl::Status OuterRound::OnAll(int64_t step, First begin, Second finish) {
  const OuterExchange gradients{.begun = step, .applied = step, .fragment = 0};
  for (auto& state : ranks_) {
    const absl::Duration start = now_();
    RETURN_IF_ERROR(begin(*state));
    Count(*state, start, kWork, "encode and send gradients", gradients);
  }
  for (auto& state : ranks_) {
    const absl::Duration start = now_();
    RETURN_IF_ERROR(finish(*state));
    Count(*state, start, kWaits, "receive and decode gradients", gradients);
    state->report.outer_synced = true;
    state->report.outer_bytes_sent = state->outer->exchange().bytes_sent();
  }
  return absl::OkStatus();
}

absl::Status OuterRound::AverageGradients(int64_t step) {
  if (!plan_.gradients()) return absl::OkStatus();
  absl::Status averaged = OnAll(
      step, [step](RankState& state) { return state.outer->BeginGradients(step, *state.stage); },
      [](RankState& state) { return state.outer->FinishGradients(state.stage.get()); });
  if (!averaged.ok() || spec_.model.expert_parallel == 1) return averaged;
  return OnAll(
      step,
      [](RankState& state) {
        state.outer->BeginSquares(*state.stage);
        return absl::OkStatus();
      },
      [](RankState& state) {
        state.spread_squares = state.outer->FinishSquares();
        return absl::OkStatus();
      });
}

absl::Status OuterRound::Run(int64_t step) {
  std::vector<OuterExchange> due = plan_.AppliedAfter(step);
  std::erase_if(due, [step](const OuterExchange& e) { return e.begun == step; });
  for (const OuterExchange& e : due) {
    RETURN_IF_ERROR(Average(e));
  }
  for (const OuterExchange& e : plan_.BegunAfter(step)) {
    // What is begun is what the inner steps have done, from the start that they had; only then does
    // an earlier average move that start.
    RETURN_IF_ERROR(Begin(e));
    for (const OuterExchange& earlier : std::exchange(due, {})) {
      RETURN_IF_ERROR(Apply(earlier));
    }
    if (e.applied > step) continue;
    RETURN_IF_ERROR(Apply(e));
  }
  for (const OuterExchange& e : due) {
    RETURN_IF_ERROR(Apply(e));
  }
  busy_ = nullptr;
  return absl::OkStatus();
}

absl::Status OuterRound::Advance() {
  for (const OuterExchange& e : sent_) {
    for (auto& state : ranks_) {
      RETURN_IF_ERROR(state->outer->exchange(e.fragment).Advance());
    }
  }
  return absl::OkStatus();
}

absl::Status OuterRound::Drain(int64_t step) {
  for (const OuterExchange& e : plan_.InFlightAfter(step)) {
    RETURN_IF_ERROR(Average(e));
  }
  busy_ = nullptr;
  return absl::OkStatus();
}

// What each rank has leaves for the other groups; where the result is due at once, it is there.
absl::Status OuterRound::Begin(const OuterExchange& e) {
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    if (state->poison != 1) state->stage->parameters().mul_(std::exchange(state->poison, 1));
    // The outer step computes on the host: of a stage on a device, on a copy of its parameters.
    state->host_parameters.copy_(state->stage->parameters());
    if (!plan_.all_meet()) {
      state->outer->exchange(e.fragment).Meet(plan_.MembersOf(e, state->rank.group));
    }
    RETURN_IF_ERROR(state->outer->Encode(e));
    if (state->outer->moves_when_begun()) state->stage->parameters().copy_(state->host_parameters);
    Count(*state, start, kWork, "encode", e);
  }
  return MeetAndExchange(e);
}

// Until an exchange is whole on all members; without a keeper the first one must be, by the time
// that it is due.
absl::Status OuterRound::MeetAndExchange(const OuterExchange& e) {
  for (int64_t attempt = 1;; ++attempt) {
    const absl::Duration start = now_();
    if (keeper_ != nullptr) {
      ASSIGN_OR_RETURN(const Meeting meeting, keeper_->Meet(e.begun));
      for (const Meeting::Peers& peers : meeting.peers) {
        for (auto& state : ranks_) {
          if (state->rank.group != peers.group || state->rank.stage != peers.stage) continue;
          state->outer->exchange(e.fragment).SetMembers(meeting.members, peers.backend);
        }
      }
    }
    for (auto& state : ranks_) {
      state->report.met += now_() - start;
      state->report.attempts = attempt;
    }
    if (keeper_ == nullptr) {
      Send(e);
      return absl::OkStatus();
    }
    absl::Status exchanged;
    const absl::Status thrown = StatusFromTorch("exchange of outer deltas", [&] {
      Send(e);
      exchanged = Receive(e);
    });
    ASSIGN_OR_RETURN(const bool committed, keeper_->Commit(thrown.ok() ? exchanged : thrown));
    if (committed) return absl::OkStatus();
  }
}

void OuterRound::Send(const OuterExchange& e) {
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    GroupAverage& exchange = state->outer->exchange(e.fragment);
    exchange.Send();
    Count(*state, start, kWork, "send", e);
    state->report.outer_bytes_sent = exchange.bytes_sent();
  }
  sent_ = {e};
}

absl::Status OuterRound::Receive(const OuterExchange& e) {
  squared_norms_.clear();
  for (auto& state : ranks_) {
    busy_ = state.get();
    absl::Duration start = now_();
    // Apart from what is then done with it, so that waiting is told as that.
    RETURN_IF_ERROR(state->outer->exchange(e.fragment).Receive());
    Count(*state, start, kWaits, "receive", e);
    start = now_();
    ASSIGN_OR_RETURN(auto squared, state->outer->SquaredNorms(e.fragment));
    squared_norms_.push_back({std::move(squared)});
    Count(*state, start, kWork, "decode", e);
  }
  sent_.clear();
  return absl::OkStatus();
}

void OuterRound::GatherNormsOfStages(const OuterExchange& e) {
  std::vector<WorkPtr> works;
  std::vector<std::vector<std::vector<at::Tensor>>> outputs(ranks_.size());
  std::vector<std::vector<at::Tensor>> inputs(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    inputs[i] = {at::tensor(squared_norms_[i].front(), at::kDouble)};
    outputs[i].resize(1);
    // A rank of several stages gathers as often: first what every rank's first stage tells.
    for (int64_t r = 0; r < ranks_[i]->rank.plain->getSize(); ++r) {
      outputs[i][0].push_back(at::empty_like(inputs[i][0]));
    }
    works.push_back(ranks_[i]->rank.plain->allgather(outputs[i], inputs[i]));
  }
  const std::vector<int> rank_of_stage = RanksOfStages(spec_);
  const auto place = [&](const RankState& state) {
    return std::pair(state.rank.group, rank_of_stage[static_cast<size_t>(state.rank.stage)]);
  };
  // [P] ranks of [chunks] stages each, ascending, of [members] each.
  std::map<std::pair<int, int>, std::vector<std::vector<std::vector<double>>>> gathered;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const absl::Duration start = now_();
    WaitAndReset(&works[i]);
    Count(*ranks_[i], start, kWaits, kNormsOfStages, e);
    auto& of_ranks = gathered[place(*ranks_[i])];
    of_ranks.resize(outputs[i][0].size());
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      const at::Tensor& norms = outputs[i][0][r];
      const auto* of_members = norms.const_data_ptr<double>();
      of_ranks[r].emplace_back(of_members, of_members + norms.numel());
    }
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& of_ranks = gathered.at(place(*ranks_[i]));
    std::vector<size_t> next(of_ranks.size(), 0);
    squared_norms_[i].clear();
    for (const int rank : rank_of_stage) {
      const auto r = static_cast<size_t>(rank);
      squared_norms_[i].push_back(of_ranks[r][next[r]++]);
    }
  }
}

// Waits for everybody's values. Nothing where it has been done.
absl::Status OuterRound::Average(const OuterExchange& e) {
  if (std::find(averaged_.begin(), averaged_.end(), e) != averaged_.end()) return absl::OkStatus();
  if (keeper_ == nullptr) {
    RETURN_IF_ERROR(Receive(e));
  }
  // Not before: a stage whose exchange failed is not there to tell its norms.
  if (spec_.stages > 1 && spec_.groups > 1) GatherNormsOfStages(e);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankState& state = *ranks_[i];
    busy_ = &state;
    const absl::Duration start = now_();
    const std::vector<double> norms = NormsOverStages(squared_norms_[i]);
    if (std::none_of(norms.begin(), norms.end(), [](double norm) { return std::isfinite(norm); })) {
      return absl::OutOfRangeError(
          absl::StrCat("step ", e.begun, ", group ", state.rank.group, ", stage ", state.rank.stage,
                       ": NaN or Inf in the outer delta of every group that meets"));
    }
    const std::vector<bool> poisoned = PoisonedMembers(norms);
    RETURN_IF_ERROR(state.outer->Average(e.fragment, poisoned));
    double sum = 0, counted = 0;
    for (size_t m = 0; m < norms.size(); ++m) {
      if (poisoned[m]) continue;
      sum += norms[m];
      ++counted;
    }
    member_norms_[{e.fragment, i}] = sum / counted;
    Count(state, start, kWork, "average", e);
  }
  averaged_.push_back(e);
  return absl::OkStatus();
}

void OuterRound::TellDelta(size_t local_rank, const OuterExchange& e) {
  RankState& state = *ranks_[local_rank];
  GroupAverage& exchange = state.outer->exchange(e.fragment);
  const auto norm = member_norms_.extract({e.fragment, local_rank});
  if (plan_.all_meet() && exchange.members().front() != state.rank.group) {
    exchange.ForgetLast();
    return;
  }
  const GroupAverage::Turn turn = exchange.TurnOfAverage();
  state.report.outer_deltas.push_back(
      {.fragment = e.fragment,
       .squared_norm = turn.squared_norm,
       .last_squared_norm = turn.last_squared_norm,
       .dot = turn.dot,
       .member_norm = norm.empty() ? std::nullopt : std::optional(norm.mapped())});
}

absl::Status OuterRound::Apply(const OuterExchange& e) {
  RETURN_IF_ERROR(Average(e));
  std::erase(averaged_, e);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankState& state = *ranks_[i];
    busy_ = &state;
    const absl::Duration start = now_();
    if (e.applied > e.begun) state.host_parameters.copy_(state.stage->parameters());
    RETURN_IF_ERROR(state.outer->Apply(e));
    state.stage->parameters().copy_(state.host_parameters);
    GroupAverage& exchange = state.outer->exchange(e.fragment);
    TellDelta(i, e);
    const std::vector<int>& members = exchange.members();
    const std::vector<bool> left_out = state.outer->left_out(e.fragment);
    state.report.members = members;
    for (size_t m = 0; m < members.size(); ++m) {
      if (!left_out[m]) continue;
      state.report.left_out.push_back(members[m]);
      if (members[m] != state.rank.group) continue;
      exchange.ForgetCodecState();
      if (state.optimizer != nullptr) state.optimizer->ForgetMoments();
    }
    Count(state, start, kWork, "apply", e);
    state.report.outer_synced = true;
    if (keeper_ != nullptr) lowest_member_ = members.front();
  }
  return absl::OkStatus();
}

}  // namespace longhaul
