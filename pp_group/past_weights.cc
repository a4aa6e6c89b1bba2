#include "pp_group/past_weights.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {

PastWeights::PastWeights(const PipelineProgram& program, Stage* stage)
    : program_(program), stage_(stage) {
  const int oldest = program.StepsLate(stage->layout().stage, /*microbatch=*/0);
  for (int late = 0; late <= oldest; ++late) weights_.push_back(stage->parameters().clone());
}

void PastWeights::BeginStep() {
  weights_.push_front(weights_.back());
  weights_.pop_back();
  weights_.front().copy_(stage_->parameters());
}

void PastWeights::Take(int microbatch) {
  Lay(program_.StepsLate(stage_->layout().stage, microbatch));
}

void PastWeights::EndStep() { Lay(0); }

void PastWeights::Lay(int late) {
  if (late == laid_) return;
  stage_->parameters().copy_(weights_[static_cast<size_t>(late)]);
  stage_->ParametersChanged();
  laid_ = late;
}

void PastWeights::Forget() {
  for (const at::Tensor& weights : weights_) weights.copy_(stage_->parameters());
}

std::vector<std::pair<std::string, at::Tensor>> PastWeights::Tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t late = 1; late < weights_.size(); ++late) {
    tensors.emplace_back(absl::StrCat("past_weights.", late), weights_[late - 1]);
  }
  return tensors;
}

}  // namespace longhaul
