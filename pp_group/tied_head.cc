#include "pp_group/tied_head.h"

#include <utility>

#include <ATen/ATen.h>

namespace longhaul {
namespace {

void WaitForAll(std::vector<WorkPtr>* works) {
  for (WorkPtr& work : *works) WaitAndReset(&work);
  works->clear();
}

}  // namespace

TiedHead::TiedHead(Stage* stage, c10::intrusive_ptr<c10d::Backend> peers)
    : stage_(stage), peers_(std::move(peers)) {}

at::Tensor TiedHead::Of(const at::Tensor& flat) const {
  const FlatRange& range = *stage_->layout().tied;
  return flat.narrow(0, range.begin, range.end - range.begin);
}

void TiedHead::SendGradient() {
  if (other_ != nullptr) received_ = other_->Of(other_->stage_->gradients()).clone();
  if (peers_ == nullptr) return;
  const at::Tensor own = Of(stage_->gradients());
  const int other = 1 - peers_->getRank();
  received_ = at::empty_like(own);
  receiving_.push_back(ReceiveTensor(*peers_, received_, other));
  sending_.push_back(SendTensor(*peers_, own, other));
}

void TiedHead::ReceiveGradient() {
  WaitForAll(&receiving_);
  WaitForAll(&sending_);  // the sum is written where the own part is read
}

void TiedHead::AddGradient() {
  const at::Tensor other =
      received_.defined() ? std::exchange(received_, {}) : stage_->head_gradient();
  if (!stage_->trains()) return;
  at::Tensor own = Of(stage_->gradients());
  const bool first = stage_->layout().first();
  at::add_out(own, first ? own : other, first ? other : own);  // NaN has an order, too
}

void TiedHead::BeginCopy(const std::vector<at::Tensor>& flats) {
  if (other_ != nullptr) copied_ = flats;
  if (peers_ == nullptr) return;
  for (const at::Tensor& flat : flats) {
    if (stage_->layout().first()) {
      sending_.push_back(SendTensor(*peers_, Of(flat), 1));
    } else {
      receiving_.push_back(ReceiveTensor(*peers_, Of(flat), 0));
    }
  }
}

void TiedHead::FinishCopy() {
  for (size_t i = 0; other_ != nullptr && i < copied_.size(); ++i) {
    if (!stage_->layout().first()) Of(copied_[i]).copy_(other_->Of(other_->copied_[i]));
  }
  WaitForAll(&receiving_);
  WaitForAll(&sending_);
}

}  // namespace longhaul
