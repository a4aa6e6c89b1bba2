// Arms by block against the table of docs/campaigns.md, row by row.
#include "experiments/spec/campaign_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec_changes.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// 16 blocks, for every S; `design` holds lines of [campaign].
std::string File(const std::string& design, const std::string& arms = "", int model_blocks = 16) {
  std::string base = kArmsToml;
  const std::string blocks = "blocks = 8";
  base.replace(base.find(blocks), blocks.size(), fmt::format("blocks = {}", model_blocks));
  return "[campaign]\nname = \"demo\"\nquestion = \"q?\"\nd0_tokens = 1_000_000\n" + design + "\n" +
         arms + base + "rows = 64\n";
}

absl::StatusOr<CampaignSpec> Read(const std::string& text) {
  absl::StatusOr<TomlValue> root = ParseToml(text, "demo.toml");
  if (!root.ok()) return root.status();
  return ReadCampaign(*root, CatalogNames());
}

std::string Error(const std::string& text) {
  const absl::StatusOr<CampaignSpec> campaign = Read(text);
  EXPECT_EQ(campaign.status().code(), absl::StatusCode::kInvalidArgument) << campaign.status();
  return std::string(campaign.status().message());
}

// What a row of the table says of an arm.
struct Arm {
  std::string name;
  int64_t stages;
  std::string forward, backward;
  int64_t crossings;
  friend bool operator==(const Arm&, const Arm&) = default;
};
void PrintTo(const Arm& arm, std::ostream* out) {
  *out << fmt::format("{} S={} {}/{} K={}", arm.name, arm.stages, arm.forward, arm.backward,
                      arm.crossings);
}

// Arms of one block at the first seed; all seeds have the same.
std::vector<Arm> ArmsOf(const CampaignSpec& campaign, const std::string& block) {
  std::vector<Arm> arms;
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front() || run.role != Role::kArm) continue;
    const bool own = run.arm.starts_with(block + "-") || (block == "A" && run.arm[0] == 'A');
    if (!own) continue;
    arms.push_back({run.arm, run.spec.schedule.stages, run.spec.boundary.forward,
                    run.spec.boundary.backward, CompressedCrossings(run.spec)});
  }
  return arms;
}

const PlannedRun& RunOf(const CampaignSpec& campaign, const std::string& arm) {
  for (const PlannedRun& run : campaign.runs) {
    if (run.arm == arm) return run;
  }
  ADD_FAILURE() << "no arm " << arm;
  return campaign.runs.front();
}

std::string Blocks(const std::string& list) { return "tier = \"full\"\nblocks = [" + list + "]\n"; }

TEST(CampaignBlocks, ReferenceAndControlsAreTheTablesBudgetsAndArms) {
  const auto c = Read(File(Blocks(R"("R", "A")")));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->budgets, ElementsAre(0.5, 0.65, 0.8, 1.0, 1.25));
  double sum = 0;
  for (const double budget : c->budgets) sum += budget;
  EXPECT_NEAR(sum, 4.2, 1e-12);
  EXPECT_THAT(c->control_budgets, ElementsAre(1.0, 0.9, 0.7));
  EXPECT_THAT(ArmsOf(*c, "A"), ElementsAre(Arm{"A2-order", 1, "none", "none", 0},
                                           Arm{"A3-bf16-s8", 8, "bf16", "bf16", 14}));
  const RunSpec& order = RunOf(*c, "A2-order").spec;
  EXPECT_EQ(order.train.microbatches, 2);
  EXPECT_EQ(ToString(ChangesBesideCodecs(RunOf(*c, "reference@1").spec, order)),
            "train.microbatches 4 > 2");
}

TEST(CampaignBlocks, PrimaryIsEachDirectionAndBothAtEveryDepth) {
  const auto c = Read(File(Blocks(R"("R", "P")")));
  ASSERT_TRUE(c.ok()) << c.status();
  const std::string f = "int4-b64-h64", b = "int8-b64";
  EXPECT_THAT(ArmsOf(*c, "P"),
              ElementsAre(Arm{"P-fwd-s2", 2, f, "none", 1}, Arm{"P-bwd-s2", 2, "none", b, 1},
                          Arm{"P-both-s2", 2, f, b, 2}, Arm{"P-fwd-s4", 4, f, "none", 3},
                          Arm{"P-bwd-s4", 4, "none", b, 3}, Arm{"P-both-s4", 4, f, b, 6},
                          Arm{"P-fwd-s8", 8, f, "none", 7}, Arm{"P-bwd-s8", 8, "none", b, 7},
                          Arm{"P-both-s8", 8, f, b, 14}));
  EXPECT_EQ(c->primary, "P-both-s4");
  for (const PlannedRun& run : c->runs) {
    if (run.role != Role::kArm) continue;
    EXPECT_TRUE(HasQ(*c, run)) << run.arm;
  }
}

