// What lies in a checkpoint and where it goes, piece by piece: every tensor of a rank has a value of
// its own, so that one which is left out, doubled or exchanged shows.
#include <cstring>
#include <filesystem>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/local_rank.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/state/reshard.h"
#include "pp_group/state/resume.h"
#include "pp_group/train_spec.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const std::function<absl::Duration()> kClock = TestClock;

// Remembers one word.
class Word : public ChannelState {
 public:
  explicit Word(std::string word) : word_(std::move(word)) {}
  absl::StatusOr<std::string> Save() override { return word_; }
  absl::Status Check(std::string_view) const override { return absl::OkStatus(); }
  absl::Status Load(std::string_view saved) override {
    word_ = saved;
    return absl::OkStatus();
  }

 private:
  std::string word_;
};

class Sections : public testing::Test {
 protected:
  using Ranks = std::vector<std::unique_ptr<RankState>>;

  Sections()
      : directory_(testing::TempDir() + "/sections_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
    spec_.outer.codec = "fp16+ef";
  }
  ~Sections() override { fs::remove_all(directory_); }

  // The one rank there is; its tensors hold first, first + 1, ..., its residuals 2^-13 of that.
  Ranks RankOf(float first, const std::string& word) const {
    LocalRank rank = MemoryRanks(spec_).front();
    rank.boundary_state = std::make_shared<Word>(word);
    auto state = NewRankState(spec_, rank, &kClock);
    EXPECT_TRUE(state.ok()) << state.status();
    RankState& s = **state;
    const at::Tensor own = at::full_like(s.host_parameters, 1 + first / 8192);  // fp16 keeps the 1
    EXPECT_TRUE(s.outer->exchange().Encode(1, own).ok());
    s.stage->parameters().fill_(first);
    s.optimizer->first_moment().fill_(first + 1);
    s.optimizer->second_moment().fill_(first + 2);
    s.outer->theta_start().fill_(first + 3);
    s.outer->state()[0].second.fill_(first + 4);
    Ranks ranks;
    ranks.push_back(*std::move(state));
    return ranks;
  }

  static std::vector<float> Floats(const Checkpoint& checkpoint, const std::string& name) {
    const auto bytes = checkpoint.Section(name);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    std::vector<float> values(bytes->size() / sizeof(float));
    std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
    return values;
  }
  static void ExpectHolds(const RankState& s, float first) {
    const auto all = [](const at::Tensor& x, float value) {
      return x.eq(value).all().item<bool>();
    };
    EXPECT_TRUE(all(s.stage->parameters(), first));
    EXPECT_TRUE(all(s.optimizer->first_moment(), first + 1));
    EXPECT_TRUE(all(s.optimizer->second_moment(), first + 2));
    EXPECT_TRUE(all(s.outer->theta_start(), first + 3));
    EXPECT_TRUE(all(s.outer->state()[0].second, first + 4));
  }

  TrainSpec spec_ = [] {
    TrainSpec spec = SmallSpec(1, 1);
    spec.outer.inner_steps = 5;
    return spec;
  }();
  const std::string directory_;
};

TEST_F(Sections, HoldEachTensorUnderItsName) {
  const Checkpoint checkpoint = (*CheckpointsOf(RankOf(10, "ten"), 7, "of=me\n")).front();
  EXPECT_EQ(checkpoint.step, 7);
  EXPECT_EQ(checkpoint.spec, "of=me\n");
  std::vector<std::string> names;
  for (const auto& [name, bytes] : checkpoint.sections) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("parameters", "adamw.first_moment", "adamw.second_moment",
                                 "outer.theta_start", "outer.momentum", "outer.codec_state",
                                 "boundary.channels"));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(Floats(checkpoint, names[i]), Each(10 + static_cast<float>(i))) << names[i];
  }
  const auto word = *checkpoint.Section("boundary.channels");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(word.data()), word.size()), "ten");
}

TEST_F(Sections, ComeBackWhereTheyWere) {
  const Ranks saved = RankOf(10, "ten");
  ASSERT_TRUE(WriteCheckpoint(directory_, (*CheckpointsOf(saved, 7, "t")).front()).ok());
  const Ranks ranks = RankOf(30, "thirty");
  ASSERT_NE(ranks[0]->outer->exchange().SaveCodecState(),
            saved[0]->outer->exchange().SaveCodecState());
  const auto loaded = LoadRanks(ranks, directory_, "t");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->step, 7);
  ExpectHolds(*ranks[0], 10);
  EXPECT_EQ(ranks[0]->outer->exchange().SaveCodecState(),
            saved[0]->outer->exchange().SaveCodecState());
  EXPECT_EQ(*ranks[0]->rank.boundary_state->Save(), "ten");
}

TEST_F(Sections, ComeBackThroughAnotherLayoutsReaderToo) {
  const std::string text = CanonicalText(spec_, *SmallCorpus());
  const Ranks saved = RankOf(10, "ten");
  ASSERT_TRUE(WriteCheckpoint(directory_, (*CheckpointsOf(saved, 7, text)).front()).ok());
  const Ranks ranks = RankOf(30, "thirty");
  const auto restored = RestoreRanks(ranks, directory_, spec_, text);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->step, 7);
  const RankState& s = *ranks[0];
  // Parameter by parameter: the gaps between them are zero.
  const at::Tensor tensors[] = {s.stage->parameters(), s.optimizer->first_moment(),
                                s.optimizer->second_moment(), s.outer->theta_start(),
                                s.outer->state()[0].second};
  for (size_t i = 0; i < std::size(tensors); ++i) {
    for (const ParameterSlot& slot : s.stage->layout().slots) {
      EXPECT_TRUE(tensors[i]
                      .narrow(0, slot.offset, slot.elements())
                      .eq(10 + static_cast<float>(i))
                      .all()
                      .item<bool>())
          << i << " " << slot.name;
    }
  }
  EXPECT_EQ(s.outer->exchange().SaveCodecState(), saved[0]->outer->exchange().SaveCodecState());
  EXPECT_EQ(*s.rank.boundary_state->Save(), "ten");
}

