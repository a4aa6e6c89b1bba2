// The outer step by hand, in numbers that binary fractions hold exactly: two groups that moved
// differently, lr and momentum unequal, what error feedback carries over, who is left out and by
// which norm.
#include "pp_group/outer/outer_round.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/optimizer/adamw.h"
#include "tests/pp_group/flat_stage.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<float> Values(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
}

// A stage of `count` parameters, in a layout of 64 floats.
std::unique_ptr<FlatStage> NewStage(int64_t count, int stage, int stages) {
  StageLayout layout = EmptyLayout(stages, stage, stages, {});
  LayoutBuilder builder(&layout);
  builder.BeginClipGroup();
  builder.Vector("x", stage, count, 0);
  return std::make_unique<FlatStage>(layout);
}

std::unique_ptr<OuterAlgorithm> NewDiloco(const OuterSpec& spec, GroupAverage::Place place,
                                          const Stage& stage, const at::Tensor& parameters) {
  return *NewOuterAlgorithm(spec, {.plan = OuterPlan(spec, /*steps=*/100),
                                   .place = std::move(place),
                                   .stage = &stage,
                                   .host_parameters = parameters,
                                   .experts = {}});
}

// Groups of one stage of two parameters, each with its algorithm.
class TwoGroups {
 public:
  explicit TwoGroups(const OuterSpec& spec, std::vector<float> start, int groups = 2,
                     const std::shared_ptr<SharedSums>& sums = nullptr) {
    const auto peers = NewMemoryGroup(groups);
    for (int g = 0; g < groups; ++g) {
      stages.push_back(NewStage(2, 0, 1));
      thetas.push_back(TwoOf(stages.back()->parameters()));
      thetas.back().copy_(at::tensor(start));
      GroupAverage::Place place = {g, groups, /*stage=*/0, /*seed=*/5, peers[g]};
      place.sums = sums;
      syncs.push_back(
          NewDiloco(spec, std::move(place), *stages.back(), stages.back()->parameters()));
    }
  }

  // The groups' inner steps have moved them by -deltas[g]: then an outer step of them all.
  void Round(int64_t step, const std::vector<std::vector<float>>& deltas,
             const std::vector<bool>& left_out = {false, false}) {
    for (size_t g = 0; g < syncs.size(); ++g) thetas[g].sub_(at::tensor(deltas[g]));
    for (auto& sync : syncs) ASSERT_TRUE(sync->Encode({step, step, 0}).ok());
    for (auto& sync : syncs) sync->exchange().Send();
    for (auto& sync : syncs) norms.push_back(*sync->SquaredNorms(0));
    for (auto& sync : syncs) {
      ASSERT_TRUE(sync->Average(0, left_out).ok());
      ASSERT_TRUE(sync->Apply({step, step, 0}).ok());
    }
  }

  // The same on both, or the test fails.
  std::vector<float> theta() const {
    EXPECT_EQ(Values(thetas[0]), Values(thetas[1]));
    for (const auto& sync : syncs) EXPECT_EQ(Values(TwoOf(sync->theta_start())), Values(thetas[0]));
    return Values(thetas[0]);
  }
  std::vector<float> momentum() const {
    EXPECT_EQ(Values(syncs[0]->state()[0].second), Values(syncs[1]->state()[0].second));
    return Values(TwoOf(syncs[0]->state()[0].second));
  }

  static at::Tensor TwoOf(const at::Tensor& flat) { return flat.narrow(0, 0, 2); }

  std::vector<std::unique_ptr<FlatStage>> stages;
  std::vector<at::Tensor> thetas;
  std::vector<std::unique_ptr<OuterAlgorithm>> syncs;
  std::vector<std::vector<double>> norms;  // as each sync saw them, round after round
};

TEST(OuterStep, IsNesterovsOverThreeRounds) {
  TwoGroups run({.inner_steps = 4, .lr = 0.5, .momentum = 0.25}, {8, -4});
  run.Round(4, {{1, 2}, {3, -2}});
  // average (2, 0); momentum 1/4 of nothing + average; theta -= 1/2 (average + 1/4 momentum).
  EXPECT_THAT(run.momentum(), ElementsAre(2, 0));
  EXPECT_THAT(run.theta(), ElementsAre(8 - 1.25, -4));
  run.Round(8, {{-4, 8}, {2, 0}});
  // average (-1, 4), momentum (1/2 - 1, 4), steps of 1/2 (-1 - 1/8) and 1/2 (4 + 1).
  EXPECT_THAT(run.momentum(), ElementsAre(-0.5, 4));
  EXPECT_THAT(run.theta(), ElementsAre(6.75 + 0.5625, -4 - 2.5));
  run.Round(12, {{0, 1}, {8, 1}});
  // average (4, 1), momentum (4 - 1/8, 1 + 1), steps of 1/2 (4 + 31/32) and 1/2 (1 + 1/2).
  EXPECT_THAT(run.momentum(), ElementsAre(3.875, 2));
  EXPECT_THAT(run.theta(), ElementsAre(7.3125 - 2.484375, -6.5 - 0.75));
}

