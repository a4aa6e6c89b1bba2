#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "pp_group/c10d_status.h"
#include "pp_group/stage.h"

namespace longhaul {

// An end's part in the matrix that is embedding and head (StageLayout::tied). The first stage adds
// to its gradient by lookups, the last by the products that make logits. Each of them sums its own
// part over the micro-batches, and once a step, before gradients are averaged over groups and
// clipped,
//   gradient = lookups + head
// on both, so that both hold equal bits for ever, and those of a model in one stage, which keeps
// the two sums apart as well (Stage::head_gradient).
//
// Steps and bytes: one round, in which each of the two sends the other its part, 4 bytes an
// element. The calls are apart so that one thread can drive several ranks. They throw what c10d
// does.
class TiedHead {
 public:
  // Borrows the stage, whose layout has `tied`. `peers`: LocalRank::tied; null: S == 1, or both ends
  // are on one rank.
  TiedHead(Stage* stage, c10::intrusive_ptr<c10d::Backend> peers);
  // Both ends are in this process, and the first one's calls come before the last one's: the sum is made
  // where the parts lie. Parts that other ranks hold are sent all the same, each into the memory that it
  // comes from, so that they are counted. Borrows the other.
  void JoinLocally(TiedHead* other) { other_ = other; }

  void SendGradient();     // after the last backward pass
  void ReceiveGradient();  // waits until the other's is here and the own one has left
  void AddGradient();      // not where compute is injected: those gradients mean nothing

  // Of each of these [N], the last stage's part becomes the first one's.
  void BeginCopy(const std::vector<at::Tensor>& flats);
  void FinishCopy();

 private:
  at::Tensor Of(const at::Tensor& flat) const;  // [tied]
  at::Tensor OwnPart() const { return Of(stage_->gradients()); }
  void ReceivePart(const at::Tensor& into);
  void SendPart();
  bool copies_locally() const { return other_ != nullptr && peers_ == nullptr; }

  Stage* const stage_;
  const c10::intrusive_ptr<c10d::Backend> peers_;
  TiedHead* other_ = nullptr;       // in this process
  std::vector<at::Tensor> copied_;  // copies_locally: what BeginCopy was given
  at::Tensor
      received_;  // [tied], of another process; only from Send to Add, when no activations are held
  std::vector<WorkPtr> receiving_, sending_;
};

}  // namespace longhaul
