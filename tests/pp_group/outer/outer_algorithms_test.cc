// Every outer algorithm of the table: kill and resume, over our transport and over another backend,
// every parameter's outer value, what is refused; and the figures that public programs publish.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/optimizer/muon.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/outer_rules.h"
#include "tests/pp_group/flat_stage.h"
#include "tests/pp_group/loopback_ranks.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// A run of each algorithm, with groups of two stages, that ends in the middle of a round.
struct Case {
  std::string name;
  OuterSpec outer;
};

OuterSpec Small(const std::string& algorithm) {
  const OuterRule& rule = *FindOuterRule(algorithm);
  OuterSpec spec{.inner_steps = rule.crosses == OuterRule::Crosses::kGradients ? 0 : 4,
                 .lr = rule.lr,
                 .momentum = rule.momentum,
                 .codec = "int4-b64+ef",
                 .algorithm = algorithm,
                 .mix = rule.mix};
  if (rule.overlaps) spec.fragments = 2, spec.overlap = 1;
  if (rule.meets == OuterRule::Meets::kLevels) {
    spec.inner_steps = 2;
    spec.cluster = 2;
    spec.global_every = 2;
    spec.global_codec = "int8-b64+ef";
  }
  return spec;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string_view name : OuterNames()) {
    cases.push_back({std::string(name), Small(std::string(name))});
  }
  Case longest{"streaming, as long as can be", Small("streaming")};
  longest.outer.overlap = 2;
  cases.push_back(longest);
  Case late{"streaming, one step late", Small("streaming")};
  late.outer.fragments = 1;
  late.outer.overlap = 4;
  late.outer.mix = 0.25;
  cases.push_back(late);
  return cases;
}

TrainSpec SpecOf(const Case& c) {
  const bool all_meet = AllMeet(c.outer.algorithm);
  TrainSpec spec = SmallSpec(2, all_meet ? 2 : 4);
  spec.steps = 10;
  spec.outer = c.outer;
  spec.inner.optimizer = FindOuterRule(c.outer.algorithm)->inner;
  return spec;
}

class EveryAlgorithm : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  static std::unique_ptr<Trainer> Start(const TrainSpec& spec) {
    auto trainer = Trainer::Create(spec, LoopbackRanks(spec, {}), SmallCorpus(), TestClock);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return *std::move(trainer);
  }
};

// Over our backend between threads of one process as over another one.
TEST_P(EveryAlgorithm, HasTheSameBitsOverAnyBackend) {
  const TrainSpec spec = SpecOf(GetParam());
  const History ours = RunOver(spec, LoopbackRanks(spec, {}));
  const History others = RunOver(spec, MemoryRanks(spec));
  EXPECT_EQ(ours.losses, others.losses);
  EXPECT_EQ(ours.hashes, others.hashes);
}

// Killed after every step in turn, whatever is in flight then.
TEST_P(EveryAlgorithm, GoesOnAfterAKillBitForBit) {
  const TrainSpec spec = SpecOf(GetParam());
  const History whole = RunOver(spec, LoopbackRanks(spec, {}));
  const std::string directory = absl::StrCat(testing::TempDir(), "/outer_algorithms_", getpid());
  fs::remove_all(directory);
  History pieces;
  for (int64_t step = 0; step < spec.steps; ++step) {
    const auto trainer = Start(spec);
    if (step > 0) {
      const absl::Status loaded = trainer->LoadCheckpoint(directory);
      ASSERT_TRUE(loaded.ok()) << loaded;
    }
    ASSERT_EQ(trainer->step(), step);
    RunSteps(*trainer, 1, &pieces);
    const absl::Status saved = trainer->SaveCheckpoint(directory);
    ASSERT_TRUE(saved.ok()) << saved;
  }
  fs::remove_all(directory);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.hashes, whole.hashes);
}

