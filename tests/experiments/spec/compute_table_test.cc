// Compute that is slept, as a spec says it, and a timing grid over links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/gpu_profiles.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_changes.h"
#include "experiments/spec/timing_grid.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ComputeTable, OneNumberIsThatOfEveryStageAndReadsBack) {
  const auto spec = ReadWith({"compute.forward_s=0.02", "compute.backward_s=[0.04, 5e-2]"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(spec->compute.has_value());
  EXPECT_THAT(spec->compute->forward_s, ElementsAre(0.02, 0.02));
  EXPECT_THAT(spec->compute->backward_s, ElementsAre(0.04, 0.05));
  EXPECT_EQ(spec->compute->optimizer_s, 0);
  const std::string text = ToToml(*spec);
  const auto again = ReadRunSpec(*ParseToml(text, "again"), TestNames());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->compute, spec->compute);
  EXPECT_EQ(ToToml(*again), text);
  EXPECT_FALSE(SpecChanges(*ReadWith({}), *spec).empty()) << "another arm, not the same one";
}

const std::vector<std::string> kClocked = {"net.clock=simulated", "net.transport=loopback",
                                           "net.profile=regional"};
std::vector<std::string> Clocked(const std::vector<std::string>& sets) {
  std::vector<std::string> all = kClocked;
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

TEST(ComputeTable, AProfileIsTheFiguresOfItsDataSheet) {
  const std::vector<std::tuple<std::string, double, double, double>> sheets = {
      {"a100", 312e12, 80, 2039},
      {"h100", 989e12, 80, 3350},
      {"h200", 989e12, 141, 4800},
      {"rtx-4090", 165.2e12, 24, 1008},
      {"l40s", 362e12, 48, 864}};
  EXPECT_EQ(GpuProfiles().size(), sheets.size());
  for (const auto& [name, flops_per_s, memory_gb, memory_gb_per_s] : sheets) {
    const auto spec = ReadWith(Clocked({"compute.profile=" + name, "compute.mfu=0.3"}));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->compute->flops_per_s, flops_per_s) << name;
    EXPECT_EQ(spec->compute->memory_gb, memory_gb) << name;
    EXPECT_EQ(FindGpuProfile(name)->memory_gb_per_s, memory_gb_per_s) << name;
  }
  // What is kept is what the figures in its place would be.
  const auto by_name = ReadWith(Clocked({"compute.profile=h100", "compute.mfu=0.3"}));
  const auto by_figures =
      ReadWith(Clocked({"compute.flops_per_s=989e12", "compute.memory_gb=80", "compute.mfu=0.3"}));
  EXPECT_EQ(ToToml(*by_name), ToToml(*by_figures));
  const auto less =
      ReadWith(Clocked({"compute.profile=h100", "compute.mfu=0.3", "compute.memory_gb=40"}));
  EXPECT_EQ(less->compute->memory_gb, 40);
}

TEST(ComputeTable, AProfileThatSaysTooLittleOrTooMuchIsOneLine) {
  EXPECT_THAT(ErrorWith(Clocked({"compute.profile=h100"})),
              HasSubstr("'compute.mfu' is missing: profile and mfu are given together"));
  EXPECT_THAT(ErrorWith(Clocked({"compute.profile=b42", "compute.mfu=0.3"})),
              HasSubstr("'compute.profile' names an unknown device 'b42'; known: a100, h100"));
  EXPECT_THAT(
      ErrorWith(Clocked({"compute.profile=h100", "compute.mfu=0.3", "compute.flops_per_s=1e12"})),
      HasSubstr("'compute.profile' and flops_per_s: one of them says"));
  EXPECT_THAT(
      ErrorWith(Clocked({"compute.profile=h100", "compute.mfu=0.3", "compute.forward_s=1"})),
      HasSubstr("'compute.profile' and forward_s or backward_s: one of them says"));
  EXPECT_THAT(ErrorWith(Clocked({"compute.profile=h100", "compute.mfu=1.5"})),
              HasSubstr("'compute.mfu' is 1.5; want 1e-06 to 1 of profile"));
  EXPECT_THAT(ErrorWith({"compute.profile=h100", "compute.mfu=0.3"}),
              HasSubstr("is of net.clock = \"simulated\" alone"));
}

