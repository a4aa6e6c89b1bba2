// When groups meet and over what, against tables written by hand and a public program's timing.
#include "pp_group/outer/outer_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {

void PrintTo(const OuterExchange& e, std::ostream* out) {
  *out << e.begun << " > " << e.applied << " of " << e.fragment;
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<OuterExchange> All(const OuterPlan& plan) {
  std::vector<OuterExchange> all;
  for (int64_t step = 0; step <= plan.steps() + 1; ++step) {
    for (const OuterExchange& e : plan.BegunAfter(step)) all.push_back(e);
  }
  return all;
}

TEST(OuterPlan, MeetsAfterEveryHAndAfterTheLast) {
  const auto begun = [](int64_t inner_steps, int64_t steps) {
    std::vector<int64_t> at;
    const OuterPlan plan({.inner_steps = inner_steps}, steps);
    for (const OuterExchange& e : All(plan)) {
      EXPECT_EQ(e.applied, e.begun);
      EXPECT_EQ(e.fragment, 0);
      at.push_back(e.begun);
    }
    EXPECT_EQ(plan.Exchanges(0), static_cast<int64_t>(at.size()));
    return at;
  };
  EXPECT_THAT(begun(4, 11), ElementsAre(4, 8, 11));
  EXPECT_THAT(begun(4, 8), ElementsAre(4, 8));
  EXPECT_THAT(begun(1, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(begun(20, 3), ElementsAre(3));
  EXPECT_THAT(begun(0, 5), IsEmpty());
}

// MaxText's timing: P = 4, H = 12, V = 1; then what ends a run of 20 steps.
TEST(OuterPlan, FragmentsTakeTurns) {
  const OuterPlan plan(
      {.inner_steps = 12, .algorithm = "streaming", .fragments = 4, .overlap_steps = 1}, 20);
  EXPECT_THAT(All(plan), ElementsAre(OuterExchange{3, 4, 1}, OuterExchange{6, 7, 2},
                                     OuterExchange{9, 10, 3}, OuterExchange{12, 13, 0},
                                     OuterExchange{15, 16, 1}, OuterExchange{18, 19, 2},
                                     OuterExchange{20, 20, 0}, OuterExchange{20, 20, 1},
                                     OuterExchange{20, 20, 2}, OuterExchange{20, 20, 3}));
  EXPECT_THAT(plan.InFlightAfter(12), ElementsAre(OuterExchange{12, 13, 0}));
  EXPECT_THAT(plan.InFlightAfter(13), IsEmpty());
  EXPECT_THAT(plan.AppliedAfter(13), ElementsAre(OuterExchange{12, 13, 0}));
  for (int64_t f = 0; f < 4; ++f) {
    EXPECT_EQ(plan.Exchanges(f), (std::vector<int64_t>{2, 3, 3, 2}[f])) << f;
    EXPECT_EQ(plan.Exchanges(f, 9), (std::vector<int64_t>{2, 2, 2, 1}[f])) << f;
  }
}

// What is on its way when the run ends is applied then, before everything is exchanged once more.
TEST(OuterPlan, AResultIsDueAtTheEndAtTheLatest) {
  const OuterPlan plan({.inner_steps = 4, .algorithm = "streaming", .overlap_steps = 4}, 10);
  EXPECT_THAT(All(plan), ElementsAre(OuterExchange{4, 8, 0}, OuterExchange{8, 10, 0},
                                     OuterExchange{10, 10, 0}));
  EXPECT_THAT(plan.InFlightAfter(8), ElementsAre(OuterExchange{8, 10, 0}));
  EXPECT_THAT(plan.AppliedAfter(8), ElementsAre(OuterExchange{4, 8, 0}));
  EXPECT_THAT(plan.AppliedAfter(10),
              ElementsAre(OuterExchange{8, 10, 0}, OuterExchange{10, 10, 0}));
  EXPECT_EQ(plan.Exchanges(0), 3);
  EXPECT_EQ(plan.Exchanges(0, 8), 1);
}

// Counted one by one, for every spec of a small grid.
TEST(OuterPlan, CountsAndLists) {
  for (int64_t fragments : {1, 2, 3}) {
    for (int64_t apart : {1, 2, 5}) {
      for (int64_t overlap = 0; overlap <= apart; ++overlap) {
        for (int64_t steps = 1; steps <= 23; ++steps) {
          const OuterPlan plan({.inner_steps = fragments * apart,
                                .algorithm = "streaming",
                                .fragments = fragments,
                                .overlap_steps = overlap},
                               steps);
          for (int64_t done = 0; done <= steps; ++done) {
            std::vector<int64_t> left(static_cast<size_t>(fragments), 0);
            for (const OuterExchange& e : All(plan)) left[e.fragment] += e.begun > done;
            for (int64_t f = 0; f < fragments; ++f) {
              ASSERT_EQ(plan.Exchanges(f, done), left[f])
                  << fragments << " " << apart << " " << steps << " " << done << " " << f;
            }
            ASSERT_LE(plan.InFlightAfter(done).size(), 1U);
          }
        }
      }
    }
  }
}

TEST(OuterPlan, RoundsAreHStepsAndTheLastMayBeShorter) {
  const OuterPlan plan({.inner_steps = 4}, 10);
  EXPECT_EQ(plan.rounds(), 3);
  EXPECT_EQ(plan.RoundOf(1), 1);
  EXPECT_EQ(plan.RoundOf(4), 1);
  EXPECT_EQ(plan.RoundOf(5), 2);
  EXPECT_EQ(plan.FirstStepOf(3), 9);
  EXPECT_EQ(plan.LastStepOf(3), 10);
  EXPECT_EQ(plan.EndOfRound(6), 8);
  EXPECT_TRUE(plan.EndsRound(8));
  EXPECT_FALSE(plan.EndsRound(9));
  EXPECT_TRUE(plan.EndsRound(10));
  EXPECT_EQ(plan.RoundsBy(3), 0);
  EXPECT_EQ(plan.RoundsBy(8), 2);
  EXPECT_EQ(plan.RoundsBy(10), 3);
}

TEST(OuterPlan, GradientsCrossInEveryStep) {
  const OuterPlan plan({.inner_steps = 0, .algorithm = "dp"}, 7);
  EXPECT_TRUE(plan.gradients());
  EXPECT_TRUE(plan.meets());
  EXPECT_FALSE(plan.exchanges());
  EXPECT_EQ(plan.rounds(), 7);
  EXPECT_EQ(plan.Exchanges(0), 7);
  EXPECT_EQ(plan.Exchanges(0, 3), 4);
  EXPECT_THAT(All(plan), IsEmpty());
}

// Who meets whom is drawn anew each time; in one exchange a group is in one meeting.
TEST(OuterPlan, PairsAreDrawnAnewAndAllMeetAtTheEnd) {
  const OuterPlan plan({.inner_steps = 2, .algorithm = "noloco"}, 41, /*groups=*/5, /*seed=*/7);
  EXPECT_FALSE(plan.all_meet());
  std::set<std::vector<std::vector<int>>> drawn;
  std::map<std::pair<int, int>, int64_t> met;
  for (int64_t step = 2; step < 41; step += 2) {
    const auto meetings = plan.Meetings({step, step, 0});
    ASSERT_EQ(meetings.size(), 3U);
    std::vector<int> all;
    for (const std::vector<int>& m : meetings) {
      EXPECT_TRUE(std::is_sorted(m.begin(), m.end()));
      all.insert(all.end(), m.begin(), m.end());
      for (const int g : m) EXPECT_EQ(plan.MembersOf({step, step, 0}, g), m);
      if (m.size() == 2) ++met[{m[0], m[1]}], ++met[{m[1], m[0]}];
    }
    EXPECT_THAT(all, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
    drawn.insert(meetings);
  }
  EXPECT_GT(drawn.size(), 10U);
  EXPECT_THAT(plan.Meetings({41, 41, 0}), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  for (int a = 0; a < 5; ++a) {
    for (int b = 0; b < 5; ++b) {
      if (a == b) continue;
      const int64_t turns = met[{a, b}] + 1;
      EXPECT_EQ(plan.Exchanges(0, 0, a, b), turns) << a << b;
    }
  }
}

TEST(OuterPlan, ClustersMeetEveryRoundAndEachOtherNowAndThen) {
  const OuterPlan plan(
      {.inner_steps = 3, .algorithm = "hierarchical", .cluster_groups = 2, .global_every = 2}, 16,
      /*groups=*/6);
  EXPECT_THAT(
      All(plan),
      ElementsAre(OuterExchange{3, 3, 0}, OuterExchange{6, 6, 0}, OuterExchange{6, 6, 1},
                  OuterExchange{9, 9, 0}, OuterExchange{12, 12, 0}, OuterExchange{12, 12, 1},
                  OuterExchange{15, 15, 0}, OuterExchange{16, 16, 0}, OuterExchange{16, 16, 1}));
  EXPECT_THAT(plan.Meetings({6, 6, 0}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(plan.Meetings({6, 6, 1}), ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
  EXPECT_EQ(plan.Exchanges(0), 6);
  EXPECT_EQ(plan.Exchanges(1), 3);
  EXPECT_EQ(plan.Exchanges(1, 6), 2);
  EXPECT_EQ(plan.Exchanges(1, 0, 0, 2), 3);
  EXPECT_EQ(plan.Exchanges(1, 0, 0, 1), 0);
  EXPECT_EQ(plan.Exchanges(0, 0, 0, 1), 6);
  EXPECT_EQ(plan.MeetingSize(0), 2);
  EXPECT_EQ(plan.MeetingSize(1), 3);
}

struct Refused {
  OuterSpec spec;
  const char* says;
};

TEST(OuterFigures, ThatDoNotFitAreRefusedInOneLineThatNamesThem) {
  const auto streaming = [](int64_t h, int64_t fragments, int64_t overlap, double mix = 0) {
    return OuterSpec{.inner_steps = h,
                     .algorithm = "streaming",
                     .fragments = fragments,
                     .overlap_steps = overlap,
                     .mix = mix};
  };
  for (const auto& [spec, says] : std::vector<Refused>{
           {streaming(100, 37, 0), "inner_steps 100 is not a multiple of fragments 37"},
           {streaming(90, 45, 0), "fragments 45 of 40 blocks"},
           {streaming(12, 4, 4), "overlap_steps 4: the next fragment is begun after 3 steps"},
           {{.inner_steps = 12, .fragments = 2}, "'diloco' exchanges everything at once"},
           {{.inner_steps = 12,
           .algorithm = "hierarchical",
           .cluster_groups = 3,
           .global_every = 1},
            "cluster_groups 3, global_every 1 with 4 groups"},
           {{.inner_steps = 12, .cluster_groups = 2},
            "are of levels; the algorithm 'diloco' has none"},
           {{.inner_steps = 12, .algorithm = "dilco"}, "'dilco' is not known; there are diloco"}}) {
    const absl::Status status = CheckOuterFigures(spec, 40, 4);
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("\n")));
  }
  EXPECT_TRUE(CheckOuterFigures(streaming(12, 4, 3, 0.5), 40, 4).ok());
  EXPECT_THAT(
      std::string(CheckOuterFigures({.inner_steps = 2, .algorithm = "noloco"}, 40, 1).message()),
      HasSubstr("it has nobody to meet"));
}

// Ten rounds of which two warm up: then 8 eighths, 7, ... 1, or half a cosine.
TEST(OuterPlan, TheRateGrowsAndFallsByRounds) {
  OuterSpec spec{.inner_steps = 3, .lr_schedule = "linear", .lr_warmup_rounds = 2};
  const OuterPlan linear(spec, 30);
  std::vector<double> shares;
  for (int64_t step = 3; step <= 30; step += 3) shares.push_back(linear.RateShare(step));
  EXPECT_THAT(shares, ElementsAre(0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125));
  EXPECT_EQ(linear.RateShare(4), linear.RateShare(6));
  spec.lr_schedule = "cosine";
  const OuterPlan cosine(spec, 30);
  EXPECT_DOUBLE_EQ(cosine.RateShare(9), 1);
  EXPECT_DOUBLE_EQ(cosine.RateShare(21), 0.5);
  EXPECT_NEAR(cosine.RateShare(30), 0.5 - 0.5 * 0.9238795325, 1e-9);  // cos(pi / 8)
  const OuterPlan constant({.inner_steps = 3}, 30);
  EXPECT_EQ(constant.RateShare(3), 1);
  EXPECT_EQ(constant.RateShare(30), 1);
}

TEST(OuterRules, CodecsOfAWarmUp) {
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  OuterSpec spec{.inner_steps = 0, .codec = "dgc", .algorithm = "dgc", .warmup_steps = 10};
  EXPECT_THAT(
      CodecsOf(spec),
      ElementsAre(CodecUntil{2, "topk-1024of4096+fp16+mc"}, CodecUntil{5, "topk-256of4096+fp16+mc"},
                  CodecUntil{7, "topk-64of4096+fp16+mc"}, CodecUntil{10, "topk-16of4096+fp16+mc"},
                  CodecUntil{kEver, "dgc"}));
  spec.algorithm = "dp";
  spec.codec = "int4-b64+ef";
  EXPECT_THAT(CodecsOf(spec),
              ElementsAre(CodecUntil{10, "none"}, CodecUntil{kEver, "int4-b64+ef"}));
  spec.warmup_steps = 0;
  EXPECT_THAT(CodecsOf(spec), ElementsAre(CodecUntil{kEver, "int4-b64+ef"}));
}

TEST(OuterRules, WhatDoesNotFitIsRefusedInOneLine) {
  const auto refused = [](const OuterSpec& spec, const char* why) {
    const absl::Status status = CheckOuterFigures(spec, 8, 2);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refused({.inner_steps = 4, .warmup_steps = 2}, "the algorithm 'diloco' sends none");
  refused({.inner_steps = 0, .algorithm = "dp", .lr_schedule = "cosine"},
          "the algorithm 'dp' takes none");
  refused({.inner_steps = 0, .codec = "onebit-adam", .algorithm = "onebit-adam"},
          "without outer warmup_steps");
  refused({.inner_steps = 0, .codec = "int4-b64", .algorithm = "dgc"}, "want one with +mc");
  refused({.inner_steps = 4, .algorithm = "eager", .overlap_steps = 2}, "its result a round later");
  refused({.inner_steps = 4, .algorithm = "eager", .fragments = 2, .overlap_steps = 2},
          "its result a round later");
}

}  // namespace
}  // namespace longhaul
