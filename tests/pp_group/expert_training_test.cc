// Training with experts that are spread over groups, against the same model with all experts in
// each group, and in one process against ranks of their own.

#include <filesystem>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/models/model.h"
#include "tests/pp_group/loopback_ranks.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kEvalRows = 6;

TrainSpec MoeSpec(int stages, int groups, int64_t expert_parallel) {
  return {.model = {.blocks = 2,
                    .width = 32,
                    .heads = 2,
                    .context = 16,
                    .vocab = 256,
                    .kind = "moe",
                    .kv_heads = 1,
                    .hidden = 64,
                    .experts = 4,
                    .expert_parallel = expert_parallel},
          .stages = stages,
          .groups = groups,
          .schedule = "1f1b",
          .microbatches = 2,
          .batch_rows = 4,
          .steps = 8,
          // Every clip group is clipped, and eps keeps AdamW from dividing out how long a gradient
          // is: norms and means are part of what is compared.
          .inner = {.lr = 3e-2, .warmup_steps = 2, .eps = 1e-3, .clip_norm = 0.05},
          .outer = {.inner_steps = 0, .algorithm = "dp"},
          .seed = 7,
          .hash_every = 1};
}

// By group, then stage.
struct Outcome {
  std::vector<std::vector<double>> losses;    // of each group, by step
  std::vector<std::vector<uint64_t>> hashes;  // of each rank, by step
  std::vector<double> evaluations;            // codec off, codec on
  std::vector<Checkpoint> ranks;              // at the end
};

void Add(const std::vector<StepReport>& reports, int stages, Outcome* trained) {
  for (const StepReport& r : reports) {
    trained->hashes[static_cast<size_t>(r.group * stages + r.stage)].push_back(
        r.parameter_hash.value());
    if (r.loss) trained->losses[static_cast<size_t>(r.group)].push_back(*r.loss);
  }
}

// `steps` more steps of these local ranks, and both evaluations.
Outcome Go(const TrainSpec& spec, Trainer& trainer, int64_t steps) {
  Outcome trained;
  trained.losses.resize(static_cast<size_t>(spec.groups));
  trained.hashes.resize(static_cast<size_t>(spec.groups * spec.stages));
  for (int64_t i = 0; i < steps; ++i) {
    const auto reports = trainer.Step();
    EXPECT_TRUE(reports.ok()) << reports.status();
    if (!reports.ok()) return trained;
    Add(*reports, spec.stages, &trained);
  }
  for (const BoundaryCodec codec : {BoundaryCodec::kOff, BoundaryCodec::kOn}) {
    const auto evaluation = trainer.Evaluate(codec, kEvalRows);
    EXPECT_TRUE(evaluation.ok()) << evaluation.status();
    if (evaluation.ok() && *evaluation) trained.evaluations.push_back((*evaluation)->loss);
  }
  auto snapshot = trainer.Snapshot();
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  if (snapshot.ok()) trained.ranks = *std::move(snapshot);
  return trained;
}

std::unique_ptr<Trainer> Start(const TrainSpec& spec, std::vector<LocalRank> ranks) {
  at::set_num_threads(1);
  auto trainer = Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return trainer.ok() ? *std::move(trainer) : nullptr;
}

CodecPolicy Lossy() {
  CodecPolicy policy;
  policy.forward = policy.backward = "int8-b64";
  policy.min_elements = 1;
  return policy;
}

Outcome InOneProcess(const TrainSpec& spec, const CodecPolicy& codecs = {}) {
  return Go(spec, *Start(spec, LoopbackRanks(spec, codecs, 2)), spec.steps);
}

