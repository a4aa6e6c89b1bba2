// What stands beside the table of keys: faults, campaigns, timing grids, injected compute and the
// schedule of groups. Each figure at both ends and just beyond them, by hand; each list with two
// entries that differ, so that nothing takes the first for all.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/round_plan.h"
#include "experiments/spec/timing_grid.h"
#include "netem/topology/toml_tree.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Pair;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The double next to `value` on the other side of a bound, as TOML.
std::string Below(double value) { return TomlNumber(std::nextafter(value, -kInf)); }
std::string Above(double value) { return TomlNumber(std::nextafter(value, kInf)); }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Three groups of two stages for 100 steps.
absl::Status ReadFault(const std::string& fields) {
  return ReadFaults(*ParseToml("[[fault]]\n" + fields, "demo.toml"),
                    {.steps = 100, .groups = 3, .stages = 2})
      .status();
}

TEST(FaultBounds, EachFigureReachesBothEndsAndNoFurther) {
  struct Case {
    std::string fields, key, least, below, most, above, range;
  };
  const std::string at = "at_step = 5\n", group = "where = \"group 1\"\n",
                    link = "where = \"link 0 > 2\"\n";
  for (const Case& c : {
           Case{"what = \"kill\"\n" + group, "at_step", "1", "0", "100", "101", "1 to 100"},
           Case{"what = \"kill\"\n" + group, "mean_time_between_steps", "1", Below(1), "1e12",
                Above(1e12), "1 to 1000000000000 steps"},
           Case{"what = \"slow\"\nfactor = 2\n" + at + group, "for_steps", "1", "0", "100", "101",
                "1 to 100 steps"},
           Case{"what = \"stop\"\n" + at + group, "for_s", "0.001", Below(0.001), "86400",
                Above(86400), "0.001 to 86400 s"},
           Case{"what = \"slow\"\n" + at + group, "factor", "1", Below(1), "1e6", Above(1e6),
                "1 to 1000000"},
           Case{"what = \"poison\"\n" + at + group, "factor", "-1e30", Below(-1e30), "1e30",
                Above(1e30), "-1e+30 to 1e+30"},
           Case{"what = \"link_rate\"\n" + at + link, "rate_mbit", "0.001", Below(0.001), "1e6",
                Above(1e6), "0.001 to 1000000 Mbit/s"},
           Case{"what = \"link_delay\"\n" + at + link, "delay_ms", "0", Below(0), "600000",
                Above(600000), "0 to 600000 ms"},
       }) {
    const auto with = [&](const std::string& value) {
      return ReadFault(c.key + " = " + value + "\n" + c.fields);
    };
    EXPECT_TRUE(with(c.least).ok()) << c.key << with(c.least);
    EXPECT_TRUE(with(c.most).ok()) << c.key << with(c.most);
    EXPECT_THAT(Message(with(c.below)), EndsWith(c.range)) << c.key;
    EXPECT_THAT(Message(with(c.above)), EndsWith(c.range)) << c.key;
  }
}

TEST(FaultBounds, PlacesReachTheLastOneAndNoFurther) {
  const std::string kill = "what = \"kill\"\nat_step = 5\n",
                    down = "what = \"link_down\"\nat_step = 5\n";
  EXPECT_TRUE(ReadFault(kill + "where = \"group 2 stage 1\"\n").ok());
  EXPECT_FALSE(ReadFault(kill + "where = \"group 3 stage 1\"\n").ok());
  EXPECT_FALSE(ReadFault(kill + "where = \"group 2 stage 2\"\n").ok());
  EXPECT_TRUE(ReadFault(down + "where = \"link 5 > 0\"\n").ok());
  EXPECT_FALSE(ReadFault(down + "where = \"link 6 > 0\"\n").ok());
  EXPECT_FALSE(ReadFault(down + "where = \"link 0 > 6\"\n").ok());
  EXPECT_FALSE(ReadFault(down + "where = \"link 0 > 1\"\nfor_s = 1\nfor_steps = 1\n").ok());
}

TEST(FaultBounds, AScriptHasAtMost4096) {
  std::string text;
  for (int i = 0; i < 4096; ++i) text += "[[fault]]\nwhat=\"kill\"\nwhere=\"lab\"\nat_step=1\n";
  const auto read = [](const std::string& toml) {
    return ReadFaults(*ParseToml(toml, "f.toml"), {.steps = 1, .groups = 1, .stages = 1});
  };
  ASSERT_TRUE(read(text).ok()) << read(text).status();
  EXPECT_EQ(read(text)->size(), 4096u);
  const std::string more = text + "[[fault]]\nwhat=\"kill\"\nwhere=\"lab\"\nat_step=1\n";
  EXPECT_THAT(Message(read(more).status()), HasSubstr("4097 tables [[fault]]; want at most 4096"));
}

