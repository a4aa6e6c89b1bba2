#include <functional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/parameter_hash.h"
#include "pp_group/trainer.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// A clock that only sleeping moves.
class SleepClock {
 public:
  absl::Duration now() const { return now_; }
  void Sleep(absl::Duration d) { now_ += d; }

 private:
  absl::Duration now_ = absl::Seconds(100);
};

TrainSpec InjectedSpec(int stages, int groups, SleepClock& clock) {
  TrainSpec spec = SmallSpec(stages, groups);
  spec.compute = InjectedCompute{.optimizer = absl::Milliseconds(7),
                                 .sleep = [&clock](absl::Duration d) { clock.Sleep(d); }};
  for (int s = 0; s < stages; ++s) {
    spec.compute->forward.push_back(absl::Milliseconds(10 + s));
    spec.compute->backward.push_back(absl::Milliseconds(20 + s));
  }
  return spec;
}

std::unique_ptr<Trainer> TrainerOf(const TrainSpec& spec, SleepClock& clock,
                                   std::vector<LocalRank> ranks) {
  auto trainer =
      Trainer::Create(spec, std::move(ranks), SmallCorpus(), [&clock] { return clock.now(); });
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

TEST(InjectedCompute, TakesTheTimesOfTheTableAndNoOthers) {
  SleepClock clock;
  const TrainSpec spec = InjectedSpec(2, 1, clock);
  const auto trainer = TrainerOf(spec, clock, MemoryRanks(spec));
  const auto reports = trainer->Step();
  ASSERT_TRUE(reports.ok()) << reports.status();
  for (const StepReport& r : *reports) {
    const double m = static_cast<double>(spec.microbatches);
    EXPECT_EQ(r.forward, m * absl::Milliseconds(10 + r.stage));
    EXPECT_EQ(r.backward, m * absl::Milliseconds(20 + r.stage));
    EXPECT_EQ(r.optimizer, absl::Milliseconds(7));
    EXPECT_FALSE(r.loss.has_value());
    EXPECT_EQ(r.clipped_groups, 0);
  }
}

// Every tensor that a run sends, as hashes.
std::vector<uint64_t> Sent(const TrainSpec& spec, SleepClock& clock, int64_t steps) {
  std::vector<uint64_t> sent;
  std::vector<LocalRank> ranks = MemoryRanks(spec);
  for (LocalRank& rank : ranks) {
    rank.watch = [&sent](const BoundaryTensor& x) { sent.push_back(HashOf(x.values)); };
  }
  const auto trainer = TrainerOf(spec, clock, std::move(ranks));
  for (int64_t i = 0; i < steps; ++i) EXPECT_TRUE(trainer->Step().ok());
  return sent;
}

TEST(InjectedCompute, SendsTheSameTensorsInEveryRunAndAnotherWithEveryMessage) {
  SleepClock clock;
  const TrainSpec spec = InjectedSpec(2, 1, clock);
  const std::vector<uint64_t> sent = Sent(spec, clock, 3);
  EXPECT_EQ(sent.size(), static_cast<size_t>(2 * 3 * spec.microbatches));
  EXPECT_EQ(Sent(spec, clock, 3), sent);
  EXPECT_EQ(std::set<uint64_t>(sent.begin(), sent.end()).size(), sent.size());
  TrainSpec other = spec;
  ++other.seed;
  EXPECT_NE(Sent(other, clock, 3), sent);
}

TEST(InjectedCompute, GroupsMeetInTheOuterStep) {
  SleepClock clock;
  const TrainSpec spec = InjectedSpec(2, 2, clock);
  const auto trainer = TrainerOf(spec, clock, MemoryRanks(spec));
  std::set<uint64_t> seen;
  for (int64_t step = 1; step <= spec.steps; ++step) {
    const auto reports = trainer->Step();
    ASSERT_TRUE(reports.ok()) << reports.status();
    EXPECT_TRUE(seen.insert(reports->front().parameter_hash.value()).second)
        << "nothing moved in " << step;
    for (const StepReport& r : *reports) EXPECT_EQ(r.outer_bytes_sent > 0, r.outer_synced);
  }
}

TEST(InjectedCompute, HasNoLossAndNothingToResume) {
  SleepClock clock;
  const TrainSpec spec = InjectedSpec(2, 1, clock);
  const auto trainer = TrainerOf(spec, clock, MemoryRanks(spec));
  const auto evaluation = trainer->Evaluate(BoundaryCodec::kOff, 4);
  EXPECT_EQ(evaluation.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(evaluation.status().message()), HasSubstr("nothing is trained"));
  EXPECT_FALSE(trainer->SaveCheckpoint(testing::TempDir()).ok());
  EXPECT_FALSE(trainer->LoadCheckpoint(testing::TempDir()).ok());
  EXPECT_TRUE(trainer->Step().ok()) << "a refusal must not spend the trainer";
}

}  // namespace
}  // namespace longhaul
