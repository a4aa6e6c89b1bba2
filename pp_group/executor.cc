#include "pp_group/executor.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/schedule_check.h"

namespace longhaul {
namespace {

// What crosses a boundary of this stage for `tokens` token rows.
at::Tensor NewTensor(const Stage& stage, int64_t tokens) {
  return at::empty({tokens, stage.shape().width}, stage.boundary());
}

// Splits rows of T + 1 ids into inputs and their successors.
void SplitRows(std::span<const int64_t> rows, int64_t context, std::vector<int64_t>* tokens,
               std::vector<int64_t>* targets) {
  tokens->clear();
  targets->clear();
  for (size_t at = 0; at < rows.size(); at += context + 1) {
    tokens->insert(tokens->end(), rows.begin() + at, rows.begin() + at + context);
    targets->insert(targets->end(), rows.begin() + at + 1, rows.begin() + at + context + 1);
  }
}

// Runs an operation on a tensor that is being sent. A codec refuses what is not finite: then say
// that training has diverged, not that sending failed.
template <typename F>
void OrDiverged(const at::Tensor& tensor, F operation) {
  try {
    operation();
  } catch (...) {
    if (!at::isfinite(tensor).all().item<bool>()) {
      throw Diverged(
          "training has diverged: NaN or Inf in the tensor, which the codec cannot carry");
    }
    throw;
  }
}

// The tensors of an evaluation that are on their way: a few, however many rows there are, so that
// a fast stage does not fill its memory before a slow link.
class SendWindow {
 public:
  void Send(c10d::Backend& backend, const at::Tensor& tensor, int peer) {
    if (sends_.size() == kSends) WaitForOldest();
    OrDiverged(tensor, [&] {
      sends_.emplace_back(SendTensor(backend, tensor, peer, kEvaluationTag), tensor);
      // A refusal is known at once, and the receiver learns of it: say first what it was.
      if (sends_.back().first->isCompleted()) WaitAndReset(&sends_.back().first);
    });
  }
  void Finish() {
    while (!sends_.empty()) WaitForOldest();
  }