TEST(ComputeTable, MeasuredIsWhatASpecWithoutItSays) {
  const auto spec = ReadWith({"compute=measured"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->compute.has_value());
  EXPECT_EQ(ToToml(*spec), ToToml(*ReadWith({})));
  EXPECT_THAT(ToToml(*spec), Not(HasSubstr("\n[compute]")));
  EXPECT_THAT(ToToml(*spec), Not(HasSubstr("\ncompute")));
}

TEST(ComputeTable, WhatCannotBeSleptIsRefusedInOneLine) {
  EXPECT_THAT(ErrorWith({"compute=slow"}), HasSubstr("'slow'; want \"measured\" or a table"));
  EXPECT_THAT(ErrorWith({"compute=3"}), HasSubstr("compute"));
  EXPECT_THAT(ErrorWith({"compute.forward_s=0.1"}), HasSubstr("compute.backward_s"));
  EXPECT_THAT(ErrorWith({"net.clock=simulated", "net.transport=loopback", "net.profile=regional",
                         "compute.flops_per_s=1e12", "compute.backward_s=0.1"}),
              HasSubstr("'compute.flops_per_s' and forward_s or backward_s: one of them says"));
  const std::string backward = "compute.backward_s=0.1";
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=-0.1"}), HasSubstr("-0.1; want 0 to 3600"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=nan"}),
              HasSubstr("'compute.forward_s' is nan"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=1e300"}), HasSubstr("want 0 to 3600"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=[1.0]"}),
              HasSubstr("has 1 values; want one, or one for each of schedule.stages = 2"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=1", "compute.encode_s=1"}),
              HasSubstr("unknown key 'compute.encode_s'"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=1", "checkpoint.every_steps=4"}),
              HasSubstr("checkpoint.every_steps"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=1", "boundary.capture=/tmp/x"}),
              HasSubstr("boundary.capture"));
  EXPECT_THAT(ErrorWith({backward, "compute.forward_s=1", "net.transport=loopback"}),
              HasSubstr("sleeps for every rank in turn"));
}

TEST(ComputeTable, ACampaignIsAboutLosses) {
  TomlValue root = *ParseToml(std::string(kOneArmToml) + kArmsToml +
                                  "rows = 8\n[boundary]\nforward = \"none\"\nbackward = \"none\"\n",
                              "c.toml");
  for (const char* set : {"net.transport=ucx", "net.profile=regional", "compute.forward_s=1",
                          "compute.backward_s=1", "schedule.stages=1"}) {
    ASSERT_TRUE(SetByPath(root, set).ok());
  }
  const auto campaign = ReadCampaign(root, TestNames());
  EXPECT_THAT(std::string(campaign.status().message()), HasSubstr("runs have no losses"));
}

constexpr char kGrid[] = R"([timing]
name = "grid"
question = "?"
repeats = 2
profiles = ["regional", "continental-us"]
codecs = ["none", "int4-b64-h64 / int8-b64"]
schedules = ["gpipe", "1f1b"]
stages = [2, 4]
groups = [1]
)";

absl::StatusOr<TimingGrid> ReadGrid(const std::vector<std::string>& sets) {
  TomlValue root = *ParseToml(kGrid + std::string(kRunToml).substr(sizeof "seed = 1"), "grid.toml");
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  return ReadTimingGrid(root, TestNames());
}

TEST(TimingGrid, HasEveryCellInEveryRepeat) {
  const auto grid = ReadGrid({});
  ASSERT_TRUE(grid.ok()) << grid.status();
  ASSERT_EQ(grid->runs.size(), 2u * 2 * 2 * 2 * 2);
  EXPECT_EQ(grid->runs.front().arm, "regional, none, gpipe, 1 x 2");
  EXPECT_EQ(grid->runs.back().arm, "continental-us, int4-b64-h64 / int8-b64, 1f1b, 1 x 4");
  EXPECT_EQ(grid->runs.back().spec.boundary.forward, "int4-b64-h64");
  EXPECT_EQ(grid->runs.back().spec.boundary.backward, "int8-b64");
  EXPECT_EQ(grid->runs.back().spec.schedule.stages, 4);
  for (size_t i = 0; i < grid->runs.size(); ++i) {
    EXPECT_EQ(grid->runs[i].seed, i < 16 ? 1 : 2);
    EXPECT_EQ(grid->runs[i].spec.seed, grid->runs[i].seed);
  }
  EXPECT_THAT(PlanText(*grid), HasSubstr("name = \"continental-us, none, 1f1b, 1 x 2\""));
}

TEST(TimingGrid, WhatIsNoGridIsRefusedInOneLine) {
  const auto error = [](const std::vector<std::string>& sets) {
    const auto grid = ReadGrid(sets);
    EXPECT_EQ(grid.status().code(), absl::StatusCode::kInvalidArgument) << grid.status();
    return std::string(grid.status().message());
  };
  EXPECT_THAT(error({"timing.codecs=[]"}), HasSubstr("'timing.codecs' is empty"));
  EXPECT_THAT(error({"timing.stages=[2, 2]"}), HasSubstr("holds a value twice"));
  EXPECT_THAT(error({"timing.codecs=[\"none\", \"none / none\"]"}), HasSubstr("two cells are"));
  EXPECT_THAT(error({"timing.codecs=[\"int9\"]"}), HasSubstr("unknown codec 'int9'"));
  EXPECT_THAT(error({"timing.profiles=[\"moon\"]"}), HasSubstr("unknown profile 'moon'"));
  EXPECT_THAT(error({"timing.stages=[3]"}), HasSubstr("does not divide model.blocks"));
  EXPECT_THAT(error({"timing.repeats=0"}), HasSubstr("timing.repeats"));
  EXPECT_THAT(error({"timing.repeats=1000"}), HasSubstr("makes 16000 runs; want at most 4096"));
  EXPECT_THAT(error({"net.transport=loopback"}), HasSubstr("want net.transport = \"ucx\""));
  EXPECT_THAT(error({"seed=4"}), HasSubstr("'seed' counts the repeats"));
  EXPECT_THAT(error({"timing.name=a/b"}), HasSubstr("must not hold a '/'"));
}

}  // namespace
}  // namespace longhaul
