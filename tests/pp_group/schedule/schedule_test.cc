#include "pp_group/schedule/catalog.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/schedule/check.h"
#include "pp_group/schedule/clock.h"
#include "pp_group/schedule/one_stage.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(OneForwardOneBackward, IsThisPicture) {
  EXPECT_EQ(ToString(OneForwardOneBackward(/*stage=*/0, 2, 3)), "0F0 0F1 0B0 0F2 0B1 0B2");
  EXPECT_EQ(ToString(OneForwardOneBackward(/*stage=*/1, 2, 3)), "1F0 1B0 1F1 1B1 1F2 1B2");
  EXPECT_EQ(ToString(OneForwardOneBackward(0, 4, 2)), "0F0 0F1 0B0 0B1");
}

TEST(GPipe, IsThisPicture) {
  EXPECT_EQ(ToString(GPipe(/*stage=*/1, 2, 3)), "1F0 1F1 1F2 1B0 1B1 1B2");
}

TEST(ZeroBubbleH1, IsThisPicture) {
  EXPECT_EQ(ToString(ZeroBubbleH1(/*stage=*/0, 2, 3)), "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2");
  EXPECT_EQ(ToString(ZeroBubbleH1(/*stage=*/1, 2, 3)), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
}

class EverySchedule : public testing::TestWithParam<std::string> {};

// Shapes that the schedule takes: several numbers of ranks, chunks, micro-batches, depths.
std::vector<PipelineShape> Shapes(const Schedule& schedule) {
  std::vector<PipelineShape> shapes;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int more : {0, 1}) {
      for (const int microbatches : {1, 2, 3, 4, 8, 13, 16}) {
        const PipelineShape shape{.ranks = ranks,
                                  .chunks = schedule.least_chunks + more,
                                  .microbatches = microbatches,
                                  .depth = 1 + more};
        if (CheckShape(schedule, shape).ok()) shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

TEST_P(EverySchedule, RunsToItsEndWithinItsMemoryAndNoWorseABubbleThanGPipes) {
  const Schedule schedule = *FindSchedule(GetParam());
  const std::vector<PipelineShape> shapes = Shapes(schedule);
  EXPECT_GE(shapes.size(), 30);
  for (const PipelineShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "P " << shape.ranks << ", v " << shape.chunks << ", M "
                                    << shape.microbatches << ", depth " << shape.depth);
    const PipelineProgram program = ProgramOf(schedule, shape);
    EXPECT_TRUE(CheckProgram(program).ok()) << CheckProgram(program);
    EXPECT_TRUE(CheckMicrobatchOrder(program).ok()) << CheckMicrobatchOrder(program);
    EXPECT_EQ(Assemble(program.ranks)->rank_of_stage, program.rank_of_stage);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const int counted = PeakActivations(program.ranks[rank]);
      EXPECT_LE(counted, schedule.peak_activations(rank, shape)) << "rank " << rank;
      // Of ZB-V a bound, where there are too few micro-batches to fill the V.
      if (GetParam() == "zb-v" && shape.microbatches < 2 * shape.ranks) continue;
      if (!program.flushes() && counted == shape.microbatches) continue;  // more are of later steps
      EXPECT_EQ(counted, schedule.peak_activations(rank, shape)) << "rank " << rank;
    }
    for (int rank = 0; rank < shape.ranks; ++rank) {
      EXPECT_EQ(program.StagesOf(rank).size(), static_cast<size_t>(shape.chunks));
    }
    EXPECT_LE(
        BubbleFraction(program, /*backward_units=*/2),
        static_cast<double>(shape.ranks - 1) / (shape.microbatches + shape.ranks - 1) + 1e-12);
  }
}

TEST_P(EverySchedule, GlobalOrderHoldsEachProgramInItsOrder) {
  const PipelineProgram program = ProgramOf(*FindSchedule(GetParam()), 4, 8);
  std::vector<Program> seen(4);
  const Program order = *GlobalOrder(program);
  for (const Action& action : order) seen[program.rank_of_stage[action.stage]].push_back(action);
  EXPECT_EQ(seen, program.ranks);
}

INSTANTIATE_TEST_SUITE_P(Table, EverySchedule, testing::ValuesIn(ScheduleNames()), [](auto& info) {
  std::string name = info.param == "1f1b" ? "OneForwardOneBackward" : info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// By counting: where 1F1B of all steps' micro-batches comes to a forward, weights have changed as often as
// M backwards are done.
TEST(StepsLate, CountsTheUpdatesBetweenAForwardAndItsOwn) {
  for (const int stages : {1, 2, 4, 8}) {
    for (const int m : {1, 2, 3, 8, 16}) {
      constexpr int kSteps = 20;
      const PipelineProgram program = ProgramOf(*FindSchedule("1f1b-async"), stages, m);
      for (int stage = 0; stage < stages; ++stage) {
        int backwards = 0, sum = 0;
        for (const Action& action : OneForwardOneBackward(stage, stages, m * kSteps)) {
          if (action.op == Op::kBackward) ++backwards;
          if (action.op != Op::kForward || action.microbatch < 10 * m ||
              action.microbatch >= 11 * m) {
            continue;
          }
          const int late = 10 - backwards / m;
          EXPECT_EQ(program.StepsLate(stage, action.microbatch % m), late)
              << "S " << stages << ", M " << m << ", stage " << stage << ", " << ToString(action);
          sum += late;
        }
        EXPECT_DOUBLE_EQ(program.Staleness(stage), static_cast<double>(sum) / m);
        // 2505.01099 counts stages from 1: floor((2 (P - i) + 1) / (2 K)) updates where K = 1.
        const int published = (2 * (stages - (stage + 1)) + 1) / 2;
        EXPECT_EQ(m == 1 ? sum : published, published);
      }
    }
  }
  EXPECT_EQ(ProgramOf(*FindSchedule("1f1b"), 4, 1).StepsLate(0, 0), 0);
}

PipelineProgram Named(const char* name, int stages, int microbatches) {
  return ProgramOf(*FindSchedule(name), stages, microbatches);
}

// By hand: (S-1) slots of fill and drain; a slot of 1F1B is F and B, of ZB-H1's bubble one unit.
TEST(BubbleFraction, IsTheTextbooks) {
  for (int s : {2, 4, 8}) {
    for (int m : {1, 4, 16}) {
      for (const char* name : {"gpipe", "1f1b"}) {
        EXPECT_NEAR(BubbleFraction(Named(name, s, m)), (s - 1.0) / (m + s - 1), 1e-12) << name;
      }
    }
    const int m = 3 * s;
    EXPECT_NEAR(BubbleFraction(Named("zb-h1", s, m)), (s - 1.0) / (3 * m + s - 1), 1e-12);
  }
}

// v M slots of 1/v the work each; P - 1 of them fill and drain.
TEST(BubbleFraction, OfSeveralStagesARankIsDividedByThem) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3}) {
      const int m = 2 * p;
      for (const char* name : {"interleaved-1f1b", "looped-bfs"}) {
        const PipelineProgram program =
            ProgramOf(*FindSchedule(name), {.ranks = p, .chunks = v, .microbatches = m});
        EXPECT_NEAR(BubbleFraction(program), (p - 1.0) / (v * m + p - 1), 1e-12) << name;
      }
    }
  }
}

