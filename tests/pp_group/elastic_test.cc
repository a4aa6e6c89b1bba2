// Groups that come and go, and outer deltas that would poison an average.
#include <cmath>
#include <limits>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<StepReport> StepTo(Trainer& trainer, int64_t step) {
  std::vector<StepReport> last;
  while (trainer.step() < step) {
    auto reports = trainer.Step();
    EXPECT_TRUE(reports.ok()) << reports.status();
    if (!reports.ok()) break;
    last = *std::move(reports);
  }
  return last;
}

// Of groups whose stages hold equal parameters: one hash a stage; else the test fails.
std::vector<uint64_t> EqualHashes(const std::vector<StepReport>& reports) {
  std::map<int, uint64_t> by_stage;
  for (const StepReport& r : reports) {
    const auto [at, fresh] = by_stage.emplace(r.stage, r.parameter_hash.value());
    EXPECT_EQ(at->second, r.parameter_hash) << "group " << r.group << " stage " << r.stage;
  }
  std::vector<uint64_t> hashes;
  for (const auto& [stage, hash] : by_stage) hashes.push_back(hash);
  return hashes;
}

class Poisoned : public testing::TestWithParam<double> {};

TEST_P(Poisoned, GroupIsLeftOutCountedAndBackInTheNextRound) {
  for (const int stages : {1, 4}) {
    TrainSpec spec = SmallSpec(stages, 3);
    spec.outer.codec = "int8-b64+ef";
    const auto trainer = NewTrainer(spec);
    StepTo(*trainer, 4);
    trainer->Poison(1, GetParam());
    for (const StepReport& r : StepTo(*trainer, 5)) {
      EXPECT_THAT(r.members, ElementsAre(0, 1, 2));
      EXPECT_THAT(r.left_out, ElementsAre(1));
    }
    for (const StepReport& r : StepTo(*trainer, 6)) {
      if (r.stage == stages - 1) {
        EXPECT_LT(*r.loss, 6) << "group " << r.group;
      }
    }
    const auto reports = StepTo(*trainer, 10);
    for (const StepReport& r : reports) EXPECT_THAT(r.left_out, IsEmpty()) << "group " << r.group;
    EqualHashes(reports);
  }
}

INSTANTIATE_TEST_SUITE_P(Factors, Poisoned, testing::Values(kNan, 1e30, -3e38, 1000.0));

TEST(Poison, TheOthersTakeTheMeanOfThemselves) {
  // Without group 1's delta the outer step is that of groups 0 and 2 alone.
  TrainSpec spec = SmallSpec(2, 3);
  const auto trainer = NewTrainer(spec);
  StepTo(*trainer, 4);
  trainer->Poison(1, kNan);
  const std::vector<uint64_t> hashes = EqualHashes(StepTo(*trainer, 5));

  class OnlyZeroAndTwo : public RoundKeeper {
   public:
    absl::StatusOr<Meeting> Meet(int64_t) override {
      Meeting meeting{.members = {0, 2}, .peers = {}};
      for (int s = 0; s < 2; ++s) {
        const auto peers = NewMemoryGroup(2);
        meeting.peers.push_back({0, s, peers[0]});
        meeting.peers.push_back({2, s, peers[1]});
      }
      return meeting;
    }
    absl::StatusOr<bool> Commit(const absl::Status& exchanged) override {
      EXPECT_TRUE(exchanged.ok()) << exchanged;
      return ++commits % 2 == 0;  // every exchange is made twice
    }
    int commits = 0;
  } keeper;
  auto two = Trainer::Create(spec, MemoryRanks(spec), SmallCorpus(), TestClock, &keeper);
  ASSERT_TRUE(two.ok()) << two.status();
  StepTo(**two, 4);
  (*two)->LoseGroup(1);
  const auto reports = StepTo(**two, 5);
  EXPECT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports.front().attempts, 2);
  EXPECT_EQ(EqualHashes(reports), hashes);
}

TEST(Poison, WhereAllAreNoNumbersTheRoundIsOutOfRange) {
  for (const int stages : {1, 2}) {
    const auto trainer = NewTrainer(SmallSpec(stages, 2));
    StepTo(*trainer, 4);
    trainer->Poison(0, kNan);
    trainer->Poison(1, kNan);
    const absl::Status status = trainer->Step().status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("step 5, group 0, stage 0: NaN or Inf in the outer delta"));
  }
}

