// Boundaries that need more than a codec, against PyTorch (the files that boundary_golden.py --rewrite
// makes): AQ-SGD, activations as changes of the same sample's, over epochs; and coordinates in a
// subspace that the model is held to.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "experiments/train/boundary_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugin/backend/process_group.h"
#include "plugin/core/tensor_kind.h"
#include "pp_group/c10d_status.h"
#include "pp_group/executor.h"
#include "pp_group/models/model.h"
#include "pp_group/subspace.h"
#include "pp_group/train_spec.h"
#include "tests/backend/local_groups.h"
#include "tests/pp_group/loopback_ranks.h"
#include "tests/pp_group/patterned_tokens.h"

namespace longhaul {
namespace {

static_assert(IsSampleTag(kActivationTag | kSampleChannel) && kSampleBit == kSampleChannel);
static_assert(!IsSampleTag(kGradientTag | kSampleChannel) && !IsSampleTag(kActivationTag) &&
              !IsSampleTag(kSampleChannel));

constexpr int64_t kRows = 4, kSteps = 30;

TrainSpec GoldenSpec() {
  return {.model = {.blocks = 2, .width = 16, .heads = 2, .context = 16, .vocab = 64},
          .stages = 2,
          .groups = 1,
          .schedule = "1f1b",
          .microbatches = kRows,
          .batch_rows = kRows,
          .steps = kSteps,
          .inner = {.lr = 1e-2, .warmup_steps = 4, .clip_norm = 0.5},
          .outer = {.inner_steps = 0},
          .seed = 11,
          .sample_boundaries = {0},
          .hash_every = 1};
}

CodecPolicy AqSgdPolicy() {
  CodecPolicy policy;
  policy.forward = "aqsgd4";
  policy.min_elements = 1;
  policy.by_tag[kSampleEvaluationTag] = "fp16";
  return policy;
}

std::vector<LocalRank> AqSgdRanks(const TrainSpec& spec) {
  return LoopbackRanks(spec, AqSgdPolicy(), static_cast<int>(spec.microbatches));
}

std::unique_ptr<Trainer> Start(const TrainSpec& spec, std::vector<LocalRank> ranks) {
  at::set_num_threads(1);
  auto trainer = Trainer::Create(spec, std::move(ranks), PatternedTokens(1152), TestClock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return trainer.ok() ? *std::move(trainer) : nullptr;
}

TEST(AqSgdBoundary, ThirtyStepsAreThoseOfPyTorch) {
  const TrainSpec spec = GoldenSpec();
  const auto ranks = AqSgdRanks(spec);
  const auto trainer = Start(spec, ranks);
  History history;
  RunSteps(*trainer, kSteps, &history);
  std::ifstream golden(GoldenPath("boundary_aqsgd.txt"));
  size_t compared = 0;
  int64_t step = 0;
  for (double loss = 0; golden >> step >> loss; ++compared) {
    // In the second epoch a value halfway between two codes is decided otherwise now and then.
    EXPECT_NEAR(history.losses[compared], loss, step <= 18 ? 2e-4 : 5e-4) << "step " << step;
  }
  EXPECT_EQ(compared, static_cast<size_t>(kSteps));
  // 70 windows: the first visits are fp16, the other 50 of 120 rows four bits and 16 scales.
  const auto group = c10::dynamic_intrusive_pointer_cast<ProcessGroupLonghaul>(ranks[0].boundary);
  int64_t bytes = 0, tensors = 0;
  for (const CrossingCounters& row : group->group().counters()) {
    if (!row.sent || row.codec != "aqsgd4") continue;
    bytes += row.payload_bytes;
    tensors += row.tensors;
  }
  EXPECT_EQ(tensors, 120);
  EXPECT_EQ(bytes, 70 * (64 + 2 * 16 * 16) + 50 * (64 + 2 * 16 + 16 * 16 / 2));
}

// Of two ranks over lo.
History RunOverLinks(const TrainSpec& spec, const CodecPolicy& codecs) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (int rank = 0; rank < 2; ++rank) {
    nodes.push_back(Node::Create({.transport = TransportKind::kUcx, .interface = "lo"}).value());
  }
  ProcessGroupLonghaul::Options options;
  options.group_name = "over-links";
  options.codecs = codecs;
  options.seed = spec.seed;
  options.ef_slots = static_cast<int>(spec.microbatches);
  const auto boundary = MakeLocalGroup(nodes, options);
  std::vector<LocalRank> ranks = LoopbackRanks(spec, codecs, options.ef_slots);
  for (size_t rank = 0; rank < 2; ++rank) {
    ranks[rank].boundary = boundary[rank];
    ranks[rank].boundary_state = StateOfGroup(boundary[rank]);
  }
  History history;
  RunSteps(*Start(spec, std::move(ranks)), kSteps, &history);
  return history;
}

TEST(AqSgdBoundary, OverLinksHasTheBitsOfOneProcess) {
  const TrainSpec spec = GoldenSpec();
  History in_process;
  RunSteps(*Start(spec, AqSgdRanks(spec)), kSteps, &in_process);
  const History over_links = RunOverLinks(spec, AqSgdPolicy());
  EXPECT_EQ(over_links.losses, in_process.losses);
  EXPECT_EQ(over_links.hashes, in_process.hashes);
}

// Killed before, within and after the second epoch's begin; an evaluation between steps asks for rows
// that are no samples of the training.
TEST(AqSgdBoundary, WhatSamplesLeftBehindComesBackWithACheckpoint) {
  const std::string folder = testing::TempDir() + "/aqsgd_" + std::to_string(getpid());
  for (const char* schedule : {"1f1b", "interleaved-1f1b"}) {
    TrainSpec spec = GoldenSpec();
    spec.model.blocks = 4;
    spec.stages = 4;
    spec.sample_boundaries = {0, 1, 2};
    spec = With(spec, schedule);
    const auto start = [&] { return Start(spec, AqSgdRanks(spec)); };
    History whole, pieces;
    RunSteps(*start(), kSteps, &whole);
    auto trainer = start();
    int64_t done = 0;
    for (const int64_t kill : {5, 13, 24}) {
      RunSteps(*trainer, kill - done, &pieces);
      const auto evaluated = trainer->Evaluate(BoundaryCodec::kOn, 1);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      ASSERT_TRUE(trainer->SaveCheckpoint(folder).ok());
      History lost;
      RunSteps(*trainer, 1, &lost);
      trainer = start();
      const absl::Status loaded = trainer->LoadCheckpoint(folder);
      ASSERT_TRUE(loaded.ok()) << loaded;
      done = kill;
    }
    RunSteps(*trainer, kSteps - done, &pieces);
    EXPECT_EQ(pieces.losses, whole.losses) << schedule;
    EXPECT_EQ(pieces.hashes, whole.hashes) << schedule;
    std::filesystem::remove_all(folder);
  }
}

TEST(AqSgdBoundary, EverySampleHasAChannel) {
  TrainSpec spec = GoldenSpec();
  EXPECT_EQ(SampleChannels(*ProgramOf(spec), 70), 70);
  spec.model.blocks = spec.stages = 4;
  spec.chunks = 2;
  spec.schedule = "interleaved-1f1b";
  EXPECT_EQ(SampleChannels(*ProgramOf(spec), 70), 4 * 70);
}

constexpr int64_t kRank = 5;

TrainSpec SubspaceSpec() {
  TrainSpec spec = GoldenSpec();
  spec.sample_boundaries = {};
  spec.subspace = kRank;
  return spec;
}

CodecPolicy Codecs(const std::string& forward, const std::string& backward) {
  CodecPolicy policy;
  policy.forward = forward;
  policy.backward = backward;
  policy.min_elements = 1;
  return policy;
}

// What lies outside of the subspace is neither sent nor lost.
TEST(SubspaceBoundary, ThirtyStepsAreThoseOfPyTorchThatTrainsCoordinates) {
  const TrainSpec spec = SubspaceSpec();
  const auto ranks = LoopbackRanks(spec, Codecs("identity", "identity"));
  History history;
  RunSteps(*Start(spec, ranks), kSteps, &history);
  std::ifstream golden(GoldenPath("boundary_subspace.txt"));
  size_t compared = 0;
  int64_t step = 0;
  for (double loss = 0; golden >> step >> loss; ++compared) {
    EXPECT_NEAR(history.losses[compared], loss, 2e-5) << "step " << step;
  }
  EXPECT_EQ(compared, static_cast<size_t>(kSteps));
  // 16 tokens of five floats there, and five back.
  for (const auto& rank : ranks) {
    const auto group = c10::dynamic_intrusive_pointer_cast<ProcessGroupLonghaul>(rank.boundary);
    int64_t bytes = 0;
    for (const CrossingCounters& row : group->group().counters()) {
      if (row.sent) bytes += row.payload_bytes;
    }
    EXPECT_EQ(bytes, kSteps * kRows * (64 + 4 * 16 * kRank));
  }
}

// Boundaries cost nothing but rounding, wherever they are and whatever computes; evaluations cross
// them, too.
TEST(SubspaceBoundary, TrainsAlikeForEveryNumberOfStages) {
  const std::vector<const char*> most = {"one", "gpipe", "1f1b", "interleaved-1f1b", "zb-h1"};
  for (const auto& [model, schedules] :
       {std::pair("gpt_cpu", most), {"llama_aten", {"one", "interleaved-1f1b"}}}) {
    std::vector<double> whole, evaluated;
    for (const std::string schedule : schedules) {
      TrainSpec spec = SmallSpec(schedule == "one" ? 1 : 4, 2, model);
      spec.outer.codec = "int8-b64";
      spec.subspace = 7;
      if (schedule != "one") spec = With(spec, schedule);
      const auto trainer = NewTrainer(spec);
      ASSERT_NE(trainer, nullptr);
      History history;
      RunSteps(*trainer, 6, &history);
      const auto loss = trainer->Evaluate(BoundaryCodec::kOn, 3);
      ASSERT_TRUE(loss.ok() && loss->has_value()) << loss.status();
      evaluated.push_back((*loss)->loss);
      if (whole.empty()) whole = history.losses;
      ASSERT_EQ(history.losses.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_NEAR(history.losses[i], whole[i], 2e-5) << model << " " << schedule << " " << i;
      }
      EXPECT_NEAR(evaluated.back(), evaluated.front(), 2e-5) << model << " " << schedule;
    }
  }
}

TEST(SubspaceBoundary, OverLinksAndAfterAKillHasTheBitsOfOneProcess) {
  const TrainSpec spec = SubspaceSpec();
  const CodecPolicy codecs = Codecs("int4-b64-h64+ef", "int8-b64");
  const auto start = [&] { return Start(spec, LoopbackRanks(spec, codecs, kRows)); };
  History whole, pieces, lost;
  RunSteps(*start(), kSteps, &whole);
  EXPECT_EQ(RunOverLinks(spec, codecs).hashes, whole.hashes);
  const std::string folder = testing::TempDir() + "/subspace_" + std::to_string(getpid());
  auto trainer = start();
  RunSteps(*trainer, 13, &pieces);
  ASSERT_TRUE(trainer->SaveCheckpoint(folder).ok());
  RunSteps(*trainer, 1, &lost);
  trainer = start();
  ASSERT_TRUE(trainer->LoadCheckpoint(folder).ok());
  RunSteps(*trainer, kSteps - 13, &pieces);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.hashes, whole.hashes);
  // Its weights lie in that seed's subspace; a run in another cannot go on from them.
  TrainSpec other = spec;
  other.seed = 12;
  const absl::Status refused =
      Start(other, LoopbackRanks(other, codecs, kRows))->RestoreFrom(folder).status();
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("subspace = 5 of seed 11, and this run's is 5 of seed 12"));
  std::filesystem::remove_all(folder);
}

