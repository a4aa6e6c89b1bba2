// Kill and resume with codecs that remember or draw noise at the boundaries: their memory, at both
// ends, comes back with the checkpoint.

#include <filesystem>

#include <ATen/Parallel.h>

#include "compressors/catalog.h"
#include "compressors/numbers/noise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/state/checkpoint.h"
#include "tests/pp_group/loopback_ranks.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kSlots = 2;

TrainSpec TinySpec() {
  return {.model = {.blocks = 2, .width = 16, .heads = 2, .context = 8, .vocab = 256},
          .stages = 2,
          .groups = 1,
          .schedule = "1f1b",
          .microbatches = kSlots,
          .batch_rows = 4,
          .steps = 8,
          .inner = {.lr = 3e-3, .warmup_steps = 2},
          .outer = {.inner_steps = 0},
          .seed = 7,
          .hash_every = 1};
}

// Low-rank codecs send a tensor of fewer than 4096 elements as it is.
TrainSpec SpecFor(const std::string& codec) {
  TrainSpec spec = TinySpec();
  if (codec.starts_with("powersgd") || codec.starts_with("diloco")) {
    spec.model.width = 64;
    spec.model.context = 32;
  }
  return spec;
}

CodecPolicy BothWays(const std::string& codec) {
  CodecPolicy policy;
  policy.forward = policy.backward = codec;
  policy.min_elements = 1;
  return policy;
}

class Resume : public testing::Test {
 protected:
  Resume() : directory_(testing::TempDir() + "/resume_" + Name()) { fs::remove_all(directory_); }
  ~Resume() override { fs::remove_all(directory_); }
  static std::string Name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  static std::unique_ptr<Trainer> Start(const TrainSpec& spec, std::vector<LocalRank> ranks) {
    at::set_num_threads(1);
    auto trainer = Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return trainer.ok() ? *std::move(trainer) : nullptr;
  }
  static std::unique_ptr<Trainer> Start(const TrainSpec& spec, const std::string& codec,
                                        int slots = kSlots) {
    return Start(spec, LoopbackRanks(spec, BothWays(codec), slots));
  }
  const std::string directory_;
};

// What a run leaves behind that must be equal.
struct Trace {
  History history;
  std::vector<double> evaluations;  // codec on
  absl::Status status;
};

// Steps to `until`; stops at the first error.
void StepTo(Trainer& trainer, int64_t until, Trace* trace) {
  while (trace->status.ok() && trainer.step() < until) {
    const auto reports = trainer.Step();
    trace->status = reports.status();
    if (!reports.ok()) return;
    std::vector<uint64_t> hashes;
    for (const StepReport& report : *reports) {
      if (report.loss) trace->history.losses.push_back(*report.loss);
      hashes.push_back(report.parameter_hash.value());
    }
    trace->history.hashes.push_back(hashes);
  }
}

void Evaluate(Trainer& trainer, Trace* trace) {
  if (!trace->status.ok()) return;
  const auto evaluation = trainer.Evaluate(BoundaryCodec::kOn, /*rows=*/5);
  trace->status = evaluation.status();
  if (evaluation.ok()) trace->evaluations.push_back((*evaluation)->loss);
}

// Every name that may stand at a boundary: plain, parametric, alias, and each with every suffix
// that it takes.
std::vector<std::string> EveryName() {
  std::vector<std::string> bases = CodecNames(), names;
  for (std::string& name : ParametricExamples()) bases.push_back(std::move(name));
  for (const CodecAlias& alias : CodecAliases()) bases.emplace_back(alias.name);
  for (const std::string& base : bases) {
    for (const char* suffix : {"", "+sr", "+ef", "+ef95", "+ef21", "+mc", "+sr+ef", "+ef+sat"}) {
      if (MakeCodec(base + suffix).ok()) names.push_back(base + suffix);
    }
  }
  return names;
}

TEST_F(Resume, IsBitIdenticalForEveryCodecOfTheCatalogueAtRandomSteps) {
  const std::vector<std::string> names = EveryName();
  ASSERT_GT(names.size(), 200u);
  size_t stateful = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const TrainSpec spec = SpecFor(names[i]);
    fs::remove_all(directory_);
    const auto first = static_cast<int64_t>(SplitMix64(2 * i) % 4);
    const auto second = first + 1 + static_cast<int64_t>(SplitMix64(2 * i + 1) % 3);
    Trace whole, pieces;
    const auto run = Start(spec, names[i]);
    for (const int64_t step : {second, spec.steps}) {
      StepTo(*run, step, &whole);
      Evaluate(*run, &whole);
    }
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    for (const int64_t kill : {first, second}) {
      const auto killed = Start(spec, names[i]);
      const absl::Status loaded = killed->LoadCheckpoint(directory_);
      ASSERT_TRUE(loaded.ok() || (absl::IsNotFound(loaded) && kill == first)) << loaded;
      StepTo(*killed, kill, &pieces);
      if (kill == second) Evaluate(*killed, &pieces);
      const absl::Status saved = killed->SaveCheckpoint(directory_);
      ASSERT_TRUE(saved.ok()) << saved;
      Trace lost;
      StepTo(*killed, kill + 1, &lost);
    }
    const auto resumed = Start(spec, names[i]);
    const absl::Status loaded = resumed->LoadCheckpoint(directory_);
    ASSERT_TRUE(loaded.ok()) << loaded;
    EXPECT_EQ(resumed->step(), second);
    StepTo(*resumed, spec.steps, &pieces);
    Evaluate(*resumed, &pieces);
    EXPECT_EQ(pieces.status, absl::OkStatus());
    EXPECT_EQ(pieces.history.losses, whole.history.losses)
        << "kills after " << first << ", " << second;
    EXPECT_EQ(pieces.history.hashes, whole.history.hashes);
    EXPECT_EQ(pieces.evaluations, whole.evaluations);
    stateful += (*MakeCodec(names[i]))->NewState({1, 1}) != nullptr;
  }
  EXPECT_GT(stateful, 100u);
}

