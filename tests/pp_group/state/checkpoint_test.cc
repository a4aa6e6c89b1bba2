#include "pp_group/state/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = testing::TempDir() + "/checkpoint_" + test->name();
    std::replace(directory_.begin() + testing::TempDir().size() + 1, directory_.end(), '/', '_');
    fs::remove_all(directory_);
  }
  ~CheckpointTest() override { fs::remove_all(directory_); }
  std::string directory_;
};

TrainSpec TwoByTwo() {
  TrainSpec spec = SmallSpec(2, 2);
  spec.outer.codec = "int4-b64-h64+ef";  // state of the error feedback must survive too
  return spec;
}

class KilledAtStep : public CheckpointTest, public testing::WithParamInterface<int64_t> {};

TEST_P(KilledAtStep, AndResumedGivesTheSameBits) {
  const TrainSpec spec = TwoByTwo();
  static const History whole = RunAll(spec);
  History pieces;
  {
    const std::unique_ptr<Trainer> killed = NewTrainer(spec);
    RunSteps(*killed, GetParam(), &pieces);
    ASSERT_TRUE(killed->SaveCheckpoint(directory_).ok());
    History lost;  // steps after the checkpoint that the kill throws away
    if (GetParam() < spec.steps) RunSteps(*killed, 1, &lost);
  }
  const std::unique_ptr<Trainer> resumed = NewTrainer(spec);
  const absl::Status loaded = resumed->LoadCheckpoint(directory_);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(resumed->step(), GetParam());
  RunSteps(*resumed, spec.steps - GetParam(), &pieces);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.hashes, whole.hashes);
}

INSTANTIATE_TEST_SUITE_P(Steps, KilledAtStep, testing::Range<int64_t>(0, 13));

TEST_F(CheckpointTest, RanksThatDisagreeGoBackToTheStepAllOfThemHave) {
  const TrainSpec spec = TwoByTwo();
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 3, &history);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  RunSteps(*trainer, 3, &history);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  // As if a kill had come before the last rank's file was renamed.
  fs::remove(CheckpointPath(directory_, /*group=*/1, /*stage=*/1, /*step=*/6));
  const std::unique_ptr<Trainer> resumed = NewTrainer(spec);
  ASSERT_TRUE(resumed->LoadCheckpoint(directory_).ok());
  EXPECT_EQ(resumed->step(), 3);
}

TEST_F(CheckpointTest, KeepsTheNewestTwoOfEachRankAndNoPartialFile) {
  const TrainSpec spec = TwoByTwo();
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  History history;
  for (int i = 0; i < 4; ++i) {
    RunSteps(*trainer, 1, &history);
    ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  }
  EXPECT_THAT(CheckpointSteps(directory_, 0, 1), testing::ElementsAre(3, 4));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 2 * 4);
}

TEST_F(CheckpointTest, AnyFlippedOrMissingByteIsDataLoss) {
  Checkpoint written{.step = 5, .group = 1, .stage = 2, .spec = "a=1\n", .sections = {}};
  written.sections.emplace_back("x", std::vector<std::byte>(40, std::byte{3}));
  ASSERT_TRUE(WriteCheckpoint(directory_, written).ok());
  const std::string path = CheckpointPath(directory_, 1, 2, 5);
  const auto read = ReadCheckpoint(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec, "a=1\n");
  EXPECT_EQ(read->sections, written.sections);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto status_of = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return ReadCheckpoint(path).status();
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_TRUE(absl::IsDataLoss(status_of(bytes.substr(0, i)))) << "cut to " << i;
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    EXPECT_TRUE(absl::IsDataLoss(status_of(flipped))) << "byte " << i;
  }
  EXPECT_TRUE(status_of(bytes).ok());
}

TEST_F(CheckpointTest, CorruptFileStopsEveryRankAndChangesNothing) {
  const TrainSpec spec = TwoByTwo();
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 2, &history);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  RunSteps(*trainer, 1, &history);
  const std::string path = CheckpointPath(directory_, 0, 1, 2);
  fs::resize_file(path, fs::file_size(path) - 100);
  const absl::Status status = trainer->LoadCheckpoint(directory_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(path));
  RunSteps(*trainer, spec.steps - 3, &history);
  EXPECT_EQ(history.hashes, RunAll(spec).hashes);
}

