#include "experiments/estimates/campaign_findings.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/campaign_analysis.h"
#include "tests/experiments/estimates/analysed_campaign.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class CampaignFindingsTest : public AnalysedCampaign {
 protected:
  static SyntheticWorld World(double noise = 0.001) {
    return {.q = 0.99, .noise_nat = noise, .seeds = 5, .more_arms = kDirectionArms};
  }
};

TEST_F(CampaignFindingsTest, EachDirectionHasItsQAndTheirMeanIsThePlanners) {
  const CampaignAnalysis a = Analysed(World());
  ASSERT_THAT(a.findings.directions, SizeIs(1));
  const DirectionFinding& d = a.findings.directions[0];
  EXPECT_EQ(d.forward_codec, "int4-b64-h64");
  EXPECT_EQ(d.backward_codec, "int8-b64");
  EXPECT_EQ(d.seeds, 5);
  EXPECT_NEAR(d.q_forward->value, 0.99, 1e-3);
  EXPECT_NEAR(d.q_backward->value, 0.99, 1e-3);
  EXPECT_NEAR(d.q_symmetric->value, std::sqrt(d.q_forward->value * d.q_backward->value), 1e-12);
  ASSERT_TRUE(d.q_symmetric->interval);
  EXPECT_LT(d.q_symmetric->interval->low, d.q_symmetric->value);
  ASSERT_THAT(d.interactions, SizeIs(2));
  EXPECT_EQ(d.interactions[1].stages, 8);
  ASSERT_TRUE(d.depths);
  EXPECT_NEAR(d.depths->Fit(DepthModel::kM2).theta[0], -std::log(0.99), 1e-3);
}

// Both directions alone have as many crossings at one depth.
TEST_F(CampaignFindingsTest, EveryEstimateHasANameOfItsOwn) {
  const int64_t experiment = WriteSyntheticCampaign(*record_, World());
  const absl::StatusOr<std::string> table = AnalyseCampaign(*record_, experiment);
  EXPECT_TRUE(table.ok()) << table.status();
}

TEST_F(CampaignFindingsTest, DirectionsThatAddUpHaveNoInteraction) {
  const CampaignAnalysis a = Analysed(World(1e-5));
  for (const DirectionFinding::Interaction& i : a.findings.directions[0].interactions) {
    EXPECT_NEAR(i.ln->value, 0, 2e-3) << i.stages;
  }
}

TEST_F(CampaignFindingsTest, InteractionLeavesThePlannerTheArmsWithBothAlone) {
  SyntheticWorld w = World();
  w.extra_nat["s8"] = 0.05;
  const CampaignAnalysis a = Analysed(w);
  const DirectionFinding& d = a.findings.directions[0];
  EXPECT_LT(d.interactions[1].ln->interval->high, 0);
  EXPECT_TRUE(d.OnlyBothFeedsThePlanner());
  EXPECT_THAT(CampaignTable(a, Detail::kAll), HasSubstr("only arms with both feed the simulator"));
  const json calibration = json::parse(CalibrationJson(a));
  for (const json& entry : calibration["activation"]) {
    if (entry["direction"] != "both" || entry["eval"] != "off") continue;
    EXPECT_TRUE(entry["only_both_feeds_the_simulator"].get<bool>());
    EXPECT_THAT(entry["direction_interaction"], SizeIs(2));
  }
}

TEST_F(CampaignFindingsTest, CalibrationCarriesTheDepthModel) {
  const json calibration = json::parse(CalibrationJson(Analysed(World())));
  const json* found = nullptr;
  for (const json& entry : calibration["activation"]) {
    if (entry["direction"] == "both" && entry["eval"] == "off") found = &entry;
  }
  ASSERT_NE(found, nullptr);
  EXPECT_EQ((*found)["depth_model"]["chosen"], "M1");
  EXPECT_FALSE((*found).contains("gamma")) << "q^K stands: nothing bends it";
  EXPECT_NEAR((*found)["depth_model"]["models"]["M4"]["gamma"]["value"].get<double>(), 1, 0.2);
  EXPECT_TRUE((*found)["depth_model"].contains("a_ci"));
  EXPECT_TRUE((*found).contains("q_symmetric"));
  EXPECT_THAT((*found)["by_S"], SizeIs(3));
}

TEST_F(CampaignFindingsTest, CalibrationBendsQOnlyWhereDepthsSpeakAgainstIt) {
  SyntheticWorld w{.q = 0.99, .noise_nat = 2e-4, .seeds = 5};
  for (const auto& [arm, k] : {std::pair("s2", 2.0), {"s4", 6.0}, {"s8", 14.0}}) {
    const double bent = 0.05 * std::sqrt(k), straight = -k * std::log(0.99);
    w.extra_nat[arm] = w.slope_nat * (bent - straight);
  }
  const CampaignAnalysis a = Analysed(w);
  ASSERT_NE(a.families[0].depths->chosen, DepthModel::kM1) << a.families[0].depths->Words();
  const json entry = json::parse(CalibrationJson(a))["activation"][0];
  EXPECT_NEAR(entry["gamma"].get<double>(), 0.5, 0.05);
  EXPECT_NEAR(entry["q"].get<double>(), std::exp(-0.05 * std::sqrt(2.0) / 2), 2e-3);  // at S = 2
  EXPECT_LT(entry["q_ci"][0], entry["q"]);
  EXPECT_LT(entry["gamma_ci"][0], entry["gamma"]);
}