// Every rank on a thread and with a trainer of its own, as processes have it.
Outcome InOwnTrainers(const TrainSpec& spec, const CodecPolicy& codecs) {
  const std::vector<LocalRank> ranks = LoopbackRanks(spec, codecs, 2);
  std::vector<Outcome> of(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto trainer = Start(spec, {ranks[i]});
      if (trainer) of[i] = Go(spec, *trainer, spec.steps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome all = of.front();
  for (size_t i = 1; i < of.size(); ++i) {
    for (size_t g = 0; g < all.losses.size(); ++g) {
      if (!of[i].losses[g].empty()) all.losses[g] = of[i].losses[g];
    }
    all.hashes[i] = of[i].hashes[i];
    if (!of[i].evaluations.empty()) all.evaluations = of[i].evaluations;
    all.ranks.insert(all.ranks.end(), of[i].ranks.begin(), of[i].ranks.end());
  }
  return all;
}

at::Tensor Parameters(const Checkpoint& rank) {
  const auto bytes = rank.Section("parameters");
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  at::Tensor flat = at::empty({static_cast<int64_t>(bytes->size() / sizeof(float))}, at::kFloat);
  std::memcpy(flat.data_ptr(), bytes->data(), bytes->size());
  return flat;
}

StageLayout LayoutOfRank(const TrainSpec& spec, const Checkpoint& rank) {
  return LayoutOf(OnExpertRank(spec.model, rank.group), rank.stage, spec.stages, spec.cuts);
}

// A matrix of the whole model, from the ranks that have its rows.
at::Tensor Whole(const TrainSpec& spec, const Outcome& trained, const ParameterSlot& slot) {
  at::Tensor whole = at::zeros({slot.whole_rows, slot.cols});
  for (const Checkpoint& rank : trained.ranks) {
    const at::Tensor flat = Parameters(rank);
    for (const ParameterSlot& own : LayoutOfRank(spec, rank).slots) {
      if (own.name != slot.name) continue;
      whole.narrow(0, own.first_row, own.rows)
          .copy_(flat.narrow(0, own.offset, own.elements()).view({own.rows, own.cols}));
    }
  }
  return whole;
}

// Relative to how far a parameter has moved from its initial values.
double MovedApart(const TrainSpec& spec, const Outcome& spread, const TrainSpec& local_spec,
                  const Outcome& local) {
  const StageLayout layout = LayoutOf(local_spec.model, 0, 1);
  at::Tensor initial = at::zeros({layout.flat_elements});
  InitializeParameters(layout, spec.seed, initial.data_ptr<float>());
  double most = 0;
  for (const ParameterSlot& slot : layout.slots) {
    const at::Tensor a = Whole(spec, spread, slot), b = Whole(local_spec, local, slot);
    const at::Tensor start =
        initial.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
    most = std::max(most, ((a - b).norm() / (b - start).norm()).item<double>());
  }
  return most;
}

class SpreadTraining : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int stages() const { return std::get<0>(GetParam()); }
  int groups() const { return std::get<1>(GetParam()); }
};

// kTolerance is what docs/models.md says.
constexpr double kTolerance = 1e-5;

TEST_P(SpreadTraining, TrainsAsWithAllExpertsInEachGroup) {
  const TrainSpec spec = MoeSpec(stages(), groups(), groups());
  const TrainSpec local_spec = MoeSpec(stages(), groups(), 1);
  const Outcome spread = InOneProcess(spec), local = InOneProcess(local_spec);
  for (size_t g = 0; g < local.losses.size(); ++g) {
    ASSERT_EQ(spread.losses[g].size(), static_cast<size_t>(spec.steps));
    for (size_t i = 0; i < local.losses[g].size(); ++i) {
      EXPECT_NEAR(spread.losses[g][i] / local.losses[g][i], 1, kTolerance)
          << "group " << g << ", step " << i + 1;
    }
  }
  ASSERT_EQ(spread.evaluations.size(), 2u);
  EXPECT_NEAR(spread.evaluations[0] / local.evaluations[0], 1, kTolerance);
  EXPECT_LT(local.losses[0].back(), local.losses[0].front() - 0.05) << "nothing was learnt";
  EXPECT_LT(MovedApart(spec, spread, local_spec, local), 10 * kTolerance);
}

TEST_P(SpreadTraining, RanksOfTheirOwnHaveTheBitsOfOneProcess) {
  TrainSpec spec = MoeSpec(stages(), groups(), groups());
  spec.outer.codec = "int4-b64-h64+ef";
  const Outcome together = InOneProcess(spec, Lossy()), apart = InOwnTrainers(spec, Lossy());
  EXPECT_EQ(together.losses, apart.losses);
  EXPECT_EQ(together.hashes, apart.hashes);
  EXPECT_EQ(together.evaluations, apart.evaluations);
  ASSERT_EQ(together.evaluations.size(), 2u);
  EXPECT_EQ(together.losses[0].size(), static_cast<size_t>(spec.steps));
}

TEST_P(SpreadTraining, GroupsHoldAlikeWhatIsNotSpreadAndNoExpertTwice) {
  const TrainSpec spec = MoeSpec(stages(), groups(), groups());
  const Outcome trained = InOneProcess(spec);
  int64_t elements = 0;
  for (const Checkpoint& rank : trained.ranks) {
    const Checkpoint& first = trained.ranks[static_cast<size_t>(rank.stage)];
    const at::Tensor own = Parameters(rank), other = Parameters(first);
    const StageLayout layout = LayoutOfRank(spec, rank);
    for (const ParameterSlot& slot : layout.slots) {
      if (slot.spread() || rank.group == 0) elements += slot.elements();
      const bool alike = at::equal(own.narrow(0, slot.offset, slot.elements()),
                                   other.narrow(0, slot.offset, slot.elements()));
      EXPECT_EQ(alike, rank.group == 0 || !slot.spread()) << slot.name << ", group " << rank.group;
    }
  }
  EXPECT_EQ(elements, ParameterCount(spec.model));
}

INSTANTIATE_TEST_SUITE_P(StagesAndGroups, SpreadTraining,
                         testing::Values(std::tuple(1, 2), std::tuple(2, 2), std::tuple(1, 4)));

TEST(SpreadSchedules, SplitBackwardPassesAndRecomputationGiveTheSameBits) {
  const TrainSpec spec = MoeSpec(2, 2, 2);
  const Outcome reference = InOneProcess(spec);
  for (const char* schedule : {"gpipe", "zb-h1"}) {
    for (const bool recompute : {false, true}) {
      TrainSpec other = spec;
      other.schedule = schedule;
      other.stage_compute.recompute = recompute;
      const Outcome outcome = InOneProcess(other);
      EXPECT_EQ(outcome.losses, reference.losses) << schedule << ", recompute " << recompute;
      EXPECT_EQ(outcome.hashes, reference.hashes) << schedule << ", recompute " << recompute;
    }
  }
}

// In bfloat16 the rows that cross are bfloat16.
TEST(SpreadSchedules, RanksOfTheirOwnHaveTheBitsOfOneProcessInBfloat16) {
  TrainSpec spec = MoeSpec(2, 2, 2);
  spec.stage_compute.dtype = "bfloat16";
  const Outcome together = InOneProcess(spec), apart = InOwnTrainers(spec, {});
  EXPECT_EQ(together.losses, apart.losses);
  EXPECT_EQ(together.hashes, apart.hashes);
}

class SpreadCheckpoints : public testing::Test {
 protected:
  SpreadCheckpoints()
      : directory_(testing::TempDir() + "/spread_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
  }
  ~SpreadCheckpoints() override { fs::remove_all(directory_); }
  const std::string directory_;
};

TEST_F(SpreadCheckpoints, ARunThatGoesOnHasTheBitsOfOneThatNeverStopped) {
  TrainSpec spec = MoeSpec(2, 2, 2);
  spec.outer.codec = "int4-b64-h64+ef";
  const Outcome whole = InOneProcess(spec);
  const auto first = Start(spec, LoopbackRanks(spec, {}, 2));
  Go(spec, *first, 3);
  ASSERT_TRUE(first->SaveCheckpoint(directory_).ok());
  const auto second = Start(spec, LoopbackRanks(spec, {}, 2));
  ASSERT_TRUE(second->LoadCheckpoint(directory_).ok());
  const Outcome rest = Go(spec, *second, spec.steps - 3);
  EXPECT_EQ(rest.evaluations, whole.evaluations);
  for (size_t r = 0; r < whole.hashes.size(); ++r) {
    EXPECT_EQ(rest.hashes[r].back(), whole.hashes[r].back()) << "rank " << r;
  }
}

// Experts come from the groups that had them, to those that have them now.
TEST_F(SpreadCheckpoints, AreTakenOverByOtherNumbersOfRanksAndStages) {
  const TrainSpec spec = MoeSpec(2, 2, 2);
  const auto left = Start(spec, LoopbackRanks(spec, {}, 2));
  const Outcome was = Go(spec, *left, 4);
  ASSERT_TRUE(left->SaveCheckpoint(directory_).ok());
  TrainSpec diloco = MoeSpec(2, 1, 1);
  diloco.outer = {.inner_steps = 0};
  for (const TrainSpec& next : {MoeSpec(1, 2, 1), MoeSpec(2, 4, 4), MoeSpec(1, 2, 2), diloco}) {
    const auto trainer = Start(next, LoopbackRanks(next, {}, 2));
    const auto restored = trainer->RestoreFrom(directory_);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->step, 4);
    EXPECT_EQ(MovedApart(next, Go(next, *trainer, 0), spec, was), 0)
        << next.stages << " stages, " << next.groups << " groups";
  }
}