// Of several stages a rank each boundary has its own memory for each micro-batch: the bits are those
// of one stage a rank, and come back with the checkpoint. Groups meet after steps 3 and 6, and their
// norms come from all stages.
TEST_F(Resume, OfSeveralStagesARankHasTheBitsOfOneAndGoesOnWithThem) {
  TrainSpec plain = TinySpec();
  plain.model.blocks = 4;
  plain.stages = 4;
  plain.groups = 2;
  plain.steps = 6;
  plain.outer = {.inner_steps = 3, .codec = "int8-b64+ef"};
  const History reference = RunOver(plain, LoopbackRanks(plain, BothWays("int4-b64+ef"), kSlots));
  for (const char* schedule : {"interleaved-1f1b", "looped-bfs", "zb-v"}) {
    SCOPED_TRACE(schedule);
    fs::remove_all(directory_);
    const TrainSpec spec = With(plain, schedule);
    const auto start = [&] { return Start(spec, "int4-b64+ef"); };
    Trace whole, pieces, lost;
    StepTo(*start(), spec.steps, &whole);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    // In a V the boundary in the middle crosses no wire, and has no codec.
    EXPECT_EQ(whole.history.hashes == reference.hashes, spec.schedule != "zb-v");
    const auto killed = start();
    StepTo(*killed, 2, &pieces);
    ASSERT_TRUE(killed->SaveCheckpoint(directory_).ok());
    StepTo(*killed, 3, &lost);
    const auto resumed = start();
    const absl::Status loaded = resumed->LoadCheckpoint(directory_);
    ASSERT_TRUE(loaded.ok()) << loaded;
    StepTo(*resumed, spec.steps, &pieces);
    EXPECT_EQ(pieces.history.hashes, whole.history.hashes);
    EXPECT_EQ(pieces.history.losses, whole.history.losses);
    // Channels of another placement are no channels of this one.
    const auto apart = Start(plain, "int4-b64+ef");
    EXPECT_THAT(std::string(apart->LoadCheckpoint(directory_).message()),
                HasSubstr("rank_of_stage"));
    const auto restored = Start(plain, "int4-b64+ef")->RestoreFrom(directory_);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_THAT(restored->dropped, testing::Contains(HasSubstr("boundary channels")));
  }
}

// A state that is saved and never comes back.
class Forgetful final : public ChannelState {
 public:
  explicit Forgetful(std::shared_ptr<ChannelState> inner) : inner_(std::move(inner)) {}
  absl::StatusOr<std::string> Save() override { return inner_->Save(); }
  absl::Status Check(std::string_view saved) const override { return inner_->Check(saved); }
  absl::Status Load(std::string_view) override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<ChannelState> inner_;
};

// What the codec of the gradients remembers is a checkpoint's, too.
TEST_F(Resume, DataParallelGroupsGoOnWithTheirBits) {
  TrainSpec spec = SmallSpec(2, 2);
  spec.outer = {.inner_steps = 0, .codec = "int4-b64-h64+ef", .algorithm = "dp"};
  const History whole = RunAll(spec);
  History pieces;
  const auto killed = NewTrainer(spec);
  RunSteps(*killed, 5, &pieces);
  ASSERT_TRUE(killed->SaveCheckpoint(directory_).ok());
  const auto resumed = NewTrainer(spec);
  const absl::Status loaded = resumed->LoadCheckpoint(directory_);
  ASSERT_TRUE(loaded.ok()) << loaded;
  RunSteps(*resumed, spec.steps - 5, &pieces);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.hashes, whole.hashes);
}

