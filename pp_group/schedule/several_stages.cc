#include "pp_group/schedule/several_stages.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

int Rounds(const PipelineShape& shape) { return std::max(1, shape.microbatches / shape.ranks); }

// What a rank does next of each of its chunks: actions of one kind, in micro-batch order.
class Counted {
 public:
  Counted(Op op, int stages) : op_(op), next_(static_cast<size_t>(stages), 0) {}
  Action Next(int stage) { return {stage, op_, next_[static_cast<size_t>(stage)]++}; }
  int done(int stage) const { return next_[static_cast<size_t>(stage)]; }

 private:
  const Op op_;
  std::vector<int> next_;
};

}  // namespace

std::string InterleavedRefusal(const PipelineShape& shape) {
  const int rounds = Rounds(shape);
  if (shape.microbatches % rounds == 0) return "";
  return absl::StrCat("wants a multiple of its ", rounds, " rounds over ", shape.ranks,
                      " ranks: ", shape.microbatches / rounds * rounds, " or ",
                      (shape.microbatches / rounds + 1) * rounds);
}

Program InterleavedOneForwardOneBackward(int rank, const PipelineShape& shape) {
  const int round = shape.microbatches / Rounds(shape), all = shape.chunks * shape.microbatches;
  const int warm_up = std::min((shape.chunks - 1) * round + 2 * (shape.ranks - 1 - rank), all);
  const auto stage = [&](int chunk) { return chunk * shape.ranks + rank; };
  Counted forwards(Op::kForward, shape.stages()), backwards(Op::kBackward, shape.stages());
  Program program;
  for (int n = 0; n < all + warm_up; ++n) {
    if (n < all) program.push_back(forwards.Next(stage(n / round % shape.chunks)));
    if (n < warm_up) continue;
    const int chunk = shape.chunks - 1 - (n - warm_up) / round % shape.chunks;
    program.push_back(backwards.Next(stage(chunk)));
  }
  return program;
}

Program LoopedBreadthFirst(int rank, const PipelineShape& shape) {
  Program program;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int m = 0; m < shape.microbatches; ++m) {
      program.push_back({chunk * shape.ranks + rank, Op::kForward, m});
    }
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int m = 0; m < shape.microbatches; ++m) {
      program.push_back({chunk * shape.ranks + rank, Op::kBackward, m});
    }
  }
  return program;
}

Program ZeroBubbleV(int rank, const PipelineShape& shape) {
  const int microbatches = std::max(2 * shape.ranks - 1, shape.microbatches);
  const int down = rank, up = shape.stages() - 1 - rank;  // the V's two sides
  Counted f(Op::kForward, shape.stages()), i(Op::kInputGradient, shape.stages()),
      w(Op::kWeightGradient, shape.stages());
  Program program;
  const auto run = [&](Counted& kind, int stage) {
    const Action action = kind.Next(stage);
    if (action.microbatch < shape.microbatches) program.push_back(action);
  };
  const auto whole_backward = [&](int stage) {
    run(i, stage);
    run(w, stage);
  };
  // Until the first micro-batch has come down to the turn, and up again to this rank.
  for (int n = 0; n < 2 * (shape.ranks - rank) - 1; ++n) run(f, down);
  for (int n = 0; n < rank; ++n) {
    run(f, up);
    run(f, down);
  }
  for (int n = 0; n < shape.ranks - rank; ++n) {
    run(f, up);
    whole_backward(up);
  }
  while (f.done(up) < f.done(down) || f.done(down) < microbatches) {
    if (f.done(down) < microbatches) run(f, down);
    whole_backward(down);
    run(f, up);
    whole_backward(up);
  }
  // The gradients that others wait for go first; what is left of W fills the drain.
  for (int n = 0; n < rank; ++n) {
    run(i, down);
    run(i, up);
  }
  for (int n = 0; n < shape.ranks - rank; ++n) {
    run(i, down);
    run(w, down);
  }
  while (w.done(up) < i.done(up)) run(w, up);
  while (w.done(down) < i.done(down)) run(w, down);
  return program;
}

}  // namespace longhaul