// Groups end equal, and no parameter's outer value is where it was.
TEST_P(EveryAlgorithm, MovesEveryParameterAndEndsEqual) {
  TrainSpec spec = SpecOf(GetParam());
  const auto trainer = Start(spec);
  const auto before = trainer->Snapshot();
  ASSERT_TRUE(before.ok());
  History history;
  RunSteps(*trainer, spec.steps, &history);
  const auto after = trainer->Snapshot();
  ASSERT_TRUE(after.ok());
  for (size_t rank = 0; rank < after->size(); ++rank) {
    const Checkpoint& now = (*after)[rank];
    const auto values = *now.Section("parameters");
    const auto first = *(*before)[rank].Section("parameters");
    const auto* x = reinterpret_cast<const float*>(values.data());
    const auto* was = reinterpret_cast<const float*>(first.data());
    const StageLayout layout = LayoutOf(spec.model, now.stage, spec.stages, spec.cuts);
    for (const ParameterSlot& slot : layout.slots) {
      int64_t moved = 0;
      for (int64_t i = 0; i < slot.elements(); ++i)
        moved += x[slot.offset + i] != was[slot.offset + i];
      EXPECT_GT(moved, 0) << slot.name;
    }
  }
  const std::vector<uint64_t>& last = history.hashes.back();
  for (size_t rank = 0; rank < last.size(); ++rank) {
    EXPECT_EQ(last[rank], last[rank % static_cast<size_t>(spec.stages)]) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name;
  for (const char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
});

// Streaming DiLoCo of one fragment that waits is DiLoCo.
TEST(Streaming, OfOneFragmentWithoutOverlapIsDiloco) {
  at::set_num_threads(1);
  TrainSpec diloco = SmallSpec(2, 2);
  diloco.steps = 10;
  diloco.outer = {.inner_steps = 4, .lr = 0.6, .momentum = 0.8, .codec = "int4-b64+ef"};
  TrainSpec streaming = diloco;
  streaming.outer.algorithm = "streaming";
  const History a = RunAll(diloco), b = RunAll(streaming);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.hashes, b.hashes);
}