 private:
  static constexpr size_t kSends = 4;
  void WaitForOldest() {
    WaitAndReset(&sends_.front().first);
    sends_.pop_front();
  }
  std::deque<std::pair<WorkPtr, at::Tensor>> sends_;
};

}  // namespace

PipelineRank::PipelineRank(Stage* stage, c10::intrusive_ptr<c10d::Backend> boundary,
                           const Program& program, int64_t rows_per_microbatch,
                           const std::function<absl::Duration()>* now,
                           std::function<void(int64_t, bool, const at::Tensor&)> watch)
    : stage_(stage),
      boundary_(std::move(boundary)),
      now_(*now),
      tokens_(rows_per_microbatch * stage->shape().context),
      microbatches_(program.size() / 2),
      losses_(tokens_),
      watch_(std::move(watch)) {
  for (Microbatch& m : microbatches_) {
    if (!first()) m.x = NewTensor(*stage, tokens_), m.dx = NewTensor(*stage, tokens_);
    if (!last()) m.y = NewTensor(*stage, tokens_), m.dy = NewTensor(*stage, tokens_);
  }
  for (int i = 0; i < PeakActivations(program); ++i) {
    kept_.push_back(stage_->NewActivations(rows_per_microbatch));
    free_.push_back(i);
  }
}

PipelineRank::~PipelineRank() = default;

void PipelineRank::BeginStep(std::span<const int64_t> rows) {
  times_ = {};
  loss_sum_ = 0;
  const int64_t context = stage_->shape().context;
  const size_t share = (first() || last()) ? rows.size() / microbatches_.size() : 0;
  for (size_t i = 0; i < microbatches_.size(); ++i) {
    Microbatch& m = microbatches_[i];
    if (share > 0) SplitRows(rows.subspan(i * share, share), context, &m.tokens, &m.targets);
    if (!first()) m.received_x = ReceiveTensor(*boundary_, m.x, index() - 1);
    if (!last()) m.received_dy = ReceiveTensor(*boundary_, m.dy, index() + 1);
  }
}

void PipelineRank::Run(const Action& action) {
  current_ = action;
  if (action.op == Op::kForward) {
    Forward(action.microbatch);
  } else {
    Backward(action.microbatch);
  }
}

void PipelineRank::Forward(int index) {
  Microbatch& m = microbatches_[index];
  Wait(&m.received_x, "receive from the stage before");
  WaitSent(m.y, &m.sent_y, "previous send to the stage after");
  doing_ = "compute";
  m.slot = free_.back();
  free_.pop_back();
  const absl::Duration start = now_();
  stage_->Forward(m.tokens, m.x, m.y, kept_[m.slot].get());
  if (last()) {
    const int64_t total = tokens_ * static_cast<int64_t>(microbatches_.size());
    stage_->Loss(m.targets, 1.0f / static_cast<float>(total), kept_[m.slot].get(), losses_);
    loss_sum_ = std::accumulate(losses_.begin(), losses_.end(), loss_sum_);
  }
  times_.forward += now_() - start;
  if (!last()) Send(m.y, this->index() + 1, &m.sent_y, "send to the stage after");
}

void PipelineRank::Backward(int index) {
  Microbatch& m = microbatches_[index];
  Wait(&m.received_dy, "receive from the stage after");
  WaitSent(m.dx, &m.sent_dx, "previous send to the stage before");
  doing_ = "compute";
  const absl::Duration start = now_();
  stage_->Backward(m.tokens, m.dy, m.dx, kept_[m.slot].get());
  times_.backward += now_() - start;
  free_.push_back(m.slot);
  if (!first()) Send(m.dx, this->index() - 1, &m.sent_dx, "send to the stage before");
}

void PipelineRank::Wait(WorkPtr* work, const char* doing) {
  if (*work == nullptr) return;
  doing_ = doing;
  const absl::Duration start = now_();
  WaitAndReset(work);
  times_.wait += now_() - start;
}

void PipelineRank::FinishSends() {
  for (Microbatch& m : microbatches_) {
    WaitSent(m.y, &m.sent_y, "send to the stage after");
    WaitSent(m.dx, &m.sent_dx, "send to the stage before");
  }
}

void PipelineRank::WaitSent(const at::Tensor& tensor, WorkPtr* work, const char* doing) {
  OrDiverged(tensor, [&] { Wait(work, doing); });
}

void PipelineRank::Send(const at::Tensor& tensor, int peer, WorkPtr* work, const char* doing) {
  doing_ = doing;
  if (watch_) watch_(current_.microbatch, peer < index(), tensor);
  const absl::Duration start = now_();
  OrDiverged(tensor, [&] {
    *work = SendTensor(*boundary_, tensor, peer);
    // A refusal is known at once; waiting for it until the buffer is used again would leave the
    // receiver waiting for a tensor that never comes.
    if ((*work)->isCompleted()) WaitAndReset(work);
  });
  times_.send += now_() - start;
}

std::optional<double> PipelineRank::loss_sum() const {
  if (!last() || !stage_->trains()) return std::nullopt;
  return loss_sum_;
}

std::string PipelineRank::Doing() const {
  return absl::StrCat("stage ", stage_->layout().stage, ", ", ToString(current_), ": ", doing_);
}

std::optional<RowLosses> EvaluateRows(
    std::span<Stage* const> stages, std::span<const c10::intrusive_ptr<c10d::Backend>> backends,
    int64_t rows, int64_t batch, const std::function<void(int64_t, std::span<int64_t>)>& read) {
  if (stages.empty()) return std::nullopt;
  const StageShape& shape = stages.front()->shape();
  std::vector<std::unique_ptr<Activations>> kept(stages.size());
  SendWindow sends;
  std::optional<RowLosses> result;
  std::vector<int64_t> ids, tokens, targets;
  for (int64_t begin = 0; begin < rows; begin += batch) {
    const int64_t count = std::min(batch, rows - begin), n = count * shape.context;
    ids.resize(count * (shape.context + 1));
    for (int64_t i = 0; i < count; ++i) {
      read(begin + i, std::span(ids).subspan(i * (shape.context + 1), shape.context + 1));
    }
    SplitRows(ids, shape.context, &tokens, &targets);
    for (size_t s = 0; s < stages.size(); ++s) {
      const StageLayout& layout = stages[s]->layout();
      if (!kept[s] || count < batch) kept[s] = stages[s]->NewForwardActivations(count);
      at::Tensor x, y;
      if (!layout.first()) {
        x = NewTensor(*stages[s], n);
        ReceiveTensor(*backends[s], x, layout.stage - 1, kEvaluationTag)->wait();
      }
      if (!layout.last()) y = NewTensor(*stages[s], n);
      stages[s]->Forward(tokens, x, y, kept[s].get());
      if (!layout.last()) {
        sends.Send(*backends[s], y, layout.stage + 1);
        continue;
      }
      std::vector<double> losses(n);
      stages[s]->Loss(targets, /*grad_scale=*/0, kept[s].get(), losses);
      if (!result) result.emplace();
      for (auto row = losses.begin(); row != losses.end(); row += shape.context) {
        result->mean.push_back(std::accumulate(row, row + shape.context, 0.0) /
                               static_cast<double>(shape.context));
      }
    }
  }
  sends.Finish();
  return result;
}

}  // namespace longhaul