// Two chunks of F, I and W: 6 M units a rank, and P - 1 of them idle in all (Qi et al. 2024).
TEST(BubbleFraction, OfAVIsOneUnitForEachRankBehindTheFirst) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {2 * p, 4 * p}) {
      EXPECT_NEAR(BubbleFraction(Named("zb-v", p, m)), (p - 1.0) / (6 * m + p - 1), 1e-12);
    }
  }
}

// By hand, Narayanan et al.'s figure 4 in small; torch dumps the same (docs of the CSV).
TEST(Interleaved, IsThisPicture) {
  const PipelineProgram program = Named("interleaved-1f1b", 2, 4);
  EXPECT_EQ(ToString(program.ranks[0]),
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(ToString(program.ranks[1]),
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST(LoopedBreadthFirst, IsThisPicture) {
  EXPECT_EQ(ToString(Named("looped-bfs", 2, 2).ranks[1]), "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1");
}

TEST(ZeroBubbleV, HoldsBothEndsOnOneRank) {
  EXPECT_EQ(Named("zb-v", 4, 8).rank_of_stage, (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
  EXPECT_EQ(ToString(Named("zb-v", 1, 2).ranks[0]),
            "0F0 1F0 1I0 1W0 0F1 0I0 0W0 1F1 1I1 1W1 0I1 0W1");
}

TEST(DeepOneForwardOneBackward, Depth0Is1F1BAndDepthMHasAllForwardsFirst) {
  EXPECT_EQ(DeepOneForwardOneBackward(1, 4, 6, 0), OneForwardOneBackward(1, 4, 6));
  EXPECT_EQ(DeepOneForwardOneBackward(1, 4, 6, 6), GPipe(1, 4, 6));
  EXPECT_EQ(ToString(DeepOneForwardOneBackward(0, 2, 3, 1)), "0F0 0F1 0F2 0B0 0B1 0B2");
  EXPECT_EQ(ToString(DeepOneForwardOneBackward(0, 2, 5, 1)),
            "0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0B3 0B4");
  // (S-1-s)(1+d)+1, by hand for S = 4, d = 2: 10, 7, 4, 1.
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(PeakActivations(DeepOneForwardOneBackward(s, 4, 32, 2)), 10 - 3 * s);
  }
}

TEST(CheckShape, NamesWhatAScheduleIsNotMadeFor) {
  const auto refusal = [](const char* name, PipelineShape shape) {
    return std::string(CheckShape(*FindSchedule(name), shape).message());
  };
  EXPECT_EQ(refusal("interleaved-1f1b", {.ranks = 4, .chunks = 2, .microbatches = 6}), "");
  EXPECT_EQ(
      refusal("interleaved-1f1b", {.ranks = 4, .chunks = 2, .microbatches = 9}),
      "schedule 'interleaved-1f1b' of 9 micro-batches wants a multiple of its 2 rounds over 4 "
      "ranks: 8 or 10");
  EXPECT_THAT(refusal("1f1b", {.ranks = 4, .chunks = 2, .microbatches = 8}),
              HasSubstr("'1f1b' is of 1 chunks (stages of a rank), not of 2"));
  EXPECT_THAT(refusal("zb-v", {.ranks = 4, .chunks = 3, .microbatches = 8}),
              HasSubstr("of 2 chunks"));
  EXPECT_THAT(refusal("looped-bfs", {.ranks = 4, .microbatches = 8}),
              HasSubstr("of 2 to 64 chunks"));
}

TEST(OneForwardOneBackward, KeepsAtMostAsManyActivationsAsStagesFollow) {
  for (int s = 0; s < 8; ++s) EXPECT_EQ(PeakActivations(OneForwardOneBackward(s, 8, 32)), 8 - s);
}

TEST(PeakActivations, AWeightGradientThatComesTooEarlyKeepsItsMicrobatch) {
  const auto program = [](const char* text) {
    Program out;
    for (std::string_view rest = text; !rest.empty();
         rest.remove_prefix(std::min<size_t>(4, rest.size()))) {
      out.push_back(*ParseAction(rest.substr(0, 3)));
    }
    return out;
  };
  EXPECT_EQ(PeakActivations(program("0F0 0I0 0W0 0F1 0I1 0W1")), 1);
  EXPECT_EQ(PeakActivations(program("0F0 0I0 0F1 0I1 0W1 0F2 0I2 0W0 0W2")), 3);
}

TEST(FindSchedule, UnknownNameListsTheKnownOnes) {
  const absl::Status status = FindSchedule("1f2b").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gpipe, 1f1b, 1f1b-deep, zb-h1"));
}

TEST(Action, ReadsBackWhatItPrintsAndNothingElse) {
  for (const char* text : {"0F0", "12B3", "7I10", "1W0"}) {
    const auto action = ParseAction(text);
    ASSERT_TRUE(action.has_value()) << text;
    EXPECT_EQ(ToString(*action), text);
  }
  for (const char* text : {"", "F0", "0F", "0F0 ", " 0F0", "0f0", "0F0junk", "00F0", "0F-1", "-0F0",
                           "0X0", "0FF0", "99999999999F0", "+1F0", "0BW0"}) {
    EXPECT_FALSE(ParseAction(text).has_value()) << text;
  }
}

constexpr Action F(int s, int m) { return {s, Op::kForward, m}; }
constexpr Action B(int s, int m) { return {s, Op::kBackward, m}; }
constexpr Action I(int s, int m) { return {s, Op::kInputGradient, m}; }
constexpr Action W(int s, int m) { return {s, Op::kWeightGradient, m}; }

absl::Status Check(std::vector<Program> ranks) {
  const auto program = Assemble(std::move(ranks));
  return program.ok() ? CheckProgram(*program) : program.status();
}
std::string Refusal(std::vector<Program> ranks) {
  const absl::Status status = Check(std::move(ranks));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CheckProgram, RefusesBrokenPrograms) {
  EXPECT_TRUE(Check({{F(0, 0), B(0, 0)}, {F(1, 0), B(1, 0)}}).ok());
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {F(1, 0)}}), HasSubstr("no backward of micro-batch 0"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {B(1, 0), F(1, 0)}}), HasSubstr("before its forward"));
  EXPECT_THAT(Refusal({{F(0, 0), F(0, 0), B(0, 0)}, {F(1, 0), B(1, 0)}}), HasSubstr("runs twice"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {F(0, 0), B(0, 0)}}),
              HasSubstr("rank 0 holds that stage too"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {F(2, 0), B(2, 0)}}), HasSubstr("nobody holds stage 1"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {}}), HasSubstr("rank 1 does nothing"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0), F(0, 1 << 30)}}), HasSubstr("out of range"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0)}, {F(1, 0), B(1, 0), F(1, 1), B(1, 1)}}),
              HasSubstr("stage 0: no forward of micro-batch 1"));
  EXPECT_THAT(Refusal({{F(0, 0), F(0, 1), B(0, 0), B(0, 1)}, {F(1, 1), F(1, 0), B(1, 0), B(1, 1)}}),
              HasSubstr("run their forwards in different orders"));
  // Stage 1 wants the second forward before it gives the first gradient, stage 0 the other way.
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0), F(0, 1), B(0, 1)}, {F(1, 0), F(1, 1), B(1, 0), B(1, 1)}}),
              HasSubstr("deadlock, ranks wait at 0B0 1F1"));
}

