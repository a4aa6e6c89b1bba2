#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "plugin/backend/process_group.h"
#include "tests/backend/ranks.h"
#include "tests/backend/thrown.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void AskForCodecs(ProcessGroupLonghaul::Options& options) {
  options.codecs.forward = "int4-b64-h64";
  options.codecs.backward = "int8-b64";
}

// Makes a group of `ranks` through a store, each rank on its own thread and node.
LocalGroup GroupByStore(
    int ranks,
    const std::function<void(int, ProcessGroupLonghaul::Options&)>& configure = [](int, auto&) {}) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto nodes = MakeLoopbackNodes(ranks);
  LocalGroup group(ranks);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> thrown(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto options = c10::make_intrusive<ProcessGroupLonghaul::Options>();
        options->node = nodes[rank];
        options->group_name = "default_pg";
        options->timeout = std::chrono::seconds(20);
        configure(rank, *options);
        group[rank] =
            c10::make_intrusive<ProcessGroupLonghaul>(store, rank, ranks, std::move(options));
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (thrown[ranks - 1]) std::rethrow_exception(thrown[ranks - 1]);
  return group;
}

TEST(GroupThroughAStore, RanksFindEachOtherThroughTheStore) {
  const LocalGroup group = GroupByStore(3);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> x = {at::full({2}, rank, at::kInt)};
    pg.allreduce(x, {})->wait();
    EXPECT_EQ(x[0][0].item<int>(), 3);
  });
}

TEST(GroupThroughAStore, DifferentCodecsOnTwoRanksAreRefused) {
  EXPECT_THAT(Thrown<c10::ValueError>([] {
                GroupByStore(2, [](int rank, ProcessGroupLonghaul::Options& options) {
                  if (rank == 1) AskForCodecs(options);
                });
              }),
              AllOf(HasSubstr("options differ"), HasSubstr("forward=none"),
                    HasSubstr("forward=int4-b64-h64")));
}

TEST(GroupThroughAStore, DifferentSlotsOfStatesAreRefused) {
  EXPECT_THAT(Thrown<c10::ValueError>([] {
                GroupByStore(2, [](int rank, ProcessGroupLonghaul::Options& options) {
                  options.ef_slots = 4 - rank;
                });
              }),
              AllOf(HasSubstr("options differ"), HasSubstr("ef_slots=4"), HasSubstr("ef_slots=3")));
}

TEST(GroupThroughAStore, AnUnknownCodecIsAValueErrorThatNamesNearOnes) {
  EXPECT_THAT(Thrown<c10::ValueError>([] {
                GroupByStore(2, [](int, ProcessGroupLonghaul::Options& options) {
                  options.codecs.forward = "int4-b65";
                });
              }),
              AllOf(HasSubstr("'int4-b65'"), HasSubstr("int4-b64")));
}

TEST(GroupThroughAStore, SplitGivesAGroupOfTheNamedRanksWithTheParentsOptions) {
  const LocalGroup group =
      GroupByStore(3, [](int, ProcessGroupLonghaul::Options& options) { AskForCodecs(options); });
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const at::Tensor x = at::randn({64, 256});
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    auto options = pg.getBackendOptions();
    options->group_name = "half";
    const auto half = pg.split(store, {0, 2}, options);
    if (rank == 1) {
      EXPECT_EQ(half, nullptr);
      return;
    }
    EXPECT_EQ(half->getSize(), 2);
    EXPECT_EQ(half->getRank(), rank == 0 ? 0 : 1);
    std::vector<at::Tensor> tensor = {rank == 0 ? x : at::zeros_like(x)};
    (rank == 0 ? half->send(tensor, 1, 0) : half->recv(tensor, 0, 0))->wait();
    EXPECT_EQ(at::equal(tensor[0], x), rank == 0) << "the forward codec is on in the split group";
  });
}

}  // namespace
}  // namespace longhaul
