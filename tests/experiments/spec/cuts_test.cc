// Where stages begin, and a pair of codecs for each boundary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_changes.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Cut = RunSpec::Boundary::Cut;

const std::vector<std::string> kSingle = {"boundary.forward=none", "boundary.backward=none",
                                          "schedule.stages=4"};

std::vector<std::string> Single(std::vector<std::string> more) {
  more.insert(more.begin(), kSingle.begin(), kSingle.end());
  return more;
}

TEST(ScheduleCuts, StagesBeginWhereTheySay) {
  const auto spec = ReadWith({"schedule.stages=4", "schedule.cuts=[2, 5, 7]"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->schedule.cuts, ElementsAre(2, 5, 7));
  const std::string text = ToToml(*spec);
  EXPECT_THAT(text, HasSubstr("\nstages = 4\nchunks = 1\ndepth = 1\ncuts = [2, 5, 7]\n"));
  EXPECT_EQ(ToToml(*ReadRunSpec(*ParseToml(text, "again"), TestNames())), text);
  // Three stages do not divide eight blocks; two cuts do.
  EXPECT_TRUE(ReadWith({"schedule.stages=3", "schedule.cuts=[1, 7]"}).ok());
}

TEST(ScheduleCuts, EqualStagesAreNotWrittenOut) {
  EXPECT_THAT(ToToml(*ReadWith({})), testing::Not(HasSubstr("cuts")));
  EXPECT_EQ(ToToml(*ReadWith({"schedule.cuts=[]"})), ToToml(*ReadWith({})));
}

TEST(ScheduleCuts, WhatIsNoCutIsRefusedInOneLine) {
  EXPECT_THAT(ErrorWith({"schedule.cuts=[2, 5]"}),
              HasSubstr("'schedule.cuts' has 2 values; want 1: where each stage but the first of "
                        "schedule.stages = 2 begins"));
  EXPECT_THAT(ErrorWith({"schedule.stages=1", "schedule.cuts=[4]"}),
              HasSubstr("has 1 values; want 0"));
  for (const char* cuts : {"[5, 5]", "[5, 2]", "[2, 8]"}) {
    EXPECT_THAT(ErrorWith({"schedule.stages=3", fmt::format("schedule.cuts={}", cuts)}),
                HasSubstr(fmt::format("'schedule.cuts' = {}; want ascending numbers of blocks from "
                                      "1 to 7",
                                      cuts)));
  }
  EXPECT_THAT(ErrorWith({"schedule.cuts=[0]"}),
              HasSubstr("'schedule.cuts' is 0; want 1 to 1023 each"));
  EXPECT_THAT(ErrorWith({"schedule.cuts=4"}),
              HasSubstr("is an integer, want an array of integers"));
}

TEST(BoundaryCuts, EveryBoundaryHasItsPairAndTheOthersNone) {
  const auto spec =
      ReadWith(Single({"boundary.cuts.2.forward=int4-b64-h64", "boundary.cuts.2.backward=int8-b64",
                       "boundary.cuts.0.forward=int8-b64"}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(CodecsOf(*spec, 0), (Cut{"int8-b64", "none"}));
  EXPECT_EQ(CodecsOf(*spec, 1), (Cut{"none", "none"}));
  EXPECT_EQ(CodecsOf(*spec, 2), (Cut{"int4-b64-h64", "int8-b64"}));
  EXPECT_EQ(CompressedCrossings(*spec), 3);
  EXPECT_EQ(CodecText(*spec), (Cut{"int8-b64 at 0; int4-b64-h64 at 2", "int8-b64 at 2"}));
  const std::string text = ToToml(*spec);
  EXPECT_EQ(ToToml(*ReadRunSpec(*ParseToml(text, "again"), TestNames())), text);
}

TEST(BoundaryCuts, WithoutThemEveryBoundaryHasThePairOfAll) {
  const auto spec = ReadWith({"schedule.stages=4"});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(CodecsOf(*spec, 2), (Cut{"int4-b64-h64", "int8-b64"}));
  EXPECT_EQ(CodecText(*spec), CodecsOf(*spec, 0));
  EXPECT_EQ(CompressedCrossings(*spec), 6);
}

TEST(BoundaryCuts, CrossingsAreCountedFromTheRecordsText) {
  EXPECT_EQ(CompressedCrossings(8, "int4-b64 at 3", "none"), 1);
  EXPECT_EQ(CompressedCrossings(8, "int4-b64 at 0, 3; bf16 at 5", "bf16 at 1"), 4);
}

TEST(BoundaryCuts, WhatIsNoBoundaryIsRefusedInOneLine) {
  EXPECT_THAT(ErrorWith(Single({"boundary.cuts.3.forward=int8-b64"})),
              HasSubstr("'boundary.cuts' has '3'; schedule.stages = 4 has the boundaries 0 to 2"));
  for (const char* key : {"-1", "01", "x", "99999999999999999999"}) {
    EXPECT_THAT(ErrorWith(Single({fmt::format("boundary.cuts.{}.forward=int8-b64", key)})),
                HasSubstr(fmt::format("'boundary.cuts' has '{}'", key)));
  }
  EXPECT_THAT(ErrorWith(Single({"boundary.cuts.1.forwrad=int8-b64"})),
              HasSubstr("unknown key 'boundary.cuts.1.forwrad'; known: backward, forward"));
  EXPECT_THAT(ErrorWith(Single({"boundary.cuts.1.forward=int5"})),
              HasSubstr("'boundary.cuts.1.forward': unknown codec 'int5'; known: none, "));
  EXPECT_THAT(ErrorWith(Single({"boundary.cuts.1=int8-b64"})),
              HasSubstr("'boundary.cuts.1' is a string, want a table"));
  EXPECT_THAT(ErrorWith(Single({"boundary.cuts={}"})),
              HasSubstr("'boundary.cuts' names no boundary"));
  EXPECT_THAT(ErrorWith({"schedule.stages=4", "boundary.cuts.1.forward=int8-b64"}),
              HasSubstr("'boundary.cuts' stands beside boundary.forward = 'int4-b64-h64' and "
                        "boundary.backward = 'int8-b64'; want 'none' for both"));
}

TEST(CampaignCapture, IsRefusedBecauseRunsWouldShareFiles) {
  const std::string text =
      std::string(kOneArmToml) + kArmsToml + "rows = 64\n[boundary]\ncapture = \"/tmp/x\"\n";
  EXPECT_THAT(
      std::string(ReadCampaign(*ParseToml(text, "demo.toml"), TestNames()).status().message()),
      HasSubstr("'boundary.capture' of 'reference@0.5' is for one run"));
}

// An arm of one cut, and one whose stages are unequal, differ from the reference in stages and
// codecs alone; a reference keeps neither.
TEST(CampaignCuts, OneCutArmsAndUnequalStagesHaveAQ) {
  const std::string text = R"([campaign]
name = "cuts"
question = "Where does a crossing cost?"
seeds = [1]
d0_tokens = 400_000
budgets = [0.5, 1.0]
[[arm]]
name = "one"
stages = 4
forward = "none"
backward = "none"
boundary.cuts.1 = { forward = "int8-b64", backward = "int8-b64" }
[[arm]]
name = "unequal"
stages = 4
schedule.cuts = [2, 3, 7]
forward = "int8-b64"
backward = "none"
)" + std::string(kArmsToml) +
                           "rows = 64\n[boundary]\nforward = \"none\"\nbackward = \"none\"\n";
  const auto c = ReadCampaign(*ParseToml(text, "demo.toml"), TestNames());
  ASSERT_TRUE(c.ok()) << c.status();
  const PlannedRun &one = c->runs[2], &unequal = c->runs[3];
  EXPECT_EQ(CompressedCrossings(one.spec), 2);
  EXPECT_TRUE(HasQ(*c, one));
  EXPECT_EQ(CompressedCrossings(unequal.spec), 3);
  EXPECT_TRUE(HasQ(*c, unequal));
  EXPECT_THAT(c->runs[0].spec.boundary.cuts, IsEmpty());
}

}  // namespace
}  // namespace longhaul
