#include "pp_group/handover.h"

#include <vector>

#include <ATen/ATen.h>

#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

// In the order in which they travel.
std::vector<at::Tensor> HandedOver(const RankState& state) {
  std::vector<at::Tensor> tensors = {state.stage->parameters(), state.outer->theta_start(),
                                     state.outer->momentum()};
  if (state.optimizer != nullptr) {
    tensors.push_back(state.optimizer->first_moment());
    tensors.push_back(state.optimizer->second_moment());
  }
  return tensors;
}

}  // namespace

void CopyState(const RankState& from, RankState* to) {
  const std::vector<at::Tensor> sources = HandedOver(from), targets = HandedOver(*to);
  for (size_t i = 0; i < sources.size(); ++i) targets[i].copy_(sources[i]);
  to->stage->ParametersChanged();
}

absl::Status SendState(const RankState& state, c10d::Backend& to, int peer) {
  return StatusFromTorch("hand the state over", [&] {
    std::vector<WorkPtr> sent;
    for (const at::Tensor& x : HandedOver(state)) sent.push_back(SendTensor(to, x, peer));
    for (WorkPtr& work : sent) WaitAndReset(&work);
  });
}

absl::Status ReceiveState(RankState* state, c10d::Backend& from, int peer) {
  const absl::Status taken = StatusFromTorch("take the state over", [&] {
    std::vector<WorkPtr> received;
    for (const at::Tensor& x : HandedOver(*state)) received.push_back(ReceiveTensor(from, x, peer));
    for (WorkPtr& work : received) WaitAndReset(&work);
  });
  if (taken.ok()) state->stage->ParametersChanged();
  return taken;
}

}  // namespace longhaul