TEST_F(Sections, OneThatIsMissingOrOfAnotherLengthIsTheNamedReasonAndNothingChanges) {
  const Checkpoint whole = (*CheckpointsOf(RankOf(10, "ten"), 7, "t")).front();
  for (const auto& [name, bytes] : whole.sections) {
    for (const bool gone : {true, false}) {
      if (!gone && name == "boundary.channels") continue;  // its length is the backend's affair
      Checkpoint bad = whole;
      for (auto section = bad.sections.begin(); section != bad.sections.end(); ++section) {
        if (section->first != name) continue;
        if (!gone) section->second.resize(section->second.size() - 4);
        if (gone) bad.sections.erase(section);
        break;
      }
      ASSERT_TRUE(WriteCheckpoint(directory_, bad).ok());
      const Ranks ranks = RankOf(30, "thirty");
      const absl::Status status = LoadRanks(ranks, directory_, "t").status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
      ExpectHolds(*ranks[0], 30);
      EXPECT_EQ(*ranks[0]->rank.boundary_state->Save(), "thirty");
    }
  }
}

TEST_F(Sections, AFileUnderAnotherRanksOrStepsNameIsNoticed) {
  for (const auto& [step, group, stage] : {std::tuple{8, 0, 0}, {7, 1, 0}, {7, 0, 1}}) {
    Checkpoint checkpoint = (*CheckpointsOf(RankOf(10, "ten"), 7, "t")).front();
    checkpoint.step = step, checkpoint.group = group, checkpoint.stage = stage;
    fs::remove_all(directory_);
    ASSERT_TRUE(WriteCheckpoint(directory_, checkpoint).ok());
    fs::rename(CheckpointPath(directory_, group, stage, step), CheckpointPath(directory_, 0, 0, 7));
    const absl::Status status = LoadRanks(RankOf(30, "thirty"), directory_, "t").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("renamed?"));
  }
}

// How a run goes on shows every piece: each is altered alone.
TEST_F(Sections, EveryPieceMattersToWhatComesAfter) {
  TrainSpec spec = SmallSpec(1, 2);
  spec.outer = {.inner_steps = 2, .lr = 0.6, .momentum = 0.8, .codec = "int4-b64+ef"};
  spec.steps = 6;
  const auto trainer = NewTrainer(spec);
  History before;
  RunSteps(*trainer, 3, &before);
  const std::vector<Checkpoint> saved = *trainer->Snapshot();
  const auto rest_of = [&](const std::string& altered) {
    for (Checkpoint checkpoint : saved) {
      for (auto& [name, bytes] : checkpoint.sections) {
        if (name != altered || checkpoint.group != 0) continue;
        for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
          float value = 0;
          std::memcpy(&value, &bytes[at], 4);
          value *= 1.5F;
          std::memcpy(&bytes[at], &value, 4);
        }
      }
      EXPECT_TRUE(WriteCheckpoint(directory_, checkpoint).ok());
    }
    const auto resumed = NewTrainer(spec);
    const absl::Status loaded = resumed->LoadCheckpoint(directory_);
    EXPECT_TRUE(loaded.ok()) << loaded;
    History rest;
    RunSteps(*resumed, 3, &rest);
    return rest;
  };
  History whole;
  RunSteps(*trainer, 3, &whole);
  EXPECT_EQ(rest_of("none of them").hashes, whole.hashes);
  for (const char* name : {"parameters", "adamw.first_moment", "adamw.second_moment",
                           "outer.theta_start", "outer.momentum"}) {
    EXPECT_NE(rest_of(name).hashes, whole.hashes) << name;
  }
}

// The first step of a run that goes on reads the rows of the step that it says, at its rate.
TEST_F(Sections, TheStepSaysWhichRowsAndWhichRateComeNext) {
  TrainSpec spec = SmallSpec(1, 1);
  spec.inner.warmup_steps = 0;
  const auto after = [&](int64_t step) {
    Checkpoint checkpoint = NewTrainer(spec)->Snapshot()->front();
    checkpoint.step = step;
    fs::remove_all(directory_);
    EXPECT_TRUE(WriteCheckpoint(directory_, checkpoint).ok());
    const auto trainer = NewTrainer(spec);
    EXPECT_TRUE(trainer->LoadCheckpoint(directory_).ok());
    const auto reports = *trainer->Step();
    EXPECT_EQ(reports.front().step, step + 1);
    return std::pair(*reports.front().loss, reports.front().parameter_hash.value());
  };
  const auto zero = after(0), three = after(3), ten = after(10);
  EXPECT_NE(zero.first, three.first) << "other rows, equal parameters";
  EXPECT_NE(three.first, ten.first);
  const History fresh = [&] {
    TrainSpec one = spec;
    one.steps = 1;
    return RunAll(one);
  }();
  EXPECT_EQ(zero.first, fresh.losses[0]);
}

}  // namespace
}  // namespace longhaul
