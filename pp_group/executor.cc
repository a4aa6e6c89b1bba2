#include "pp_group/executor.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

// Of a boundary of this stage for `tokens` token rows; what crosses there.
at::Tensor NewTensor(const Stage& stage, int64_t tokens) {
  return at::empty({tokens, stage.shape().width}, stage.boundary());
}
at::Tensor NewCrossing(const Stage& stage, const at::Tensor& whole, const Subspace* subspace) {
  if (subspace == nullptr || !whole.defined()) return whole;
  return at::empty({whole.size(0), subspace->rank()}, stage.boundary());
}

// Splits rows of T + 1 ids into inputs and their successors, behind each other into `ids`, which has
// T ids of each for every row.
void SplitRows(std::span<const int64_t> rows, int64_t context, std::span<int64_t> ids) {
  auto token = ids.begin(), target = token + static_cast<ptrdiff_t>(ids.size() / 2);
  for (auto row = rows.begin(); row != rows.end(); row += context + 1) {
    token = std::copy_n(row, context, token);
    target = std::copy_n(row + 1, context, target);
  }
}

bool Holds(const std::vector<int>& boundaries, int boundary) {
  return std::find(boundaries.begin(), boundaries.end(), boundary) != boundaries.end();
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
  void Send(c10d::Backend& backend, const at::Tensor& tensor, int peer, int tag) {
    if (sends_.size() == kSends) WaitForOldest();
    OrDiverged(tensor, [&] {
      sends_.emplace_back(SendTensor(backend, tensor, peer, tag), tensor);
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

PipelineRank::PipelineRank(const std::vector<Stage*>& stages,
                           c10::intrusive_ptr<c10d::Backend> boundary,
                           const PipelineProgram& program, int rank, int64_t rows_per_microbatch,
                           const std::function<absl::Duration()>* now,
                           std::function<void(const Message&, const at::Tensor&)> watch,
                           bool mask_gradients, std::vector<int> sample_boundaries, SpanWatch spans,
                           const Subspace* subspace)
    : boundary_(std::move(boundary)),
      now_(*now),
      rank_(rank),
      rank_of_stage_(program.rank_of_stage),
      receives_(Communication(program)[rank].receives),
      tags_say_kind_(program.num_stages() > program.num_ranks()),
      tokens_(rows_per_microbatch * stages.front()->shape().context),
      watch_(std::move(watch)),
      mask_gradients_(mask_gradients),
      sample_boundaries_(std::move(sample_boundaries)),
      spans_(std::move(spans)),
      subspace_(subspace),
      current_{stages.front()->layout().stage, Op::kForward, 0} {
  for (Stage* stage : stages) {
    chunks_.push_back(NewChunk(stage, program, rows_per_microbatch));
    if (chunks_.size() < 2) continue;
    Chunk &before = chunks_[chunks_.size() - 2], &after = chunks_.back();
    if (before.stage->layout().stage + 1 != stage->layout().stage) continue;
    for (size_t i = 0; i < after.microbatches.size(); ++i) {
      after.microbatches[i].x = before.microbatches[i].y;
      before.microbatches[i].dy = after.microbatches[i].dx;
    }
  }
  for (Chunk& chunk : chunks_) {
    const auto crossing = [&](auto& t) { return NewCrossing(*chunk.stage, t, subspace_); };
    for (Microbatch& m : chunk.microbatches) {
      m.crossing = {crossing(m.x), crossing(m.y), crossing(m.dx), crossing(m.dy)};
    }
  }
}

PipelineRank::~PipelineRank() = default;

PipelineRank::Chunk PipelineRank::NewChunk(Stage* stage, const PipelineProgram& program,
                                           int64_t rows) const {
  Chunk chunk{.stage = stage,
              .microbatches = std::vector<Microbatch>(program.microbatches),
              .kept = {},
              .free = {}};
  for (Microbatch& m : chunk.microbatches) {
    if (!chunk.first()) m.x = NewTensor(*stage, tokens_), m.dx = NewTensor(*stage, tokens_);
    if (!chunk.last()) m.y = NewTensor(*stage, tokens_), m.dy = NewTensor(*stage, tokens_);
  }
  Program own;
  for (const Action& action : program.ranks[rank_]) {
    if (action.stage == stage->layout().stage) own.push_back(action);
  }
  for (int i = 0; i < PeakActivations(own); ++i) {
    chunk.kept.push_back(stage->NewActivations(rows));
    chunk.free.push_back(i);
  }
  return chunk;
}

PipelineRank::Chunk& PipelineRank::ChunkOf(int stage) {
  return *std::find_if(chunks_.begin(), chunks_.end(), [stage](const Chunk& chunk) {
    return chunk.stage->layout().stage == stage;
  });
}

void PipelineRank::ShareBoundary(int stage, PipelineRank* next) {
  Chunk &before = ChunkOf(stage), &after = next->ChunkOf(stage + 1);
  for (size_t i = 0; i < before.microbatches.size(); ++i) {
    Microbatch &sender = before.microbatches[i], &receiver = after.microbatches[i];
    receiver.x = receiver.crossing.x = sender.crossing.y;
    sender.dy = sender.crossing.dy = receiver.crossing.dx;
  }
}

void PipelineRank::BeginStep(std::span<const int64_t> rows, std::vector<int64_t> samples) {
  loss_sum_.reset();
  samples_ = std::move(samples);
  TakeRows(rows);
  for (Chunk& chunk : chunks_) {
    chunk.times = {};
    chunk.next_weight = 0;
  }
  for (const RankMessage& t : receives_) {
    Microbatch& m = ChunkOf(t.message.to_stage).microbatches[t.message.microbatch];
    const bool activation = t.message.kind == MessageKind::kActivation;
    (activation ? m.received_x : m.received_dy) = ReceiveTensor(
        *boundary_, activation ? m.crossing.x : m.crossing.dy, t.from_rank, TagOf(t.message));
  }
}

void PipelineRank::TakeRows(std::span<const int64_t> rows) {
  const auto reads = [this](const Chunk& chunk) {
    return chunk.first() || chunk.last() || subspace_ != nullptr;
  };
  if (std::ranges::none_of(chunks_, reads)) return;
  const size_t count = chunks_.front().microbatches.size(), share = rows.size() / count;
  const auto tokens = static_cast<size_t>(tokens_);
  ids_.resize(count * 2 * tokens);
  for (size_t i = 0; i < count; ++i) {
    const std::span<int64_t> ids = std::span(ids_).subspan(i * 2 * tokens, 2 * tokens);
    SplitRows(rows.subspan(i * share, share), chunks_.front().stage->shape().context, ids);
    for (Chunk& chunk : chunks_) {
      chunk.microbatches[i].tokens = ids.first(tokens);
      chunk.microbatches[i].targets = ids.last(tokens);
    }
  }
  for (Chunk& chunk : chunks_) {
    if (chunk.first() || chunk.last()) chunk.stage->BeginStep(ids_);
  }
}

void PipelineRank::Run(const Action& action) {
  current_ = action;
  Chunk& chunk = ChunkOf(action.stage);
  times_ = &chunk.times;
  Microbatch& m = chunk.microbatches[action.microbatch];
  if (action.op == Op::kForward) Forward(chunk, m);
  // A whole backward pass in its turn may take less memory than its two parts.
  const bool whole =
      action.op == Op::kBackward && chunk.next_weight == static_cast<size_t>(action.microbatch);
  if (MakesInputGradient(action.op)) {
    Backward(chunk, m, whole ? Gradients::kBoth : Gradients::kInput);
  }
  if (MakesWeightGradient(action.op)) {
    m.weight_is_due = !whole;
    SumDueWeights(chunk);
  }
}

bool PipelineRank::Crosses(int b) const {
  return b >= 0 && b + 1 < std::ssize(rank_of_stage_) && rank_of_stage_[b] != rank_of_stage_[b + 1];
}

void PipelineRank::Forward(Chunk& chunk, Microbatch& m) {
  Wait(&m.received_x, "receive from the stage before");
  WaitSent(m.crossing.y, &m.sent_y, "previous send to the stage after");
  doing_ = "compute";
  m.slot = chunk.free.back();
  chunk.free.pop_back();
  Activations* kept = chunk.kept[m.slot].get();
  const absl::Duration start = now_(), waited = chunk.stage->waited();
  const int stage = chunk.stage->layout().stage;
  if (subspace_ && Crosses(stage - 1)) subspace_->FromCoordinates(m.crossing.x, m.tokens, m.x);
  chunk.stage->Forward(m.tokens, m.x, m.y, kept);
  if (subspace_ && Crosses(stage)) subspace_->ToCoordinates(m.y, m.tokens, m.crossing.y);
  if (chunk.last()) {
    const int64_t total = tokens_ * static_cast<int64_t>(chunk.microbatches.size());
    losses_.resize(static_cast<size_t>(total));
    const auto tokens = static_cast<size_t>(tokens_);
    const auto place = static_cast<size_t>(&m - chunk.microbatches.data());
    chunk.stage->Loss(m.targets, 1.0f / static_cast<float>(total), kept,
                      std::span(losses_).subspan(place * tokens, tokens));
  }
  CountCompute(*chunk.stage, Since(start, RankSpan::Kind::kCompute), waited, &times_->forward);
  Send(m.crossing.y, &m.sent_y, "send to the stage after");
}

void PipelineRank::Backward(Chunk& chunk, Microbatch& m, Gradients gradients) {
  Wait(&m.received_dy, "receive from the stage after");
  WaitSent(m.crossing.dx, &m.sent_dx, "previous send to the stage before");
  doing_ = "compute";
  const absl::Duration start = now_(), waited = chunk.stage->waited();
  const int stage = chunk.stage->layout().stage;
  if (subspace_ && Crosses(stage)) subspace_->FromCoordinates(m.crossing.dy, {}, m.dy);
  Activations* kept = chunk.kept[m.slot].get();
  if (gradients == Gradients::kBoth) {
    chunk.stage->Backward(m.tokens, m.dy, m.dx, kept);
    FinishWeight(chunk, m);
  } else {
    chunk.stage->BackwardInput(m.tokens, m.dy, m.dx, kept);
  }
  if (Crosses(stage - 1)) {
    if (subspace_) subspace_->ToCoordinates(m.dx, {}, m.crossing.dx);
    if (mask_gradients_) m.crossing.dx.masked_fill_(m.crossing.x == 0, 0);
  }
  CountCompute(*chunk.stage, Since(start, RankSpan::Kind::kCompute), waited, &times_->backward);
  Send(m.crossing.dx, &m.sent_dx, "send to the stage before");
}

// Of a call of the stage, which may have waited for other ranks.
void PipelineRank::CountCompute(const Stage& stage, absl::Duration took,
                                absl::Duration waited_before, absl::Duration* compute) {
  const absl::Duration waited = stage.waited() - waited_before;
  *compute += took - waited;
  times_->wait += waited;
}

void PipelineRank::SumDueWeights(Chunk& chunk) {
  doing_ = "compute";
  while (chunk.next_weight < chunk.microbatches.size() &&
         chunk.microbatches[chunk.next_weight].weight_is_due) {
    Microbatch& next = chunk.microbatches[chunk.next_weight];
    const absl::Duration start = now_();
    chunk.stage->BackwardWeight(chunk.kept[next.slot].get());
    const Action weight{current_.stage, Op::kWeightGradient, static_cast<int>(chunk.next_weight)};
    times_->backward += Watched(spans_, {RankSpan::Kind::kCompute, start, now_(), weight});
    FinishWeight(chunk, next);
  }
}

void PipelineRank::FinishWeight(Chunk& chunk, Microbatch& m) {
  m.weight_is_due = false;
  chunk.free.push_back(m.slot);
  m.slot = -1;
  ++chunk.next_weight;
}

void PipelineRank::Wait(WorkPtr* work, const char* doing) {
  if (*work == nullptr) return;
  doing_ = doing;
  const absl::Duration start = now_();
  WaitAndReset(work);
  times_->wait += Since(start, RankSpan::Kind::kWait, doing);
}

absl::Duration PipelineRank::Since(absl::Duration start, RankSpan::Kind kind,
                                   const char* doing) const {
  return Watched(spans_, {kind, start, now_(), current_, doing});
}

void PipelineRank::FinishSends() {
  for (Chunk& chunk : chunks_) {
    times_ = &chunk.times;
    for (Microbatch& m : chunk.microbatches) {
      WaitSent(m.crossing.y, &m.sent_y, "send to the stage after");
      WaitSent(m.crossing.dx, &m.sent_dx, "send to the stage before");
    }
  }
}

void PipelineRank::WaitSent(const at::Tensor& tensor, WorkPtr* work, const char* doing) {
  OrDiverged(tensor, [&] { Wait(work, doing); });
}

void PipelineRank::Send(const at::Tensor& tensor, WorkPtr* work, const char* doing) {
  const auto message = OutputOf(current_, static_cast<int>(rank_of_stage_.size()));
  if (!message || rank_of_stage_[message->to_stage] == rank_) return;
  doing_ = doing;
  if (watch_) watch_(*message, tensor);
  const absl::Duration start = now_();
  OrDiverged(tensor, [&] {
    *work = SendTensor(*boundary_, tensor, rank_of_stage_[message->to_stage], TagOf(*message));
    // A refusal is known at once; waiting for it until the buffer is used again would leave the
    // receiver waiting for a tensor that never comes.
    if ((*work)->isCompleted()) WaitAndReset(work);
  });
  times_->send += Since(start, RankSpan::Kind::kSend, doing);
}

// With one stage a rank the two ranks say the boundary, and the direction the kind, to a codec too.
int PipelineRank::TagOf(const Message& message) const {
  if (message.kind == MessageKind::kActivation && Holds(sample_boundaries_, message.boundary())) {
    const auto sample = static_cast<int>(samples_[static_cast<size_t>(message.microbatch)]);
    const auto stages = static_cast<int>(rank_of_stage_.size());
    const int channel = tags_say_kind_ ? sample * stages + message.boundary() : sample;
    return kActivationTag | kSampleChannel | channel;
  }
  if (!tags_say_kind_) return kTrainingTag;
  return message.boundary() |
         (message.kind == MessageKind::kActivation ? kActivationTag : kGradientTag);
}

const PipelineTimes& PipelineRank::times(int stage) const {
  return const_cast<PipelineRank*>(this)->ChunkOf(stage).times;
}

std::optional<double> PipelineRank::loss_sum() {
  Stage* const last = chunks_.back().stage;
  if (!last->layout().last() || !last->trains()) return std::nullopt;
  if (!loss_sum_) {
    last->FinishLosses();
    loss_sum_ = std::accumulate(losses_.begin(), losses_.end(), 0.0);
  }
  return loss_sum_;
}

std::string PipelineRank::Doing() const {
  return absl::StrCat("stage ", current_.stage, ", ", ToString(current_), ": ", doing_);
}

std::optional<RowLosses> EvaluateRows(std::span<Stage* const> stages,
                                      std::span<const c10::intrusive_ptr<c10d::Backend>> backends,
                                      const PipelineProgram& program, int64_t rows, int64_t batch,
                                      const std::function<void(int64_t, std::span<int64_t>)>& read,
                                      const std::vector<int>& sample_boundaries,
                                      const Subspace* subspace) {
  if (stages.empty()) return std::nullopt;
  const StageShape& shape = stages.front()->shape();
  std::vector<std::unique_ptr<Activations>> kept(stages.size());
  SendWindow sends;
  std::optional<RowLosses> result;
  std::vector<int64_t> rows_read, ids;
  const auto tag = [&](int boundary) {
    const bool looped = program.num_stages() > program.num_ranks();
    if (looped) return kActivationTag | kEvaluationChannel | boundary;
    return Holds(sample_boundaries, boundary) ? kSampleEvaluationTag : kEvaluationTag;
  };
  for (int64_t begin = 0; begin < rows; begin += batch) {
    const int64_t count = std::min(batch, rows - begin), n = count * shape.context;
    rows_read.resize(count * (shape.context + 1));
    for (int64_t i = 0; i < count; ++i) {
      read(begin + i, std::span(rows_read).subspan(i * (shape.context + 1), shape.context + 1));
    }
    ids.resize(2 * n);
    SplitRows(rows_read, shape.context, ids);
    const auto tokens = std::span<const int64_t>(ids).first(n),
               targets = std::span<const int64_t>(ids).last(n);
    at::Tensor handed_over;  // between two stages of one rank
    for (size_t s = 0; s < stages.size(); ++s) {
      const StageLayout& layout = stages[s]->layout();
      const int rank = program.rank_of_stage[static_cast<size_t>(layout.stage)];
      if (!kept[s] || count < batch) kept[s] = stages[s]->NewForwardActivations(count);
      at::Tensor x, y;
      if (handed_over.defined()) {
        x = std::exchange(handed_over, {});
      } else if (!layout.first()) {
        x = NewTensor(*stages[s], n);
        const int from = program.rank_of_stage[static_cast<size_t>(layout.stage) - 1];
        const at::Tensor received = NewCrossing(*stages[s], x, subspace);
        ReceiveTensor(*backends[s], received, from, tag(layout.stage - 1))->wait();
        if (subspace) subspace->FromCoordinates(received, tokens, x);
      }
      if (!layout.last()) y = NewTensor(*stages[s], n);
      stages[s]->Forward(tokens, x, y, kept[s].get());
      if (!layout.last()) {
        const int to = program.rank_of_stage[static_cast<size_t>(layout.stage) + 1];
        if (to == rank) {
          handed_over = y;
        } else {
          const at::Tensor crossing = NewCrossing(*stages[s], y, subspace);
          if (subspace) subspace->ToCoordinates(y, tokens, crossing);
          sends.Send(*backends[s], crossing, to, tag(layout.stage));
        }
        continue;
      }
      std::vector<double> losses(n);
      stages[s]->Loss(targets, /*grad_scale=*/0, kept[s].get(), losses);
      stages[s]->FinishLosses();
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