TEST(CampaignBlocks, StrongCodecBitsAndNoiseAreThoseOfTheirRows) {
  const auto c = Read(File(Blocks(R"("R", "X", "B", "G")")));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(ArmsOf(*c, "X"), ElementsAre(Arm{"X-both-s2", 2, "minmax3-b64", "int8-b64", 2},
                                           Arm{"X-both-s4", 4, "minmax3-b64", "int8-b64", 6},
                                           Arm{"X-both-s8", 8, "minmax3-b64", "int8-b64", 14}));
  EXPECT_THAT(ArmsOf(*c, "B"), ElementsAre(Arm{"B-3bit-s8", 8, "minmax3-b64", "minmax3-b64", 14},
                                           Arm{"B-4bit-s8", 8, "minmax4-b64", "minmax4-b64", 14},
                                           Arm{"B-6bit-s8", 8, "minmax6-b64", "minmax6-b64", 14},
                                           Arm{"B-8bit-s8", 8, "minmax8-b64", "minmax8-b64", 14}));
  EXPECT_THAT(ArmsOf(*c, "G"),
              ElementsAre(Arm{"G-both-s4", 4, "gauss-0.0116", "gauss-3.55e-05", 6},
                          Arm{"G-both-s8", 8, "gauss-0.0116", "gauss-3.55e-05", 14}));
  // Arms that may lose a third of their tokens need a budget below.
  EXPECT_THAT(c->budgets, ElementsAre(0.35, 0.5, 0.65, 0.8, 1.0, 1.25));
}

TEST(CampaignBlocks, LocationsCutTwoStagesWhereTheRowSays) {
  const auto c = Read(File(Blocks(R"("R", "L")")));
  ASSERT_TRUE(c.ok()) << c.status();
  const std::string f = "int4-b64-h64", b = "int8-b64";
  EXPECT_THAT(ArmsOf(*c, "L"), ElementsAre(Arm{"L-1of8", 2, f, b, 2}, Arm{"L-2of8", 2, f, b, 2},
                                           Arm{"L-6of8", 2, f, b, 2}, Arm{"L-7of8", 2, f, b, 2}));
  for (const auto& [arm, cut] :
       {std::pair{"L-1of8", 2}, {"L-2of8", 4}, {"L-6of8", 12}, {"L-7of8", 14}}) {
    EXPECT_THAT(RunOf(*c, arm).spec.schedule.cuts, ElementsAre(cut)) << arm;
    EXPECT_TRUE(HasQ(*c, RunOf(*c, arm))) << arm;
  }
}

TEST(CampaignBlocks, TuningChangesTheRateOfAnArmAndOfItsReference) {
  const auto c = Read(File(Blocks(R"("R", "T")")));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(ArmsOf(*c, "T"),
              ElementsAre(Arm{"T-none-lr0.71", 1, "none", "none", 0},
                          Arm{"T-both-s4-lr0.71", 4, "int4-b64-h64", "int8-b64", 6},
                          Arm{"T-none-lr1.41", 1, "none", "none", 0},
                          Arm{"T-both-s4-lr1.41", 4, "int4-b64-h64", "int8-b64", 6}));
  EXPECT_EQ(RunOf(*c, "T-none-lr0.71").spec.train.lr, 0.00213);
  EXPECT_EQ(RunOf(*c, "T-both-s4-lr1.41").spec.train.lr, 0.00423);
  EXPECT_EQ(RunOf(*c, "T-both-s4-lr1.41").reference, "T-none-lr1.41");
  EXPECT_TRUE(HasQ(*c, RunOf(*c, "T-both-s4-lr0.71")));
}

TEST(CampaignBlocks, ExtrapolationIsSixteenStages) {
  const auto c = Read(File(Blocks(R"("R", "E")")));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(ArmsOf(*c, "E"), ElementsAre(Arm{"E-both-s16", 16, "int4-b64-h64", "int8-b64", 30}));
  EXPECT_TRUE(RunOf(*c, "E-both-s16").held_out);
  EXPECT_FALSE(RunOf(*c, "reference@1").held_out);
  EXPECT_THAT(*PlannedHeldOut(PlanText(*c, {})), ElementsAre("E-both-s16"));
}