TEST(FaultScript, TwoFaultsKeepTheirOwnFiguresAndTheLaterStepComesLater) {
  const auto faults = ReadFaults(*ParseToml(R"(
[[fault]]
what = "link_rate"
where = "link 1 > 3"
at_step = 30
rate_mbit = 7
for_s = 2
[[fault]]
what = "link_delay"
where = "link 4 - 2"
at_step = 20
delay_ms = 11
for_steps = 3
)",
                                            "f.toml"),
                                 {.steps = 100, .groups = 3, .stages = 2});
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ((*faults)[0].rate_mbit, 7);
  EXPECT_EQ((*faults)[0].delay_ms, 0);
  EXPECT_EQ((*faults)[1].delay_ms, 11);
  EXPECT_EQ((*faults)[1].rate_mbit, 0);
  const auto drawn = DrawFaults(*faults, {.steps = 100, .groups = 3, .stages = 2}, 1);
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_EQ(Describe(drawn[0]), "step 20: link_delay, link 4 - 2, 11 ms, for 3 steps");
  EXPECT_EQ(Describe(drawn[1]), "step 30: link_rate, link 1 > 3, 7 Mbit/s, for 2 s");
}

std::string CampaignText(const std::string& table, const std::string& arms) {
  return "[campaign]\n" + table + arms + kArmsToml + "rows = 64\n";
}
constexpr char kTable[] = R"(name = "demo"
question = "?"
seeds = [1, 2]
d0_tokens = 400_000
budgets = [0.5, 1.0]
)";
constexpr char kArm[] = R"([[arm]]
name = "s2"
stages = 2
forward = "int4-b64-h64"
backward = "int8-b64"
)";

absl::StatusOr<CampaignSpec> Campaign(const std::vector<std::string>& sets,
                                      const std::string& arms = kArm) {
  TomlValue root = *ParseToml(CampaignText(kTable, arms), "c.toml");
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  return ReadCampaign(root, TestNames());
}

TEST(CampaignBounds, EachKeyReachesBothEndsAndNoFurther) {
  struct Case {
    std::string key, least, below, most, above, range;
  };
  for (const Case& c : {
           Case{"d0_tokens", "1", "0", "1000000000", "1000000000000001",
                "1 to 1000000000000000 tokens"},
           Case{"seeds", "[0]", "[-1]", "[9223372036854775807]", "[1, -1]", "0 or more each"},
           Case{"budgets", "[1.0, 1e-6]", "[1.0, " + Below(1e-6) + "]", "[1.0, 1000]",
                "[1.0, " + Above(1000) + "]", "1e-06 to 1000 each"},
           Case{"control_budgets", "[1e-6]", "[" + Below(1e-6) + "]", "[1000]",
                "[" + Above(1000) + "]", "1e-06 to 1000 each"},
           Case{"assumed_sigma_nat", "1e-9", Below(1e-9), "1000", Above(1000), "1e-09 to 1000 nat"},
           Case{"assumed_slope_nat", "1e-9", Below(1e-9), "1000", Above(1000), "1e-09 to 1000 nat"},
           Case{"assumed_rho", "0", Below(0), "0.999999", Above(0.999999), "0 to 0.999999"},
           Case{"warmup_share", "0", Below(0), "1", Above(1), "0 to 1"},
       }) {
    const auto with = [&](const std::string& value) {
      return Campaign({"campaign." + c.key + "=" + value}).status();
    };
    EXPECT_TRUE(with(c.least).ok()) << c.key << with(c.least);
    EXPECT_TRUE(with(c.most).ok()) << c.key << with(c.most);
    EXPECT_THAT(Message(with(c.below)), EndsWith(c.range)) << c.key;
    EXPECT_THAT(Message(with(c.above)), EndsWith(c.range)) << c.key;
  }
  const std::string x64(64, 'x'), x1024(1024, 'x');
  EXPECT_TRUE(Campaign({"campaign.name=" + x64, "campaign.question=" + x1024}).ok());
  EXPECT_THAT(Message(Campaign({"campaign.name=" + x64 + "x"}).status()), HasSubstr("1 to 64 "));
  EXPECT_THAT(Message(Campaign({"campaign.question=" + x1024 + "x"}).status()),
              HasSubstr("1 to 1024 "));
  EXPECT_FALSE(Campaign({"campaign.budgets=[1.0]"}).ok()) << "one point is no curve";
}

