// Experts spread over ranks, against the same experts in one place.
#include "pp_group/models/expert_parallel.h"

#include <map>
#include <set>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/engines/aten/ops.h"
#include "pp_group/models/model.h"
#include "tests/backend/ranks.h"

namespace longhaul {
namespace {

using Counts = std::vector<int64_t>;
constexpr int64_t kExperts = 4, kWidth = 16;

// Of each rank: how many of its rows each expert takes. Some take none, one rank has no rows at
// all.
const std::vector<Counts> kCounts = {{3, 0, 5, 2}, {0, 0, 1, 7}, {4, 0, 0, 0}, {0, 0, 0, 0}};

struct Layer {
  at::Tensor weights;   // [E, D, D]
  at::Tensor gradient;  // of them
  at::Tensor y, dx;
};

at::Tensor Rows(int rank) {
  int64_t count = 0;
  for (const int64_t c : kCounts[static_cast<size_t>(rank)]) count += c;
  return at::sin(at::arange(count * kWidth, at::kFloat).view({count, kWidth}) + 100.0 * rank);
}
at::Tensor Weights() {
  return at::cos(at::arange(kExperts * kWidth * kWidth, at::kFloat))
      .view({kExperts, kWidth, kWidth});
}

// Experts first, first + 1, ... on rows that are sorted by them.
at::Tensor RunFrom(int64_t first, const at::Tensor& weights, const at::Tensor& x,
                   const Counts& counts) {
  std::vector<at::Tensor> outputs = {x.narrow(0, 0, 0)};
  int64_t begin = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] > 0) {
      outputs.push_back(at::silu(
          at::mm(x.narrow(0, begin, counts[e]), weights[first + static_cast<int64_t>(e)])));
    }
    begin += counts[e];
  }
  return at::cat(outputs, 0);
}

Layer RunSpread(c10::intrusive_ptr<c10d::Backend> backend) {
  at::set_num_threads(1);
  ExpertPeers peers{.backend = std::move(backend)};
  const int rank = peers.backend->getRank();
  const at::Tensor x = Rows(rank).requires_grad_();
  const at::Tensor w = Weights().requires_grad_();
  const ExpertShare own = ShareOf(kExperts, rank, peers.backend->getSize());
  const at::Tensor y = RunSpreadExperts(peers, x, kCounts[static_cast<size_t>(rank)],
                                        [&](const at::Tensor& rows, const Counts& counts) {
                                          EXPECT_EQ(counts.size(), static_cast<size_t>(own.count));
                                          return RunFrom(own.begin, w, rows, counts);
                                        });
  y.backward(at::cos(y.detach()));
  return {w, w.grad().defined() ? w.grad() : at::zeros_like(w), y.detach(), x.grad()};
}

// All ranks' rows in one place, sorted by expert and within one by rank.
Layer RunInOnePlace(int ranks) {
  const at::Tensor w = Weights().requires_grad_();
  std::vector<at::Tensor> x, sorted;
  for (int r = 0; r < ranks; ++r) x.push_back(Rows(r).requires_grad_());
  Counts counts(kExperts, 0), begin(static_cast<size_t>(ranks), 0), order;
  for (size_t e = 0; e < kExperts; ++e) {
    for (size_t r = 0; r < x.size(); ++r) {
      sorted.push_back(x[r].narrow(0, begin[r], kCounts[r][e]));
      begin[r] += kCounts[r][e];
      counts[e] += kCounts[r][e];
    }
  }
  const at::Tensor y = RunFrom(0, w, at::cat(sorted, 0), counts);
  y.backward(at::cos(y.detach()));
  // Back to the order of ranks.
  std::vector<at::Tensor> by_rank(x.size()), dx;
  for (size_t r = 0; r < x.size(); ++r) {
    std::vector<at::Tensor> parts;
    int64_t at = 0;
    for (size_t e = 0; e < kExperts; ++e) {
      for (size_t q = 0; q < x.size(); ++q) {
        if (q == r) parts.push_back(y.detach().narrow(0, at, kCounts[q][e]));
        at += kCounts[q][e];
      }
    }
    by_rank[r] = at::cat(parts, 0);
    dx.push_back(x[r].grad());
  }
  return {w, w.grad(), at::cat(by_rank, 0), at::cat(dx, 0)};
}

class ExpertParallel : public testing::TestWithParam<int> {};

TEST_P(ExpertParallel, ALayerHasTheBitsOfOneInOnePlace) {
  const int ranks = GetParam();
  at::set_num_threads(1);
  std::vector<Layer> of(static_cast<size_t>(ranks));
  const LocalGroup group = LoopbackGroup(ranks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul&) {
    of[static_cast<size_t>(rank)] = RunSpread(group[static_cast<size_t>(rank)]);
  });
  const Layer whole = RunInOnePlace(ranks);
  std::vector<at::Tensor> y, dx;
  for (size_t r = 0; r < of.size(); ++r) {
    y.push_back(of[r].y);
    dx.push_back(of[r].dx);
    const ExpertShare own = ShareOf(kExperts, static_cast<int>(r), ranks);
    for (int64_t e = 0; e < kExperts; ++e) {
      const bool here = e >= own.begin && e < own.begin + own.count;
      EXPECT_TRUE(at::equal(of[r].gradient[e],
                            here ? whole.gradient[e] : at::zeros_like(whole.gradient[e])))
          << "rank " << r << ", expert " << e;
    }
  }
  EXPECT_TRUE(at::equal(at::cat(y, 0), whole.y));
  EXPECT_TRUE(at::equal(at::cat(dx, 0), whole.dx));
  EXPECT_GT(whole.dx.abs().max().item<float>(), 0.1);
}
INSTANTIATE_TEST_SUITE_P(Ranks, ExpertParallel, testing::Values(1, 2, 4));

