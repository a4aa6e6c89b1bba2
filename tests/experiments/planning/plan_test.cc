// Steps of choices that are counted by hand, and the placements of the examples.
#include "experiments/planning/plan.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "netem/topology/topology_file.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul::plan {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Sets = std::vector<std::string>;

constexpr double kKappa = 1514.0 / 1448;
constexpr int kWorkers = 2;

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

absl::StatusOr<Plan> Try(const Sets& sets, const WorkerBytes& bytes = OneMegabyte,
                         std::string run = kRun) {
  run += "[plan]\ntarget_loss_nat = 3.1\ncurve = \"losses.csv\"\ncalibration = [\"c.json\"]\n";
  TomlValue root = *ParseToml(run, "run.toml");
  for (const char* set : {"model.blocks=4", "schedule.kind=gpipe"}) {
    EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  }
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  const auto spec = ReadPlanSpec(root, CatalogNames());
  if (!spec.ok()) return spec.status();
  return PlaceChoices(*spec, CatalogNames(), *MeshNamed(spec->links, kWorkers), bytes);
}
Plan Make(const Sets& sets, const WorkerBytes& bytes = OneMegabyte) {
  auto plan = Try(sets, bytes);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan{};
}
std::string Refusal(const Sets& sets, std::string run = kRun) {
  return std::string(Try(sets, OneMegabyte, std::move(run)).status().message());
}

