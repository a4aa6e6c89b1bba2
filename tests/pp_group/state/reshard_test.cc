// Checkpoints of another layout: other stages, cuts, groups; and what is refused.
#include "pp_group/state/reshard.h"

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/train_spec.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Reshard : public testing::Test {
 protected:
  Reshard()
      : directory_(testing::TempDir() + "/reshard_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
  }
  ~Reshard() override { fs::remove_all(directory_); }
  // Trains to each of these steps and leaves a checkpoint there; then to the end.
  History Leave(const TrainSpec& spec, const std::vector<int64_t>& steps) const {
    History history;
    const auto trainer = NewTrainer(spec);
    for (const int64_t step : steps) {
      RunSteps(*trainer, step - trainer->step(), &history);
      EXPECT_TRUE(trainer->SaveCheckpoint(directory_).ok());
    }
    RunSteps(*trainer, spec.steps - trainer->step(), &history);
    return history;
  }
  const std::string directory_;
};

// The losses of all groups after the first `step` steps.
std::vector<double> LossesAfter(const History& history, int64_t step, int groups) {
  return {history.losses.begin() + step * groups, history.losses.end()};
}

std::vector<float> Section(const Checkpoint& checkpoint, const std::string& name) {
  const auto bytes = checkpoint.Section(name);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return {};
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

TEST_F(Reshard, AnyNumberOfStagesAndAnyCutsGoOnWithEqualLosses) {
  for (const std::string& model : SmallModels()) {
    for (const int64_t step : {5, 7}) {  // after an outer step, and in the middle of a round
      SCOPED_TRACE(testing::Message() << model << ", step " << step);
      fs::remove_all(directory_);
      const History whole = Leave(SmallSpec(2, 2, model), {step});
      TrainSpec uneven = SmallSpec(3, 2, model);
      uneven.cuts = {1, 6};
      for (const TrainSpec& spec : {SmallSpec(4, 2, model), SmallSpec(1, 2, model), uneven}) {
        const auto trainer = NewTrainer(spec);
        const auto restored = trainer->RestoreFrom(directory_);
        ASSERT_TRUE(restored.ok()) << restored.status();
        EXPECT_EQ(restored->step, step);
        EXPECT_THAT(restored->changes, HasSubstr(absl::StrCat("stages=2 > ", spec.stages)));
        EXPECT_THAT(restored->passed_over, IsEmpty());
        History rest;
        RunSteps(*trainer, spec.steps - step, &rest);
        EXPECT_EQ(rest.losses, LossesAfter(whole, step, 2)) << spec.stages << " stages";
      }
    }
  }
}

TEST_F(Reshard, TheSameLayoutGoesOnWithEveryBitAndTheOuterCodecsMemory) {
  TrainSpec spec = SmallSpec(2, 2);
  spec.outer.codec = "int4-b64-h64+ef";
  const History whole = Leave(spec, {5});
  const auto same = NewTrainer(spec);
  const auto restored = same->RestoreFrom(directory_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->changes, "");
  EXPECT_THAT(restored->dropped, IsEmpty());
  History rest;
  RunSteps(*same, spec.steps - 5, &rest);
  EXPECT_EQ(rest.hashes.back(), whole.hashes.back());
  EXPECT_EQ(rest.losses, LossesAfter(whole, 5, 2));
  // Over other stages the residuals are other blocks': left behind, and said.
  TrainSpec other = SmallSpec(4, 2);
  other.outer.codec = spec.outer.codec;
  const auto told = NewTrainer(other)->RestoreFrom(directory_);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(told->dropped, ElementsAre("what the outer codec remembered"));
}

TEST_F(Reshard, MoreGroupsStartFromTheOuterStateAndFewerLeaveTheRestBehind) {
  Leave(SmallSpec(2, 2), {5});
  const Checkpoint old0 = *ReadCheckpoint(CheckpointPath(directory_, 0, 1, 5));
  const Checkpoint old1 = *ReadCheckpoint(CheckpointPath(directory_, 1, 1, 5));
  ASSERT_NE(Section(old0, "adamw.first_moment"), Section(old1, "adamw.first_moment"));
  const TrainSpec three = SmallSpec(2, 3);
  const auto trainer = NewTrainer(three);
  const auto restored = trainer->RestoreFrom(directory_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->dropped,
              ElementsAre("AdamW's moments of groups that were not there: groups from 2 on have "
                          "group 0's"));
  const std::vector<Checkpoint> now = *trainer->Snapshot();  // by group, then stage
  ASSERT_EQ(now.size(), 6u);
  for (const char* name : {"parameters", "outer.theta_start", "outer.momentum"}) {
    for (const size_t i : {1, 3, 5}) EXPECT_EQ(Section(now[i], name), Section(old0, name)) << name;
  }
  for (const char* name : {"adamw.first_moment", "adamw.second_moment"}) {
    EXPECT_EQ(Section(now[1], name), Section(old0, name));
    EXPECT_EQ(Section(now[3], name), Section(old1, name));
    EXPECT_EQ(Section(now[5], name), Section(old0, name));
  }
  History rest;
  RunSteps(*trainer, three.steps - 5, &rest);  // and they train together to the end
  for (const size_t i : {1, 3, 5}) EXPECT_EQ(rest.hashes.back()[i], rest.hashes.back()[1]);
  TrainSpec one = SmallSpec(8, 1);
  const auto alone = NewTrainer(one)->RestoreFrom(directory_);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(alone->dropped, ElementsAre("AdamW's moments of groups from 1 on"));
}

TEST_F(Reshard, OneGroupWithoutOuterStepsBecomesSeveral) {
  Leave(SmallSpec(4, 1), {3});
  const Checkpoint old = *ReadCheckpoint(CheckpointPath(directory_, 0, 0, 3));
  const TrainSpec two = SmallSpec(4, 2);
  const auto trainer = NewTrainer(two);
  ASSERT_TRUE(trainer->RestoreFrom(directory_).ok());
  const std::vector<Checkpoint> now = *trainer->Snapshot();
  for (const size_t i : {0, 4}) {
    EXPECT_EQ(Section(now[i], "outer.theta_start"), Section(old, "parameters"));
    EXPECT_THAT(Section(now[i], "outer.momentum"), testing::Each(0.0f));
  }
}

TEST_F(Reshard, AnotherNumberOfGroupsInTheMiddleOfARoundIsRefused) {
  Leave(SmallSpec(2, 2), {7});
  const auto trainer = NewTrainer(SmallSpec(2, 3));
  const absl::Status status = trainer->RestoreFrom(directory_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("between two outer steps (H = 5)"), HasSubstr("3 groups")));
  EXPECT_EQ(trainer->step(), 0);
}