// Fragments are of the whole model: where stages are cut changes nothing.
TEST(Streaming, DoesNotDependOnStages) {
  at::set_num_threads(1);
  std::vector<std::vector<double>> losses;
  for (const int stages : {1, 2, 4}) {
    TrainSpec spec = SmallSpec(stages, 2);
    spec.steps = 8;
    spec.outer = Small("streaming");
    spec.outer.codec = "none";
    spec.outer.fragments = 4;
    losses.push_back(RunAll(spec).losses);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

// G = 1, H = 1, lr 1, mu 0: the inner optimizer, bit for bit.
TEST(Diloco, OfOneGroupAndOneStepIsTheInnerOptimizer) {
  at::set_num_threads(1);
  TrainSpec plain = SmallSpec(2, 1);
  plain.steps = 8;
  plain.outer = {.inner_steps = 0};
  for (const char* algorithm : {"diloco", "streaming"}) {
    TrainSpec outer = plain;
    outer.outer = {.inner_steps = 1, .lr = 1, .momentum = 0, .algorithm = algorithm};
    EXPECT_EQ(RunAll(outer).losses, RunAll(plain).losses) << algorithm;
    EXPECT_EQ(RunAll(outer).hashes, RunAll(plain).hashes) << algorithm;
  }
}

// A model of `values` on one stage of each of a few groups.
class Replicas {
 public:
  Replicas(const OuterSpec& spec, int64_t steps, std::vector<float> values, int groups = 2) {
    const auto peers = NewMemoryGroup(groups);
    for (int g = 0; g < groups; ++g) {
      StageLayout layout = EmptyLayout(1, 0, 1, {});
      LayoutBuilder builder(&layout);
      builder.BeginClipGroup();
      builder.Vector("x", 0, static_cast<int64_t>(values.size()), 0);
      stages.push_back(std::make_unique<FlatStage>(layout));
      at::Tensor all = stages.back()->parameters();
      for (size_t i = 0; i < values.size(); ++i) all[static_cast<int64_t>(i)] = values[i];
      outer.push_back(*NewOuterAlgorithm(spec, {.plan = OuterPlan(spec, steps),
                                                .place = {g, groups, 0, 5, peers[g]},
                                                .stage = stages.back().get(),
                                                .host_parameters = all,
                                                .experts = {}}));
    }
  }
  float* theta(int g) { return stages[g]->parameters().data_ptr<float>(); }
  void Begin(const OuterExchange& e) {
    for (auto& o : outer) ASSERT_TRUE(o->Encode(e).ok());
    for (auto& o : outer) o->exchange(e.fragment).Send();
  }
  void Apply(const OuterExchange& e) {
    for (auto& o : outer) ASSERT_TRUE(o->SquaredNorms(e.fragment).ok());
    for (auto& o : outer) {
      ASSERT_TRUE(o->Average(e.fragment, std::vector<bool>(outer.size(), false)).ok());
      ASSERT_TRUE(o->Apply(e).ok());
    }
  }
  std::vector<std::unique_ptr<FlatStage>> stages;
  std::vector<std::unique_ptr<OuterAlgorithm>> outer;
};

// torchft's fixtures (test_diloco_mocked_updates): two fragments of a number each, 1 at first; the
// gradient is 2, inner rate 1, outer SGD 2 without momentum; a fragment every three steps in turn,
// taken `delay` steps before its turn. Their published values of fixtures 0 and 4, the first layer;
// the other four by the rule that is behind them, by hand.
struct Fixture {
  int64_t delay;
  double alpha;
  std::vector<float> first_layer;
};

TEST(Streaming, HasTheValuesOfTorchftsFixtures) {
  for (const Fixture& f :
       std::vector<Fixture>{{0, 0, {1, -1, -3, -11, -13, -15, -17, -19, -21, -35}},
                            {0, 0.5, {1, -1, -3, -8, -10, -12, -14, -16, -18, -24.5}},
                            {0, 1, {1, -1, -3, -5, -7, -9, -11, -13, -15, -17}},
                            {1, 0, {1, -1, -3, -7, -9, -11, -13, -15, -17, -27}},
                            {1, 0.5, {1, -1, -3, -6, -8, -10, -12, -14, -16, -21.5}},
                            {1, 1, {1, -1, -3, -5, -7, -9, -11, -13, -15, -17}}}) {
    Replicas run(
        {.inner_steps = 6, .lr = 2, .momentum = 0, .algorithm = "streaming", .mix = f.alpha},
        /*steps=*/100, {1});
    std::vector<float> seen = {1};
    for (int64_t step = 1; step <= 9; ++step) {
      for (int g = 0; g < 2; ++g) run.theta(g)[0] -= 2;
      const OuterExchange mine{step, step + f.delay, 0}, due{step - f.delay, step, 0};
      if ((step + f.delay) % 6 == 3) run.Begin(mine);
      if (step % 6 == 3) run.Apply(due);
      EXPECT_EQ(run.theta(0)[0], run.theta(1)[0]);
      seen.push_back(run.theta(0)[0]);
    }
    EXPECT_THAT(seen, ElementsAreArray(f.first_layer)) << f.delay << ", " << f.alpha;
  }
}

// MaxText's test of DiLoCo: two replicas of a linear map from 2 to 1, mean squared error, inner SGD
// 0.1, outer Nesterov 1.0 and 0.9, H = 3.
TEST(Diloco, HasTheValuesOfMaxTextsTest) {
  Replicas run({.inner_steps = 3, .lr = 1, .momentum = 0.9}, /*steps=*/100, {2, 1, 1});
  const float inputs[2][2][2] = {{{0, 1}, {1, 0}}, {{1, 0}, {0, 1}}};
  const float labels[2][2] = {{1, 2}, {2, 3}};
  std::vector<double> losses;
  for (int64_t step = 1; step <= 4; ++step) {
    double loss = 0;
    for (int g = 0; g < 2; ++g) {
      float* w = run.theta(g);
      float gradient[3] = {0, 0, 0};
      for (int row = 0; row < 2; ++row) {
        const float* x = inputs[g][row];
        const float error = w[0] * x[0] + w[1] * x[1] + w[2] - labels[g][row];
        loss += error * error / 4;
        for (int i = 0; i < 3; ++i) gradient[i] += error * (i < 2 ? x[i] : 1);
      }
      for (int i = 0; i < 3; ++i) w[i] -= 0.1f * gradient[i];
    }
    losses.push_back(loss);
    if (step != 3) continue;
    run.Begin({3, 3, 0});
    run.Apply({3, 3, 0});
    EXPECT_NEAR(run.theta(0)[0], 1.5345, 5e-5);
    EXPECT_NEAR(run.theta(0)[1], 1.0494, 5e-5);
    EXPECT_NEAR(run.theta(1)[2], 0.5839, 5e-5);
  }
  EXPECT_NEAR(losses[0], 1.0, 1e-6);
  EXPECT_NEAR(losses[1], 0.65, 1e-6);
  EXPECT_NEAR(losses[2], 0.4481, 5e-5);
  EXPECT_NEAR(losses[3], 0.574244, 1e-5);
}

// One of four sends an element, three another: 3 of 64 values is what each sends.
TEST(Sparseloco, MeansOverAllOrOverThoseThatSent) {
  for (const auto& [mean, alone, together] :
       {std::tuple{"all", 2.0f, 3.0f}, std::tuple{"senders", 8.0f, 4.0f}}) {
    Replicas run({.inner_steps = 1,
                  .lr = 1,
                  .momentum = 0,
                  .codec = "topk-1of64+fp16",
                  .algorithm = "sparseloco",
                  .mean = mean},
                 /*steps=*/100, std::vector<float>(64, 0), /*groups=*/4);
    run.theta(0)[5] = -8;
    for (int g = 1; g < 4; ++g) run.theta(g)[9] = -4;
    run.Begin({1, 1, 0});
    run.Apply({1, 1, 0});
    for (int g = 0; g < 4; ++g) {
      EXPECT_EQ(run.theta(g)[5], -alone) << mean;
      EXPECT_EQ(run.theta(g)[9], -together) << mean;
      EXPECT_EQ(run.theta(g)[10], 0) << mean;
    }
  }
}

// Of a matrix whose singular vectors are known: each becomes what the five polynomials make of it.
TEST(Muon, BringsSingularValuesNearOne) {
  const at::Tensor tall = at::zeros({5, 3});
  for (int i = 0; i < 3; ++i) tall[i][i] = std::vector<double>{3, -2, 0.5}[i];
  const at::Tensor y = Orthogonalized(tall);
  const double norm = std::sqrt(9 + 4 + 0.25) + 1e-7;
  for (int i = 0; i < 3; ++i) {
    double x = std::vector<double>{3, -2, 0.5}[i] / norm;
    for (const auto& [a, b, c] :
         std::vector<std::tuple<double, double, double>>{{4.0848, -6.8946, 2.9270},
                                                         {3.9505, -6.3029, 2.6377},
                                                         {3.7418, -5.5913, 2.3037},
                                                         {2.8769, -3.1427, 1.2046},
                                                         {2.8366, -3.0525, 1.2012}}) {
      x = a * x + b * x * x * x + c * x * x * x * x * x;
    }
    EXPECT_NEAR(std::abs(x), 1, 0.15);
    EXPECT_NEAR(y[i][i].item<double>(), x, 1e-5);
  }
  EXPECT_EQ(Orthogonalized(at::zeros({3, 4})).abs().sum().item<double>(), 0);
}

// What has begun when a checkpoint is taken for another number of stages is refused in one line.
TEST(Streaming, AnExchangeInFlightIsNotTakenOverByOtherStages) {
  at::set_num_threads(1);
  TrainSpec spec = SmallSpec(2, 2);
  spec.steps = 10;
  spec.outer = Small("streaming");
  const auto trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 4, &history);
  const std::string directory = absl::StrCat(testing::TempDir(), "/in_flight_", getpid());
  fs::remove_all(directory);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory).ok());
  TrainSpec other = spec;
  other.stages = 4;
  const auto restored = NewTrainer(other)->RestoreFrom(directory);
  fs::remove_all(directory);
  EXPECT_TRUE(absl::IsFailedPrecondition(restored.status())) << restored.status();
  EXPECT_THAT(std::string(restored.status().message()),
              HasSubstr("is in flight between the groups"));
}

}  // namespace
}  // namespace longhaul
