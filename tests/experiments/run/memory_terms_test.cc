// Each term of a run's memory plan by itself, in closed form and away from the small spec's own
// figures: what a key adds is the difference between two plans, worked out here by hand.
#include <cmath>

#include <gtest/gtest.h>

#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using Sets = std::vector<std::string>;
Sets operator+(Sets all, const Sets& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

ResourcePlan PlanWith(const Sets& sets) {
  absl::StatusOr<TomlValue> root = ParseToml(TinySpec(), "tiny.toml");
  EXPECT_TRUE(root.ok()) << root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  absl::StatusOr<RunSpec> spec = ReadRunSpec(*root, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return PlanResources(*spec);
}
int64_t BytesWith(const Sets& sets) { return PlanWith(sets).bytes; }
// What `more` adds to a plan.
int64_t Adds(const Sets& sets, const Sets& more) {
  return BytesWith(sets + more) - BytesWith(sets);
}

// 60 MB, or 190 with a CUDA build of torch.
const int64_t kProcess = ProcessBytes("cpu");

// D = 128, 6 blocks, T = 96, V = 320: all parameters are multiples of 64 floats.
constexpr int64_t kD = 128, kV = 320, kT = 96, kHeads = 4;
const Sets kModel = {"model.blocks=6",   "model.width=128",       "model.heads=4",
                     "model.context=96", "model.vocab=320",       "boundary.forward=none",
                     "train.steps=20",   "boundary.backward=none"};
const Sets kOneStage = kModel + Sets{"schedule.stages=1"};
// Blocks of 12 D^2 + 4 D, embeddings of V and T rows, a norm of two, a head.
constexpr int64_t kParameters = 6 * (12 * kD * kD + 4 * kD) + (kV + kT) * kD + 2 * kD + kV * kD;
constexpr int64_t kHeader = 64;  // of a codec's frame

// int8-b64: 64 bytes, a byte an element, two for every 64.
constexpr int64_t Int8Frame(int64_t elements) { return kHeader + elements + elements / 32; }

TEST(MemoryTerms, AnOuterStepHoldsFiveCopiesAndAFrameOfEachGroupComingAndGoing) {
  const Sets int8 = kOneStage + Sets{"outer.codec=int8-b64", "outer.groups=3"};
  const int64_t alone = BytesWith(kOneStage) - kProcess;  // three groups of one process
  EXPECT_EQ(BytesWith(int8 + Sets{"outer.inner_steps=5"}) - kProcess - 3 * alone,
            3 * (5 * 4 * kParameters + (3 + 2) * Int8Frame(kParameters)));
  EXPECT_EQ(BytesWith(int8 + Sets{"outer.algorithm=dp"}) - kProcess - 3 * alone,
            3 * (1 * 4 * kParameters + (3 + 2) * Int8Frame(kParameters)))
      << "data parallel: the average alone";
  const Sets python = {"outer.inner_steps=5", "outer.algorithm=python:mine.py:Mine"};
  EXPECT_EQ(BytesWith(int8 + python) - kProcess - 3 * alone,
            150'000'000 + 3 * (6 * 4 * kParameters + (3 + 2) * Int8Frame(kParameters)))
      << "an interpreter, and the parameters as it sees them";
}

// Six groups in clusters of two: start, momentum, delta, mean and the mean before of each level; three frames between
// the two of a cluster, five between the three clusters, whose codec remembers what it lost.
TEST(MemoryTerms, EachLevelHasItsCopiesItsFramesAndWhatItsCodecRemembers) {
  const Sets levels = kOneStage + Sets{"outer.groups=6",         "outer.algorithm=hierarchical",
                                       "outer.inner_steps=5",    "outer.codec=int8-b64",
                                       "outer.cluster_groups=2", "outer.global_every=2"};
  const int64_t alone = BytesWith(kOneStage) - kProcess;
  EXPECT_EQ(BytesWith(levels) - kProcess - 6 * alone,
            6 * (10 * 4 * kParameters + (3 + 5) * Int8Frame(kParameters)));
  EXPECT_NEAR(Adds(levels, {"outer.global_codec=int8-b64+ef"}), 6 * 4 * kParameters, 6 * 64)
      << "but for what a state has beside its numbers";
}

// The head goes, with its gradient and moments; the head's part of the embedding's gradient comes.
// Over stages of a process the last one has the first one's matrix and moments and a gradient of its
// own, or, where groups meet, a copy of all. Over processes it holds a copy in the head's place, and both
// ends have the other's part while it crosses, and a frame each way: behind the last backward pass, when
// activations are gone, of which there are none where compute is injected.
TEST(MemoryTerms, ATiedHeadIsAMatrixLessOrAPartOfItsGradientMore) {
  const Sets llama = {"model.kind=llama"}, tied = {"model.tied_head=true"};
  EXPECT_EQ(Adds(kOneStage + llama, tied), (4 - 4 * 4) * kV * kD);
  const Sets three = kModel + llama + Sets{"schedule.stages=3"};
  EXPECT_EQ(Adds(three, tied), -3 * 4 * kV * kD);
  const Sets meeting = {"outer.groups=2", "outer.algorithm=dp", "outer.codec=none"};
  // A part has a frame of its own.
  EXPECT_EQ(Adds(three + meeting, tied), 0);
  const Sets injected =
      three + Sets{"net.transport=ucx", "net.profile=regional", "compute.forward_s=0.1",
                   "compute.backward_s=0.1", "compute.optimizer_s=0.1"};
  EXPECT_EQ(Adds(injected, tied), 2 * (4 * kV * kD + 2 * (kHeader + 4 * kV * kD)));
}

TEST(MemoryTerms, WhatIsWrittenIsThreeOrFiveTimesTheParameters) {
  EXPECT_EQ(Adds(kOneStage, {"checkpoint.every_steps=7"}), 3 * 4 * kParameters);
  EXPECT_EQ(Adds(kOneStage, {"model.save=/x"}), 3 * 4 * kParameters);
  EXPECT_EQ(Adds(kOneStage, {"model.save=/x", "checkpoint.every_steps=7"}), 3 * 4 * kParameters);
  const Sets outer = kOneStage + Sets{"outer.inner_steps=5", "outer.codec=none", "outer.groups=2"};
  EXPECT_EQ(Adds(outer, {"checkpoint.every_steps=7"}), 2 * 5 * 4 * kParameters);
}

TEST(MemoryTerms, AJoinersFilesAreFourTimesTheParametersOfEachProcess) {
  const Sets elastic =
      kOneStage + Sets{"outer.inner_steps=5",          "outer.codec=none",  "outer.groups=2",
                       "outer.on_group_loss=continue", "net.transport=ucx", "net.profile=regional"};
  EXPECT_EQ(Adds(elastic, {"outer.joiner_source=swarm"}), 2 * 4 * 4 * kParameters);
  EXPECT_EQ(Adds(elastic + Sets{"net.transport=loopback"}, {"outer.joiner_source=swarm"}), 0)
      << "in one process the bits are copied";
}

// 12 rows in 3 micro-batches: 4 x 96 = 384 tokens in each. Over links a stage may be three messages
// ahead of the wire.
TEST(MemoryTerms, ABoundaryIsItsTensorsAndFramesOnBothSides) {
  const Sets links = kModel + Sets{"schedule.stages=2", "train.batch_rows=12",
                                   "train.microbatches=3", "net.transport=ucx"};
  constexpr int64_t kElements = 384 * kD, kPlain = kHeader + 4 * kElements;
  // From "none" to int8 on one direction: three frames of the sender, one of the receiver.
  EXPECT_EQ(Adds(links, {"boundary.forward=int8-b64"}), 4 * (Int8Frame(kElements) - kPlain));
  EXPECT_EQ(Adds(links, {"boundary.backward=int8-b64"}), 4 * (Int8Frame(kElements) - kPlain));
  const Sets loopback = links + Sets{"net.transport=loopback"};
  // In one process a frame is taken at once, and "none" in both directions is one tensor for both ends.
  EXPECT_EQ(Adds(loopback, {"boundary.forward=int8-b64"}),
            2 * 3 * 4 * kElements + 2 * (Int8Frame(kElements) + kPlain));
  EXPECT_EQ(Adds(loopback + Sets{"boundary.backward=int8-b64"}, {"boundary.forward=int8-b64"}),
            2 * (Int8Frame(kElements) - kPlain));
}

// Coordinates come beside the whole tensors, of which each end has its own, at both ends of both
// boundaries, there and back; frames are theirs. The stage in the middle has rows, too. Behind a step each stage has four of its largest
// matrix that is held in the subspace, W [D, 4 D]; the process has U twice and the embeddings.
TEST(MemoryTerms, ASubspaceIsItsCoordinatesAndWhatBothEndsKnow) {
  const Sets three = kModel + Sets{"schedule.stages=3", "train.batch_rows=12",
                                   "train.microbatches=3", "net.transport=loopback"};
  constexpr int64_t kK = 16, kTokens = 384;
  EXPECT_EQ(Adds(three, {"boundary.subspace=16"}),
            4 * 2 * 3 * 4 * kTokens * kK + 4 * 3 * 4 * kTokens * kD +
                8 * (kHeader + 4 * kTokens * kK) + 3 * 4 * 8 * kTokens + 3 * 4 * 4 * 4 * kD * kD +
                4 * (2 * kK + kV + kT) * kD);
}

// Rows are of the first and the last stage: as read, as inputs, as targets, losses; 8 bytes each.
// Of three stages the middle one has none of them, and boundaries on both sides.
TEST(MemoryTerms, EachStageIsWhatAPencilSays) {
  const Sets three =
      kModel + Sets{"schedule.stages=3", "train.batch_rows=12", "train.microbatches=3",
                    "net.transport=ucx", "eval.rows=2",         "limits.threads=5"};
  const ResourcePlan plan = PlanWith(three);
  constexpr int64_t kTokens = 384, kEvaluated = 2 * kT, kBlocks = 2;
  constexpr int64_t kBlock = 15 * kD + kHeads + 4;
  constexpr int64_t kBlockParameters = kBlocks * (12 * kD * kD + 4 * kD);
  constexpr int64_t kFrame = kHeader + 4 * kTokens * kD;
  constexpr int64_t kBoundary = 3 * 2 * 4 * kTokens * kD + (3 + 1) * kFrame;
  constexpr int64_t kRows = 4 * 3 * kTokens * 8;
  // Of a token: the blocks, the stream between them, the first's embedding, the last's ends; of a
  // stage that keeps `peak` micro-batches, with an evaluation of fewer tokens beside it.
  const auto compute = [&](int64_t peak, int64_t ends, int64_t vocab) {
    const int64_t kept = 4 * (kBlocks * kBlock + (kBlocks - 1) * kD + ends);
    const int64_t scratch = 4 * (11 * kD + vocab);
    return peak * kTokens * kept + kTokens * scratch + kEvaluated * (kept + scratch);
  };
  const int64_t first =
      16 * (kBlockParameters + (kV + kT) * kD) + kBoundary + kRows + compute(3, kD, 0);
  const int64_t middle = 16 * kBlockParameters + 2 * kBoundary + compute(2, 0, 0);
  const int64_t last =
      16 * (kBlockParameters + 2 * kD + kV * kD) + kBoundary + kRows + compute(1, 3 * kD + 2, kV);
  EXPECT_EQ(plan.bytes, 3 * kProcess + first + middle + last);
  EXPECT_EQ(plan.worker_bytes, kProcess + std::max({first, middle, last}));
  EXPECT_EQ(plan.processes, 3);
  EXPECT_EQ(plan.threads, 3 * (5 + 6));
}

// What autograd keeps of a token, in two micro-batches of 2 x 96 tokens, of which 1F1B in one stage
// keeps one; beside it the larger of the widest layer's gradients and the logits'.
constexpr int64_t kTokens = 2 * kT;
int64_t Kept(int64_t block, int64_t element, int64_t running) {
  return kTokens * (6 * block + kD * element + running);
}
// A model's plan without what its parameters and rows take.
int64_t ActivationsOf(const Sets& sets, int64_t parameters, int64_t bytes_each) {
  return BytesWith(kOneStage + sets) - kProcess - bytes_each * parameters - 4 * 2 * kTokens * 8;
}

TEST(MemoryTerms, WhatAutogradKeepsOfAGpt) {
  const Sets aten = {"model.engine=aten"};
  constexpr int64_t kBlock = 16 * kD * 4 + 4 * (kHeads + 4);
  // The logits, three times V floats, are less than 11 D.
  static_assert(3 * kV * 4 + 2 * kD * 4 < (2 * 4 + 3) * kD * 4);
  EXPECT_EQ(ActivationsOf(aten, kParameters, 16), Kept(kBlock, 4, 11 * kD * 4));
  // bfloat16: half of each element and a shadow of the parameters; norms' figures stay floats.
  constexpr int64_t kHalf = 16 * kD * 2 + 4 * (kHeads + 4);
  static_assert(3 * kV * 4 + 2 * kD * 2 > (2 * 4 + 3) * kD * 2);
  EXPECT_EQ(ActivationsOf(aten + Sets{"train.dtype=bfloat16"}, kParameters, 18),
            Kept(kHalf, 2, 3 * kV * 4 + 2 * kD * 2));
  // Recomputed: inputs of the blocks alone, and one block while it is computed again.
  EXPECT_EQ(ActivationsOf(aten + Sets{"train.recompute=true"}, kParameters, 16),
            kTokens * (6 * kD * 4 + kBlock + 11 * kD * 4));
}

// Of a GPU's share: a quarter more than the tensors, and 2 + 20 + 2 x (32 + 32) MiB.
double OnGpuActivationsOf(const Sets& sets, int64_t parameters, int64_t bytes_each) {
  const ResourcePlan plan = PlanWith(kOneStage + Sets{"train.device=cuda"} + sets);
  EXPECT_EQ(plan.device_bytes.size(), 1u);
  return static_cast<double>(plan.device_bytes[0] - 150 * 1024 * 1024) / 1.25 -
         static_cast<double>(bytes_each * parameters + 4 * 2 * kTokens * 8);
}

// Its math kernel keeps T probabilities of each head; scores and two gradients of both beside. In
// bfloat16 q, k and v are there once more as floats.
TEST(MemoryTerms, WhatAGpuKeepsOfAttention) {
  constexpr int64_t kBlock = 16 * kD * 4 + 4 * (kHeads + 4), kHalf = 16 * kD * 2 + 4 * (kHeads + 4);
  constexpr int64_t kAttention = 4 * kHeads * kT, kScratch = 3 * kAttention + 4 * 4 * kD;
  EXPECT_NEAR(OnGpuActivationsOf({}, kParameters, 16),
              Kept(kBlock + kAttention, 4, 11 * kD * 4 + kScratch), 1);
  static_assert(3 * kV * 4 + 2 * kD * 2 < 11 * kD * 2 + kScratch);
  EXPECT_NEAR(OnGpuActivationsOf({"train.dtype=bfloat16", "train.attention=math"}, kParameters, 18),
              Kept(kHalf + kAttention + 3 * kD * 2, 2, 11 * kD * 2 + kScratch), 1);
  EXPECT_NEAR(OnGpuActivationsOf({"train.attention=fused"}, kParameters, 16),
              Kept(kBlock, 4, 11 * kD * 4), 1);
  // Heads of 4 are no multiple of 8: the math kernel's again.
  EXPECT_NEAR(
      OnGpuActivationsOf({"train.attention=fused", "model.heads=32"}, kParameters, 16),
      Kept(16 * kD * 4 + 4 * (32 + 4) + 4 * 32 * kT, 4, 11 * kD * 4 + 3 * 4 * 32 * kT + 4 * 4 * kD),
      1);
}

// On the host of a GPU: the process, the parameters once, what is written, what an outer step keeps.
TEST(MemoryTerms, WhatStaysOnTheHostOfAGpu) {
  const Sets gpu = kOneStage + Sets{"train.device=cuda"};
  constexpr int64_t kGpuProcess = 1'000'000'000;
  EXPECT_EQ(BytesWith(gpu), kGpuProcess + 4 * kParameters);
  EXPECT_EQ(Adds(gpu, {"checkpoint.every_steps=7"}), 3 * 4 * kParameters);
  const Sets outer = {"outer.codec=int8-b64", "outer.groups=3", "outer.inner_steps=5"};
  EXPECT_EQ(BytesWith(gpu + outer),
            kGpuProcess + 3 * ((1 + 5) * 4 * kParameters + (3 + 2) * Int8Frame(kParameters)));
  const Sets ucx = kModel + Sets{"train.device=cuda", "net.transport=ucx", "schedule.stages=2"};
  EXPECT_EQ(PlanWith(ucx + outer).device_bytes[1], PlanWith(ucx).device_bytes[1]);
  EXPECT_EQ(
      PlanWith(ucx).worker_bytes, BytesWith(ucx) - kGpuProcess - [] {
        // The last stage, the smaller: three blocks, a norm and a head; frames of two micro-batches.
        constexpr int64_t kFrames = (2 + 1) * (kHeader + 4 * kTokens * kD);
        return 4 * (3 * (12 * kD * kD + 4 * kD) + kV * kD + 2 * kD) + kFrames;
      }());
}

// 8/3 of 128 up to a multiple of 64 is 384. Of the heads' keys and values two of four.
TEST(MemoryTerms, WhatAutogradKeepsOfALlamaAndOfExperts) {
  constexpr int64_t kHidden = 384, kKv = kD / kHeads * 2;
  constexpr int64_t kAttention = 2 * kD * kD + 2 * kKv * kD;
  constexpr int64_t kNorms = 4 * (2 * kD + 2) + 4 * kHeads;
  constexpr int64_t kEnds = kV * kD + kD + kV * kD;  // embedding, norm, head
  const Sets llama = {"model.kind=llama", "model.kv_heads=2"};
  constexpr int64_t kLlama = 6 * (kAttention + 2 * kD + 3 * kHidden * kD) + kEnds;
  // The logits take more than the widest layer, whose hidden width is 384; less, where it is 512.
  EXPECT_EQ(ActivationsOf(llama, kLlama, 16),
            Kept((8 * kD + 4 * kHidden) * 4 + kNorms, 4, 3 * kV * 4 + 2 * kD * 4));
  EXPECT_EQ(ActivationsOf(llama + Sets{"model.hidden=512"}, kLlama + 6 * 3 * 128 * kD, 16),
            Kept((8 * kD + 4 * 512) * 4 + kNorms, 4, (2 * 512 + 3 * kD) * 4));
  const Sets moe = {"model.kind=moe", "model.kv_heads=2", "model.experts=16"};
  constexpr int64_t kMoe = 6 * (kAttention + 2 * kD + 16 * kD + 16 * 3 * kHidden * kD) + kEnds;
  constexpr int64_t kRouter = 4 * 4 * 16 + 8 * 8;
  EXPECT_EQ(ActivationsOf(moe, kMoe, 16), Kept((12 * kD + 8 * kHidden) * 4 + kNorms + kRouter, 4,
                                               (2 * 2 * kHidden + 3 * kD) * 4));
}

TEST(MemoryTerms, GpusAreOfTheRanksThatCompute) {
  const Sets gpu = kModel + Sets{"schedule.stages=2", "outer.groups=2",      "outer.inner_steps=5",
                                 "outer.codec=none",  "train.device=cuda:*", "net.transport=ucx"};
  const ResourcePlan plan = PlanWith(gpu);
  ASSERT_EQ(plan.device_bytes.size(), 4u);
  EXPECT_EQ(plan.device_bytes[0], plan.device_bytes[2]) << "of stage 0 in both groups";
  EXPECT_NE(plan.device_bytes[0], plan.device_bytes[1]);
  EXPECT_TRUE(PlanWith(kModel).device_bytes.empty());
  EXPECT_EQ(kGpuContextBytes, 750'000'000) << "beside it, of each process";
  EXPECT_EQ(kMemoryPlanFactor, 1.1) << "which docs/engines.md gives";
}

// A run whose compute is slept keeps its parameters, its boundaries and its rows.
TEST(MemoryTerms, SleptComputeHasNoActivations) {
  const Sets slept =
      kOneStage + Sets{"net.transport=ucx", "compute.forward_s=1", "compute.backward_s=1"};
  EXPECT_EQ(BytesWith(slept), kProcess + 16 * kParameters + 4 * 2 * kTokens * 8);
}

}  // namespace
}  // namespace longhaul