// Runs per seed as the table counts them: 6 + 3 + 9 + 3 + 4 + 2 + 4 + 4 + 1, and 0.35 D0.
TEST(CampaignBlocks, TiersHaveTheirSeedsAndBlocks) {
  const auto smoke = Read(File("tier = \"smoke\""));
  ASSERT_TRUE(smoke.ok()) << smoke.status();
  EXPECT_THAT(smoke->seeds, ElementsAre(1, 2, 3));
  EXPECT_THAT(smoke->blocks, ElementsAre("R", "P"));
  EXPECT_THAT(smoke->budgets, ElementsAre(0.5, 0.65, 0.8, 1.0, 1.25));
  EXPECT_THAT(smoke->arms, ElementsAre("P-both-s2", "P-both-s4", "P-both-s8"));
  EXPECT_THAT(smoke->runs, SizeIs(3 * (5 + 3)));

  const auto standard = Read(File("tier = \"standard\""));
  ASSERT_TRUE(standard.ok()) << standard.status();
  EXPECT_THAT(standard->seeds, SizeIs(5));
  EXPECT_THAT(standard->blocks, ElementsAre("R", "A", "P", "X", "B", "G"));
  EXPECT_THAT(standard->runs, SizeIs(5 * (5 + 1 + 5 + 9 + 3 + 4 + 2)));

  const auto full = Read(File("tier = \"full\""));
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_THAT(full->seeds, SizeIs(8));
  EXPECT_THAT(full->runs, SizeIs(8 * (5 + 1 + 5 + 9 + 3 + 4 + 2 + 4 + 4 + 1)));
  std::set<std::string> names(full->arms.begin(), full->arms.end());
  EXPECT_EQ(names.size(), full->arms.size());
}

TEST(CampaignBlocks, FullOfEightBlocksHasNoSixteenStages) {
  const auto c = Read(File("tier = \"full\"", "", 8));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->blocks, ElementsAre("R", "A", "P", "X", "B", "G", "L", "T"));
  EXPECT_THAT(RunOf(*c, "L-7of8").spec.schedule.cuts, ElementsAre(7));
}

TEST(CampaignBlocks, WhatTheFileSaysItselfStands) {
  const auto c = Read(File(R"(tier = "smoke"
blocks = ["R", "A", "P"]
seeds = [7, 8, 9, 10]
budgets = [0.7, 1.0]
control_budgets = [0.9]
primary = "mild"
codecs = ["int8-b64", "bf16"]
)",
                           "[[arm]]\nname = \"mild\"\nstages = 2\nforward = \"int8-b64\"\n"
                           "backward = \"none\"\n"));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->seeds, ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(c->budgets, ElementsAre(0.7, 1.0));
  EXPECT_THAT(c->control_budgets, ElementsAre(0.9, 1.0, 0.7));
  EXPECT_EQ(c->primary, "mild");
  EXPECT_THAT(c->arms,
              ElementsAre("A2-order", "A3-bf16-s8", "P-both-s2", "P-both-s4", "P-both-s8", "mild"));
  EXPECT_THAT(ArmsOf(*c, "P")[1], (Arm{"P-both-s4", 4, "int8-b64", "bf16", 6}));
}

TEST(CampaignBlocks, PlanNamesTierAndBlocksAndOtherPlansDoNot) {
  const auto c = Read(File("tier = \"smoke\""));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(PlanText(*c, {}), HasSubstr("\ntier = \"smoke\"\nblocks = [\"R\", \"P\"]\n"));
  CampaignSpec plain = *c;
  plain.tier.clear();
  EXPECT_THAT(PlanText(plain, {}), testing::Not(HasSubstr("tier")));
}

TEST(CampaignBlocks, FileWithoutATierIsLeftAsItIs) {
  const TomlValue root = *ParseToml(File("seeds = [1]\nbudgets = [0.5, 1.0]"), "demo.toml");
  const auto same = WithBlocks(root);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(Find(*same, "campaign.blocks"), nullptr);
  EXPECT_EQ(Find(*same, "arm"), nullptr);
}