TEST_F(Reshard, AnotherModelOrOtherDataOrALaterStepIsRefusedInOneLine) {
  Leave(SmallSpec(2, 1), {6});
  const auto refusal = [&](const TrainSpec& spec, absl::StatusCode code) {
    const auto trainer = NewTrainer(spec);
    const absl::Status status = trainer->RestoreFrom(directory_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    const std::string text = CanonicalText(spec, *SmallCorpus());
    EXPECT_EQ(CheckRestorable(directory_, spec, text).message(), status.message());
    return std::string(status.message());
  };
  TrainSpec spec = SmallSpec(2, 1);
  spec.model.width = 64;
  EXPECT_THAT(refusal(spec, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("group0-stage0-step6.ckpt is of another model"),
                    HasSubstr("width = 32, and this run's is 64")));
  spec = SmallSpec(2, 1, "llama_aten");
  EXPECT_THAT(refusal(spec, absl::StatusCode::kInvalidArgument),
              HasSubstr("kind = gpt, and this run's is llama"));
  spec = SmallSpec(4, 1);
  spec.steps = 5;
  EXPECT_THAT(refusal(spec, absl::StatusCode::kFailedPrecondition),
              HasSubstr("later step than this run's last one, 5"));
  spec = SmallSpec(4, 1);
  std::string text = CanonicalText(spec, *SmallCorpus());
  const size_t at = text.find("train_sha256=");
  text.replace(at, std::string::npos, "train_sha256=00\n");
  EXPECT_THAT(std::string(CheckRestorable(directory_, spec, text).message()),
              HasSubstr("is of other data"));
}

// A checkpoint says whether a GPU has made it, and not which.
TEST_F(Reshard, WhichGpuMadeACheckpointIsNoPartOfIt) {
  TrainSpec spec = SmallSpec(2, 1, "llama_aten");
  const auto text_on = [&](const char* device) {
    spec.stage_compute.device = device;
    return CanonicalText(spec, *SmallCorpus());
  };
  EXPECT_EQ(text_on("cuda:*"), text_on("cuda:3"));
  EXPECT_EQ(text_on("cuda:*"), text_on("cuda"));
  EXPECT_NE(text_on("cuda:*"), text_on("cpu"));
}

TEST_F(Reshard, ADamagedOrMissingFileOfTheNewestStepMakesAllGoOnFromTheOneBefore) {
  const History whole = Leave(SmallSpec(2, 2), {4, 6});
  const std::string path = CheckpointPath(directory_, 1, 1, 6);
  fs::resize_file(path, fs::file_size(path) - 1);
  const TrainSpec spec = SmallSpec(4, 2);
  const auto trainer = NewTrainer(spec);
  const auto restored = trainer->RestoreFrom(directory_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->step, 4);
  EXPECT_THAT(restored->passed_over, ElementsAre(HasSubstr("group1-stage1-step6.ckpt")));
  History rest;
  RunSteps(*trainer, spec.steps - 4, &rest);
  EXPECT_EQ(rest.losses, LossesAfter(whole, 4, 2));
  fs::remove(path);
  EXPECT_EQ(NewTrainer(spec)->RestoreFrom(directory_)->step, 4);
  for (const int stage : {0, 1}) fs::remove(CheckpointPath(directory_, 1, stage, 4));
  const auto none = NewTrainer(spec);
  EXPECT_TRUE(absl::IsNotFound(none->RestoreFrom(directory_).status()) ||
              absl::IsDataLoss(none->RestoreFrom(directory_).status()));
  History fresh;
  RunSteps(*none, spec.steps, &fresh);
  EXPECT_EQ(fresh.losses, RunAll(spec).losses) << "something had been loaded";
  EXPECT_TRUE(absl::IsNotFound(NewTrainer(spec)->RestoreFrom(directory_ + "/none").status()));
}

}  // namespace
}  // namespace longhaul