TEST(OuterStep, AveragesOverWhoIsLeft) {
  TwoGroups run({.inner_steps = 1, .lr = 1, .momentum = 0}, {0, 0}, 3);
  run.Round(1, {{3, 6}, {100, 200}, {-1, 2}}, {false, true, false});
  EXPECT_THAT(run.theta(), ElementsAre(-1, -4));
  EXPECT_THAT(run.norms[0], ElementsAre(45, 50000, 5));
  run.Round(2, {{3, 6}, {6, 3}, {0, 0}}, {false, false, false});
  EXPECT_THAT(run.theta(), ElementsAre(-4, -7));
}

// int4-b64 sends multiples of the largest / 7: with a largest of 7, whole numbers.
int64_t FramesDecoded(const TwoGroups& groups) {
  int64_t frames = 0;
  for (const auto& sync : groups.syncs) frames += sync->exchange().frames_decoded();
  return frames;
}

TEST(OuterStep, GroupsOfOneProcessDecodeEachFrameOnce) {
  const OuterSpec spec{.inner_steps = 1, .lr = 0.5, .momentum = 0.75, .codec = "int8-b64"};
  TwoGroups apart(spec, {8, 16}, 3), together(spec, {8, 16}, 3, std::make_shared<SharedSums>());
  for (TwoGroups* groups : {&apart, &together}) {
    groups->Round(1, {{4, 0.3}, {0, 8}, {1, 1}}, {false, false, false});
    groups->Round(2, {{4, 8}, {0.7, 0}, {1, 2}}, {false, false, false});
  }
  EXPECT_EQ(together.theta(), apart.theta());
  EXPECT_EQ(together.momentum(), apart.momentum());
  EXPECT_EQ(together.norms, apart.norms);
  EXPECT_EQ(FramesDecoded(apart), 2 * 3 * 3);
  EXPECT_EQ(FramesDecoded(together), 2 * 3);
  for (TwoGroups* groups : {&apart, &together}) {
    groups->Round(3, {{1, 1}, {2, 2}, {5, 6}}, {false, true, false});
  }
  EXPECT_EQ(together.theta(), apart.theta());
  EXPECT_EQ(Values(together.thetas[2]), Values(apart.thetas[2]));
  EXPECT_EQ(FramesDecoded(together), 2 * 3 + 3 + 2) << "again without who is left out";
}

TEST(OuterStep, ASumOfOtherFramesIsNotTaken) {
  const OuterSpec spec{.inner_steps = 1, .lr = 1, .momentum = 0};
  const auto sums = std::make_shared<SharedSums>();
  TwoGroups one(spec, {8, 16}, 2, sums), other(spec, {8, 16}, 2, sums), alone(spec, {8, 16});
  one.Round(1, {{4, 0}, {0, 8}});
  other.Round(1, {{4, 0}, {0, 4}});
  alone.Round(1, {{4, 0}, {0, 4}});
  EXPECT_EQ(other.theta(), alone.theta());
  EXPECT_NE(other.theta(), one.theta());
}

TEST(OuterStep, WhatACodecLosesIsAddedToTheNextDelta) {
  TwoGroups run({.inner_steps = 1, .lr = 1, .momentum = 0, .codec = "int4-b64+ef"}, {0, 0});
  run.Round(1, {{7, 0.375}, {7, 2.25}});  // sent (7, 0) and (7, 2)
  EXPECT_THAT(run.theta(), ElementsAre(-7, -1));
  run.Round(2, {{7, 0.375}, {7, 2.125}});  // with what was lost, 0.75 and 2.375: (7, 1), (7, 2)
  EXPECT_THAT(run.theta(), ElementsAre(-14, -2.5));
  run.Round(3, {{7, 0.5}, {7, 2.25}});  // 0.5 - 0.25 and 2.25 + 0.375: (7, 0), (7, 3)
  EXPECT_THAT(run.theta(), ElementsAre(-21, -4));
}

// Two groups of two stages; stage s of group g holds two parameters, in a layout of 64 floats.
class Round : public testing::Test {
 protected:
  static constexpr int kGroups = 2, kStages = 2;

