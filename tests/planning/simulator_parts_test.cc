// Which part of a calibration made a conclusion change: q and the byte ratio, each alone.
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/conclusions.h"
#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

using testing::HasSubstr;

constexpr char k480[] = "best at 500 nodes: pipelines of 480B";
constexpr char k549[] = "best at 2000 H100 FP8 nodes: pipelines of 549B";
constexpr char kEight[] = "8 stages keep eta_act >= 0.90";

// As measured at 240 B parameters, so that there are verdicts. `more`: members after the activations.
CalibrationPlan PlanOf(const std::string& q, const std::string& ratio,
                       const std::string& more = "") {
  const std::string text =
      R"({"schema":"longhaul.calibration/1","plan_sha256":"abc","commit":"def","params":240e9,)"
      R"("activation":[{"codec":"c","direction":"both","eval":"off",)" +
      q + (ratio.empty() ? "" : R"(,"ratio":)" + ratio) + "}]" + more + "}";
  absl::StatusOr<Calibration> calibration = ParseCalibration(text, "q.json");
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  absl::StatusOr<CalibrationPlan> plan = CalibrationPlan::Make(*std::move(calibration), {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}
// The demo's: 4-bit forward and 8-bit backward, as its bytes came out.
CalibrationPlan Demo() {
  return PlanOf(R"("q":0.97928,"q_ci":[0.9743,0.9843])", "2.5536159600997506");
}

Attribution Of(const CalibrationPlan& plan, const std::string& name) {
  for (const Conclusion& c : Conclusions()) {
    if (c.name == name) return Attribute(plan, Transfer::kTokens, c);
  }
  ADD_FAILURE() << "no conclusion '" << name << "'";
  return {};
}

Judgement Alone(const CalibrationPlan& plan, const std::string& name, Part part) {
  for (const Attribution::OfPart& of : Of(plan, name).parts) {
    if (of.part == part) return of.judgement;
  }
  ADD_FAILURE() << name << " has no part '" << PartName(part) << "'";
  return {};
}

// 480B has two stages: its margin is (q/0.9510)^2, 0.9510 being where flat wins. The ratio's margin
// is another program's.
TEST(SimulatorParts, TheRatioAloneFlips480BAndQDoesNot) {
  const Judgement q = Alone(Demo(), k480, Part::kQuality);
  EXPECT_NEAR(q.point, std::pow(0.97928 / 0.9510, 2), 5e-4);
  EXPECT_NEAR(q.point, 1.060, 6e-4);
  EXPECT_EQ(q.change, Change::kUnchanged);
  const Judgement ratio = Alone(Demo(), k480, Part::kRatio);
  EXPECT_NEAR(ratio.point, 0.926, 6e-4);
  EXPECT_EQ(ratio.low, ratio.high);
  EXPECT_EQ(ratio.change, Change::kFlips);
  EXPECT_EQ(Of(Demo(), k480).whole.change, Change::kFlips);
}

// 549B has six stages, the 457B that follows it five: (q/0.9754)^2.
TEST(SimulatorParts, QAloneLeaves549BOpenAndTheRatioKeepsIt) {
  const Judgement q = Alone(Demo(), k549, Part::kQuality);
  EXPECT_NEAR(q.point, std::pow(0.97928 / 0.9754, 2), 5e-4);
  EXPECT_EQ(q.change, Change::kUndetermined);
  const Judgement ratio = Alone(Demo(), k549, Part::kRatio);
  EXPECT_NEAR(ratio.point, 1.007, 6e-4);
  EXPECT_EQ(ratio.change, Change::kUnchanged);
}

TEST(SimulatorParts, EightStagesAreAMatterOfQAlone) {
  const Judgement q = Alone(Demo(), kEight, Part::kQuality);
  EXPECT_NEAR(q.point, std::pow(0.97928, 14) / 0.90, 1e-9);
  EXPECT_EQ(q.change, Change::kFlips);
  const Judgement ratio = Alone(Demo(), kEight, Part::kRatio);
  EXPECT_NEAR(ratio.point, std::pow(0.995, 14) / 0.90, 1e-12);
  EXPECT_FALSE(ratio.touched);
}

TEST(SimulatorParts, WhatNoPartChangesHasNone) {
  EXPECT_TRUE(Of(Demo(), "A reaches 1e27").parts.empty());
  EXPECT_TRUE(Of(Demo(), "best at 72 nodes: flat 240B").parts.empty());
  EXPECT_TRUE(Of(PlanOf(R"("q":0.995,"q_ci":[0.995,0.995])", "4"), k480).parts.empty());
}

TEST(SimulatorParts, APartThatTheCalibrationLacksIsNotThere) {
  const CalibrationPlan plan = PlanOf(R"("q":0.9,"q_ci":[0.9,0.9])", "");
  EXPECT_FALSE(plan.Only(Part::kRatio).has_value());
  EXPECT_FALSE(plan.Only(Part::kRest).has_value());
  EXPECT_EQ(Of(plan, k480).parts.size(), 1u);
}

// A faster step stands apart from q and from the ratio.
TEST(SimulatorParts, AllElseIsAPartOfItsOwn) {
  const CalibrationPlan plan = PlanOf(R"("q":0.98,"q_ci":[0.98,0.98])", "2",
                                      R"(,"step_time":{"ratio":0.5,"p05":0.5,"p95":0.5})");
  EXPECT_EQ(plan.Only(Part::kQuality)->sources(), 1u);
  EXPECT_EQ(plan.Only(Part::kRatio)->sources(), 0u);
  EXPECT_EQ(plan.Only(Part::kRest)->names(), std::vector<std::string>{"step_time"});
  const Judgement rest = Alone(plan, kEight, Part::kRest);
  EXPECT_NEAR(rest.point, std::pow(0.995, 14) / 0.90, 1e-12);
}

TEST(SimulatorParts, TextCsvAndJsonSayTheSame) {
  const CalibrationPlan plan = Demo();
  const std::vector<Attribution> answer = Attribute(plan);
  const std::string text = ConclusionsText(plan, answer);
  EXPECT_THAT(text, HasSubstr("One part measured, all else assumed"));
  EXPECT_THAT(text, testing::ContainsRegex("pipelines of 480B +byte ratio +0.9260"));
  const std::string csv = ConclusionsCsv(answer);
  EXPECT_THAT(csv, HasSubstr(std::string("\ntokens,\"") + k480 + "\",byte ratio,1.09"));
  EXPECT_THAT(csv, HasSubstr(std::string("\ntokens,\"") + k480 + "\",all,1.09"));
  const auto json = nlohmann::json::parse(CalibrationJson(plan, answer, {}));
  ASSERT_EQ(json["conclusions"].size(), Conclusions().size());
  bool seen = false;
  for (const auto& c : json["conclusions"]) {
    if (c["conclusion"] != k480) continue;
    seen = true;
    EXPECT_EQ(c["alone"]["byte ratio"]["verdict"], "flips");
    EXPECT_EQ(c["alone"]["q"]["verdict"], "unchanged");
    EXPECT_EQ(c["alone"]["q"]["point"].get<double>(), Alone(plan, k480, Part::kQuality).point);
  }
  EXPECT_TRUE(seen);
}

// Half of eta_c wants the nodes of twice the FLOP, since all else stays.
TEST(SimulatorParts, ASearchCountsItsNodesWithMeasuredFactors) {
  const auto calibration = ParseCalibration(
      R"({"schema":"longhaul.calibration/1","plan_sha256":"a","commit":"d","params":1e6,"eta_c":[)"
      R"({"codec":"k","ratio":16,"eta":0.49,"ci":[0.49,0.98]}]})",
      "c.json");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const CalibrationPlan plan = *CalibrationPlan::Make(*calibration, {});
  const Scenario s = A100Nodes(1);
  const auto sought = [&](int64_t most) {
    return MeasureScenarios(plan, {{"A100", s, {{Target::kLocal, 1e25, most}}}});
  };
  const std::vector<MeasuredNumber> found = sought(1000);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].number, "nodes for 1e+25 FLOP");
  const auto once = FewestNodes(s, Target::kLocal, 1e25, 1000);
  const auto twice = FewestNodes(s, Target::kLocal, 2e25, 1000);
  EXPECT_EQ(found[0].assumed, static_cast<double>(*once));
  EXPECT_EQ(found[0].point, static_cast<double>(*twice));
  EXPECT_EQ(found[0].low, static_cast<double>(*once));
  EXPECT_EQ(found[0].high, static_cast<double>(*twice));
  const std::string scarce = MeasuredTable(sought(*once));
  EXPECT_THAT(scarce, testing::ContainsRegex("1e.25 FLOP +" + std::to_string(*once) +
                                             " +not within most_nodes"));
}

