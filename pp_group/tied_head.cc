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

void TiedHead::ReceivePart(const at::Tensor& into) {
  receiving_.push_back(ReceiveTensor(*peers_, into, 1 - peers_->getRank()));
}

void TiedHead::SendPart() {
  sending_.push_back(SendTensor(*peers_, OwnPart(), 1 - peers_->getRank()));
}

void TiedHead::SendGradient() {
  if (peers_ == nullptr) return;
  if (other_ == nullptr) {
    received_ = at::empty_like(OwnPart());
    ReceivePart(received_);
    SendPart();
    return;
  }
  ReceivePart(other_->OwnPart());
  if (stage_->layout().first()) return;
  SendPart();  // both receives wait: nothing is copied
  other_->SendPart();
}

void TiedHead::ReceiveGradient() {
  WaitForAll(&receiving_);
  WaitForAll(&sending_);  // the sum is written where the own part is read
}

void TiedHead::AddGradient() {
  const bool first = stage_->layout().first();
  const at::Tensor received = std::exchange(received_, {});
  if (!stage_->trains() || (other_ != nullptr && !first)) return;
  at::Tensor own = OwnPart();
  const at::Tensor other = other_ != nullptr    ? other_->OwnPart()
                           : received.defined() ? received
                                                : stage_->head_gradient();
  at::add_out(own, first ? own : other, first ? other : own);  // NaN has an order, too
  if (other_ != nullptr) other.copy_(own);
}

void TiedHead::BeginCopy(const std::vector<at::Tensor>& flats) {
  if (copies_locally()) copied_ = flats;
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
  for (size_t i = 0; i < copied_.size(); ++i) {
    if (!stage_->layout().first()) Of(copied_[i]).copy_(other_->Of(other_->copied_[i]));
  }
  WaitForAll(&receiving_);
  WaitForAll(&sending_);
}

}  // namespace longhaul