  void SetUp() override {
    const auto plain0 = NewMemoryGroup(kStages), plain1 = NewMemoryGroup(kStages);
    std::vector<std::vector<c10::intrusive_ptr<MemoryBackend>>> peers;
    for (int s = 0; s < kStages; ++s) peers.push_back(NewMemoryGroup(kGroups));
    for (int g = 0; g < kGroups; ++g) {
      for (int s = 0; s < kStages; ++s) {
        auto state = std::make_unique<RankState>();
        state->rank.group = g;
        state->rank.stage = s;
        state->rank.plain = (g == 0 ? plain0 : plain1)[s];
        state->stage = NewStage(2, s, kStages);
        state->host_parameters = state->stage->parameters();
        state->optimizer = std::make_unique<AdamW>(spec_.inner, *state->stage);
        state->optimizer->first_moment().fill_(3 + g);
        state->optimizer->second_moment().fill_(5 + g);
        state->outer = NewDiloco(spec_.outer, {g, kGroups, s, spec_.seed, peers[s][g]},
                                 *state->stage, state->host_parameters);
        ranks_.push_back(std::move(state));
      }
    }
  }

  RankState& At(int group, int stage) { return *ranks_[group * kStages + stage]; }
  at::Tensor First(int group, int stage) { return At(group, stage).stage->parameters()[0]; }

  TrainSpec spec_{.model = {},
                  .stages = kStages,
                  .groups = kGroups,
                  .schedule = "gpipe",
                  .microbatches = 1,
                  .batch_rows = 1,
                  .steps = 10,
                  .inner = {.lr = 1},
                  .outer = {.inner_steps = 5, .lr = 1, .momentum = 0, .codec = "fp16+ef"},
                  .seed = 3};
  std::vector<std::unique_ptr<RankState>> ranks_;
  const std::function<absl::Duration()> now_ = [] { return absl::ZeroDuration(); };
};

// Of group 1's delta on its stages; group 0's is (3, 4), which is 5 long, so that more than 50 is
// too long.
struct Case {
  double stage0, stage1;
  bool poison;
};
class Norms : public Round, public testing::WithParamInterface<Case> {};

TEST_P(Norms, AreOverAllStagesTogether) {
  First(0, 0).fill_(-3);
  First(0, 1).fill_(-4);
  First(1, 0).fill_(-GetParam().stage0);
  First(1, 1).fill_(-GetParam().stage1);
  OuterRound round(spec_, ranks_, nullptr, now_);
  const absl::Status status = round.Run(5);
  ASSERT_TRUE(status.ok()) << status;
  for (int g = 0; g < kGroups; ++g) {
    for (int s = 0; s < kStages; ++s) {
      const double own = s == 0 ? 3 : 4, other = s == 0 ? GetParam().stage0 : GetParam().stage1;
      EXPECT_EQ(First(g, s).item<float>(), -(GetParam().poison ? own : (own + other) / 2));
      const std::vector<int> out = GetParam().poison ? std::vector<int>{1} : std::vector<int>{};
      EXPECT_EQ(At(g, s).report.left_out, out) << "group " << g << ", stage " << s;
    }
  }
}

// Each is decided otherwise by the sum of the stages' norms, by the largest of them, by one stage
// alone, or without the root.
INSTANTIATE_TEST_SUITE_P(Table, Norms,
                         testing::Values(Case{48, 15, true},       // 50.3; the sum says 63 of 7
                                         Case{28, 41.5, true},     // 50.1; stage 0 says 28 of 3
                                         Case{41, 28, false},      // 49.6; the largest: 41 of 4
                                         Case{30, 39.75, false},   // 49.8; 9.96 times
                                         Case{30, 40.25, true}));  // 50.2

TEST_F(Round, WhoIsLeftOutForgetsMomentsAndWhatItsCodecRemembers) {
  const std::vector<std::byte> fresh = At(0, 0).outer->exchange().SaveCodecState();
  const float uneven = 1.0f / 3;  // which fp16 does not carry
  for (int s = 0; s < kStages; ++s) {
    First(0, s).fill_(uneven);
    First(1, s).fill_(100 * uneven);
  }
  OuterRound round(spec_, ranks_, nullptr, now_);
  ASSERT_TRUE(round.Run(5).ok());
  for (int s = 0; s < kStages; ++s) {
    EXPECT_THAT(Values(At(0, s).optimizer->first_moment()), testing::Each(3));
    EXPECT_THAT(Values(At(0, s).optimizer->second_moment()), testing::Each(5));
    EXPECT_NE(At(0, s).outer->exchange().SaveCodecState(), fresh);
    EXPECT_THAT(Values(At(1, s).optimizer->first_moment()), testing::Each(0));
    EXPECT_THAT(Values(At(1, s).optimizer->second_moment()), testing::Each(0));
    EXPECT_EQ(At(1, s).outer->exchange().SaveCodecState(), fresh);
  }
}