Scenario Pipelines(double billions) {
  Scenario s = ProfileScenario(ProfileName::kGovernancePp);
  s.nodes = 4000;
  s.parameters = billions * 1e9;
  return s;
}

double EtaActOf(const CalibrationPlan& plan, double billions) {
  const std::vector<double> z(plan.sources(), 0.0);
  return Simulate(plan.Apply(Pipelines(billions), Transfer::kTokens, z)).eta_act;
}

// S = 2, 3, 4, 6, 8 by size; measured at 2, 4 and predicted at 8: between them a line of ln eta.
TEST(SimulatorDepths, AsMeasuredBetweenOnALineAndBeyondAsPredicted) {
  const CalibrationPlan plan =
      PlanOf(R"("q":0.97,"q_ci":[0.96,0.98],"by_S":[{"S":2,"ln_eta":-0.02,"ci":[-0.03,-0.01]},)"
             R"({"S":4,"ln_eta":-0.08,"ci":[-0.1,-0.06]}],)"
             R"("beyond":[{"S":8,"ln_eta":-0.30,"ci":[-0.5,-0.1]}])",
             "3.5");
  EXPECT_NEAR(EtaActOf(plan, 480), std::exp(-0.02), 1e-12);
  EXPECT_NEAR(EtaActOf(plan, 600), std::exp(-0.05), 1e-12);
  EXPECT_NEAR(EtaActOf(plan, 960), std::exp(-0.08), 1e-12);
  EXPECT_NEAR(EtaActOf(plan, 1440), std::exp(-0.19), 1e-12);
  EXPECT_NEAR(EtaActOf(plan, 1920), std::exp(-0.30), 1e-12);
  EXPECT_NEAR(EtaActOf(plan, 2400), std::pow(0.97, 18), 1e-12) << "deeper than all: q";
  const Judgement deep = Of(plan, kEight).whole;
  EXPECT_NEAR(deep.low, std::exp(-0.5) / 0.9, 1e-9);
  EXPECT_NEAR(deep.high, std::exp(-0.1) / 0.9, 1e-9);
}