// The message of an unknown key lists the known ones: a new one is to get its bounds above.
TEST(CampaignBounds, TheseAreItsKeys) {
  EXPECT_THAT(Message(Campaign({"campaign.x=1"}).status()),
              EndsWith("known: assumed_rho, assumed_sigma_nat, assumed_slope_nat, blocks, budgets, "
                       "codecs, control_budgets, d0_tokens, inner_steps, name, noise_codecs, "
                       "outer_codecs, primary, question, replicas, seeds, strong_codecs, "
                       "target_loss_nat, tier, warmup_share"));
}

TEST(CampaignBounds, RunsAndArmsReachTheirNumberAndNoFurther) {
  const auto arms = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += fmt::format(
          "[[arm]]\nname = \"a{}\"\nstages = 2\nforward = \"none\"\nbackward = \"none\"\n", i);
    }
    return text;
  };
  EXPECT_EQ(Campaign({"campaign.seeds=[1]"}, arms(256))->arms.size(), 256u);
  EXPECT_THAT(Message(Campaign({"campaign.seeds=[1]"}, arms(257)).status()),
              HasSubstr("want at most 256 arms"));
  // Two budgets and two arms: 1,024 seeds are 4,096 runs.
  const auto seeds = [](int count) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i) all.push_back(i);
    return fmt::format("campaign.seeds=[{}]", fmt::join(all, ", "));
  };
  EXPECT_EQ(Campaign({seeds(1024)}, arms(2))->runs.size(), 4096u);
  EXPECT_THAT(Message(Campaign({seeds(1025)}, arms(2)).status()), HasSubstr("and 4096 runs"));
  const std::string named = std::string("[[arm]]\nname = \"") + std::string(64, 'n') + "\"\n";
  const std::string longer = std::string("[[arm]]\nname = \"") + std::string(65, 'n') + "\"\n";
  const std::string rest = "stages = 2\nforward = \"none\"\nbackward = \"none\"\n";
  EXPECT_TRUE(Campaign({}, named + rest).ok());
  EXPECT_FALSE(Campaign({}, longer + rest).ok());
  EXPECT_TRUE(CheckArmName("--name", std::string(64, 'n')).ok());
  EXPECT_FALSE(CheckArmName("--name", std::string(65, 'n')).ok());
}

