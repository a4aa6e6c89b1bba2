// Operations of three ranks and of one, between threads over loopback, against what ATen computes. conformance.py
// has every operation, reduction and element type of two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "tests/backend/ranks.h"

namespace longhaul {
namespace {

constexpr int kRanks = 3;

class Conformance : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }

  // Rank's input: small integers, exact in every dtype and under every reduction of three ranks.
  at::Tensor Input(int rank, at::IntArrayRef sizes = {2, 3}) const {
    const int64_t n = c10::multiply_integers(sizes);
    return at::arange(1 + rank, 1 + rank + n, at::kLong).remainder(4).view(sizes).to(dtype());
  }
};

TEST_P(Conformance, RecvFromAnyRankNamesTheSource) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    if (rank != 0) {
      std::vector<at::Tensor> x = {Input(rank)};
      pg.send(x, 0, 5)->wait();
      return;
    }
    std::vector<bool> seen(kRanks);
    for (int i = 1; i < kRanks; ++i) {
      std::vector<at::Tensor> x = {at::zeros({2, 3}, dtype())};
      const auto work = pg.recvAnysource(x, 5);
      work->wait();
      EXPECT_TRUE(at::equal(x[0], Input(work->sourceRank())));
      seen[work->sourceRank()] = true;
    }
    EXPECT_THAT(seen, testing::ElementsAre(false, true, true));
  });
}

at::Tensor Sum(const std::vector<at::Tensor>& inputs) {
  at::Tensor x = inputs[0].clone();
  for (size_t i = 1; i < inputs.size(); ++i) x += inputs[i];
  return x;
}

TEST_P(Conformance, AllGatherIntoSeveralTensorsIsOneWork) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> in = {Input(rank, {2}), Input(rank, {3})};
    std::vector<at::Tensor> out = {at::zeros({kRanks * 2}, dtype()),
                                   at::zeros({kRanks * 3}, dtype())};
    const auto work = pg.allgather_into_tensor_coalesced(out, in, {});
    work->wait();
    EXPECT_EQ(work->getFuture()->value().toTensorVector().size(), 2);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(at::equal(out[0].narrow(0, 2 * r, 2), Input(r, {2})));
      EXPECT_TRUE(at::equal(out[1].narrow(0, 3 * r, 3), Input(r, {3})));
    }
  });
}

TEST_P(Conformance, AllToAllGivesEveryRankItsPart) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    // Rank s has s + d rows for rank d, each part as Input of both.
    const auto part = [&](int s, int d) { return Input(3 * s + d, {s + d, 2}); };
    std::vector<at::Tensor> parts, want, got;
    std::vector<int64_t> sends, receives;
    for (int r = 0; r < kRanks; ++r) {
      parts.push_back(part(rank, r));
      want.push_back(part(r, rank));
      got.push_back(at::zeros_like(want.back()));
      sends.push_back(rank + r);
      receives.push_back(rank + r);
    }
    pg.alltoall(got, parts, {})->wait();
    at::Tensor in = at::cat(parts), out = at::zeros_like(at::cat(want));
    pg.alltoall_base(out, in, receives, sends, {})->wait();
    EXPECT_TRUE(at::equal(out, at::cat(want)));
    for (int r = 0; r < kRanks; ++r) EXPECT_TRUE(at::equal(got[r], want[r]));

    at::Tensor even = Input(rank, {kRanks, 2}), rows = at::zeros({kRanks, 2}, dtype());
    std::vector<int64_t> none;
    pg.alltoall_base(rows, even, none, none, {})->wait();
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(at::equal(rows[r], Input(r, {kRanks, 2})[rank]));
    }
  });
}

TEST_P(Conformance, ReduceGivesTheSumToTheRootAlone) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < kRanks; ++rank) inputs.push_back(Input(rank));
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    for (int root = 0; root < kRanks; ++root) {
      std::vector<at::Tensor> x = {inputs[rank].clone()};
      pg.reduce(x, {.rootRank = root})->wait();
      EXPECT_TRUE(at::equal(x[0], rank == root ? Sum(inputs) : inputs[rank])) << "root " << root;
    }
  });
}