TEST(CampaignBlocks, MistakesAreOneLineWithTheirPlace) {
  EXPECT_EQ(Error(File("tier = \"tiny\"")),
            "demo.toml:5: 'campaign.tier' is 'tiny'; known: smoke, standard, full");
  EXPECT_EQ(Error(File("blocks = [\"P\"]")), "demo.toml:1: 'campaign.tier' is missing");
  EXPECT_EQ(Error(File("tier = \"smoke\"\nblocks = [\"R\", \"Q\"]")),
            "demo.toml:6: 'campaign.blocks' is 'Q'; known: R, A, P, X, B, G, L, T, E, D, N, C, J");
  EXPECT_EQ(Error(File("tier = \"smoke\"\nblocks = [\"R\", \"R\"]")),
            "demo.toml:6: 'campaign.blocks' names a block twice");
  EXPECT_EQ(Error(File("tier = \"smoke\"\nblocks = []")),
            "demo.toml:6: 'campaign.blocks' names no block");
  EXPECT_EQ(
      Error(File("tier = \"smoke\"\nblocks = [\"P\"]")),
      "demo.toml:6: 'campaign.blocks' has no 'R' (reference) and the campaign no budgets: arms are "
      "compared with the reference at budgets around D0");
  EXPECT_EQ(Error(File("tier = \"standard\"\nseeds = [1, 2, 3]")),
            "demo.toml:6: 'campaign.seeds' are 3; tier 'standard' wants at least 5");
  EXPECT_EQ(
      Error(File("tier = \"smoke\"", "", 12)),
      "demo.toml:5: 'campaign.tier' has block 'P' (primary), which cuts the model into up to 8 equal "
      "stages: model.blocks is 12; want a multiple of 8");
  EXPECT_EQ(
      Error(File(Blocks(R"("R", "E")"), "", 8)),
      "demo.toml:6: 'campaign.blocks' has block 'E' (extrapolation), which cuts the model into up to 16 "
      "equal stages: model.blocks is 8; want a multiple of 16");
  EXPECT_EQ(Error(File("tier = \"smoke\"\ncodecs = [\"bf16\"]")),
            "demo.toml:6: 'campaign.codecs' has 1 names; want 2: forward and backward");
  EXPECT_EQ(Error(File("tier = \"smoke\"\ncodecs = [\"bf16\", \"none\"]")),
            "demo.toml:6: 'campaign.codecs' compresses one direction");
  EXPECT_THAT(Error(File("tier = \"smoke\"\ncodecs = [\"bf16\", \"int5\"]")),
              HasSubstr("demo.toml:5: 'boundary.backward': codec 'int5' is unknown"));
  EXPECT_THAT(Error(File("tier = \"standard\"\ncodecs = [\"bf16\", \"bf16\"]")),
              HasSubstr("'campaign.codecs' stands without campaign.noise_codecs"));
  EXPECT_THAT(Error(File("tier = \"smoke\"",
                         "[[arm]]\nname = \"P-both-s2\"\nstages = 2\nforward = \"bf16\"\n"
                         "backward = \"none\"\n")),
              HasSubstr("demo.toml:6: two arms are named 'P-both-s2'"));
}

TEST(CampaignBlocks, DilocoCellsShareOutTheReferencesBatch) {
  const auto c =
      Read(File(Blocks(R"("R", "D", "C", "J")") +
                "replicas = [1, 4]\ninner_steps = [1, 30]\nouter_codecs = [\"int8-b64\"]"));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->arms,
              ElementsAre("D-m1-h1", "D-m1-h30", "D-m4-h1", "D-m4-h30", "C-m4-h30-int8-b64", "J-s4",
                          "J-s4-m4-h30-none", "J-s4-m4-h30-int8-b64"));
  const int64_t rows = RunOf(*c, "reference@1").spec.train.batch_rows;
  for (const auto& [arm, groups, inner_steps, codec] : {std::tuple("D-m1-h30", 1, 30, "none"),
                                                        {"D-m4-h1", 4, 1, "none"},
                                                        {"C-m4-h30-int8-b64", 4, 30, "int8-b64"},
                                                        {"J-s4-m4-h30-none", 4, 30, "none"}}) {
    const RunSpec& spec = RunOf(*c, arm).spec;
    EXPECT_EQ(spec.outer.groups, groups) << arm;
    EXPECT_EQ(spec.outer.inner_steps, inner_steps) << arm;
    EXPECT_EQ(spec.outer.codec, codec) << arm;
    EXPECT_EQ(spec.train.batch_rows * groups, rows) << arm;
    EXPECT_EQ(TrainTokens(spec), TrainTokens(RunOf(*c, "reference@1").spec)) << arm;
  }
  EXPECT_EQ(RunOf(*c, "J-s4-m4-h30-none").spec.boundary.forward, "int4-b64-h64");
  EXPECT_EQ(c->budgets.front(), 0.35);
}