// What a stage waits for rows of a slower group is no compute of its own.
TEST(SpreadWaiting, IsNoCompute) {
  const TrainSpec spec = MoeSpec(2, 2, 2);
  std::vector<LocalRank> ranks = LoopbackRanks(spec, {}, 2);
  constexpr absl::Duration kPause = absl::Milliseconds(300);
  ranks[2].watch = [&](const BoundaryTensor&) { absl::SleepFor(kPause); };  // group 1, stage 0
  const auto trainer = Start(spec, std::move(ranks));
  const auto reports = trainer->Step();
  ASSERT_TRUE(reports.ok()) << reports.status();
  absl::Duration waited, computed;
  for (size_t s = 0; s < 2; ++s) {  // of group 0
    waited += (*reports)[s].wait;
    computed += (*reports)[s].forward + (*reports)[s].backward;
  }
  EXPECT_GT(waited, kPause);
  EXPECT_LT(computed, waited);
}

// A group whose training has diverged ends the others, which wait for its rows.
TEST(SpreadFailure, OfOneGroupEndsAllAndIsToldAsItWas) {
  const TrainSpec spec = MoeSpec(2, 2, 2);
  std::vector<LocalRank> ranks = LoopbackRanks(spec, Lossy(), 2);
  int64_t calls = 0;
  ranks[2].watch = [&calls](const BoundaryTensor& x) {
    if (++calls == 2) x.values.detach().fill_(std::numeric_limits<float>::infinity());
  };
  const auto trainer = Start(spec, std::move(ranks));
  const auto reports = trainer->Step();
  EXPECT_TRUE(absl::IsOutOfRange(reports.status())) << reports.status();
  EXPECT_THAT(std::string(reports.status().message()), HasSubstr("group 1"));
}

}  // namespace
}  // namespace longhaul
