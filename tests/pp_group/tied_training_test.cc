// A head that is the embedding, over several stages: both ends hold it, and nobody can tell it from
// the model in one stage.

#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "compressors/catalog.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/local_rank.h"
#include "pp_group/models/model.h"
#include "pp_group/outer/group_average.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/schedule/catalog.h"
#include "tests/pp_group/loopback_ranks.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Rates and norms that matter: all clip groups are clipped, and decay moves the matrix.
TrainSpec TiedSpec(int stages, int groups, const std::string& kind = "llama") {
  TrainSpec spec = SmallSpec(stages, groups, kind + "_aten");
  spec.model.tied_head = true;
  spec.inner.clip_norm = 0.05;
  spec.inner.weight_decay = 0.3;
  spec.inner.eps = 1e-3;
  spec.inner.lr = 2e-2;
  return spec;
}

std::vector<float> Section(const Checkpoint& rank, const std::string& name) {
  const auto bytes = rank.Section(name);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return {};
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

// What every rank of a group holds, by the parameter's name; of two copies, which must be equal, one.
std::map<std::string, std::vector<float>> ByName(const TrainSpec& spec,
                                                 const std::vector<Checkpoint>& ranks, int group,
                                                 const std::string& section) {
  std::map<std::string, std::vector<float>> values;
  for (const Checkpoint& rank : ranks) {
    if (rank.group != group) continue;
    const std::vector<float> flat = Section(rank, section);
    const StageLayout layout = LayoutOf(OnExpertRank(spec.model, group), rank.stage, spec.stages);
    for (const ParameterSlot& slot : layout.slots) {
      const auto begin = flat.begin() + slot.offset;
      const std::vector<float> own(begin, begin + slot.elements());
      const auto [at, added] = values.emplace(slot.name, own);
      EXPECT_EQ(added, !layout.IsCopy(slot)) << slot.name;
      EXPECT_EQ(std::memcmp(at->second.data(), own.data(), own.size() * sizeof(float)), 0)
          << section << " of " << slot.name << " on stage " << rank.stage << " after step "
          << rank.step;
    }
  }
  return values;
}

// Every section of floats of every group: copies are equal.
void ExpectEqualCopies(const TrainSpec& spec, const std::vector<Checkpoint>& ranks, int from = 0) {
  for (int g = from; g < from + spec.groups; ++g) {
    for (const auto& [name, content] : ranks.front().sections) {
      if (name == "outer.codec_state" || name == "boundary.channels") continue;
      EXPECT_GT(ByName(spec, ranks, g, name).count("embedding.token"), 0u);
    }
  }
}

struct Trained {
  History history;
  std::vector<double> evaluations;  // codec off, codec on
  std::vector<Checkpoint> ranks;    // at the end
};

void Finish(const TrainSpec& spec, Trainer& trainer, Trained* trained) {
  RunSteps(trainer, spec.steps - trainer.step(), &trained->history);
  for (const BoundaryCodec codec : {BoundaryCodec::kOff, BoundaryCodec::kOn}) {
    const auto evaluation = trainer.Evaluate(codec, 6);
    EXPECT_TRUE(evaluation.ok()) << evaluation.status();
    if (evaluation.ok() && *evaluation) trained->evaluations.push_back((*evaluation)->loss);
  }
  auto ranks = trainer.Snapshot();
  EXPECT_TRUE(ranks.ok()) << ranks.status();
  if (ranks.ok()) trained->ranks = *std::move(ranks);
}

Trained Train(const TrainSpec& spec) {
  Trained trained;
  const auto trainer = NewTrainer(spec);
  if (trainer != nullptr) Finish(spec, *trainer, &trained);
  return trained;
}

void ExpectTheUnsplitModel(const TrainSpec& spec, const Trained& whole) {
  const Trained split = Train(spec);
  EXPECT_EQ(split.history.losses, whole.history.losses);
  EXPECT_EQ(split.evaluations, whole.evaluations);
  ASSERT_EQ(split.ranks.size(), static_cast<size_t>(spec.stages * spec.groups));
  TrainSpec one = spec;
  one.stages = 1;
  for (int g = 0; g < spec.groups; ++g) {
    for (const auto& [section, content] : whole.ranks.front().sections) {
      if (section == "outer.codec_state") continue;
      EXPECT_EQ(ByName(spec, split.ranks, g, section), ByName(one, whole.ranks, g, section));
    }
  }
}

class Tied : public testing::TestWithParam<std::string> {};

TEST_P(Tied, AnyNumberOfStagesAndAnyScheduleHaveTheBitsOfOneStage) {
  const Trained whole = Train(TiedSpec(1, 1, GetParam()));
  EXPECT_LT(whole.history.losses.back(), whole.history.losses.front() - 0.1)
      << "nothing was learnt";
  for (const std::string& schedule : FlushedScheduleNames()) {
    for (const int stages : {2, 4, 8}) {
      if (stages != 4 && schedule != "1f1b") continue;
      SCOPED_TRACE(absl::StrCat(schedule, " in ", stages));
      ExpectTheUnsplitModel(With(TiedSpec(stages, 1, GetParam()), schedule), whole);
    }
  }
}

TEST_P(Tied, Bfloat16AndRecomputationHaveThemToo) {
  TrainSpec one = TiedSpec(1, 1, GetParam());
  one.stage_compute = {.dtype = "bfloat16", .recompute = true};
  const Trained whole = Train(one);
  TrainSpec four = TiedSpec(4, 1, GetParam());
  four.stage_compute.dtype = "bfloat16";
  ExpectTheUnsplitModel(four, whole);
}

TEST_P(Tied, GroupsThatMeetHaveThemToo) {
  for (const std::string algorithm : {"diloco", "dp"}) {
    const auto with = [&](int stages) {
      TrainSpec spec = TiedSpec(stages, 2, GetParam());
      spec.outer.algorithm = algorithm;
      if (algorithm == "dp") spec.outer.inner_steps = 0;
      return spec;
    };
    const Trained whole = Train(with(1));
    for (const int stages : {2, 4}) ExpectTheUnsplitModel(with(stages), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tied, testing::Values("llama", "moe"),
                         [](auto& info) { return info.param; });

// Rates are small and nothing is clipped: what both ends add is what moves the matrix.
TEST(TiedTraining, AHeadOfItsOwnIsAnotherModel) {
  TrainSpec untied = TiedSpec(2, 1);
  untied.model.tied_head = false;
  EXPECT_NE(RunAll(untied).losses, RunAll(TiedSpec(2, 1)).losses);
}

CodecPolicy Lossy() {
  CodecPolicy policy;
  policy.forward = policy.backward = "int4-b64-h64+ef";
  policy.min_elements = 1;
  return policy;
}

std::vector<std::string> OuterCodecs() {
  std::vector<std::string> names = {"int4-b64-h64+ef", "int8-b64+sr", "int4-b64+sr+ef95",
                                    "topk-4of64+int8-b64+ef", "randk-4of64+none+ef"};
  for (const std::string& name : CodecNames()) names.push_back(name);
  for (const std::string& name : ParametricExamples()) names.push_back(name + "+ef");
  std::erase_if(names, [](const std::string& name) {
    const auto codec = MakeCodec(name);
    return !codec.ok() || !CheckOuterCodec(**codec).ok();
  });
  return names;
}

// The part of a stage's saved codec states that is of the tied matrix: first on the first stage,
// last on the last, each behind its length.
std::string TiedState(const Checkpoint& rank) {
  const auto saved = rank.Section("outer.codec_state");
  EXPECT_TRUE(saved.ok());
  const std::string all(reinterpret_cast<const char*>(saved->data()), saved->size());
  if (all.empty()) return "";
  uint64_t first = 0, last = 0;
  std::memcpy(&first, all.data(), 8);
  std::memcpy(&last, all.data() + 8 + first, 8);
  EXPECT_EQ(all.size(), 16 + first + last);
  return rank.stage == 0 ? all.substr(8, first) : all.substr(16 + first);
}

TEST(TiedTraining, CopiesAreEqualAfterEveryStepWhateverTheOuterCodec) {
  int with_memory = 0, tried = 0;
  for (const std::string& codec : OuterCodecs()) {
    for (const bool data_parallel : {false, true}) {
      SCOPED_TRACE(absl::StrCat(codec, data_parallel ? ", dp" : ""));
      TrainSpec spec = TiedSpec(2, 2);
      spec.model.blocks = 2;
      spec.steps = 3;
      spec.outer = {.inner_steps = data_parallel ? 0 : 1, .codec = codec};
      if (data_parallel) spec.outer.algorithm = "dp";
      const auto trainer =
          Trainer::Create(spec, LoopbackRanks(spec, Lossy(), 4), SmallCorpus(), TestClock);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      for (int64_t step = 1; step <= spec.steps; ++step) {
        ASSERT_TRUE((*trainer)->Step().ok());
        const auto ranks = (*trainer)->Snapshot();
        ASSERT_TRUE(ranks.ok()) << ranks.status();
        ExpectEqualCopies(spec, *ranks);
        for (const size_t first : {0, 2}) {
          EXPECT_EQ(TiedState((*ranks)[first]), TiedState((*ranks)[first + 1]));
        }
        with_memory += !TiedState(ranks->front()).empty();
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 40);
  EXPECT_GT(with_memory, 20);
}

// As processes have it: every rank with a thread and a trainer of its own. Both ends of one group that
// meets no other have one matrix in one process.
class TiedProcesses : public testing::TestWithParam<int> {};

TEST_P(TiedProcesses, RanksOfTheirOwnHaveTheBitsOfOneProcess) {
  at::set_num_threads(1);
  TrainSpec spec = TiedSpec(4, GetParam());
  spec.outer.codec = "int4-b64-h64+ef";
  const History together = RunOver(spec, LoopbackRanks(spec, Lossy(), 4));
  SmallCorpus();
  const std::vector<LocalRank> ranks = LoopbackRanks(spec, Lossy(), 4);
  std::vector<History> apart(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { apart[i] = RunOver(spec, {ranks[i]}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < ranks.size(); ++i) {
    ASSERT_EQ(apart[i].hashes.size(), together.hashes.size());
    for (size_t step = 0; step < together.hashes.size(); ++step) {
      EXPECT_EQ(apart[i].hashes[step].front(), together.hashes[step][i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, TiedProcesses, testing::Values(1, 2));

TEST(TiedTraining, EveryOptimizerMovesTheMatrixOnce) {
  for (const std::string optimizer : {"muon", "sgd", "plain-sgd", "sign-sgd"}) {
    SCOPED_TRACE(optimizer);
    const auto with = [&](int stages) {
      TrainSpec spec = TiedSpec(stages, 1);
      spec.inner.optimizer = optimizer;
      return spec;
    };
    ExpectTheUnsplitModel(with(2), Train(with(1)));
  }
}

TEST(TiedTraining, BothStagesOfAProcessHoldOneMatrixAndItsMoments) {
  const TrainSpec spec = TiedSpec(4, 1);
  const std::vector<LocalRank> ranks = MemoryRanks(spec);
  const std::function<absl::Duration()> now = TestClock;
  const auto flats = FlatsOfTiedStages(spec);
  const auto first = NewRankState(spec, ranks.front(), &now, nullptr, nullptr, &flats.first);
  const auto last = NewRankState(spec, ranks.back(), &now, nullptr, nullptr, &flats.second);
  ASSERT_TRUE(first.ok() && last.ok());
  const auto place = [](const RankState& state, const at::Tensor& flat) {
    return flat.const_data_ptr<float>() + state.stage->layout().tied->begin;
  };
  EXPECT_EQ(place(**first, (*first)->stage->parameters()),
            place(**last, (*last)->stage->parameters()));
  EXPECT_EQ(place(**first, (*first)->optimizer->first_moment()),
            place(**last, (*last)->optimizer->first_moment()));
  EXPECT_EQ(place(**first, (*first)->optimizer->second_moment()),
            place(**last, (*last)->optimizer->second_moment()));
  EXPECT_NE(place(**first, (*first)->stage->gradients()),
            place(**last, (*last)->stage->gradients()));
  const auto whole = NewRankState(spec, ranks.back(), &now);
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE((*whole)->stage->parameters().equal((*last)->stage->parameters()));
}

TEST(TiedTraining, SpreadExpertsKeepBothCopiesEqualInAnyNumberOfStages) {
  const auto with = [](int stages) {
    TrainSpec spec = TiedSpec(stages, 2, "moe");
    spec.model.expert_parallel = 2;
    spec.model.blocks = 2;
    spec.outer = {.inner_steps = 0, .algorithm = "dp"};
    return spec;
  };
  const History whole = RunOver(with(1), LoopbackRanks(with(1), {}));
  EXPECT_EQ(RunOver(with(2), LoopbackRanks(with(2), {})).losses, whole.losses);
  TrainSpec spec = with(2);
  spec.outer.codec = "int4-b64-h64+ef";
  const auto trainer =
      Trainer::Create(spec, LoopbackRanks(spec, Lossy(), 4), SmallCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*trainer)->Step().ok());
    ExpectEqualCopies(spec, *(*trainer)->Snapshot());
  }
}

class TiedFiles : public testing::Test {
 protected:
  TiedFiles()
      : directory_(testing::TempDir() + "/tied_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
  }
  ~TiedFiles() override { fs::remove_all(directory_); }
  const std::string directory_;
};

TEST_F(TiedFiles, AResumedRunHasEveryBitOfOneThatWentOn) {
  TrainSpec spec = TiedSpec(4, 2);
  spec.outer.codec = "int4-b64-h64+ef";
  Trained whole, resumed;
  const auto trainer = NewTrainer(spec);
  RunSteps(*trainer, 7, &whole.history);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  Finish(spec, *trainer, &whole);
  const auto again = NewTrainer(spec);
  const absl::Status loaded = again->LoadCheckpoint(directory_);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(again->step(), 7);
  Finish(spec, *again, &resumed);
  EXPECT_EQ(resumed.history.hashes.back(), whole.history.hashes.back());
  EXPECT_EQ(resumed.evaluations, whole.evaluations);
}

TEST_F(TiedFiles, AnotherNumberOfStagesGoesOnWithEqualLosses) {
  for (const int left : {1, 2, 4}) {
    fs::remove_all(directory_);
    const TrainSpec from = TiedSpec(left, 2);
    Trained whole;
    const auto trainer = NewTrainer(from);
    RunSteps(*trainer, 7, &whole.history);
    ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
    whole.history.losses.clear();
    Finish(from, *trainer, &whole);
    for (const int stages : {1, 2, 8}) {
      SCOPED_TRACE(absl::StrCat(left, " > ", stages));
      const TrainSpec spec = TiedSpec(stages, 2);
      const auto restored = NewTrainer(spec);
      const auto taken = restored->RestoreFrom(directory_);
      ASSERT_TRUE(taken.ok()) << taken.status();
      Trained rest;
      Finish(spec, *restored, &rest);
      EXPECT_EQ(rest.history.losses, whole.history.losses);
      EXPECT_EQ(rest.evaluations, whole.evaluations);
      ExpectEqualCopies(spec, rest.ranks);
    }
  }
}

TEST(TiedTraining, AJoiningGroupHoldsBothCopiesEqual) {
  TrainSpec spec = TiedSpec(2, 3);
  spec.outer.codec = "int4-b64-h64+ef";
  const auto trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 5, &history);
  trainer->LoseGroup(1);
  const auto two = trainer->Snapshot();
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 4u);
  std::vector<LocalRank> fresh = MemoryRanks(spec);
  std::erase_if(fresh, [](const LocalRank& rank) { return rank.group != 1; });
  for (const std::vector<int>& givers : {std::vector<int>{}, {0, 2}}) {
    ASSERT_TRUE(trainer->AddGroup(fresh, givers).ok());
    const auto ranks = trainer->Snapshot();
    ASSERT_TRUE(ranks.ok());
    ExpectEqualCopies(spec, *ranks);
    trainer->LoseGroup(1);
  }
}

// The two ends of a joiner, each in a process of its own, of which one lost a giver.
TEST_F(TiedFiles, AJoinerThatLostAGiverOnOneStageHoldsBothCopiesEqual) {
  at::set_num_threads(1);
  const TrainSpec spec = TiedSpec(2, 3);
  const auto members = NewTrainer(spec);
  History history;
  RunSteps(*members, 5, &history);
  std::vector<LocalRank> ranks = MemoryRanks(spec);
  std::erase_if(ranks, [](const LocalRank& rank) { return rank.group != 1; });
  std::vector<Checkpoint> joined(2);
  std::vector<std::thread> ends;
  for (int stage = 0; stage < 2; ++stage) {
    const std::string folder = absl::StrCat(directory_, "/", stage);
    fs::create_directories(folder);
    for (const int giver : {0, 1}) {
      ASSERT_TRUE(members->WriteState(stage, giver, 2, folder).ok());
    }
    ends.emplace_back([&, stage, folder] {
      const auto trainer = Trainer::Create(spec, {ranks[stage]}, SmallCorpus(), TestClock);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      const absl::Status read = (*trainer)->ReadState(5, {false, stage == 1}, folder);
      ASSERT_TRUE(read.ok()) << read;
      joined[stage] = (*trainer)->Snapshot()->front();
    });
  }
  for (std::thread& end : ends) end.join();
  ExpectEqualCopies(TiedSpec(2, 1), joined, 1);
  const auto moments = ByName(spec, joined, 1, "adamw.first_moment");
  EXPECT_GT(std::count(moments.at("norm.weight").begin(), moments.at("norm.weight").end(), 0.0f),
            0);
}

TEST(TiedTraining, AnEndWithoutTheOtherIsRefused) {
  const TrainSpec spec = TiedSpec(3, 1);
  TrainSpec uneven = spec;
  uneven.cuts = {1, 6};
  std::vector<LocalRank> ranks = MemoryRanks(uneven);
  EXPECT_EQ(ranks[1].tied, nullptr);
  ranks[2].tied = nullptr;
  const absl::Status missing = Trainer::Create(uneven, ranks, SmallCorpus(), TestClock).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("stage 2: no tied backend"));
  ranks[2].tied = ranks[0].tied;
  const absl::Status swapped = Trainer::Create(uneven, ranks, SmallCorpus(), TestClock).status();
  EXPECT_THAT(std::string(swapped.message()),
              HasSubstr("tied backend is rank 0 of 2, want 1 of 2"));
}

}  // namespace
}  // namespace longhaul
