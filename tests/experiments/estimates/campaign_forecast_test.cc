// Of a campaign: what is forecast before it, and what the planner and its calibration take from it.
#include "experiments/estimates/campaign_analysis.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/experiments/estimates/analysed_campaign.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

using CampaignForecast = AnalysedCampaign;

CampaignSpec NextCampaign(std::vector<std::string> sets, const std::string& arms = R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = "int8-b64"
)") {
  TomlValue root = *ParseToml(R"([campaign]
name = "next"
question = "?"
seeds = [1, 2, 3]
d0_tokens = 400000
budgets = [0.5, 1.0]
)" + arms,
                              "next.toml");
  Merge(root, *ParseToml(kRunToml, "next.toml"));
  Erase(root, "seed");
  Erase(root, "train.tokens");
  sets.insert(sets.begin(), {"eval.rows=2048", "net.transport=loopback"});
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
  return *ReadCampaign(root, TestNames());
}

TEST_F(CampaignForecast, ForecastUsesAPilotOnlyWhenThereIsOne) {
  const CampaignSpec campaign = NextCampaign({});
  const ResolutionForecast before = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(before.text, HasSubstr("assumed, no pilot"));
  EXPECT_THAT(before.text, HasSubstr("smoke campaign: 3 seeds"));
  WriteSyntheticCampaign(*record_, {.noise_nat = 1e-4});
  const ResolutionForecast after = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(after.text, HasSubstr("pilot 'smoke'"));
  EXPECT_TRUE(after.primary_resolvable);
}

TEST_F(CampaignForecast, PilotOfAnotherModelOrBudgetIsRefusedInOneLine) {
  WriteSyntheticCampaign(*record_, {.noise_nat = 1e-4});
  const struct {
    const char *set, *why;
  } others[] = {
      {"model.width=128", "model.width 128 > 64"},
      {"campaign.d0_tokens=100000", "train.tokens 100000 > 400000, train.warmup_steps 3 > 10"},
      {"train.lr=1e-3", "train.lr 0.001 > 0.003"},
      {"data.source=text:/x", "data.source \"text:/x\" > \"headers\""},
      {"eval.rows=64", "eval.rows 64 > 2048"}};
  for (const auto& other : others) {
    const ResolutionForecast forecast = *ForecastFor(NextCampaign({other.set}), &*record_);
    EXPECT_THAT(
        forecast.text,
        HasSubstr(std::string("\nCampaign 'smoke' of this record is no pilot for this one: ") +
                  other.why + ".\n"));
    EXPECT_THAT(forecast.text, HasSubstr("assumed, no pilot"));
    EXPECT_FALSE(forecast.primary_resolvable) << other.set;
  }
  // How runs are executed changes no loss.
  const CampaignSpec elsewhere = NextCampaign({"limits.threads=2", "schedule.kind=gpipe"});
  EXPECT_THAT(ForecastFor(elsewhere, &*record_)->text, HasSubstr("pilot 'smoke'"));
}

TEST_F(CampaignForecast, ForecastOfOneDirectionHasHalfTheCrossings) {
  const auto text = [&](const std::string& backward) {
    const CampaignSpec campaign = NextCampaign({}, R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = ")" + backward + "\"\n");
    return ForecastFor(campaign, nullptr)->text;
  };
  // sd_delta / s = 0.015 / 0.37; t(2) / sqrt(3) = 2.484138; over 14 and over 7 crossings.
  EXPECT_THAT(text("int8-b64"), HasSubstr("0.0072 at S=8;"));
  EXPECT_THAT(text("none"), HasSubstr("0.0144 at S=8 one way;"));
}

TEST_F(CampaignForecast, ForecastSaysWhenThePrimaryHasNoQ) {
  const CampaignSpec campaign = NextCampaign({}, R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = "int8-b64"
train.lr = 1e-3
)");
  EXPECT_THAT(ForecastFor(campaign, nullptr)->text, HasSubstr("an efficiency, not a q"));
}

TEST_F(CampaignForecast, OneDirectionHasHalfTheCrossingsInThePlannersTableToo) {
  const std::string arms = R"([[arm]]
name = "f4"
stages = 4
forward = "int4-b64-h64"
backward = "none"
)";
  const SyntheticWorld w{.q = 0.98, .noise_nat = 0, .codec_on_extra_nat = 0, .more_arms = arms};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  EXPECT_EQ(Arm(a, "f4").crossings, 3);
  ASSERT_THAT(a.families, SizeIs(2));
  const Family& forward = a.families[1];
  EXPECT_EQ(forward.directions(), 1);
  EXPECT_NEAR(forward.bits_per_element, 4.25, 0.05);  // of what is compressed
  const std::vector<PlannedDepth> depths = PlannedDepths(forward);
  ASSERT_THAT(depths, SizeIs(3));
  for (const PlannedDepth& depth : depths) {
    const double k = static_cast<double>(depth.stages - 1);
    EXPECT_NEAR(depth.assumed, std::pow(0.995, 2 * k), 1e-12);
    EXPECT_NEAR(depth.measured.value, std::pow(0.98, k), 2e-3) << depth.stages;
    EXPECT_EQ(depth.direct, depth.stages == 4);
  }
  EXPECT_NEAR(PlannedDepths(a.families[0])[2].assumed, std::pow(0.995, 14), 1e-12);
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_EQ(json["activation"].back()["by_S"][0]["crossings"], 3);
  EXPECT_EQ(json["activation"].back()["direction"], "forward");
}

TEST_F(CampaignForecast, CalibrationHasTheActivationPart) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(Analysed(e)));
  EXPECT_EQ(json["schema"], "longhaul.calibration/1");
  EXPECT_THAT(std::string(json["plan_sha256"]), SizeIs(64));
  ASSERT_THAT(json["activation"], SizeIs(2));
  const nlohmann::json& off = json["activation"][0];
  EXPECT_EQ(off["eval"], "off");
  EXPECT_EQ(off["direction"], "both");
  EXPECT_EQ(off["by_S"].size(), 3u);
  EXPECT_LE(off["q_ci"][0], off["q"]);
  EXPECT_NEAR(off["ratio"], 16 / 6.25, 0.05);
  // Of blocks of 64: 4 and 8 bits an element, and a scale of 16 bits for each block.
  EXPECT_NEAR(off["ratio_forward"], 16 / 4.25, 1e-4);
  EXPECT_NEAR(off["ratio_backward"], 16 / 8.25, 1e-4);
  EXPECT_EQ(off["ratio_width"], 8192);
}

}  // namespace
}  // namespace longhaul