// All members of now, over new memory backends each time.
class WhoIsThere : public RoundKeeper {
 public:
  explicit WhoIsThere(int stages) : stages_(stages) {}
  std::vector<int> groups;
  absl::StatusOr<Meeting> Meet(int64_t) override {
    Meeting meeting{.members = groups, .peers = {}};
    for (int s = 0; s < stages_; ++s) {
      const auto peers = NewMemoryGroup(static_cast<int>(groups.size()));
      for (size_t i = 0; i < groups.size(); ++i) meeting.peers.push_back({groups[i], s, peers[i]});
    }
    return meeting;
  }
  absl::StatusOr<bool> Commit(const absl::Status& exchanged) override { return exchanged.ok(); }

 private:
  const int stages_;
};

std::vector<LocalRank> RanksOfGroup(const TrainSpec& spec, int group) {
  std::vector<LocalRank> ranks;
  for (const LocalRank& rank : MemoryRanks(spec)) {
    if (rank.group == group) ranks.push_back(rank);
  }
  return ranks;
}

TEST(Elastic, AGroupThatComesBackHoldsTheOthersBits) {
  const TrainSpec spec = SmallSpec(2, 3);
  WhoIsThere keeper(2);
  keeper.groups = {0, 1, 2};
  auto trainer = Trainer::Create(spec, MemoryRanks(spec), SmallCorpus(), TestClock, &keeper);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  StepTo(**trainer, 3);
  (*trainer)->LoseGroup(0);  // the one that evaluates
  keeper.groups = {1, 2};
  EXPECT_EQ(StepTo(**trainer, 5).size(), 4u);
  EXPECT_EQ((*trainer)->evaluated_group(), 1);
  ASSERT_TRUE((*trainer)->Evaluate(BoundaryCodec::kOff, 8).ok());
  ASSERT_TRUE((*trainer)->AddGroup(RanksOfGroup(spec, 0)).ok());
  keeper.groups = {0, 1, 2};
  const auto reports = StepTo(**trainer, 10);
  EXPECT_EQ(reports.size(), 6u);
  EXPECT_EQ(reports.front().group, 0);
  EqualHashes(reports);
}

// Its gradient in step 3: it is left out as a group whose delta is no number, and both go on.
TEST(Elastic, AGroupWhoseGradientIsNoNumberIsLeftOutOfTheRound) {
  const TrainSpec spec = SmallSpec(2, 3);
  const auto healthy = NewTrainer(spec);
  StepTo(*healthy, 4);
  healthy->Poison(1, kNan);
  const std::vector<uint64_t> without = EqualHashes(StepTo(*healthy, 5));

  WhoIsThere keeper(2);
  keeper.groups = {0, 1, 2};
  Trainer* running = nullptr;
  std::vector<LocalRank> ranks = MemoryRanks(spec);
  ranks[3].watch = [&running](const BoundaryTensor& x) {  // group 1, stage 1
    if (x.gradient && running->step() == 2) x.values.detach()[0][0] = std::nanf("");
  };
  auto trainer = Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock, &keeper);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  running = trainer->get();
  const auto reports = StepTo(**trainer, 5);
  for (const StepReport& r : reports) EXPECT_THAT(r.left_out, ElementsAre(1));
  EXPECT_EQ(EqualHashes(reports), without);
  for (const StepReport& r : StepTo(**trainer, 10)) EXPECT_THAT(r.left_out, IsEmpty());
}

TEST(Elastic, WithNobodyLeftThereIsNoStateToTake) {
  const TrainSpec spec = SmallSpec(1, 2);
  WhoIsThere keeper(1);
  auto trainer = Trainer::Create(spec, MemoryRanks(spec), SmallCorpus(), TestClock, &keeper);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  (*trainer)->LoseGroup(0);
  (*trainer)->LoseGroup(1);
  EXPECT_EQ((*trainer)->AddGroup(RanksOfGroup(spec, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Elastic, StateThatIsGivenOverABackendIsTheSame) {
  const TrainSpec spec = SmallSpec(1, 2);
  WhoIsThere keeper(1);
  keeper.groups = {0};
  auto giver = Trainer::Create(spec, RanksOfGroup(spec, 0), SmallCorpus(), TestClock, &keeper);
  auto taker = Trainer::Create(spec, RanksOfGroup(spec, 0), SmallCorpus(), TestClock, &keeper);
  ASSERT_TRUE(giver.ok() && taker.ok());
  StepTo(**giver, 5);
  const auto peers = NewMemoryGroup(2);
  ASSERT_TRUE((*giver)->GiveState(0, *peers[0], 1).ok());
  ASSERT_TRUE((*taker)->TakeState(5, *peers[1], 0).ok());
  EXPECT_EQ((*taker)->step(), 5);
  EXPECT_EQ(EqualHashes(StepTo(**taker, 10)), EqualHashes(StepTo(**giver, 10)))
      << "moments, momentum and start are the giver's";
}

}  // namespace
}  // namespace longhaul
