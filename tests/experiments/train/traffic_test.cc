#include "experiments/train/traffic.h"
#include "experiments/spec/plans_of_spec.h"

#include <map>
#include <tuple>

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

// Six stages on three ranks, two groups. Looped: boundaries 0, 3 from rank 0 to 1, boundaries 1, 4
// from 1 to 2, boundary 2 from 2 to 0; gradients the other way. In a V boundary 2 crosses nothing:
// 0 and 4 are between ranks 0 and 1, one each way, 1 and 3 between 1 and 2.
TEST(PlanCrossings, OfSeveralStagesARankFollowThePlacement) {
  using Sent = std::map<std::tuple<bool, int64_t, int64_t>, int64_t>;  // activation, from, to
  const auto sent = [](const RunSpec& spec) {
    Sent messages;
    const auto crossings = *PlanCrossings(spec);
    std::map<std::pair<int64_t, int64_t>, int> outer;
    for (const PlannedCrossing& c : crossings) {
      if (c.direction == Direction::kTied) ADD_FAILURE() << "both ends are on one rank";
      if (c.direction == Direction::kOuter) {
        EXPECT_EQ(std::abs(c.dst_rank - c.src_rank), 3);
        ++outer[{c.src_rank, c.dst_rank}];
      } else if (c.src_rank < 3) {
        EXPECT_EQ(c.codec, c.direction == Direction::kForward ? "int8-b64" : "none");
        messages[{c.direction == Direction::kForward, c.src_rank, c.dst_rank}] +=
            c.messages_per_turn;
      }
    }
    EXPECT_EQ(outer.size(), 6u);
    for (const auto& [pair, stages] : outer) EXPECT_EQ(stages, 2) << "each stage meets its peers";
    return messages;
  };
  for (const std::string kind : {"interleaved-1f1b", "looped-bfs"}) {
    EXPECT_EQ(sent(SpecOf({"schedule.kind=" + kind, "schedule.stages=6", "schedule.chunks=2"})),
              (Sent{{{true, 0, 1}, 8},
                    {{true, 1, 2}, 8},
                    {{true, 2, 0}, 4},
                    {{false, 1, 0}, 8},
                    {{false, 2, 1}, 8},
                    {{false, 0, 2}, 4}}))
        << kind;
  }
  EXPECT_EQ(sent(SpecOf({"schedule.kind=zb-v", "schedule.stages=6", "schedule.chunks=2",
                         "model.kind=llama", "model.tied_head=true"})),
            (Sent{{{true, 0, 1}, 4},
                  {{true, 1, 2}, 4},
                  {{true, 2, 1}, 4},
                  {{true, 1, 0}, 4},
                  {{false, 1, 0}, 4},
                  {{false, 2, 1}, 4},
                  {{false, 1, 2}, 4},
                  {{false, 0, 1}, 4}}));
}

// A tied head of 256 x 64: once a step from the first of three stages to the last and back, and in
// frames of its own between groups.
TEST(PlanCrossings, ATiedHeadsGradientCrossesFromEndToEndOnceAStep) {
  const RunSpec spec = SpecOf({"model.kind=llama", "model.tied_head=true"});
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const auto crossings = *PlanCrossings(spec);
  for (const PlannedCrossing& c : crossings) {
    const auto all = c.shape.elements();
    if (c.direction == Direction::kOuter) {
      const int64_t stage = c.src_rank % 3;
      if (stage == 0) {
        EXPECT_EQ(c.parts, (std::vector<uint64_t>{256 * 64, all - 256 * 64}));
      } else if (stage == 1) {
        EXPECT_EQ(c.parts, (std::vector<uint64_t>{all}));
      } else {
        EXPECT_EQ(c.parts, (std::vector<uint64_t>{all - 256 * 64, 256 * 64}));
      }
    }
    if (c.direction != Direction::kTied) continue;
    pairs.emplace_back(c.src_rank, c.dst_rank);
    EXPECT_EQ(all, 256u * 64);
    EXPECT_EQ(c.codec, "none");
    EXPECT_EQ(c.messages_per_turn, 1);
    EXPECT_EQ(c.turns, 23);
    EXPECT_EQ(MessageBytes(c), 112 + 4 * 256 * 64);
  }
  EXPECT_EQ(pairs, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 0}, {3, 5}, {5, 3}}));
  const auto one =
      *PlanCrossings(SpecOf({"model.kind=llama", "model.tied_head=true", "schedule.stages=1"}));
  for (const PlannedCrossing& c : one) {
    EXPECT_EQ(c.direction, Direction::kOuter);
    EXPECT_EQ(c.parts.size(), 1u);
  }
}

// The lengths in a message of their own; a frame has a header even without a codec. 37 x 64 values
// in int8: 64 + 37 scales of 2 bytes, up to a multiple of 8 (80), the codes: 2512, up to a multiple
// of 64 (2560), then 64 + 8 + 64.
TEST(PlanCrossings, AnOuterMessageIsItsLengthsAndFrames) {
  PlannedCrossing outer{.src_rank = 0,
                        .dst_rank = 2,
                        .direction = Direction::kOuter,
                        .codec = "none",
                        .shape = {1, 38 * 64},
                        .dtype = DType::kF32,
                        .messages_per_turn = 1,
                        .turns = 1,
                        .parts = {38 * 64}};
  EXPECT_EQ(MessageBytes(outer), 112 + 8 + 112 + 64 + 4 * 38 * 64);
  outer.codec = "int8-b64";
  outer.parts = {37 * 64, 64};
  EXPECT_EQ(MessageBytes(outer), 112 + 16 + 112 + 2560 + 64 + 8 + 64);
}

TEST(PlanCrossings, DataParallelGroupsMeetInEveryStep) {
  const RunSpec spec = SpecOf({"outer.algorithm=dp", "outer.inner_steps=0"});
  EXPECT_EQ(OuterPlanOf(spec).AllExchanges(), 23);
  EXPECT_EQ(OuterPlanOf(SpecOf({"outer.groups=1", "outer.inner_steps=0"})).AllExchanges(), 0);
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
