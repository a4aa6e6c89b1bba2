// Every outer algorithm of the table: kill and resume, over our transport and over another backend,
// every parameter's outer value, what is refused.
#include <unistd.h>

#include <filesystem>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/outer_rules.h"
#include "tests/pp_group/loopback_ranks.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A run of each algorithm, with groups of two stages, that ends in the middle of a round.
struct Case {
  std::string name;
  OuterSpec outer;
};

OuterSpec Small(const std::string& algorithm) {
  const OuterRule& rule = *FindOuterRule(algorithm);
  OuterSpec spec{.inner_steps = ExchangesGradients(algorithm) ? 0 : 4,
                 .lr = rule.lr,
                 .momentum = rule.momentum,
                 .codec = "int4-b64+ef",
                 .algorithm = algorithm,
                 .mix = rule.mix};
  if (rule.overlaps) spec.fragments = 2, spec.overlap_steps = 1;
  if (rule.eager) spec.fragments = 1, spec.overlap_steps = 4;
  if (rule.density_falls) spec.codec = "int4-b64+mc";
  // Codecs change after steps 1, 2, 3 and 4, or after 4.
  if (ExchangesGradients(algorithm)) spec.warmup_steps = 4;
  if (rule.meets == OuterRule::Meets::kLevels) {
    spec.inner_steps = 2;
    spec.cluster_groups = 2;
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
  longest.outer.overlap_steps = 2;
  cases.push_back(longest);
  Case late{"streaming, one step late", Small("streaming")};
  late.outer.fragments = 1;
  late.outer.overlap_steps = 4;
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

// In the first stage of group 1 alone, which is named: nobody has had it yet.
TEST_P(EveryAlgorithm, AGradientOfNoNumberEndsItsStep) {
  const TrainSpec spec = SpecOf(GetParam());
  std::vector<LocalRank> ranks = LoopbackRanks(spec, {});
  Trainer* running = nullptr;
  ranks[3].watch = [&running](const BoundaryTensor& x) {
    if (x.gradient && running->step() == 2) x.values.detach()[0][0] = std::nanf("");
  };
  auto trainer = Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  running = trainer->get();
  for (int step = 1; step < 3; ++step) ASSERT_TRUE(running->Step().ok());
  EXPECT_EQ(running->Step().status(),
            absl::OutOfRangeError(
                "step 3, group 1, stage 0: NaN or Inf in the gradient of embedding.token"));
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
  streaming.outer.mix = 0;
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

// A group alone is ahead by all of its delta: it is where DiLoCo is, but for rounding.
TEST(Eager, OfOneGroupIsDiloco) {
  at::set_num_threads(1);
  TrainSpec diloco = SmallSpec(2, 1);
  diloco.steps = 12;
  diloco.outer = {.inner_steps = 3, .lr = 0.6, .momentum = 0.8};
  TrainSpec eager = diloco;
  eager.outer.algorithm = "eager";
  eager.outer.overlap_steps = 3;
  const History a = RunAll(diloco), b = RunAll(eager);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 2e-5) << i;
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