TEST(CheckProgram, KnowsASplitBackward) {
  EXPECT_TRUE(Check({{F(0, 0), I(0, 0), W(0, 0)}}).ok());
  EXPECT_TRUE(Check({{F(0, 0), F(0, 1), I(0, 0), B(0, 1), W(0, 0)}}).ok());
  EXPECT_THAT(Refusal({{F(0, 0), W(0, 0), I(0, 0)}}), HasSubstr("before its I"));
  EXPECT_THAT(Refusal({{F(0, 0), I(0, 0)}}), HasSubstr("no W of micro-batch 0"));
  EXPECT_THAT(Refusal({{F(0, 0), I(0, 0), B(0, 0)}}), HasSubstr("runs twice"));
  EXPECT_THAT(Refusal({{F(0, 0), B(0, 0), W(0, 0)}}), HasSubstr("runs twice"));
}

TEST(CheckMicrobatchOrder, LetsOnlyWComeOutOfOrder) {
  const auto check = [](Program program) {
    return std::string(CheckMicrobatchOrder(*Assemble({std::move(program)})).message());
  };
  EXPECT_EQ(check({F(0, 0), F(0, 1), I(0, 0), I(0, 1), W(0, 1), W(0, 0)}), "");
  EXPECT_THAT(check({F(0, 1), F(0, 0), B(0, 0), B(0, 1)}), HasSubstr("0F1 before that of"));
  EXPECT_THAT(check({F(0, 0), F(0, 1), B(0, 1), B(0, 0)}), HasSubstr("0B1 before that of"));
}

