// The trainer over the project's own backend (loopback), against the independent in-memory one.

#include <future>

#include <ATen/Parallel.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/loopback_ranks.h"

namespace longhaul {
namespace {

CodecPolicy DefaultPair() {
  CodecPolicy policy;
  policy.forward = "int4-b64-h64";
  policy.backward = "int8-b64";
  policy.min_elements = 0;
  return policy;
}

TEST(LoopbackBackend, LosslessGivesTheBitsOfTheInMemoryBackend) {
  TrainSpec spec = SmallSpec(4, 2);
  spec.outer.codec = "int8-b64+ef";
  const History memory = RunAll(spec), loopback = RunOver(spec, LoopbackRanks(spec, {}));
  EXPECT_EQ(loopback.losses, memory.losses);
  EXPECT_EQ(loopback.hashes, memory.hashes);
}

TEST(LoopbackBackend, CompressedBoundariesChangeTheLossALittleAndAlwaysAlike) {
  const TrainSpec spec = SmallSpec(4, 2);
  const History exact = RunAll(spec);
  const History first = RunOver(spec, LoopbackRanks(spec, DefaultPair()));
  const History again = RunOver(spec, LoopbackRanks(spec, DefaultPair()));
  EXPECT_EQ(first.losses, again.losses);
  EXPECT_EQ(first.hashes, again.hashes);
  EXPECT_NE(first.losses, exact.losses);
  EXPECT_NEAR(first.losses.back(), exact.losses.back(), 0.2);
}

TEST(LoopbackBackend, OneThreadPerRankGivesTheSameBits) {
  const TrainSpec spec = SmallSpec(2, 2);
  const History together = RunOver(spec, LoopbackRanks(spec, DefaultPair()));
  SmallCorpus();
  std::vector<std::future<History>> runs;
  for (const LocalRank& rank : LoopbackRanks(spec, DefaultPair())) {
    runs.push_back(std::async(std::launch::async, [&spec, rank] { return RunOver(spec, {rank}); }));
  }
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const History apart = runs[rank].get();
    ASSERT_EQ(apart.hashes.size(), static_cast<size_t>(spec.steps));
    for (size_t step = 0; step < apart.hashes.size(); ++step) {
      EXPECT_EQ(apart.hashes[step][0], together.hashes[step][rank]) << "step " << step + 1;
    }
  }
}

TEST(LoopbackBackend, EvaluationOverPlainIsLosslessAndOverBoundaryIsNot) {
  const TrainSpec spec = SmallSpec(4, 1);
  at::set_num_threads(1);
  auto split = Trainer::Create(spec, LoopbackRanks(spec, DefaultPair()), SmallCorpus(), TestClock);
  auto whole = NewTrainer(SmallSpec(1, 1));
  ASSERT_TRUE(split.ok()) << split.status();
  const auto off = (*split)->Evaluate(BoundaryCodec::kOff, 8);
  const auto on = (*split)->Evaluate(BoundaryCodec::kOn, 8);
  const auto exact = whole->Evaluate(BoundaryCodec::kOff, 8);
  ASSERT_TRUE(off.ok() && on.ok() && exact.ok()) << off.status() << on.status();
  EXPECT_EQ((*off)->loss, (*exact)->loss);  // same initial weights
  EXPECT_NE((*on)->loss, (*exact)->loss);
}

// An evaluation that took numbers or residuals of training would shift every later step.
TEST(LoopbackBackend, EvaluationOverTheBoundaryLeavesTrainingAsItIs) {
  const TrainSpec spec = SmallSpec(2, 1);
  CodecPolicy codecs = DefaultPair();
  codecs.forward = "int4-b64-h64+ef";
  const History whole = RunOver(spec, LoopbackRanks(spec, codecs));
  auto trainer = Trainer::Create(spec, LoopbackRanks(spec, codecs), SmallCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  History evaluated;
  for (int64_t step = 0; step < spec.steps; ++step) {
    const auto losses = (*trainer)->Evaluate(BoundaryCodec::kOn, 3);
    ASSERT_TRUE(losses.ok()) << losses.status();
    RunSteps(**trainer, 1, &evaluated);
  }
  EXPECT_EQ(evaluated.losses, whole.losses);
  EXPECT_EQ(evaluated.hashes, whole.hashes);
}

TEST(LoopbackBackend, ResumeIsBitIdenticalOverCompressedBoundaries) {
  const TrainSpec spec = SmallSpec(2, 2);
  const std::string directory = testing::TempDir() + "/loopback_resume";
  const History whole = RunOver(spec, LoopbackRanks(spec, DefaultPair()));
  History pieces;
  {
    auto killed =
        Trainer::Create(spec, LoopbackRanks(spec, DefaultPair()), SmallCorpus(), TestClock);
    ASSERT_TRUE(killed.ok()) << killed.status();
    RunSteps(**killed, 7, &pieces);
    ASSERT_TRUE((*killed)->SaveCheckpoint(directory).ok());
  }
  auto resumed =
      Trainer::Create(spec, LoopbackRanks(spec, DefaultPair()), SmallCorpus(), TestClock);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  const absl::Status loaded = (*resumed)->LoadCheckpoint(directory);
  ASSERT_TRUE(loaded.ok()) << loaded;
  RunSteps(**resumed, spec.steps - 7, &pieces);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.hashes, whole.hashes);
}

TEST(LoopbackBackend, DivergenceThatACodecCannotCarryIsOutOfRange) {
  TrainSpec spec = SmallSpec(2, 1);
  spec.inner.lr = 1e30;
  spec.inner.warmup_steps = 0;
  at::set_num_threads(1);
  auto trainer =
      Trainer::Create(spec, LoopbackRanks(spec, DefaultPair()), SmallCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  absl::Status status;
  for (int64_t i = 0; i < spec.steps && status.ok(); ++i) status = (*trainer)->Step().status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("diverged"));
}

}  // namespace
}  // namespace longhaul