// In all forms; rank r's part has 2 r rows in the first.
TEST_P(Conformance, ReduceScatterGivesEveryRankItsPartOfTheSum) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    const auto part = [&](int from, int to) { return Input(3 * from + to, {2, 2}); };
    std::vector<std::vector<at::Tensor>> uneven(1), even(1);
    std::vector<at::Tensor> mine_uneven, mine;
    for (int r = 0; r < kRanks; ++r) {
      uneven[0].push_back(Input(rank + r, {2 * r}));
      mine_uneven.push_back(Input(r + rank, {2 * rank}));
      even[0].push_back(part(rank, r));
      mine.push_back(part(r, rank));
    }
    std::vector<at::Tensor> out = {at::zeros({2 * rank}, dtype())};
    pg.reduce_scatter(out, uneven, {})->wait();
    EXPECT_TRUE(at::equal(out[0], Sum(mine_uneven)));
    at::Tensor in = at::cat(even[0]), flat = at::zeros({2, 2}, dtype());
    pg._reduce_scatter_base(flat, in, {})->wait();
    EXPECT_TRUE(at::equal(flat, Sum(mine)));
    std::vector<at::Tensor> ins = {in, in.flatten()};
    std::vector<at::Tensor> outs = {at::zeros({2, 2}, dtype()), at::zeros({4}, dtype())};
    pg.reduce_scatter_tensor_coalesced(outs, ins, {})->wait();
    EXPECT_TRUE(at::equal(outs[0], flat) && at::equal(outs[1], flat.flatten()));
  });
}

TEST_P(Conformance, GatherToEachRootAndScatterFromIt) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    for (int root = 0; root < kRanks; ++root) {
      std::vector<at::Tensor> in = {Input(rank)}, back = {at::zeros({2, 3}, dtype())};
      std::vector<std::vector<at::Tensor>> all;
      if (rank == root) {
        all.emplace_back();
        for (int r = 0; r < kRanks; ++r) all[0].push_back(at::zeros({2, 3}, dtype()));
      }
      pg.gather(all, in, {.rootRank = root})->wait();
      for (int r = 0; r < kRanks && rank == root; ++r) EXPECT_TRUE(at::equal(all[0][r], Input(r)));
      pg.scatter(back, all, {.rootRank = root})->wait();
      EXPECT_TRUE(at::equal(back[0], in[0]));
    }
  });
}

TEST_P(Conformance, SparseTensorsAddUpAsDenseOnesDo) {
  // Rank r holds rows r (twice, to be added up first) and 2; the last rank nothing.
  const auto sparse = [&](int r) {
    const at::Tensor rows = r == kRanks - 1 ? at::empty({1, 0}, at::kLong)
                                            : at::tensor({r, 2, r}, at::kLong).view({1, 3});
    return at::sparse_coo_tensor(rows, Input(r, {rows.size(1), 2}), {4, 2});
  };
  at::Tensor want = at::zeros({4, 2}, dtype());
  for (int r = 0; r < kRanks; ++r) want = want + sparse(r).to_dense();
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> x = {sparse(rank)};
    const auto work = pg.allreduce(x, {});
    work->wait();
    EXPECT_TRUE(at::equal(x[0].to_dense(), want)) << x[0].to_dense() << want;
    EXPECT_EQ(x[0]._nnz(), 3) << "rows 0, 1 and 2";
    EXPECT_TRUE(at::equal(work->result()[0].to_dense(), want));
  });
}

TEST_P(Conformance, EmptyTensorsPassEveryOperation) {
  const LocalGroup group = LoopbackGroup(kRanks);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> x = {at::empty({0}, dtype())}, got = {at::empty({0, 2}, dtype())};
    const auto sent = pg.send(x, (rank + 1) % kRanks, 0);
    pg.recv(got, (rank + kRanks - 1) % kRanks, 0)->wait();
    sent->wait();
    pg.broadcast(x, {})->wait();
    pg.allreduce(x, {})->wait();
    at::Tensor out = at::empty({0}, dtype());
    pg._allgather_base(out, x[0], {})->wait();
    pg._reduce_scatter_base(out, x[0], {})->wait();
    pg.reduce(x, {})->wait();
    std::vector<std::vector<at::Tensor>> all;
    if (rank == 0) all.emplace_back(kRanks, at::empty({0}, dtype()));
    pg.gather(all, x, {})->wait();
    pg.scatter(x, all, {})->wait();
  });
}

TEST_P(Conformance, GroupOfOneRankIsItself) {
  const LocalGroup group = LoopbackGroup(1);
  std::vector<at::Tensor> x = {Input(0)};
  group[0]->broadcast(x, {})->wait();
  group[0]->allreduce(x, {})->wait();
  at::Tensor out = at::zeros({2, 3}, dtype());
  group[0]->_allgather_base(out, x[0], {})->wait();
  group[0]->reduce(x, {})->wait();
  at::Tensor part = at::zeros({2, 3}, dtype());
  group[0]->_reduce_scatter_base(part, x[0], {})->wait();
  EXPECT_TRUE(at::equal(part, Input(0)));
  group[0]->barrier({})->wait();
  EXPECT_TRUE(at::equal(out, Input(0)));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Conformance, testing::Values(at::kBFloat16, at::kLong),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

}  // namespace
}  // namespace longhaul
