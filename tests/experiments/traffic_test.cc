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
