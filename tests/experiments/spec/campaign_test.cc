#include "experiments/spec/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kCampaignToml = R"([campaign]
name = "demo"
question = "What does a crossing cost?"
seeds = [1, 2, 3]
d0_tokens = 400_000
budgets = [0.5, 0.65, 0.8, 1.0, 1.1]
control_budgets = [0.9]
[[arm]]
name = "s2"
stages = 2
forward = "int4-b64-h64"
backward = "int8-b64"
[[arm]]
name = "s4"
stages = 4
forward = "int4-b64-h64"
backward = "int8-b64"
train.lr = 2e-3
)" + std::string(kArmsToml) + "rows = 64\n";

absl::StatusOr<CampaignSpec> Read(const std::string& text) {
  absl::StatusOr<TomlValue> root = ParseToml(text, "demo.toml");
  if (!root.ok()) return root.status();
  return ReadCampaign(*root, TestNames());
}

std::string Replaced(std::string_view from, std::string_view to) {
  std::string text = kCampaignToml;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string Error(const std::string& text) {
  const absl::StatusOr<CampaignSpec> campaign = Read(text);
  EXPECT_EQ(campaign.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(campaign.status().message());
}

TEST(Campaign, ExpandsSeedBySeedToReferencesControlsAndArms) {
  const absl::StatusOr<CampaignSpec> c = Read(kCampaignToml);
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_THAT(c->runs, SizeIs(3 * (5 + 1 + 2)));
  EXPECT_THAT(c->arms, ElementsAre("s2", "s4"));
  std::vector<std::string> first;
  for (size_t i = 0; i < 8; ++i) {
    first.push_back(c->runs[i].arm);
    EXPECT_EQ(c->runs[i].seed, 1);
    EXPECT_EQ(c->runs[i].spec.seed, 1);
  }
  EXPECT_THAT(first, ElementsAre("reference@0.5", "reference@0.65", "reference@0.8", "reference@1",
                                 "reference@1.1", "control@0.9", "s2", "s4"));
  EXPECT_EQ(c->runs[0].role, Role::kReference);
  EXPECT_EQ(c->runs[0].spec.train.tokens, 200'000);
  EXPECT_EQ(c->runs[0].spec.schedule.stages, 1);
  EXPECT_EQ(c->runs[0].spec.boundary.forward, "none");
  EXPECT_EQ(c->runs[5].role, Role::kControl);
  EXPECT_EQ(c->runs[5].spec.train.tokens, 360'000);
  EXPECT_EQ(c->runs[7].spec.schedule.stages, 4);
  EXPECT_EQ(c->runs[7].spec.train.lr, 2e-3);
  EXPECT_EQ(c->runs[6].spec.train.lr, 3e-3);
  EXPECT_EQ(c->runs[8].seed, 2);
  // s4 has another learning rate than its reference, and so no q.
  EXPECT_EQ(c->primary, "s2");
  EXPECT_TRUE(HasQ(*c, c->runs[6]));
  EXPECT_FALSE(HasQ(*c, c->runs[7]));
  EXPECT_FALSE(HasQ(*c, c->runs[3]));
}

// 400,000 tokens in steps of what the base says, each run's warm-up a share of its own, rounded up.
TEST(Campaign, WarmUpIsAShareOfEachRunsOwnSteps) {
  std::string text = Replaced("control_budgets = [0.9]", "warmup_share = 0.15");
  const size_t lr = text.find("train.lr = 2e-3");
  ASSERT_NE(lr, std::string::npos);
  text.replace(lr, 15, "train.warmup_steps = 7");
  const absl::StatusOr<CampaignSpec> c = Read(text);
  ASSERT_TRUE(c.ok()) << c.status();
  for (const PlannedRun& run : c->runs) {
    const int64_t steps = Steps(run.spec);
    const int64_t want = run.arm == "s4" ? 7 : (15 * steps + 99) / 100;
    EXPECT_EQ(run.spec.train.warmup_steps, want) << run.arm << " of " << steps;
  }
  EXPECT_NE(PlanText(*c, {}), PlanText(*Read(Replaced("control_budgets = [0.9]", "")), {}));
  EXPECT_THAT(Error(Replaced("control_budgets = [0.9]", "warmup_share = 1.5")),
              HasSubstr("0 to 1"));
  text.replace(text.find("lr = 3e-3"), 9, "lr = 3e-3\nwarmup_steps = 40");
  EXPECT_THAT(Error(text), HasSubstr("'campaign.warmup_share' is given, and train.warmup_steps"));
}

// Another length than its reference's: no q, though nothing else than stages and codecs differs.
TEST(Campaign, AnArmMayTrainAFractionOfD0) {
  const absl::StatusOr<CampaignSpec> c =
      Read(Replaced("name = \"s2\"", "name = \"s2\"\nbudget = 0.25"));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->runs[6].arm, "s2");
  EXPECT_EQ(c->runs[6].budget_fraction, 0.25);
  EXPECT_EQ(c->runs[6].spec.train.tokens, 100'000);
  EXPECT_FALSE(HasQ(*c, c->runs[6]));
  EXPECT_EQ(c->runs[7].budget_fraction, 1);
  EXPECT_EQ(c->runs[7].spec.train.tokens, 400'000);
  EXPECT_THAT(PlanText(*c, {}), HasSubstr("budget_fraction = 0.25\n"));
  for (const char* wrong : {"0.0", "-1.0", "nan", "1001.0"}) {
    EXPECT_THAT(Error(Replaced("name = \"s2\"", std::string("name = \"s2\"\nbudget = ") + wrong)),
                HasSubstr("'arm.budget'"))
        << wrong;
  }
}

TEST(Campaign, PlanChangesWithTheArmsAndNotWithTheReading) {
  const std::string plan = PlanText(*Read(kCampaignToml), {{"held_out_sha256", "00"}});
  EXPECT_EQ(PlanText(*Read(kCampaignToml), {{"held_out_sha256", "00"}}), plan);
  EXPECT_NE(PlanText(*Read(kCampaignToml), {{"held_out_sha256", "01"}}), plan);
  EXPECT_NE(PlanText(*Read(Replaced("lr = 2e-3", "lr = 1e-3")), {{"held_out_sha256", "00"}}), plan);
  EXPECT_TRUE(ParseToml(plan, "plan").ok()) << plan;
}

// s4 changes train.lr; s1-lr makes the same change without codecs, so s4 has a q against it.
const char kWithReference[] = R"(train.lr = 2e-3
reference = "s1-lr"
[[arm]]
name = "s1-lr"
stages = 1
forward = "none"
backward = "none"
train.lr = 2e-3
)";

TEST(Campaign, ArmIsComparedWithTheReferenceThatItNames) {
  const absl::StatusOr<CampaignSpec> c = Read(Replaced("train.lr = 2e-3\n", kWithReference));
  ASSERT_TRUE(c.ok()) << c.status();
  const PlannedRun& s4 = c->runs[7];
  EXPECT_EQ(ReferenceOf(*c, s4)->arm, "s1-lr");
  EXPECT_EQ(ReferenceOf(*c, s4)->seed, s4.seed);
  EXPECT_EQ(ReferenceOf(*c, c->runs[6])->arm, "reference@1");
  EXPECT_TRUE(HasQ(*c, s4));
  EXPECT_FALSE(HasQ(*c, c->runs[8]));  // s1-lr crosses nothing
  EXPECT_EQ(c->primary, "s4");
  const auto references = PlannedReferences(PlanText(*c, {}));
  ASSERT_TRUE(references.ok()) << references.status();
  EXPECT_THAT(*references, ElementsAre(testing::Pair("s4", "s1-lr")));
  EXPECT_FALSE(PlannedReferences("= nothing").ok());
}

TEST(Campaign, ReferenceThatCannotCarryAQIsRefused) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string arms = kWithReference;
    arms.replace(arms.find(from), from.size(), to);
    return Error(Replaced("train.lr = 2e-3\n", arms));
  };
  EXPECT_THAT(
      with("\"s1-lr\"", "\"s1\""),
      HasSubstr("demo.toml:19: 'reference' of arm 's4' names no other arm: 's1'; known: s2, "
                "s4, s1-lr"));
  EXPECT_THAT(with("\"s1-lr\"", "\"s4\""), HasSubstr("names no other arm"));
  EXPECT_THAT(with("\"s1-lr\"", "\"reference@0.5\""), HasSubstr("names no other arm"));
  EXPECT_THAT(with("forward = \"none\"", "forward = \"int8-b64\""),
              HasSubstr("whose boundary codecs are not \"none\""));
  EXPECT_THAT(with("\"none\"\ntrain.lr = 2e-3", "\"none\"\ntrain.lr = 1e-3"),
              HasSubstr("differs in more than stages and codecs: train.lr 0.001 > 0.002"));
}

TEST(Campaign, AnArmMayHaveAFaultScriptOfItsOwnAndThenNoQ) {
  const absl::StatusOr<CampaignSpec> c =
      Read(Replaced("stages = 4",
                    "stages = 4\nouter.groups = 2\nouter.inner_steps = 4\nouter.codec = \"none\"\n"
                    "outer.on_group_loss = \"continue\"\n"
                    "fault = [{ what = \"kill\", where = \"group 0\", at_step = 5 }]"));
  ASSERT_TRUE(c.ok()) << c.status();
  for (const PlannedRun& run : c->runs) {
    EXPECT_EQ(run.spec.faults.size(), run.arm == "s4" ? 1u : 0u) << run.arm;
  }
  EXPECT_EQ(c->primary, "s2");  // s4 differs in more than stages and codecs
}

TEST(Campaign, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(Error(Replaced("name = \"s4\"", "name = \"s2\"")),
              HasSubstr("demo.toml:13: two arms are named 's2'"));
  EXPECT_THAT(Error(Replaced("stages = 4", "stage = 4")),
              HasSubstr("demo.toml:15: unknown key 'arm.stage'"));
  EXPECT_THAT(Error(Replaced("stages = 4", "stages = 3")),
              HasSubstr("demo.toml:15: 'schedule.stages' = 3 does not divide model.blocks = 8"));
  EXPECT_THAT(Error(Replaced("1.0, 1.1", "1.1")), HasSubstr("demo.toml:6: 'campaign.budgets'"));
  EXPECT_THAT(Error(Replaced("[1, 2, 3]", "[1, 1]")), HasSubstr("demo.toml:4: 'campaign.seeds'"));
  EXPECT_THAT(Error(Replaced("lr = 3e-3", "lr = 3e-3\nsteps = 3")),
              HasSubstr("'train.steps' is set by campaign.d0_tokens"));
  EXPECT_THAT(Error(Replaced("seeds =", "primary = \"x\"\nseeds =")),
              HasSubstr("demo.toml:4: 'campaign.primary' names no arm: 'x'; known: s2, s4"));
  EXPECT_THAT(Error(kRunToml), HasSubstr("use `longhaul run`"));
}

}  // namespace
}  // namespace longhaul