TEST_F(CampaignFindingsTest, SwitchingTheCodecOffIsPairedBySeed) {
  SyntheticWorld w = World();
  w.codec_on_extra_nat = 0.01;
  const CampaignAnalysis a = Analysed(w);
  const ArmResult& s8 = *FindArm(a, "s8");
  ASSERT_TRUE(s8.on_off && s8.on_off->interval);
  EXPECT_NEAR(s8.on_off->value, -0.01, 1e-12);
  EXPECT_NEAR(s8.on_off->interval->high - s8.on_off->interval->low, 0, 1e-9);
  EXPECT_THAT(CampaignTable(a, Detail::kAll),
              testing::ContainsRegex("off - on, nat\n-+\ns2 +5 +-0\\.0014 \\["));
}

TEST_F(CampaignFindingsTest, TestsNamedBeforehandAreHolmsAndTheRestIsExploratory) {
  const CampaignAnalysis a = Analysed(World());
  EXPECT_EQ(a.findings.primary, "s4");
  ASSERT_THAT(a.findings.secondary, SizeIs(5));
  std::vector<std::string> names;
  double largest = 0;
  for (const SecondaryTest& t : a.findings.secondary) {
    names.push_back(t.name);
    EXPECT_GE(t.adjusted, t.p);
    largest = std::max(largest, t.p);
  }
  EXPECT_THAT(names, testing::ElementsAre("S = 2", "S = 8", "forward only", "backward only",
                                          "M1 against a power of K"));
  EXPECT_LE(a.findings.secondary[1].adjusted, 0.05);
  EXPECT_EQ(a.findings.secondary[2].arm, "f4");  // at the primary's S
  const std::string table = CampaignTable(a, Detail::kAll);
  EXPECT_THAT(table, testing::ContainsRegex("primary +s4 +ln eta "));
  EXPECT_THAT(table, testing::ContainsRegex("secondary: S = 8 +s8 .* shown"));
  EXPECT_THAT(table, HasSubstr("Everything else is exploratory, arms f8, b8."));
}

TEST_F(CampaignFindingsTest, DoseIsTheErrorSummedOverBoundaries) {
  const CampaignAnalysis a = Analysed(World());
  const DoseFit& dose = a.findings.dose;
  EXPECT_THAT(dose.arms, SizeIs(7));
  EXPECT_NEAR(dose.largest, 7 * (7.1e-3 + 4.4e-5), 1e-9);  // s8
  EXPECT_NEAR(dose.smallest, 3 * 4.4e-5, 1e-9);            // b4
  ASSERT_TRUE(dose.kappa && dose.forward && dose.backward) << dose.note;
  EXPECT_TRUE(dose.exponent);
  EXPECT_FALSE(a.findings.kappa_ratio);
}

TEST_F(CampaignFindingsTest, EveryFindingIsARowWithItsIntervalOrAReason) {
  const CampaignAnalysis a = Analysed(World());
  std::set<std::string> quantities;
  for (const EstimateRow& row : ToEstimates(a)) {
    quantities.insert(row.quantity);
    EXPECT_TRUE(row.low || !row.note.empty()) << row.arm << " " << row.quantity;
  }
  for (const char* name : {"q_f", "q_b", "q_symmetric", "direction interaction at S = 8",
                           "M4 gamma", "M1 AICc", "kappa", "on_off", "S = 8, p by Holm"}) {
    EXPECT_TRUE(quantities.contains(name)) << name;
  }
}

TEST_F(CampaignFindingsTest, LostArmCostsItsFindingsAndNoOthers) {
  const SyntheticWorld w = World();
  const int64_t e = WriteSyntheticCampaign(*record_, w);
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& run : runs) {
    if (run.arm != "b8" || run.seed != 2) continue;
    const int64_t again = *record_->BeginRun(run);
    ASSERT_TRUE(record_->FinishRun(again, RunStatus::kDiverged, "NaN").ok());
  }
  const std::vector<ExperimentRow> experiments = *record_->Experiments();
  const CampaignAnalysis a = *Analyse(*record_, experiments.front());
  const DirectionFinding& d = a.findings.directions[0];
  EXPECT_FALSE(d.q_symmetric);
  EXPECT_THAT(d.note, HasSubstr("diverged 1 of 5"));
  EXPECT_TRUE(d.interactions[0].ln);   // S = 4 has all its arms
  EXPECT_FALSE(d.interactions[1].ln);  // S = 8 lost one
  EXPECT_TRUE(a.families[0].depths);
}

}  // namespace
}  // namespace longhaul