TEST_F(Round, NobodyIsLeftOutAndMomentsStay) {
  for (int s = 0; s < kStages; ++s) First(0, s).fill_(1), First(1, s).fill_(2);
  OuterRound round(spec_, ranks_, nullptr, now_);
  ASSERT_TRUE(round.Run(5).ok());
  for (int g = 0; g < kGroups; ++g) {
    EXPECT_THAT(Values(At(g, 1).optimizer->first_moment()), testing::Each(3 + g));
    EXPECT_THAT(At(g, 1).report.left_out, IsEmpty());
    EXPECT_THAT(At(g, 1).report.members, ElementsAre(0, 1));
    EXPECT_TRUE(At(g, 1).report.outer_synced);
    EXPECT_EQ(At(g, 1).report.attempts, 1);
    EXPECT_EQ(First(g, 1).item<float>(), 1.5);
  }
}

// A fault's factor counts once: the next round's delta is the group's own again.
TEST_F(Round, APoisonedGroupIsPoisonedOnce) {
  for (int g = 0; g < kGroups; ++g) {
    for (int s = 0; s < kStages; ++s) First(g, s).fill_(1);
  }
  for (int s = 0; s < kStages; ++s) At(1, s).poison = 64;
  OuterRound round(spec_, ranks_, nullptr, now_);
  ASSERT_TRUE(round.Run(5).ok());
  EXPECT_THAT(At(0, 0).report.left_out, ElementsAre(1));
  EXPECT_EQ(First(1, 0).item<float>(), 1) << "it takes the others' step";
  for (auto& state : ranks_) state->report = StepReport();
  for (int g = 0; g < kGroups; ++g) First(g, 0).add_(1);
  ASSERT_TRUE(round.Run(10).ok());
  EXPECT_THAT(At(0, 0).report.left_out, IsEmpty());
  EXPECT_EQ(First(1, 0).item<float>(), 2);
}

// Of groups 1 to 3, in a meeting that only they are at; group 2's delta is absurd.
TEST(OuterStepMembers, AreTheMeetingsByTheirNumbers) {
  class Keeper : public RoundKeeper {
   public:
    absl::StatusOr<Meeting> Meet(int64_t step) override {
      steps.push_back(step);
      const auto peers = NewMemoryGroup(3);
      return Meeting{.members = {1, 2, 3},
                     .peers = {{1, 0, peers[0]}, {2, 0, peers[1]}, {3, 0, peers[2]}}};
    }
    absl::StatusOr<bool> Commit(const absl::Status& exchanged) override {
      EXPECT_TRUE(exchanged.ok()) << exchanged;
      return steps.size() == 3;
    }
    std::vector<int64_t> steps;
  } keeper;
  TrainSpec spec{.model = {},
                 .stages = 1,
                 .groups = 4,
                 .schedule = "gpipe",
                 .microbatches = 1,
                 .batch_rows = 1,
                 .steps = 10,
                 .inner = {.lr = 1},
                 .outer = {.inner_steps = 5, .lr = 1, .momentum = 0},
                 .seed = 3};
  std::vector<std::unique_ptr<RankState>> ranks;
  for (int g : {1, 2, 3}) {
    auto state = std::make_unique<RankState>();
    state->rank.group = g;
    state->stage = NewStage(64, 0, 1);
    state->host_parameters = state->stage->parameters();
    state->outer = NewDiloco(spec.outer, {g, 4, 0, 3, {}}, *state->stage, state->host_parameters);
    state->stage->parameters().fill_(g == 2 ? 1000 : -2 * g);
    ranks.push_back(std::move(state));
  }
  const std::function<absl::Duration()> now = [] { return absl::ZeroDuration(); };
  OuterRound round(spec, ranks, &keeper, now);
  EXPECT_EQ(round.lowest_member(), 0);
  const absl::Status status = round.Run(5);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(keeper.steps, ElementsAre(5, 5, 5));
  EXPECT_EQ(round.lowest_member(), 1);
  for (const auto& state : ranks) {
    EXPECT_THAT(Values(state->stage->parameters()), testing::Each(-4));
    EXPECT_THAT(state->report.members, ElementsAre(1, 2, 3));
    EXPECT_THAT(state->report.left_out, ElementsAre(2));
    EXPECT_EQ(state->report.attempts, 3);
    EXPECT_EQ(state->report.outer_bytes_sent, 2 * (64 * 4 + 64))
        << "two frames, 64 bytes of header";
  }
}

}  // namespace
}  // namespace longhaul