// Two ranks of two stages each, looped: stage s is on rank s mod 2.
TEST(Communication, FollowsFromActionsAndPlacement) {
  const PipelineProgram program =
      *Assemble({{F(0, 0), F(2, 0), B(2, 0), B(0, 0)}, {F(1, 0), F(3, 0), B(3, 0), B(1, 0)}});
  EXPECT_EQ(program.rank_of_stage, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_TRUE(CheckProgram(program).ok()) << CheckProgram(program);
  const auto comms = Communication(program);
  const auto act = [](int from, int to) {
    return RankMessage{{MessageKind::kActivation, from, to, 0}, from % 2, to % 2};
  };
  const auto grad = [](int from, int to) {
    return RankMessage{{MessageKind::kGradient, from, to, 0}, from % 2, to % 2};
  };
  EXPECT_THAT(comms[0].sends, testing::ElementsAre(act(0, 1), act(2, 3), grad(2, 1)));
  EXPECT_THAT(comms[0].receives, testing::ElementsAre(act(1, 2), grad(3, 2), grad(1, 0)));
  EXPECT_THAT(comms[1].sends, testing::ElementsAre(act(1, 2), grad(3, 2), grad(1, 0)));
}

TEST(Communication, BetweenStagesOfOneRankThereIsNone) {
  const auto comms = Communication(*Assemble({{F(0, 0), F(1, 0), B(1, 0), B(0, 0)}}));
  EXPECT_THAT(comms[0].sends, testing::IsEmpty());
  EXPECT_THAT(comms[0].receives, testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul
