// Measured factors in place of assumed ones: what is read, what is refused, what it does to the
// conclusions on both sides of each break-even value.
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/simulator/calibration_file.h"
#include "planning/simulator/conclusions.h"
#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "planning/simulator/transfer.h"

namespace longhaul::simulator {
namespace {

using testing::HasSubstr;

std::string Document(const std::string& rest, double parameters = 1.1e6) {
  return R"({"schema":"longhaul.calibration/1","plan_sha256":"abc","commit":"def","params":)" +
         std::to_string(parameters) + (rest.empty() ? "" : "," + rest) + "}";
}

std::string Q(double low, double q, double high, const std::string& more = "") {
  return R"("activation":[{"codec":"c","direction":"both","eval":"off","q":)" + std::to_string(q) +
         R"(,"q_ci":[)" + std::to_string(low) + "," + std::to_string(high) + "]" +
         (more.empty() ? "" : "," + more) + "}]";
}

CalibrationPlan PlanOf(const std::string& rest, const CalibrationChoice& choice = {},
                       double parameters = 1.1e6) {
  absl::StatusOr<Calibration> calibration = ParseCalibration(Document(rest, parameters), "q.json");
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  absl::StatusOr<CalibrationPlan> plan = CalibrationPlan::Make(*std::move(calibration), choice);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

Judgement Of(const CalibrationPlan& plan, const std::string& name,
             Transfer transfer = Transfer::kTokens) {
  for (const Conclusion& c : Conclusions()) {
    if (c.name == name) return Judge(plan, transfer, c);
  }
  ADD_FAILURE() << "no conclusion '" << name << "'";
  return {};
}

std::string ErrorOf(const std::string& text) {
  return std::string(ParseCalibration(text, "q.json").status().message());
}

TEST(SimulatorCalibration, AnotherSchemaIsRefused) {
  EXPECT_THAT(
      ErrorOf(R"({"schema":"longhaul.calibration/2"})"),
      HasSubstr(
          "q.json: schema 'longhaul.calibration/2'; expected 'longhaul.calibration/1': write"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("schema 'none'"));
  EXPECT_THAT(ErrorOf("[1"), HasSubstr("not a JSON object"));
  EXPECT_FALSE(ReadCalibration("/nowhere/q.json").ok());
}

TEST(SimulatorCalibration, ANumberWithoutAnIntervalIsRefused) {
  EXPECT_THAT(
      ErrorOf(Document(R"("activation":[{"codec":"c","direction":"both","eval":"off","q":0.99}])")),
      HasSubstr("activation of 'c' gives 'q' without an interval 'q_ci'"));
  EXPECT_THAT(ErrorOf(Document(R"("straggler":{"coef":0.04})")),
              HasSubstr("straggler gives 'coef'"));
  EXPECT_THAT(ErrorOf(Document(R"("step_time":{"ratio":0.7,"p05":0.6})")),
              HasSubstr("step_time gives"));
  EXPECT_THAT(ErrorOf(Document(R"("alpha":{"value":0.1,"P_B":0.001})")), HasSubstr("alpha gives"));
  EXPECT_THAT(ErrorOf(Document(R"("eta_H":[{"M":4,"H":30,"eta":0.9}])")), HasSubstr("eta_H gives"));
}

TEST(SimulatorCalibration, AnIntervalThatDoesNotHoldItsNumberIsRefused) {
  EXPECT_THAT(ErrorOf(Document(Q(0.996, 0.99, 0.999))), HasSubstr("lies outside its interval"));
  EXPECT_THAT(ErrorOf(Document(Q(-1, 0.99, 0.999))), HasSubstr("is not above 0"));
}

TEST(SimulatorCalibration, ANumberInAnotherUnitIsOneClearLine) {
  const auto with = [](const std::string& row) { return ErrorOf(Document(row)); };
  EXPECT_EQ(with(R"("eta_H":[{"M":4,"H":30,"eta":93,"ci":[91,95]}])"),
            "q.json: eta_H 'eta' = 93 is beyond 10 and looks like another unit; want a share, not "
            "per cent");
  EXPECT_THAT(with(R"("eta_r":[{"M":4,"H":30,"eta":93,"ci":[91,95]}])"), HasSubstr("eta_r 'eta'"));
  EXPECT_THAT(with(R"("eta_c":[{"codec":"k","ratio":16,"eta":98,"ci":[97,99]}])"),
              HasSubstr("eta_c 'eta' = 98"));
  EXPECT_THAT(with(R"("straggler":{"coef":5,"ci":[4,6]})"),
              HasSubstr("want a share for each doubling, not per cent"));
  EXPECT_THAT(with(R"("step_time":{"ratio":900,"p05":800,"p95":950})"), HasSubstr("not seconds"));
  EXPECT_THAT(with(Q(0.9, 0.97, 0.99, R"("delta_nat":[{"S":8,"value":21.5,"ci":[17,25]}])")),
              HasSubstr("want nat, not thousandths"));
  EXPECT_THAT(with(Q(0.9, 0.97, 0.99, R"("by_S":[{"S":8,"ln_eta":-41,"ci":[-49,-33]}])")),
              HasSubstr("want the logarithm of a share"));
  // A wide interval is noise, not another unit.
  EXPECT_EQ(with(R"("eta_c":[{"codec":"k","ratio":16,"eta":0.9,"ci":[0.1,12]}])"), "");
}

TEST(SimulatorCalibration, FailedControlsCalibrateNothing) {
  EXPECT_THAT(ErrorOf(Document(R"("controls_failed":["A/A"])")), HasSubstr("controls failed"));
}

TEST(SimulatorCalibration, ABoundIsNoMeasurement) {
  const CalibrationPlan plan = PlanOf(Q(0.5, 0.6, 0.7, R"("q_ci_low_bound":"<=")"));
  EXPECT_EQ(plan.activation(), nullptr);
  EXPECT_EQ(plan.sources(), 0u);
  EXPECT_EQ(Of(plan, "8 stages keep eta_act >= 0.90").change, Change::kUnchanged);
  EXPECT_THAT(ConclusionsText(plan, Attribute(plan)), HasSubstr("1 of its numbers are bounds"));
}

TEST(SimulatorCalibration, SeveralCodecsWantAName) {
  const std::string two =
      R"("activation":[{"codec":"a","direction":"both","eval":"off","q":0.99,"q_ci":[0.98,1]},)"
      R"({"codec":"b","direction":"both","eval":"off","q":0.97,"q_ci":[0.96,1]}])";
  const auto make = [&](const std::string& codec) {
    return CalibrationPlan::Make(*ParseCalibration(Document(two), "q"),
                                 {.codec = codec, .extrapolate = false});
  };
  EXPECT_THAT(std::string(make("").status().message()), HasSubstr("name one with --codec: a, b"));
  EXPECT_THAT(std::string(make("z").status().message()), HasSubstr("no codec 'z'"));
  EXPECT_EQ(make("b")->activation()->q.value, 0.97);
}

// What the codec lost where it was off, of the campaign's own arms: neither the evaluation with the
// codec on nor a later entry of another reference.
TEST(SimulatorCalibration, TheFirstEntryWithTheCodecOffIsTaken) {
  const std::string three =
      R"("activation":[{"codec":"a","direction":"both","eval":"on","q":0.96,"q_ci":[0.95,1]},)"
      R"({"codec":"a","direction":"both","eval":"off","q":0.99,"q_ci":[0.98,1]},)"
      R"({"codec":"a","direction":"both","eval":"off","q":0.97,"q_ci":[0.96,1]}])";
  const auto plan = CalibrationPlan::Make(*ParseCalibration(Document(three), "q"),
                                          {.codec = "", .extrapolate = false});
  EXPECT_EQ(plan->activation()->q.value, 0.99);
}

// Bit for bit: nothing measured, and the assumed values themselves as measurements.
TEST(SimulatorCalibration, AssumedValuesInAreTheAssumedTableOut) {
  for (const std::string& rest : {std::string(), Q(0.995, 0.995, 0.995, R"("ratio":4)"),
                                  std::string(R"("straggler":{"coef":0.05,"ci":[0.05,0.05]})"),
                                  std::string(R"("step_time":{"ratio":1,"p05":1,"p95":1})")}) {
    for (const Attribution& a : Attribute(PlanOf(rest))) {
      const Judgement& j = a.whole;
      EXPECT_EQ(j.low, j.assumed) << j.name;
      EXPECT_EQ(j.point, j.assumed) << j.name;
      EXPECT_EQ(j.high, j.assumed) << j.name;
      EXPECT_EQ(j.change, Change::kUnchanged) << j.name;
      EXPECT_FALSE(j.touched) << j.name;
    }
  }
}

struct BreakEven {
  const char* conclusion;
  double q;  // true above, false below
};

TEST(SimulatorCalibration, VerdictsOnBothSidesOfEachBreakEvenQ) {
  for (const BreakEven& row : {BreakEven{"best at 500 nodes: pipelines of 480B", 0.9510},
                               BreakEven{"best at 4000 nodes: pipelines", 0.721},
                               BreakEven{"best at 4000 nodes: pipelines of 960B", 0.9662},
                               BreakEven{"best at 2000 H100 FP8 nodes: pipelines of 549B", 0.9754},
                               BreakEven{"8 stages keep eta_act >= 0.90", 0.99250}}) {
    SCOPED_TRACE(row.conclusion);
    const double step = row.q < 0.8 ? 0.001 : 0.0002;
    const auto verdict = [&](double from, double to) {
      return Of(PlanOf(Q(from, (from + to) / 2, to)), row.conclusion).change;
    };
    EXPECT_EQ(verdict(row.q + step, row.q + 2 * step), Change::kUnchanged);
    EXPECT_EQ(verdict(row.q - 2 * step, row.q - step), Change::kFlips);
    EXPECT_EQ(verdict(row.q - step, row.q + step), Change::kUndetermined);
  }
}

TEST(SimulatorCalibration, Flat240BIsBestOf72NodesForEveryQ) {
  const Judgement j = Of(PlanOf(Q(0.5, 0.9, 1)), "best at 72 nodes: flat 240B");
  EXPECT_EQ(j.change, Change::kUnchanged);
  EXPECT_GT(j.assumed, 1);
}

TEST(SimulatorCalibration, AssumedMarginsAsPrinted) {
  const CalibrationPlan plan = PlanOf("");
  const std::pair<const char*, double> rows[] = {
      {"4 nodes reach 1e24", 0.977},
      {"72 nodes reach 1e25", 1.751},
      {"500 nodes reach 1e26", 1.212},
      {"500 nodes reach 1e26 at 10 Mbit/s", 1.137},
      {"A reaches 1e27", 0.967},
      {"B reaches 1e27", 1.0018},
      {"C reaches 1e27", 1.0122},
      {"D reaches 1e27", 1.0513},
      {"E reaches 1e27", 0.984},
      {"F reaches 1e27", 1.0704},
      {"F reaches 1e27 at 10 Mbit/s", 1.0388},
      {"F reaches 1e27 at 10 Mbit/s, conservative", 0.984},
      {"8 stages keep eta_act >= 0.90", 0.932 / 0.90},
      {"1 Gbit/s to 10 Mbit/s costs at most 14 %", (1 - 0.1166) / 0.86}};
  for (const auto& [name, margin] : rows) EXPECT_NEAR(Of(plan, name).assumed, margin, 6e-4) << name;
}

TEST(SimulatorCalibration, AMeasuredDepthStandsAndShallowerOnesLieOnALine) {
  const CalibrationPlan plan =
      PlanOf(Q(0.98, 0.99, 1, R"("by_S":[{"S":8,"ln_eta":-0.041,"ci":[-0.049,-0.033]}])"));
  const Judgement j = Of(plan, "8 stages keep eta_act >= 0.90");
  EXPECT_NEAR(j.point, std::exp(-0.041) / 0.90, 1e-12);
  EXPECT_NEAR(j.low, std::exp(-0.049) / 0.90, 1e-12);
  EXPECT_NEAR(j.high, std::exp(-0.033) / 0.90, 1e-12);
  const double z[] = {0};
  Scenario s = A100Nodes(500, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  // Four stages lie on the line from S = 1, where nothing is lost, to S = 8.
  EXPECT_NEAR(Simulate(plan.Apply(s, Transfer::kTokens, z)).eta_act, std::exp(-0.041 * 3 / 7),
              1e-12);
}

TEST(SimulatorCalibration, DepthThatSaturatesComesThroughGamma) {
  const CalibrationPlan plan = PlanOf(Q(0.98, 0.98, 0.98, R"("gamma":0.5,"gamma_ci":[0.5,0.5])"));
  EXPECT_EQ(plan.sources(), 2u);
  const Judgement j = Of(plan, "8 stages keep eta_act >= 0.90");
  EXPECT_NEAR(j.point, std::pow(0.98, 2 * std::sqrt(7.0)) / 0.90, 1e-12);
}

TEST(SimulatorCalibration, GammaIsNotTheModelWhereM1Held) {
  const std::string gamma = R"("gamma":0.5,"gamma_ci":[-0.1,1.2],"depth_model":{"chosen":)";
  EXPECT_EQ(PlanOf(Q(0.98, 0.98, 0.98, gamma + R"("M1"})")).sources(), 1u);
  EXPECT_EQ(PlanOf(Q(0.98, 0.98, 0.98, gamma + R"("M2"})")).sources(), 2u);
}

// 1 mnat is worth 6.0 % of tokens at 240B; 9.7 % at 960B.
TEST(SimulatorCalibration, LossTransferTakesTheSlopeAtTheTarget) {
  const CalibrationPlan plan =
      PlanOf(Q(0.99, 0.99, 0.99, R"("delta_nat":[{"S":4,"value":0.001,"ci":[0.001,0.001]}])"));
  ASSERT_TRUE(plan.can_transfer_loss());
  const double z[] = {0};
  Scenario s = A100Nodes(500, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  EXPECT_NEAR(Simulate(plan.Apply(s, Transfer::kLoss, z)).eta_act, std::exp(-0.001 / 0.0096), 1e-3);
  s.parameters = 1920e9;  // 7 boundaries for 3
  EXPECT_LT(Simulate(plan.Apply(s, Transfer::kLoss, z)).eta_act, std::exp(-0.002 / 0.0096));
}

TEST(SimulatorCalibration, TheMeasuredRatioAndStepTimeSetTheStep) {
  const double z[] = {0, 0};
  const CalibrationPlan plan = PlanOf(Q(0.99, 0.99, 0.99, R"("ratio":2)") +
                                      R"(,"step_time":{"ratio":0.5,"p05":0.4,"p95":0.6})");
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  const Outcome assumed = Simulate(s), measured = Simulate(plan.Apply(s, Transfer::kTokens, z));
  EXPECT_NEAR(measured.transfer_time, 2 * assumed.transfer_time, 1e-9);
  EXPECT_LT(measured.step_time, assumed.step_time);
}

// By direction, at a stated width, before the one of both directions in the campaign's own tensors.
TEST(SimulatorCalibration, RatiosOfTheTwoDirectionsAreApart) {
  const double z[] = {0};
  const CalibrationPlan plan = PlanOf(Q(
      0.99, 0.99, 0.99, R"("ratio":2.5,"ratio_forward":2,"ratio_backward":8,"ratio_width":8192)"));
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  const Outcome assumed = Simulate(s), measured = Simulate(plan.Apply(s, Transfer::kTokens, z));
  EXPECT_NEAR(measured.transfer_time, (1.0 / 2 + 1.0 / 8) / (2.0 / 4) * assumed.transfer_time,
              1e-9);
  EXPECT_NEAR(measured.eta_act, std::pow(0.99, 6), 1e-12);
  const std::string text = ConclusionsText(plan, Attribute(plan));
  EXPECT_THAT(text, testing::ContainsRegex("byte ratio forward +4 +2 +of frames at width 8192"));
  EXPECT_THAT(text, testing::ContainsRegex("byte ratio backward +4 +8 +of frames at width 8192"));
  EXPECT_THAT(ErrorOf(Document(Q(0.9, 0.97, 0.99, R"("ratio_forward":3.8)"))),
              HasSubstr("has no number 'ratio_backward'"));
  EXPECT_THAT(ErrorOf(Document(Q(0.9, 0.97, 0.99,
                                 R"("ratio_forward":0.5,"ratio_backward":2,"ratio_width":64)"))),
              HasSubstr("'ratio_forward' is not between 1 and 1e6"));
}

TEST(SimulatorCalibration, EtaCHoldsAtItsOwnRatioOnly) {
  const CalibrationPlan plan =
      PlanOf(R"("eta_c":[{"codec":"k","ratio":107,"eta":0.90,"ci":[0.90,0.90]}])");
  EXPECT_TRUE(Of(plan, "F reaches 1e27").touched);  // 100x
  EXPECT_EQ(Of(plan, "F reaches 1e27").change, Change::kUnchanged);
  EXPECT_FALSE(Of(plan, "D reaches 1e27").touched);  // 16x
}

TEST(SimulatorCalibration, AlphaOfAnotherSizeNeedsToBeAskedFor) {
  const std::string alpha = R"("alpha":{"value":0.11,"ci":[0.09,0.13],"P_B":0.0011})";
  EXPECT_EQ(PlanOf(alpha).sources(), 0u);
  const CalibrationPlan plan = PlanOf(alpha, {.codec = "", .extrapolate = true});
  EXPECT_TRUE(Of(plan, "4 nodes reach 1e24").touched);
  EXPECT_EQ(Of(plan, "4 nodes reach 1e24").change, Change::kFlips);  // a smaller alpha than assumed
}

TEST(SimulatorCalibration, SeveralFactorsAreDrawnIndependentlyAndRepeatably) {
  // Two factors of eta that multiply: the half-widths of their logarithms add in squares.
  const std::string two =
      R"("eta_c":[{"codec":"k","ratio":16,"eta":0.98,"ci":[0.9408,1.0208333]}],)"
      R"("straggler":{"coef":0.05,"ci":[0.0499999,0.0500001]})";
  const CalibrationPlan plan = PlanOf(two);
  ASSERT_EQ(plan.sources(), 2u);
  const Judgement j = Of(plan, "72 nodes reach 1e25"), again = Of(plan, "72 nodes reach 1e25");
  EXPECT_EQ(j.low, again.low);
  EXPECT_EQ(j.high, again.high);
  EXPECT_NEAR(j.point, j.assumed, 2e-3);
  EXPECT_NEAR(std::log(j.high / j.assumed), std::log(1.0208333 / 0.98), 3e-3);
  EXPECT_NEAR(std::log(j.low / j.assumed), std::log(0.9408 / 0.98), 3e-3);
}

// eta_c and, through alpha, eta_H of about 4 % each: together sqrt(2) times that.
TEST(SimulatorCalibration, TwoEqualFactorsAddInSquares) {
  const std::string two = R"("eta_c":[{"codec":"k","ratio":16,"eta":0.98,"ci":[0.9416,1.02]}],)"
                          R"("alpha":{"value":0.054199,"ci":[0.039,0.0694],"P_B":240})";
  const Judgement j = Of(PlanOf(two, {.codec = "", .extrapolate = true}), "72 nodes reach 1e25");
  EXPECT_NEAR(std::log(j.high / j.assumed), std::sqrt(2) * 0.04, 0.008);
  EXPECT_NEAR(std::log(j.low / j.assumed), -std::sqrt(2) * 0.04, 0.008);
}

TEST(SimulatorCalibration, AScenarioStandsTwiceInItsTable) {
  Scenario s = A100Nodes(500, ProfileName::kGovernancePp);
  s.parameters = 480e9;
  const std::string text =
      MeasuredTable(MeasureScenarios(PlanOf(Q(0.94, 0.95, 0.96)), {{"480B", s}}));
  EXPECT_THAT(text, HasSubstr("6.199e+25"));  // assumed C_local
  EXPECT_THAT(text, HasSubstr("5.590e+25"));  // assumed C_quality
  EXPECT_THAT(text, HasSubstr("-8.84 %"));    // (0.95/0.995)^2
}

TEST(SimulatorCalibration, TheTextNamesWhatStaysAssumedAndTheDistance) {
  const CalibrationPlan plan = PlanOf(Q(0.9, 0.97, 0.99));
  const std::string text = ConclusionsText(plan, Attribute(plan));
  EXPECT_THAT(text,
              HasSubstr("Measured at 1.1e+06 parameters; the conclusions' models differ from that "
                        "by a factor of 8.3e+04 to 1.7e+06"));
  EXPECT_THAT(text, HasSubstr("stays assumed"));
  EXPECT_THAT(text, HasSubstr("Loss transfer: not possible"));
}

// A model of 240 B against one that was measured: a verdict up to ten times either way, then none, in
// the text, the CSV and the JSON.
TEST(SimulatorCalibration, BeyondTenTimesTheMeasuredSizeThereIsNoVerdict) {
  const std::string q = Q(0.90, 0.91, 0.92);
  const auto verdict = [&](double parameters, const char* conclusion) {
    return VerdictName(Of(PlanOf(q, {}, parameters), conclusion));
  };
  EXPECT_EQ(verdict(24e9, "72 nodes reach 1e25"), "unchanged");
  EXPECT_EQ(verdict(23.9e9, "72 nodes reach 1e25"), "none");
  EXPECT_EQ(verdict(2400e9, "72 nodes reach 1e25"), "unchanged");
  EXPECT_EQ(verdict(2410e9, "72 nodes reach 1e25"), "none");
  // Of several models the one that is furthest counts: 1920 B of a comparison from 240 B on.
  EXPECT_EQ(verdict(193e9, "best at 4000 nodes: pipelines of 960B"), "flips");
  EXPECT_EQ(verdict(191e9, "best at 4000 nodes: pipelines of 960B"), "none");

  const CalibrationPlan near = PlanOf(q, {}, 240e9), far = PlanOf(q);
  EXPECT_THAT(ConclusionsText(near, Attribute(near)), HasSubstr("flips"));
  EXPECT_THAT(ConclusionsText(near, Attribute(near)), HasSubstr("unchanged (all assumed)"));
  const std::string text = ConclusionsText(far, Attribute(far));
  EXPECT_THAT(text, HasSubstr("Sensitivity analysis: beyond 10 times the measured size"));
  for (const std::string& said :
       {text, ConclusionsCsv(Attribute(far)), CalibrationJson(far, Attribute(far), {})}) {
    EXPECT_THAT(said, testing::Not(HasSubstr("flips")));
    EXPECT_THAT(said, testing::Not(HasSubstr("undetermined")));
    EXPECT_THAT(said, testing::Not(HasSubstr("unchanged")));
  }
  EXPECT_THAT(ConclusionsCsv(Attribute(far)), HasSubstr(",none,"));
}

// The published values, and first in the text.
TEST(SimulatorCalibration, TheTextLeadsWithTheBreakEvenValues) {
  const CalibrationPlan plan = PlanOf(Q(0.9, 0.97, 0.99));
  const std::string text = ConclusionsText(plan, Attribute(plan));
  const std::string lead = text.substr(0, text.find("\nfactor "));
  for (const char* q : {"0.9925", "0.9754", "0.9662", "0.9510"}) EXPECT_THAT(lead, HasSubstr(q));
  for (const Conclusion& c : Conclusions()) {
    if (!c.break_even_q) continue;
    const auto at = [&](double q) {
      return Of(PlanOf(Q(q, q, q)), c.name).change == Change::kUnchanged;
    };
    EXPECT_TRUE(at(*c.break_even_q + 1e-5)) << c.name;
    EXPECT_FALSE(at(*c.break_even_q - 1e-5)) << c.name;
  }
}

TEST(SimulatorCalibration, AQAboveWhatACrossingCanBeOrAnIntervalUpsideDownIsRefused) {
  EXPECT_EQ(ErrorOf(Document(Q(1.1, 1.2, 1.3))), "");
  EXPECT_THAT(ErrorOf(Document(Q(1.1, 1.2001, 1.3))), HasSubstr("'q' = 1.2001 is above 1.2"));
  EXPECT_THAT(ErrorOf(Document(Q(0.99, 0.98, 0.97))),
              HasSubstr("'q_ci' = [0.99, 0.97] is upside down; want [low, high]"));
}

}  // namespace
}  // namespace longhaul::simulator