TEST(SimulatorDepths, NothingIsGainedByCompression) {
  const CalibrationPlan plan =
      PlanOf(R"("q":0.999,"q_ci":[0.99,1.01],"by_S":[{"S":2,"ln_eta":0.05,"ci":[0.01,0.09]}],)"
             R"("delta_nat":[{"S":2,"value":-0.02,"ci":[-0.03,-0.01]}])",
             "");
  EXPECT_EQ(EtaActOf(plan, 480), 1);
  const std::vector<double> z(plan.sources(), 0.0);
  EXPECT_EQ(Simulate(plan.Apply(Pipelines(480), Transfer::kLoss, z)).eta_act, 1);
}

// 9 nodes of H = 160 or so: a total at this M and within 10 % of H stands for eta_H and eta_r.
TEST(SimulatorDiloco, ATotalStandsForItsOwnReplicasAndInnerSteps) {
  Scenario nine = ProfileScenario(ProfileName::kGovernance);
  nine.nodes = 9;
  const Outcome assumed = Simulate(nine);
  const auto eta = [&](const std::string& cells) {
    const CalibrationPlan plan =
        PlanOf(R"("q":0.99,"q_ci":[0.98,1.0])", "", R"(,"eta_diloco":[)" + cells + "]");
    const std::vector<double> z(plan.sources(), 0.0);
    return Simulate(plan.Apply(nine, Transfer::kTokens, z));
  };
  const auto cell = [](int64_t m, double h, const std::string& more) {
    return fmt::format(R"({{"M":{},"H":{:.0f},"eta":0.7,"ci":[0.6,0.8],{}}})", m, h, more);
  };
  const double h = assumed.effective_steps;
  const std::string plain = R"("codec":"none","boundary":"","batch":"global-batch-matched")";
  const Outcome applied = eta(cell(9, 1.05 * h, plain));
  EXPECT_NEAR(applied.eta, 0.7 * assumed.eta_c, 1e-12);
  EXPECT_EQ(applied.eta_r, 1);
  EXPECT_EQ(eta(cell(9, 1.2 * h, plain)).eta, assumed.eta) << "another H";
  EXPECT_EQ(eta(cell(8, h, plain)).eta, assumed.eta) << "another M";
  for (const char* other : {R"("codec":"int4-b64","boundary":"","batch":"global-batch-matched")",
                            R"("codec":"none","boundary":"int8","batch":"global-batch-matched")",
                            R"("codec":"none","boundary":"","batch":"local-batch-matched")"}) {
    EXPECT_EQ(eta(cell(9, h, other)).eta, assumed.eta) << other;
  }
}

}  // namespace
}  // namespace longhaul::simulator