ModelSpec Moe(double capacity_factor) {
  return {.blocks = 2,
          .width = 32,
          .heads = 2,
          .context = 16,
          .vocab = 64,
          .kind = "moe",
          .hidden = 64,
          .experts = 4,
          .capacity_factor = capacity_factor,
          .balance_loss = 0};
}

std::vector<int64_t> Ids(int64_t count, int64_t step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back((i * step + i * i) % 64);
  return ids;
}

struct Trained {
  std::vector<double> losses;
  at::Tensor gradient;
  StageLayout layout;
};

// `rows` rows from `first_row` of a batch of `all_rows`, forward and backward.
Trained TrainRows(double capacity, int64_t first_row, int64_t rows, int64_t all_rows,
                  c10::intrusive_ptr<c10d::Backend> peers) {
  at::set_num_threads(1);
  const ModelSpec model = Moe(capacity);
  auto stage =
      NewStage(model, {.stage = 0, .stages = 1, .seed = 3, .expert_peers = std::move(peers)});
  EXPECT_TRUE(stage.ok()) << stage.status();
  (*stage)->parameters().mul_(8);  // so that routing is decided, and products count
  (*stage)->ParametersChanged();
  (*stage)->ZeroGradients();
  const std::vector<int64_t> tokens = Ids(all_rows * 16, 7), targets = Ids(all_rows * 16, 5);
  const auto part = [&](const std::vector<int64_t>& ids) {
    return std::span(ids).subspan(static_cast<size_t>(first_row * 16),
                                  static_cast<size_t>(rows * 16));
  };
  Trained result{std::vector<double>(static_cast<size_t>(rows * 16)), {}, (*stage)->layout()};
  const auto kept = (*stage)->NewActivations(rows);
  (*stage)->Forward(part(tokens), {}, {}, kept.get());
  (*stage)->Loss(part(targets), 1.0f / static_cast<float>(all_rows * 16), kept.get(),
                 result.losses);
  (*stage)->FinishLosses();
  (*stage)->Backward(part(tokens), {}, {}, kept.get());
  result.gradient = (*stage)->gradients().clone();
  return result;
}

// What the ranks' gradients of a parameter of the whole layout come to: the sum of those that all
// hold; of experts that are spread, one behind the other.
at::Tensor Together(const std::vector<Trained>& parts, const ParameterSlot& whole) {
  at::Tensor sum = at::zeros({whole.rows, whole.cols});
  for (const Trained& part : parts) {
    for (const ParameterSlot& slot : part.layout.slots) {
      if (slot.name != whole.name) continue;
      sum.narrow(0, slot.first_row, slot.rows) +=
          part.gradient.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
    }
  }
  return sum.view(-1);
}

double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

class SpreadStage : public testing::TestWithParam<int> {};

TEST_P(SpreadStage, TrainsAsOneStageWithAllRowsDoes) {
  const int ranks = GetParam();
  constexpr int64_t kRows = 4;
  const Trained whole = TrainRows(0, 0, kRows, kRows, {});
  const int64_t each = kRows / ranks;
  std::vector<Trained> parts(static_cast<size_t>(ranks));
  const LocalGroup group = LoopbackGroup(ranks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul&) {
    parts[static_cast<size_t>(rank)] =
        TrainRows(0, rank * each, each, kRows, group[static_cast<size_t>(rank)]);
  });
  for (int r = 0; r < ranks; ++r) {
    const Trained& part = parts[static_cast<size_t>(r)];
    EXPECT_EQ(part.layout.parameter_elements - SharedElements(part.layout) > 0, ranks > 1);
    for (size_t i = 0; i < part.losses.size(); ++i) {
      EXPECT_NEAR(part.losses[i], whole.losses[static_cast<size_t>(r * each * 16) + i], 2e-5);
    }
  }
  for (const ParameterSlot& slot : whole.layout.slots) {
    EXPECT_LT(RelativeError(Together(parts, slot),
                            whole.gradient.narrow(0, slot.offset, slot.elements())),
              2e-5)
        << slot.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, SpreadStage, testing::Values(1, 2, 4));

// What an expert does not take is decided where the rows are, as without peers.
TEST(SpreadStageWith, ACapacityDropsWhatItDropsAlone) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<Trained> parts(2), alone(2);
  for (int64_t r = 0; r < 2; ++r) alone[static_cast<size_t>(r)] = TrainRows(0.75, 2 * r, 2, 4, {});
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul&) {
    parts[static_cast<size_t>(rank)] =
        TrainRows(0.75, 2 * rank, 2, 4, group[static_cast<size_t>(rank)]);
  });
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < parts[r].losses.size(); ++i) {
      EXPECT_NEAR(parts[r].losses[i], alone[r].losses[i], 2e-5);
    }
  }
  for (const ParameterSlot& slot : alone[0].layout.slots) {
    EXPECT_LT(RelativeError(Together(parts, slot), Together(alone, slot)), 2e-5) << slot.name;
  }
}

TEST(SpreadStageWith, ExpertsThatDoNotDivideIsRefusedInOneLine) {
  const LocalGroup group = LoopbackGroup(3);
  const auto stage =
      NewStage(Moe(0), {.stage = 0, .stages = 1, .seed = 1, .expert_peers = group[0]});
  EXPECT_EQ(stage.status().message(), "model experts 4 do not divide over 3 ranks");
  ModelSpec llama = Moe(0);
  llama.kind = "llama";
  EXPECT_EQ(NewStage(llama, {.stage = 0, .stages = 1, .seed = 1, .expert_peers = group[0]})
                .status()
                .message(),
            "model kind 'llama' has no experts to spread over 3 ranks");
}

}  // namespace
}  // namespace longhaul
