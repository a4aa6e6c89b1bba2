#include "experiments/train/traffic.h"

#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

RunSpec SpecOf(const std::vector<std::string>& sets) {
  absl::StatusOr<TomlValue> root = ParseToml(R"(seed = 1
[model]
kind = "gpt"
blocks = 6
width = 64
heads = 4
context = 32
vocab = 256
[data]
source = "headers"
[train]
steps = 23
batch_rows = 8
microbatches = 4
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 3
[boundary]
forward = "int8-b64"
backward = "none"
[outer]
groups = 2
inner_steps = 5
codec = "none"
[net]
transport = "loopback"
[eval]
rows = 1
)",
                                             "run.toml");
  EXPECT_TRUE(root.ok()) << root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  const absl::StatusOr<RunSpec> spec = ReadRunSpec(*root, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

// Three stages in two groups: four activations' and four gradients' directions, and each stage's
// delta to the other group and back.
TEST(PlanCrossings, SaysWhoSendsWhichTensorHowOften) {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const auto crossings = *PlanCrossings(SpecOf({"schedule.kind=" + schedule}));
    int forward = 0, backward = 0, outer = 0;
    for (const PlannedCrossing& c : crossings) {
      if (c.direction == Direction::kOuter) {
        ++outer;
        EXPECT_EQ(std::abs(c.dst_rank - c.src_rank), 3);
        EXPECT_EQ(c.turns, 5) << "after steps 5, 10, 15, 20 and the last, 23";
        continue;
      }
      const bool activation = c.direction == Direction::kForward;
      ++(activation ? forward : backward);
      EXPECT_EQ(c.dst_rank - c.src_rank, activation ? 1 : -1);
      EXPECT_EQ(c.src_rank / 3, c.dst_rank / 3);
      EXPECT_EQ(c.codec, activation ? "int8-b64" : "none");
      EXPECT_EQ(c.shape, (Shape{2 * 32, 64}));
      EXPECT_EQ(c.messages_per_turn, 4);
      EXPECT_EQ(c.turns, 23);
    }
    EXPECT_EQ(forward, 4);
    EXPECT_EQ(backward, 4);
    EXPECT_EQ(outer, 6);
  }
}

TEST(PlanCrossings, DataParallelGroupsMeetInEveryStep) {
  const RunSpec spec = SpecOf({"outer.algorithm=dp", "outer.inner_steps=0"});
  EXPECT_EQ(OuterTurns(spec), 23);
  EXPECT_EQ(OuterTurns(SpecOf({"outer.groups=1", "outer.inner_steps=0"})), 0);
}

// Experts that are spread do not cross as gradients, and a rank holds its share of them.
TEST(PlanCrossings, SpreadExpertsAreNotAveraged) {
  const std::vector<std::string> dp = {"model.kind=moe", "model.experts=2", "outer.algorithm=dp",
                                       "outer.inner_steps=0"};
  std::vector<std::string> spread = dp;
  spread.emplace_back("model.expert_parallel=2");
  const RunSpec spec = SpecOf(spread), local = SpecOf(dp);
  for (int64_t s = 0; s < 3; ++s) {
    // 8/3 D up to a multiple of 64 is 192: three matrices [192, 64] an expert.
    const int64_t blocks = LayoutOf(spec, s).num_blocks, expert = 3 * int64_t{192} * 64;
    EXPECT_EQ(LayoutOf(local, s).flat_elements - LayoutOf(spec, s).flat_elements, blocks * expert);
    EXPECT_EQ(LayoutOf(spec, s).flat_elements - SharedElements(LayoutOf(spec, s)), blocks * expert);
  }
  const auto crossings = *PlanCrossings(spec);
  for (const PlannedCrossing& c : crossings) {
    if (c.direction != Direction::kOuter) continue;
    EXPECT_EQ(c.shape.elements(),
              static_cast<uint64_t>(SharedElements(LayoutOf(spec, c.src_rank % 3))));
  }
}

// 112 bytes of our header; "none" has no frame's header, int8-b64 64 bytes and a bf16 scale a
// block.
TEST(MessageBytes, AreHeadersAndFrame) {
  EXPECT_EQ(MessageBytes("none", {64, 64}), 112 + 4 * 64 * 64);
  EXPECT_EQ(MessageBytes("int8-b64", {64, 64}), 112 + 64 + 64 * 64 + 2 * 64);
  EXPECT_FALSE(MessageBytes("int5", {64, 64}).has_value());
  // Beyond 4 M elements by the codec's own bound.
  const double elements = 3.0 * (1 << 22);
  EXPECT_NEAR(*MessageBytes("int8-b64", {3, 1 << 22}), elements * (1 + 2.0 / 64), 1000);
  EXPECT_NEAR(*MessageBytes("int8-b64", {1, 3 << 22}), elements * (1 + 2.0 / 64), 1000);
}

}  // namespace
}  // namespace longhaul