TEST_F(Resume, WithoutTheChannelsMemoryIsAnotherRun) {
  for (const char* codec : {"int4-b64+sr", "int4-b64+ef", "int4-b64+ef21", "aqsgd4", "powersgd-r4",
                            "randk-64of4096+fp16", "int4-b64"}) {
    SCOPED_TRACE(codec);
    const TrainSpec spec = SpecFor(codec);
    fs::remove_all(directory_);
    Trace whole, pieces;
    const auto run = Start(spec, codec);
    StepTo(*run, 4, &whole);
    ASSERT_TRUE(run->SaveCheckpoint(directory_).ok());
    StepTo(*run, spec.steps, &whole);
    std::vector<LocalRank> ranks = LoopbackRanks(spec, BothWays(codec), kSlots);
    for (LocalRank& rank : ranks) {
      rank.boundary_state = std::make_shared<Forgetful>(rank.boundary_state);
    }
    const auto resumed = Start(spec, std::move(ranks));
    ASSERT_TRUE(resumed->LoadCheckpoint(directory_).ok());
    StepTo(*resumed, spec.steps, &pieces);
    EXPECT_EQ(pieces.history.losses.back() == whole.history.losses.back(),
              std::string(codec) == "int4-b64");
  }
}

TEST_F(Resume, OfAnotherCodecOrOtherSlotsIsRefusedInOneLineThatNamesBoth) {
  const TrainSpec spec = TinySpec();
  const auto trainer = Start(spec, "int4-b64+ef");
  Trace trace;
  StepTo(*trainer, 3, &trace);
  ASSERT_TRUE(trainer->SaveCheckpoint(directory_).ok());
  const auto refusal = [&](std::vector<LocalRank> ranks) {
    const absl::Status status = Start(spec, std::move(ranks))->LoadCheckpoint(directory_);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(LoopbackRanks(spec, BothWays("int8-b64+ef"), kSlots)),
              testing::AllOf(HasSubstr("group0-stage0-step3.ckpt"),
                             HasSubstr("forward=int4-b64+ef"), HasSubstr("forward=int8-b64+ef")));
  EXPECT_THAT(refusal(LoopbackRanks(spec, BothWays("int4-b64+ef"), 1)),
              testing::AllOf(HasSubstr("ef_slots=2"), HasSubstr("ef_slots=1")));
  EXPECT_THAT(refusal(MemoryRanks(spec)), HasSubstr("have no memory"));
}

TEST_F(Resume, ADamagedSectionIsDataLossAndChangesNothing) {
  TrainSpec spec = TinySpec();
  spec.groups = 2;
  spec.outer = {.inner_steps = 3, .codec = "int4-b64+ef"};
  Trace whole, kept;
  const auto run = Start(spec, "int4-b64+ef21");
  StepTo(*run, 5, &whole);
  ASSERT_TRUE(run->SaveCheckpoint(directory_).ok());
  StepTo(*run, spec.steps, &whole);
  const std::string path = CheckpointPath(directory_, /*group=*/1, /*stage=*/0, /*step=*/5);
  const Checkpoint good = *ReadCheckpoint(path);
  const auto loaded_with = [&](auto damage) {
    Checkpoint bad = good;
    for (auto& [name, bytes] : bad.sections) damage(name, bytes);
    EXPECT_TRUE(WriteCheckpoint(directory_, bad).ok());
    const auto trainer = Start(spec, "int4-b64+ef21");
    const absl::Status status = trainer->LoadCheckpoint(directory_);
    EXPECT_EQ(trainer->step(), 0);
    Trace fresh;
    StepTo(*trainer, spec.steps, &fresh);
    EXPECT_EQ(fresh.history.hashes, whole.history.hashes) << "something had been loaded";
    return status;
  };
  for (const char* section : {"boundary.channels", "outer.codec_state"}) {
    for (const bool cut : {true, false}) {
      const absl::Status status = loaded_with([&](const std::string& name, auto& bytes) {
        if (name != section) return;
        if (cut) bytes.resize(bytes.size() / 2);
        if (!cut) bytes[bytes.size() / 2] ^= std::byte{1};
      });
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(section));
    }
  }
  ASSERT_TRUE(WriteCheckpoint(directory_, good).ok());
  const auto resumed = Start(spec, "int4-b64+ef21");
  ASSERT_TRUE(resumed->LoadCheckpoint(directory_).ok());
  StepTo(*resumed, spec.steps, &kept);
  EXPECT_EQ(kept.history.hashes.back(), whole.history.hashes.back());
}

TEST_F(Resume, AnEvaluationBetweenStepsLeavesTheTrainingAsItIs) {
  const TrainSpec spec = TinySpec();
  for (const char* codec : {"int4-b64+sr", "int4-b64+ef", "aqsgd4"}) {
    Trace quiet, asked;
    StepTo(*Start(spec, codec), spec.steps, &quiet);
    const auto trainer = Start(spec, codec);
    for (int64_t step = 1; step <= spec.steps; ++step) {
      StepTo(*trainer, step, &asked);
      Evaluate(*trainer, &asked);
    }
    ASSERT_EQ(asked.evaluations.size(), 8u) << asked.status;
    EXPECT_EQ(asked.history.losses, quiet.history.losses) << codec;
    EXPECT_EQ(asked.history.hashes, quiet.history.hashes) << codec;
  }
}

}  // namespace
}  // namespace longhaul