const Sets kOneSchedule = {"plan.schedules=[\"gpipe\"]"};
Sets And(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// One micro-batch goes there and back: 2 (0.5 + 1) s, twice 128 x 256 floats and a header over 100
// Mbit/s and 32.5 ms, and 0.25 s of the optimizer.
TEST(Plan, TwoStagesAndOneLinkByHand) {
  const Plan plan = Make(kOneSchedule);
  const double bytes = 4 * 128 * 256 + 112;
  const double step = 3 + 0.25 + 2 * (8 * kKappa * bytes / 100e6 + 0.0325);
  ASSERT_EQ(plan.rows.size(), 1u);
  const PlanRow& row = plan.rows[0];
  EXPECT_NEAR(row.placement.seconds, step, 2e-6);
  EXPECT_NEAR(row.least_step_s, step, 1e-9) << "the bound is reached: nothing overlaps";
}

TEST(Plan, TheBoundOnMemoryMarksRowsAndRefusesWhenNoneFits) {
  const Sets sets = And(kOneSchedule, {"plan.codecs=[\"none / none\", \"int8-b64 / int8-b64\"]"});
  const Plan plan = Make(And(sets, {"plan.memory_bytes=1500000"}), ByWidth);
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_FALSE(plan.rows[0].within);
  EXPECT_TRUE(plan.rows[1].within);
  const auto none = Try(And(sets, {"plan.memory_bytes=900000"}), ByWidth);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(none.status().message(),
            "no choice stays within 0.9 MB a worker: the smallest, gpipe with int8-b64 / int8-b64, "
            "takes 1 MB");
}

TEST(Plan, WhatItCannotTakeIsOneLine) {
  std::string bare = kRun;
  bare.erase(bare.find("[compute]"), bare.find("[schedule]") - bare.find("[compute]"));
  EXPECT_THAT(Refusal({}, bare), HasSubstr("no table [compute]"));
  EXPECT_THAT(Refusal({"compute.mfu=0.4"}), HasSubstr("flops_per_s"));
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

// The same step. Two nodes at 3 and 1.8 an hour, and 2^17 + 112 bytes each way, on the wire, of which
// one way costs.
TEST(Plan, WhatAStepCostsByHand) {
  const Sets priced = And(kOneSchedule, {"plan.price_per_hour.w0=3", "plan.price_per_hour.w1=1.8",
                                         "plan.link_price_per_gb={'*' = 0, 'w0>w1' = 50}"});
  const double bytes = kKappa * (4 * 128 * 256 + 112);
  const PlanRow row = Make(priced).rows.at(0);
  EXPECT_EQ(row.step_s, row.placement.seconds);
  EXPECT_NEAR(row.sent_bytes, 2 * bytes, 1e-6);
  EXPECT_NEAR(row.compute_cost, row.step_s * 4.8 / 3600, 1e-15);
  EXPECT_NEAR(row.traffic_cost, 50e-9 * bytes, 1e-15);
  const PlanRow flat =
      Make(And(kOneSchedule, {"plan.price_per_hour=2.4", "plan.link_price_per_gb=0.5"})).rows.at(0);
  EXPECT_NEAR(flat.compute_cost, row.compute_cost, 1e-15);
  EXPECT_NEAR(flat.traffic_cost, 2 * 0.5e-9 * bytes, 1e-15);
  const PlanRow free = Make(And(kOneSchedule, {"plan.price_per_hour=2.4"})).rows.at(0);
  EXPECT_EQ(free.traffic_cost, 0);
  EXPECT_EQ(Make(kOneSchedule).rows.at(0).compute_cost, 0);
}

TEST(Plan, BadPricesAreOneLine) {
  const auto with = [](const std::string& hour, const std::string& gb) {
    return Refusal({"plan.price_per_hour=" + hour, "plan.link_price_per_gb=" + gb});
  };
  EXPECT_THAT(with("-1", "0"), HasSubstr("'plan.price_per_hour' is -1.0; want 0 to 1e+06"));
  EXPECT_THAT(with("nan", "0"), HasSubstr("'plan.price_per_hour' is nan; want 0 to 1e+06"));
  EXPECT_THAT(with("1", "-0.5"), HasSubstr("'plan.link_price_per_gb' is -0.5; want 0 to"));
  EXPECT_THAT(with("1", "{'w0>w1' = inf}"), HasSubstr("of 'w0>w1' is inf; want 0 to"));
  EXPECT_THAT(with("true", "0"), HasSubstr("'plan.price_per_hour' is a boolean; want a number"));
  EXPECT_THAT(with("{w0 = 1}", "0"), HasSubstr("has no price of node 'w1'; want one of each"));
  EXPECT_THAT(with("{w0 = 1, w1 = 1, c = 1}", "0"), HasSubstr("names 'c', and links have no such"));
  EXPECT_THAT(with("{w0 = 0, w1 = 0}", "0"), HasSubstr("is 0 of every node"));
  EXPECT_THAT(with("1", "{'w0>w1' = 1}"),
              HasSubstr("has no price of path w1>w0; want one, or '*'"));
  EXPECT_THAT(with("1", "{'w0>x' = 1}"), HasSubstr("'plan.link_price_per_gb' no node 'x'"));
  EXPECT_THAT(with("1", "{'w0<>w1' = 1, 'w0>w1' = 2}"),
              HasSubstr("has two prices of path w0>w1: 'w0<>w1' and 'w0>w1'"));
  EXPECT_THAT(Refusal({"plan.link_price_per_gb=1"}), HasSubstr("wants plan.price_per_hour"));
  EXPECT_THAT(Refusal({"plan.rank_by=cost"}), HasSubstr("wants plan.price_per_hour"));
  EXPECT_THAT(Refusal({"plan.rank_by=money"}), HasSubstr("rank_by"));
}

TEST(Plan, OneGroupHasNoOuterStepToChoose) {
  const Plan plan = Make(And(kOneSchedule, {"plan.algorithms=[\"diloco\", \"dp\"]"}));
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
  auto plan =
      PlaceChoices(*spec, CatalogNames(),
                   *MeshNamed(spec->links, static_cast<int>(spec->run.workers())), OneMegabyte);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Eight activations and gradients a step against one exchange in ten or thirty: groups stay at a site.
TEST(PlanExamples, GroupsStayOnOneSideOfTheSlowLine) {
  const Plan plan = Example("two-sites.toml", {});
  ASSERT_EQ(plan.rows.size(), 12u);
  for (const PlanRow& row : plan.rows) {
    if (row.choice.spec.outer.algorithm != "diloco") continue;
    std::vector<std::string> names = NamesOf(plan, row);
    std::vector<std::string> groups = {names[0] + names[1], names[2] + names[3]};
    for (std::string& group : groups) std::sort(group.begin(), group.end());
    EXPECT_THAT(groups, UnorderedElementsAre("ac", "bd")) << row.choice.codec;
  }
}

// Nodes that cost little, and lines that do inside of a site alone: of the cheapest placement nothing
// crosses these, though its steps are the longer ones.
TEST(PlanExamples, TheCheapestPlacementPaysNoLineThatItCanAvoid) {
  const Sets priced = {"plan.price_per_hour=0.001",
                       "plan.link_price_per_gb={'*' = 0, 'a<>c' = 1000, 'b<>d' = 1000}",
                       "plan.schedules=[\"gpipe\"]", "plan.codecs=[\"none / none\"]",
                       "plan.algorithms=[\"diloco\"]"};
  const Plan fastest = Example("two-sites.toml", priced);
  const Plan cheapest = Example("two-sites.toml", And(priced, {"plan.rank_by=cost"}));
  ASSERT_EQ(fastest.rows.size(), cheapest.rows.size());
  for (size_t i = 0; i < fastest.rows.size(); ++i) {
    const PlanRow &fast = fastest.rows[i], &cheap = cheapest.rows[i];
    EXPECT_GT(fast.traffic_cost, 0);
    EXPECT_EQ(cheap.traffic_cost, 0);
    EXPECT_GT(cheap.step_s, fast.step_s);
    EXPECT_LT(cheap.compute_cost, fast.compute_cost + fast.traffic_cost);
    EXPECT_NEAR(cheap.compute_cost, cheap.step_s * 4 * 0.001 / 3600, 1e-18);
    EXPECT_NEAR(cheap.sent_bytes, fast.sent_bytes, 1e-6);
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
  const Plan plan = Example("slow-node.toml", And(kOneGroup, {"schedule.stages=4"}));
  for (const PlanRow& row : plan.rows) {
    const auto names = NamesOf(plan, row);
    EXPECT_TRUE(names.front() == "b" || names.back() == "b") << testing::PrintToString(names);
  }
}

// Four of the ring's five near lines, none of the far ones.
TEST(PlanExamples, APipelineFollowsTheRing) {
  const Plan plan = Example("home-ring.toml", And(kOneGroup, {"schedule.stages=5"}));
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