TEST_F(CheckpointTest, ACorruptNewestFallsBackToTheOneBefore) {
  const TrainSpec spec = TwoByTwo();
  History history;
  {
    const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
    RunSteps(*trainer, 2, &history);
    ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
    RunSteps(*trainer, 1, &history);
    ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  }
  const std::string path = CheckpointPath(directory_, 1, 0, 3);
  fs::resize_file(path, fs::file_size(path) - 1);
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  std::vector<std::string> passed_over;
  const absl::Status status = trainer->LoadCheckpoint(directory_, &passed_over);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(trainer->step(), 2);
  EXPECT_THAT(passed_over, testing::ElementsAre(testing::HasSubstr(path)));
  History rest;
  RunSteps(*trainer, spec.steps - 2, &rest);
  const History whole = RunAll(spec);
  EXPECT_EQ(rest.hashes,
            decltype(rest.hashes)(whole.hashes.end() - rest.hashes.size(), whole.hashes.end()));
}

TEST_F(CheckpointTest, WhereNoneIsWholeTheNewestDamageIsTold) {
  const std::unique_ptr<Trainer> trainer = NewTrainer(TwoByTwo());
  History history;
  for (const int64_t step : {1, 2}) {
    RunSteps(*trainer, 1, &history);
    ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
    fs::resize_file(CheckpointPath(directory_, 0, 0, step), 20);
  }
  const absl::Status status = trainer->LoadCheckpoint(directory_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(CheckpointPath(directory_, 0, 0, 2)));
}

TEST_F(CheckpointTest, AnotherRunsCheckpointIsRefusedWithTheDifference) {
  TrainSpec spec = TwoByTwo();
  ASSERT_TRUE(NewTrainer(spec)->SaveCheckpoint(directory_).ok());
  spec.inner.lr = 4e-3;
  const absl::Status status = NewTrainer(spec)->LoadCheckpoint(directory_);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("lr=0.003"));
}

TEST_F(CheckpointTest, OneFileOfAnotherRunFallsBackToTheOneBefore) {
  const TrainSpec spec = TwoByTwo();
  TrainSpec other = spec;
  other.inner.lr = 4e-3;
  const std::string elsewhere = directory_ + "/other";
  const auto leave = [](const TrainSpec& of, int64_t step, const std::string& folder) {
    const std::unique_ptr<Trainer> trainer = NewTrainer(of);
    History history;
    RunSteps(*trainer, step, &history);
    return trainer->SaveCheckpoint(folder);
  };
  ASSERT_TRUE(leave(spec, 2, directory_).ok());
  ASSERT_TRUE(leave(spec, 4, directory_).ok());
  ASSERT_TRUE(leave(other, 4, elsewhere).ok());
  const std::string path = CheckpointPath(directory_, 1, 0, 4);
  fs::copy_file(CheckpointPath(elsewhere, 1, 0, 4), path, fs::copy_options::overwrite_existing);
  const std::unique_ptr<Trainer> resumed = NewTrainer(spec);
  std::vector<std::string> passed_over;
  const absl::Status loaded = resumed->LoadCheckpoint(directory_, &passed_over);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(resumed->step(), 2);
  EXPECT_THAT(passed_over, testing::ElementsAre(testing::AllOf(testing::HasSubstr(path),
                                                               testing::HasSubstr("lr=0.004"))));
  History rest;
  RunSteps(*resumed, spec.steps - 2, &rest);
  const History whole = RunAll(spec);
  EXPECT_EQ(rest.hashes,
            decltype(rest.hashes)(whole.hashes.end() - rest.hashes.size(), whole.hashes.end()));
}

TEST_F(CheckpointTest, NoneAtAllIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(NewTrainer(TwoByTwo())->LoadCheckpoint(directory_)));
}

TEST_F(CheckpointTest, UnwritableDirectoryNamesItself) {
  std::ofstream(directory_) << "a file where a folder should be";
  const absl::Status status = NewTrainer(SmallSpec(1, 1))->SaveCheckpoint(directory_);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(directory_));
}

}  // namespace
}  // namespace longhaul