// By hand: U's columns are orthonormal; whatever an embedding has moved outside of them is undone,
// and its initial value stays.
TEST(Subspace, TakesAwayWhatIsNotInIt) {
  const ModelSpec model = GoldenSpec().model;
  const Subspace subspace(model, 11, kRank);
  const at::Tensor u = subspace.basis().to(at::kDouble);
  EXPECT_LT((at::mm(u.t(), u) - at::eye(kRank, at::kDouble)).abs().max().item<double>(), 1e-6);
  const auto stage = *NewStage(model, {.stage = 0, .stages = 1, .seed = 11});
  const at::Tensor before = stage->parameters().clone();
  for (const ParameterSlot& slot : stage->layout().slots) {
    if (slot.stream == StreamVectors::kNone) continue;
    const auto part = [&](const at::Tensor& flat) {
      return flat.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
    };
    const bool rows = slot.stream == StreamVectors::kRows;
    const at::Tensor inside = rows ? at::mm(at::ones({slot.rows, kRank}), subspace.basis().t())
                                   : at::mm(subspace.basis(), at::ones({kRank, slot.cols}));
    at::Tensor outside = rows ? at::randn({1, slot.cols}) : at::randn({slot.rows, 1});
    const at::Tensor along = rows ? at::mm(outside, subspace.basis()) : outside;
    outside -= rows ? at::mm(along, subspace.basis().t())
                    : at::mm(subspace.basis(), at::mm(subspace.basis().t(), outside));
    if (!rows) part(stage->parameters()).zero_();
    const at::Tensor initial = part(rows ? before : stage->parameters()).clone();
    part(stage->parameters()).add_(inside).add_(outside);
    part(stage->gradients()).copy_(inside + outside);
    subspace.ProjectParameters(stage.get());
    subspace.ProjectGradients(*stage);
    const auto far = [](const at::Tensor& a) { return a.abs().max().item<double>(); };
    EXPECT_LT(far(part(stage->parameters()) - initial - inside), 1e-5) << slot.name;
    EXPECT_LT(far(part(stage->gradients()) - inside), 1e-5) << slot.name;
  }
}

}  // namespace
}  // namespace longhaul