TEST(CampaignBlocks, LocalBatchCellsStandAgainstDataParallelOverTheirOwnBatch) {
  const auto c = Read(File(Blocks(R"("R", "N")") + "replicas = [1, 4]\ninner_steps = [1, 30]"));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->arms, ElementsAre("N-dp-m4", "N-m4-h1", "N-m4-h30"));
  const PlannedRun &reference = RunOf(*c, "reference@1"), &dp = RunOf(*c, "N-dp-m4");
  EXPECT_EQ(dp.spec.outer.algorithm, "dp");
  EXPECT_EQ(dp.spec.outer.inner_steps, 0);
  EXPECT_EQ(TokensPerStep(dp.spec), 4 * TokensPerStep(reference.spec));
  const PlannedRun& cell = RunOf(*c, "N-m4-h30");
  EXPECT_EQ(cell.reference, "N-dp-m4");
  EXPECT_EQ(cell.spec.outer.algorithm, "diloco");
  EXPECT_EQ(TokensPerStep(cell.spec), TokensPerStep(dp.spec));
}

// The warm-up too would follow the batch: here both have the same, and the batch alone differs.
TEST(CampaignBlocks, DataParallelOverAnotherBatchIsNoReference) {
  const std::string dp =
      "[[arm]]\nname = \"dp\"\nstages = 1\nforward = \"none\"\nbackward = \"none\"\n"
      "outer.groups = 2\nouter.algorithm = \"dp\"\nouter.codec = \"none\"\ntrain.warmup_steps = 5\n";
  const std::string cell =
      "[[arm]]\nname = \"cell\"\nstages = 1\nforward = \"none\"\nbackward = \"none\"\n"
      "outer.groups = 4\nouter.inner_steps = 10\nouter.codec = \"none\"\ntrain.warmup_steps = 5\n"
      "reference = \"dp\"\n";
  EXPECT_THAT(Error(File("tier = \"smoke\"", dp + cell)),
              HasSubstr("is arm 'dp', which differs in more than stages and codecs"));
}

TEST(CampaignBlocks, GroupsThatDoNotDivideTheBatchAreRefused) {
  EXPECT_THAT(Error(File(Blocks(R"("R", "D")") + "replicas = [1, 3]")),
              HasSubstr("3 groups share out train.batch_rows = 16, which they do not divide"));
  EXPECT_THAT(Error(File(Blocks(R"("R", "D")") + "inner_steps = [10, 60000, 65000]")),
              HasSubstr("arms 'D-m1-h60000' and 'D-m1-h65000' would train alike"));
  EXPECT_THAT(Error(File(Blocks(R"("R", "D")") + "inner_steps = [30, 10]")),
              HasSubstr("each above the one before"));
  EXPECT_THAT(Error(File(Blocks(R"("R", "C")") + "outer_codecs = []")),
              HasSubstr("has none to try"));
}

TEST(CampaignBlocks, SeedsAndGridsReachTheirBoundsAndNoFurther) {
  const auto ok = [](const std::string& design) { return Read(File(design)).status(); };
  EXPECT_TRUE(ok("tier = 'smoke'\nseeds = [4, 5, 6]").ok());
  EXPECT_THAT(Error(File("tier = 'smoke'\nseeds = [4, 5]")), HasSubstr("wants at least 3"));
  EXPECT_TRUE(ok("tier = 'standard'\nseeds = [1, 2, 3, 4, 5]").ok());
  EXPECT_THAT(Error(File("tier = 'standard'\nseeds = [1, 2, 3, 4]")), HasSubstr("at least 5"));
  EXPECT_THAT(Error(File("tier = 'full'\nseeds = [1, 2, 3, 4, 5, 6, 7]")), HasSubstr("at least 8"));
  for (const std::string key : {"replicas", "inner_steps"}) {
    const std::string smoke = "tier = 'smoke'\n" + key + " = ";
    EXPECT_TRUE(ok(smoke + "[1, 65536]").ok()) << ok(smoke + "[1, 65536]");
    for (const char* list : {"[1, 65537]", "[0, 1]", "[2, 2]", "[3, 2]", "[]"}) {
      EXPECT_THAT(Error(File(smoke + list)), HasSubstr("want numbers from 1 to 65536")) << list;
    }
  }
  EXPECT_THAT(Error(File("tier = 'smoke'\ncodecs = ['int8-b64']")), HasSubstr("has 1 names"));
  EXPECT_THAT(Error(File("tier = 'smoke'\ncodecs = ['bf16', 'bf16', 'bf16']")),
              HasSubstr("has 3 names; want 2"));
}

}  // namespace
}  // namespace longhaul
