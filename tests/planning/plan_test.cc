// A plan against steps and times that are counted by hand, and the placements of the examples.
#include "planning/plan/plan.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "planning/plan/link_matrix.h"
#include "planning/plan/next_campaign.h"
#include "planning/plan/plan_tables.h"
#include "tests/experiments/spec/specs.h"
#include "tests/planning/plan_files.h"

namespace longhaul::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Sets = std::vector<std::string>;

constexpr double kKappa = 1514.0 / 1448;
constexpr double kTokens = 70710.678118654755;  // of 3.1 nat, on the curve of plan_files.h

const std::string kRun = InjectedRunToml() + R"([outer]
groups = 1
[net]
transport = "loopback"
profile = "continental-us"
slow_start_after_idle = false
[eval]
rows = 1
)";

int64_t OneMegabyte(const RunSpec&) { return 1'000'000; }
// The first schedule of the lists below takes less.
int64_t ByWidth(const RunSpec& spec) {
  return spec.boundary.forward == "none" ? 2'000'000 : 1'000'000;
}

class PlanTest : public testing::Test {
 protected:
  PlanTest()
      : curve_(files_.Write("losses.csv", kLosses)),
        calibration_(files_.Write("calibration.json", kCalibration)) {}

  absl::StatusOr<Plan> Try(const Sets& sets, const WorkerBytes& bytes = OneMegabyte,
                           std::string run = kRun) {
    run += fmt::format("[plan]\ntarget_loss_nat = 3.1\ncurve = \"{}\"\ncalibration = [\"{}\"]\n",
                       curve_, calibration_);
    TomlValue root = *ParseToml(run, "run.toml");
    for (const char* set : {"model.blocks=4", "schedule.kind=gpipe"}) {
      EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    }
    for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    const auto spec = ReadPlanSpec(root, CatalogNames());
    if (!spec.ok()) return spec.status();
    return MakePlan(*spec, CatalogNames(), bytes);
  }
  Plan Make(const Sets& sets, const WorkerBytes& bytes = OneMegabyte) {
    auto plan = Try(sets, bytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : Plan{};
  }
  std::string Refusal(const Sets& sets, std::string run = kRun) {
    return std::string(Try(sets, OneMegabyte, std::move(run)).status().message());
  }
  std::string Links(const std::vector<std::string>& nodes, double mbit, double rtt_ms) {
    return files_.Write("links.json", Probe(nodes, mbit / kKappa, rtt_ms));
  }

  PlanFiles files_;
  std::string curve_, calibration_;
};

const Sets kOneSchedule = {"plan.schedules=[\"gpipe\"]"};
Sets And(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// One micro-batch goes there and back: 2 (0.5 + 1) s, twice 128 x 256 floats and a header over 100
// Mbit/s and 32.5 ms, and 0.25 s of the optimizer. 70,711 tokens are 552.4 steps of 128.
TEST_F(PlanTest, TwoStagesAndOneLinkByHand) {
  const Plan plan = Make(And(kOneSchedule, {"plan.links=" + Links({"x", "y"}, 100, 65)}));
  const double bytes = 4 * 128 * 256 + 112;
  const double step = 3 + 0.25 + 2 * (8 * kKappa * bytes / 100e6 + 0.0325);
  ASSERT_EQ(plan.rows.size(), 1u);
  const PlanRow& row = plan.rows[0];
  EXPECT_NEAR(row.placement.seconds, step, 2e-6);
  EXPECT_NEAR(row.least_step_s, step, 1e-9) << "the bound is reached: nothing overlaps";
  EXPECT_NEAR(std::exp(row.ln_time.value), kTokens / 128 * step, 1e-2);
  EXPECT_TRUE(row.factors.empty()) << "nothing is lost";
  EXPECT_THAT(NextText(plan, "s.toml"), HasSubstr("there is one choice"));
}

// Over two links, 4 bytes an element become about one, at eta = exp(-0.1) [exp(-0.2), exp(-0.05)].
TEST_F(PlanTest, ACodecTradesTokensForSeconds) {
  const Sets both = {"plan.codecs=[\"none / none\", \"int8-b64 / int8-b64\"]"};
  const Plan fast =
      Make(And(kOneSchedule, And(both, {"plan.links=" + Links({"x", "y"}, 1000, 5)})));
  ASSERT_EQ(fast.rows.size(), 2u);
  EXPECT_EQ(fast.rows[0].choice.codec, "none / none") << "the link costs less than the tokens";
  const PlanRow& coded = fast.rows[1];
  EXPECT_NEAR(std::exp(coded.ln_time.value),
              kTokens / 128 * coded.placement.seconds * std::exp(0.1),
              1e-6 * std::exp(coded.ln_time.value));
  // The curve's half-width is 12.706 x 0.02 / slope (plan_quality_test); eta's ends in quadrature.
  const double curve = 12.7062 * 0.02 / (0.2 / std::log(2.0));
  EXPECT_NEAR(coded.ln_time.high - coded.ln_time.value, std::hypot(curve, 0.1), 1e-4);
  EXPECT_NEAR(coded.ln_time.value - coded.ln_time.low, std::hypot(curve, 0.05), 1e-4);
  // The curve is both rows' and cancels: eta and the clock's 0.1 are left.
  ASSERT_TRUE(fast.verdict);
  const double ratio = 0.1 + std::log(coded.placement.seconds / fast.rows[0].placement.seconds);
  EXPECT_NEAR(fast.verdict->ln_ratio.value, ratio, 1e-9);
  EXPECT_NEAR(ratio - fast.verdict->ln_ratio.low, std::hypot(0.05, 0.1), 1e-9);
  EXPECT_FALSE(fast.verdict->first_wins);
  EXPECT_EQ(fast.verdict->shares[0].name, kClockName);
  EXPECT_NEAR(fast.verdict->shares[0].share, 0.8, 1e-9) << "0.01 of 0.0125";

  const Plan slow = Make(And(kOneSchedule, And(both, {"plan.links=" + Links({"x", "y"}, 1, 5)})));
  EXPECT_EQ(slow.rows[0].choice.codec, "int8-b64 / int8-b64");
  EXPECT_TRUE(slow.verdict->first_wins);
  EXPECT_THAT(NextText(slow, "s.toml"), HasSubstr("nothing; the first two are told apart"));
}

// What one codec costs is the same guess in both rows: measuring it would not tell them apart.
TEST_F(PlanTest, WhatBothChoicesLoseDoesNotDecideBetweenThem) {
  const Plan plan =
      Make({"plan.schedules=[\"gpipe\", \"1f1b\"]", "plan.codecs=[\"int8-b64 / int8-b64\"]",
            "plan.links=" + Links({"x", "y"}, 100, 65)});
  ASSERT_EQ(plan.rows.size(), 2u);
  for (const PlanRow& row : plan.rows) EXPECT_EQ(row.factors.size(), 1u);
  ASSERT_TRUE(plan.verdict);
  ASSERT_EQ(plan.verdict->shares.size(), 1u);
  EXPECT_EQ(plan.verdict->shares[0].name, kClockName);
}

TEST_F(PlanTest, WhatDecidesIsNamedWithACampaignThatMeasuresIt) {
  // A codec that lies between two others, at -0.2 [-0.5, 0]: 0.2 and the clock's 0.1 in quadrature.
  const Plan plan =
      Make(And(kOneSchedule, {"plan.codecs=[\"none / none\", \"bf16 / bf16\"]", "schedule.stages=4",
                              "plan.links=" + Links({"u", "v", "x", "y"}, 200, 5)}));
  ASSERT_TRUE(plan.verdict);
  EXPECT_FALSE(plan.verdict->first_wins);
  EXPECT_EQ(plan.verdict->shares[0].name, "eta(bf16 / bf16, S = 4)");
  EXPECT_NEAR(plan.verdict->shares[0].share, 0.8, 1e-9);
  EXPECT_THAT(NextText(plan, "s.toml"),
              AllOf(HasSubstr("eta(bf16 / bf16, S = 4): longhaul plan s.toml --next next.toml && "
                              "longhaul measure next.toml")));
  const auto text = NextCampaign(plan);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto campaign = ReadCampaign(*ParseToml(*text, "next.toml"), CatalogNames());
  ASSERT_TRUE(campaign.ok()) << campaign.status() << *text;
  EXPECT_EQ(campaign->d0_tokens, 70711);
  EXPECT_THAT(campaign->arms, testing::Contains("boundaries"));
  const auto arm = std::find_if(campaign->runs.begin(), campaign->runs.end(),
                                [](const PlannedRun& r) { return r.arm == "boundaries"; });
  EXPECT_EQ(arm->spec.boundary.forward, "bf16");
  EXPECT_EQ(arm->spec.stages(), 4);
  const std::string table = TextOf(PlanTable(plan, 0));
  EXPECT_THAT(table, HasSubstr("beyond, bits: 'bf16 / bf16' was not measured"));
  EXPECT_THAT(table, HasSubstr("beyond, size: "));
  EXPECT_THAT(table, HasSubstr("No winner between 1 and 2"));
}

// Two groups of one stage that exchange their parameters each second step: what nobody measured has
// no time, but the eta from which it would be first.
TEST_F(PlanTest, AnAlgorithmThatNobodyMeasuredHasNoRank) {
  const Sets groups = {"schedule.stages=1",
                       "outer.groups=2",
                       "outer.codec=none",
                       "outer.inner_steps=10",
                       "train.batch_rows=1",
                       "plan.algorithms=[\"diloco\", \"noloco\", \"dp\"]",
                       "plan.links=" + Links({"x", "y"}, 100, 5)};
  const Plan plan = Make(And(kOneSchedule, groups));
  ASSERT_EQ(plan.rows.size(), 3u) << TextOf(PlanTable(plan, 0));
  const PlanRow& last = plan.rows[2];
  EXPECT_EQ(last.choice.spec.outer.algorithm, "noloco");
  EXPECT_EQ(last.unknown, "no calibration measures 'noloco' with none");
  EXPECT_THAT(TextOf(PlanTable(plan, 0)), HasSubstr("unknown: first "));
  for (size_t i = 0; i < 2; ++i) {
    const bool dp = plan.rows[i].choice.spec.outer.algorithm == "dp";
    EXPECT_EQ(plan.rows[i].choice.spec.outer.inner_steps, dp ? 0 : 10);
    EXPECT_EQ(plan.rows[i].factors.size(), dp ? 0u : 1u);
  }
}

TEST_F(PlanTest, TheBoundOnMemoryPutsRowsLastAndRefusesWhenNoneFits) {
  const Sets sets = And(kOneSchedule, {"plan.codecs=[\"none / none\", \"int8-b64 / int8-b64\"]",
                                       "plan.links=" + Links({"x", "y"}, 1000, 5)});
  const Plan plan = Make(And(sets, {"plan.memory_bytes=1500000"}), ByWidth);
  EXPECT_EQ(plan.rows[0].choice.codec, "int8-b64 / int8-b64");
  EXPECT_FALSE(plan.rows[1].within);
  EXPECT_FALSE(plan.verdict) << "one choice is left";
  EXPECT_THAT(TextOf(PlanTable(plan, 0)), HasSubstr("2.0 OVER"));
  const auto none = Try(And(sets, {"plan.memory_bytes=900000"}), ByWidth);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(none.status().message(),
            "no choice stays within 0.9 MB a worker: the smallest, gpipe with int8-b64 / int8-b64, "
            "takes 1 MB");
}

TEST_F(PlanTest, TwiceTheSameToTheByte) {
  const Sets sets = {"plan.codecs=[\"none / none\", \"int8-b64 / int8-b64\"]",
                     "plan.links=" + Links({"x", "y"}, 50, 40)};
  const Plan one = Make(sets), two = Make(sets);
  EXPECT_EQ(PlanJson(one, "n"), PlanJson(two, "n"));
  EXPECT_EQ(PlanCsv(one), PlanCsv(two));
  EXPECT_GT(one.rows.size(), 2u) << "by default every schedule that takes the shape";
  const auto json = nlohmann::json::parse(PlanJson(one, "n"));
  EXPECT_EQ(json["rows"].size(), one.rows.size());
  EXPECT_EQ(json["schema"], "longhaul.plan/1");
  EXPECT_NEAR(json["rows"][0]["time_s"]["value"], std::exp(one.rows[0].ln_time.value), 1e-6);
}

TEST_F(PlanTest, WhatItCannotTakeIsOneLine) {
  std::string bare = kRun;
  bare.erase(bare.find("[compute]"), bare.find("[schedule]") - bare.find("[compute]"));
  EXPECT_THAT(Refusal({}, bare), HasSubstr("no table [compute]"));
  EXPECT_THAT(Refusal({"compute.mfu=0.4"}), HasSubstr("flops_per_s"));
  EXPECT_THAT(Refusal({"plan.target_loss_nat=2"}), HasSubstr("below the curve's floor"));
  const std::string copy = files_.Write("copy.json", kCalibration);
  EXPECT_EQ(
      Refusal({"plan.calibration=[\"" + calibration_ + "\", \"" + copy + "\"]"}),
      "plan.calibration: " + calibration_ + " and " + copy + " hold the same data; name each once");
  EXPECT_EQ(Refusal({"plan.calibration=[\"/none.json\"]"}),
            "/none.json: cannot be read: No such file or directory; want a file that is there");
  EXPECT_THAT(Refusal({"plan.curve=none.csv"}),
              HasSubstr("this name counts from " + std::filesystem::current_path().string()));
  EXPECT_THAT(Refusal({"plan.calibration=[\"/tmp\"]"}), HasSubstr("/tmp: is a folder"));
  EXPECT_THAT(Refusal({"plan.links=" + Links({"x", "y", "z"}, 1, 1)}),
              HasSubstr("has 3 nodes; the run has 2 workers"));
  EXPECT_THAT(Refusal({"plan.schedules=[\"zigzag\"]"}), HasSubstr("zigzag"));
  EXPECT_THAT(Refusal({"plan.schedules=[\"interleaved-1f1b\"]", "model.blocks=2"}),
              HasSubstr("leaves nothing to choose among"));
  EXPECT_THAT(Refusal({"plan.codec=[\"none\"]"}), HasSubstr("unknown key 'plan.codec'"));
  EXPECT_THAT(Refusal({"plan.inner_steps=[-1]"}), HasSubstr("plan.inner_steps"));
  EXPECT_THAT(Refusal({"plan.memory_bytes=0"}), HasSubstr("memory_bytes"));
  EXPECT_THAT(Refusal({"compute.group_speed=[1.0]"}), HasSubstr("group_speed"));
  EXPECT_THAT(Refusal({"outer.inner_steps=1", "outer.codec=none", "outer.on_group_loss=continue"}),
              HasSubstr("a plan's groups neither come nor go"));
  EXPECT_THAT(Refusal({"campaign.name=x"}), HasSubstr("is a campaign"));
}

TEST_F(PlanTest, OneGroupHasNoOuterStepToChoose) {
  const Plan plan = Make(And(kOneSchedule, {"plan.algorithms=[\"diloco\", \"dp\"]",
                                            "plan.links=" + Links({"x", "y"}, 50, 40)}));
  EXPECT_EQ(plan.rows.size(), 1u);
}

// ---- the examples: where stages lie can be told by looking at the matrix ----

std::vector<std::string> NamesOf(const Plan& plan, const PlanRow& row) {
  std::vector<std::string> names;
  for (const int node : row.placement.nodes) {
    names.push_back(plan.links.nodes[static_cast<size_t>(node)].name);
  }
  return names;
}

Plan Example(const std::string& links, const Sets& sets) {
  TomlValue root = *ReadTomlFile(LONGHAUL_TEST_ROOT "/examples/plan/plan.toml");
  const std::string results = LONGHAUL_TEST_ROOT "/docs/results/";
  for (const std::string& set :
       And({"plan.curve=" + results + "activation-small/losses.csv",
            "plan.calibration=[\"" + results + "activation-small/calibration.json\", \"" + results +
                "diloco-small/calibration.json\"]",
            "plan.links=" LONGHAUL_TEST_ROOT "/examples/plan/" + links},
           sets)) {
    EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  }
  const auto spec = ReadPlanSpec(root, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto plan = MakePlan(*spec, CatalogNames(), OneMegabyte);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Eight activations and gradients a step against one exchange in ten or thirty: groups stay at a site.
TEST(PlanExamples, GroupsStayOnOneSideOfTheSlowLine) {
  const Plan plan = Example("two-sites.json", {});
  ASSERT_EQ(plan.rows.size(), 12u);
  for (const PlanRow& row : plan.rows) {
    if (row.choice.spec.outer.algorithm != "diloco") continue;
    std::vector<std::string> names = NamesOf(plan, row);
    std::vector<std::string> groups = {names[0] + names[1], names[2] + names[3]};
    for (std::string& group : groups) std::sort(group.begin(), group.end());
    EXPECT_THAT(groups, UnorderedElementsAre("ac", "bd")) << row.choice.codec;
  }
}

const Sets kOneGroup = {"outer.groups=1",
                        "train.batch_rows=16",
                        "outer.inner_steps=0",
                        "plan.inner_steps=[0]",
                        "plan.algorithms=[\"diloco\"]",
                        "model.blocks=20",
                        "plan.codecs=[\"none / none\"]"};

// A stage in the middle has two lines, one at an end has one.
TEST(PlanExamples, TheSlowNodeGetsAnEndOfThePipeline) {
  const Plan plan = Example("slow-node.json", And(kOneGroup, {"schedule.stages=4"}));
  for (const PlanRow& row : plan.rows) {
    const auto names = NamesOf(plan, row);
    EXPECT_TRUE(names.front() == "b" || names.back() == "b") << testing::PrintToString(names);
  }
}

// Four of the ring's five near lines, none of the far ones.
TEST(PlanExamples, APipelineFollowsTheRing) {
  const Plan plan = Example("home-ring.json", And(kOneGroup, {"schedule.stages=5"}));
  const std::string ring = "acebdacebd", back = "dbecadbeca";
  for (const PlanRow& row : plan.rows) {
    std::string names;
    for (const std::string& name : NamesOf(plan, row)) names += name;
    EXPECT_TRUE(ring.find(names) != std::string::npos || back.find(names) != std::string::npos)
        << names;
  }
}

}  // namespace
}  // namespace longhaul::plan