TEST(Campaign, TwoArmsDifferInEveryKeyThatTheySay) {
  const auto c = Campaign({}, std::string(kArm) + R"([[arm]]
name = "s4"
stages = 4
forward = "int8-b64"
backward = "none"
train.lr = 1e-3
held_out = true
fault = []
[[arm]]
name = "s8"
stages = 8
forward = "none"
backward = "none"
)");
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_EQ(c->runs.size(), 2u * (2 + 3));
  const auto text = [&](size_t i) {
    const PlannedRun& run = c->runs[i];
    return fmt::format("{} seed {} S {} {} / {} lr {}{}", run.arm, run.spec.seed,
                       run.spec.schedule.stages, run.spec.boundary.forward,
                       run.spec.boundary.backward, run.spec.train.lr,
                       run.held_out ? " held out" : "");
  };
  EXPECT_EQ(text(0), "reference@0.5 seed 1 S 1 none / none lr 0.003");
  EXPECT_EQ(text(2), "s2 seed 1 S 2 int4-b64-h64 / int8-b64 lr 0.003");
  EXPECT_EQ(text(3), "s4 seed 1 S 4 int8-b64 / none lr 0.001 held out");
  EXPECT_EQ(text(8), "s4 seed 2 S 4 int8-b64 / none lr 0.001 held out");
  EXPECT_EQ(text(9), "s8 seed 2 S 8 none / none lr 0.003");
  EXPECT_EQ(c->runs[0].spec.train.tokens, 200'000);
  EXPECT_EQ(c->runs[1].spec.train.tokens, 400'000);
  EXPECT_THAT(*PlannedHeldOut(PlanText(*c, {})), ElementsAre("s4"));
}

constexpr char kGrid[] = R"([timing]
name = "grid"
question = "?"
repeats = 1
profiles = ["regional"]
codecs = ["none"]
schedules = ["gpipe"]
stages = [2]
groups = [1]
)";

absl::StatusOr<TimingGrid> Grid(const std::vector<std::string>& sets) {
  TomlValue root = *ParseToml(kGrid + std::string(kRunToml).substr(sizeof "seed = 1"), "grid.toml");
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  return ReadTimingGrid(root, TestNames());
}

TEST(TimingBounds, EachKeyReachesBothEndsAndNoFurther) {
  EXPECT_EQ(Grid({"timing.repeats=1"})->runs.size(), 1u);
  EXPECT_EQ(Grid({"timing.repeats=1000"})->runs.size(), 1000u);
  for (const char* repeats : {"timing.repeats=0", "timing.repeats=1001"}) {
    EXPECT_THAT(Message(Grid({repeats}).status()), EndsWith("want 1 to 1000"));
  }
  const std::vector<std::string> eight = {"timing.stages=[1, 2, 4, 8]",
                                          "timing.codecs=[\"none\", \"int8-b64\"]"};
  const auto repeated = [&](const char* repeats) {
    std::vector<std::string> sets = eight;
    sets.emplace_back(repeats);
    return Grid(sets);
  };
  EXPECT_EQ(repeated("timing.repeats=512")->runs.size(), 4096u);
  EXPECT_THAT(Message(repeated("timing.repeats=513").status()),
              HasSubstr("makes 4104 runs; want at most 4096"));
  const std::string x64(64, 'x'), x1024(1024, 'x');
  EXPECT_TRUE(Grid({"timing.name=" + x64, "timing.question=" + x1024}).ok());
  EXPECT_FALSE(Grid({"timing.name=" + x64 + "x"}).ok());
  EXPECT_FALSE(Grid({"timing.question=" + x1024 + "x"}).ok());
  EXPECT_THAT(Message(Grid({"timing.x=1"}).status()),
              EndsWith("known: codecs, groups, name, profiles, question, repeats, schedules, "
                       "stages"));
}

TEST(TimingGrid, TwoGroupsAreAnAxisOfTheirOwn) {
  const auto grid = Grid(
      {"timing.groups=[1, 3]", "timing.stages=[2, 4]", "outer.inner_steps=2", "outer.codec=none"});
  ASSERT_TRUE(grid.ok()) << grid.status();
  std::vector<std::pair<int64_t, int64_t>> cells;
  for (const PlannedRun& run : grid->runs) {
    cells.emplace_back(run.spec.outer.groups, run.spec.schedule.stages);
  }
  EXPECT_THAT(cells, ElementsAre(Pair(1, 2), Pair(3, 2), Pair(1, 4), Pair(3, 4)));
  EXPECT_EQ(grid->runs[1].arm, "regional, none, gpipe, 3 x 2");
}

TEST(ComputeBounds, SecondsReachBothEndsAndNoFurther) {
  for (const std::string key : {"forward_s", "backward_s", "optimizer_s"}) {
    const auto with = [&](const std::string& value) {
      return ReadWith(
                 {"compute.forward_s=1", "compute.backward_s=1", "compute." + key + "=" + value})
          .status();
    };
    EXPECT_TRUE(with("0").ok()) << with("0");
    EXPECT_TRUE(with("3600").ok()) << with("3600");
    EXPECT_THAT(Message(with(Below(0))), EndsWith("want 0 to 3600 seconds"));
    EXPECT_THAT(Message(with(Above(3600))), EndsWith("want 0 to 3600 seconds"));
  }
  EXPECT_THAT(ErrorWith({"compute.backward_s=1", "compute.forward_s=[1, 3601]"}),
              HasSubstr("is 3601; want 0 to 3600"))
      << "the second of the list";
  EXPECT_THAT(ErrorWith({"compute.backward_s=1", "compute.forward_s=[1, 1, 1]"}),
              HasSubstr("has 3 values"));
}

// 3 groups, 195 steps, a meeting every 5.
std::string ScheduleError(const std::string& entries, const std::string& least = "1") {
  return Message(ReadWith({"outer.groups=3", "outer.inner_steps=5", "outer.codec=none",
                           "outer.on_group_loss=continue", "train.tokens=1198080",
                           "outer.min_groups=" + least, "outer.schedule=" + entries})
                     .status());
}

TEST(GroupSchedule, EachFigureReachesBothEndsAndNoFurther) {
  EXPECT_EQ(ScheduleError("[[0, 3], [190, 1]]"), "");
  EXPECT_THAT(ScheduleError("[[0, 3], [195, 1]]"), HasSubstr("want a step below the run's 195"));
  EXPECT_THAT(ScheduleError("[[0, 3], [191, 1]]"), HasSubstr("want a multiple of"));
  EXPECT_THAT(ScheduleError("[[5, 3]]"), HasSubstr("the first step must be 0"));
  EXPECT_THAT(ScheduleError("[[0, 3], [0, 2]]"), HasSubstr("its step is not after"));
  EXPECT_THAT(ScheduleError("[[0, 3], [10, 2], [5, 3]]"), HasSubstr("its step is not after"));
  EXPECT_THAT(ScheduleError("[[0, 3], [5, 0]]"), HasSubstr("want outer.min_groups = 1 to"));
  EXPECT_THAT(ScheduleError("[[0, 3], [5, 4]]"), HasSubstr("to outer.groups = 3 groups"));
  EXPECT_EQ(ScheduleError("[[0, 3], [5, 2]]", "2"), "");
  EXPECT_THAT(ScheduleError("[[0, 3], [5, 1]]", "2"), HasSubstr("want outer.min_groups = 2 to"));
  EXPECT_THAT(ScheduleError("[[0, 3], [5, 3]]"), HasSubstr("as many groups as before"));
  EXPECT_THAT(ScheduleError("[[0, 2], [5, 1]]"), HasSubstr("has 2 groups at most"));
}

// Two come before step 10's meeting is over, two go after step 20.
TEST(GroupSchedule, EntriesAreJoinsOfTheStepBeforeAndLeavesOfTheStepBehind) {
  const auto spec = ReadWith({"outer.groups=3", "outer.inner_steps=5", "outer.codec=none",
                              "outer.on_group_loss=continue", "train.tokens=1198080",
                              "outer.schedule=[[0, 1], [10, 3], [20, 1], [30, 2]]"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> planned;
  for (const auto& fault : PlannedFaults(*spec)) planned.push_back(Describe(fault));
  EXPECT_THAT(planned, ElementsAre("step 10: join, group 1", "step 10: join, group 2",
                                   "step 21: leave, group 1", "step 21: leave, group 2",
                                   "step 30: join, group 1"));
  EXPECT_THAT(ToToml(*spec), HasSubstr("\nschedule = [[0, 1], [10, 3], [20, 1], [30, 2]]\n"));
}

TEST(BoundaryCuts, TwoBoundariesHaveCodecsOfTheirOwn) {
  const std::vector<std::string> sets = {"schedule.stages=8", "boundary.forward=none",
                                         "boundary.backward=none",
                                         "boundary.cuts={0={forward=\"int8-b64\"}, "
                                         "6={forward=\"identity\", backward=\"int4-b64-h64\"}}"};
  const auto spec = ReadWith(sets);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(CodecsOf(*spec, 0).forward, "int8-b64");
  EXPECT_EQ(CodecsOf(*spec, 0).backward, "none");
  EXPECT_EQ(CodecsOf(*spec, 1).forward, "none");
  EXPECT_EQ(CodecsOf(*spec, 6).backward, "int4-b64-h64");
  EXPECT_EQ(CodecText(*spec).forward, "int8-b64 at 0; identity at 6");
  for (const char* boundary : {"7", "-1", "00"}) {
    std::vector<std::string> beyond = sets;
    beyond.back() = fmt::format("boundary.cuts={{{}={{forward=\"int8-b64\"}}}}", boundary);
    EXPECT_THAT(ErrorWith(beyond), HasSubstr("has the boundaries 0 to 6")) << boundary;
  }
}

TEST(TomlLimits, EachIsReachedAndNoFurther) {
  const auto ok = [](const std::string& text) { return CheckTomlLimits(text, "x").ok(); };
  EXPECT_TRUE(ok(std::string(262144, '#')));
  EXPECT_FALSE(ok(std::string(262145, '#')));
  EXPECT_TRUE(ok("a.b.c.d.e.f.g.h = 1"));
  EXPECT_FALSE(ok("a.b.c.d.e.f.g.h.i = 1"));
  EXPECT_TRUE(ok("a = " + std::string(16, '[') + std::string(16, ']')));
  EXPECT_FALSE(ok("a = " + std::string(17, '[') + std::string(17, ']')));
}

}  // namespace
}  // namespace longhaul
