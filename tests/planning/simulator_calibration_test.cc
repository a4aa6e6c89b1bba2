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

std::string Document(const std::string& rest) {
  return R"({"schema":"longhaul.calibration/1","plan_sha256":"abc","commit":"def","params":1.1e6)" +
         (rest.empty() ? "" : "," + rest) + "}";
}

std::string Q(double low, double q, double high, const std::string& more = "") {
  return R"("activation":[{"codec":"c","direction":"both","eval":"off","q":)" + std::to_string(q) +
         R"(,"q_ci":[)" + std::to_string(low) + "," + std::to_string(high) + "]" +
         (more.empty() ? "" : "," + more) + "}]";
}

CalibrationPlan PlanOf(const std::string& rest, const CalibrationChoice& choice = {}) {
  absl::StatusOr<Calibration> calibration = ParseCalibration(Document(rest), "q.json");
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
  const CalibrationPlan plan = PlanOf(alpha, {.codec = "", .extrapolate = true, .size = {}});
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
  const Judgement j =
      Of(PlanOf(two, {.codec = "", .extrapolate = true, .size = {}}), "72 nodes reach 1e25");
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
  EXPECT_THAT(text, HasSubstr("Measured at 1.1e+06 parameters, used at 240B: x 2e+05"));
  EXPECT_THAT(text, HasSubstr("stays assumed"));
  EXPECT_THAT(text, HasSubstr("undetermined"));
  EXPECT_THAT(text, HasSubstr("unchanged (all assumed)"));
  EXPECT_THAT(text, HasSubstr("Loss transfer: not possible"));
}

TEST(SimulatorCalibration, AQAboveWhatACrossingCanBeOrAnIntervalUpsideDownIsRefused) {
  EXPECT_EQ(ErrorOf(Document(Q(1.1, 1.2, 1.3))), "");
  EXPECT_THAT(ErrorOf(Document(Q(1.1, 1.2001, 1.3))), HasSubstr("'q' = 1.2001 is above 1.2"));
  EXPECT_THAT(ErrorOf(Document(Q(0.99, 0.98, 0.97))),
              HasSubstr("'q_ci' = [0.99, 0.97] is upside down; want [low, high]"));
}

// One value of S, so that each expected number is a line by hand: ln eta -0.06 at 1.1e6 parameters; a
// model a hundred times larger loses 100^d of it.
TEST(SimulatorCalibration, ALawOfSizeScalesWhatIsLostByTokenTransferAlone) {
  const std::string cell = Q(
      0.99, 0.99, 0.99,
      R"("by_S":[{"S":4,"ln_eta":-0.06,"ci":[-0.06,-0.06]}],"delta_nat":[{"S":4,"value":0.02,"ci":[0.02,0.02]}])");
  const CalibrationPlan plain = PlanOf(cell);
  const CalibrationPlan grown = PlanOf(
      cell, {.codec = "", .extrapolate = false, .size = SizeLaw{"f3-s4", {0.1, -0.05, 0.2}}});
  ASSERT_EQ(grown.sources(), plain.sources() + 1);
  EXPECT_EQ(grown.names().back(), "size");
  Scenario s;
  s.parameters = 1.1e8;
  const auto lost = [&](const CalibrationPlan& plan, Transfer transfer, double at_size) {
    std::vector<double> z(plan.sources(), 0);
    z.back() = at_size;
    return plan.Apply(s, transfer, z).measured;
  };
  ASSERT_EQ(lost(grown, Transfer::kTokens, 0).by_stages.size(), 1);
  EXPECT_NEAR(lost(grown, Transfer::kTokens, 0).by_stages[0].ln_eta, -0.06 * std::pow(100, 0.1),
              1e-12);
  EXPECT_NEAR(lost(grown, Transfer::kTokens, CalibrationPlan::kEnd).by_stages[0].ln_eta,
              -0.06 * std::pow(100, 0.2), 1e-12);
  EXPECT_NEAR(lost(grown, Transfer::kTokens, -CalibrationPlan::kEnd).by_stages[0].ln_eta,
              -0.06 * std::pow(100, -0.05), 1e-12);
  EXPECT_NEAR(*lost(grown, Transfer::kTokens, 0).q, std::pow(0.99, std::pow(100, 0.1)), 1e-12);
}

TEST(SimulatorCalibration, ALawIsReadFromTheReportsTable) {
  const std::string head = "arm,quantity,points,term,value,low,high,note\n";
  const std::string rows =
      head +
      "f3,-ln eta,3,exponent in N,-0.003,-0.1,0.09,\nf3,Delta,3,exponent in N,0.7,0.6,0.8,\n"
      "\"all codecs, forward\",-ln eta,6,exponent in N,-0.4,-0.5,-0.3,\nf3,-ln eta,3,exponent in D/N,0.2,-0.1,0.5,\n";
  const auto law = ParseSizeLaw(rows, "f3", "t.csv");
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_EQ(law->exponent.value, -0.003);
  EXPECT_EQ(law->exponent.low, -0.1);
  EXPECT_EQ(ParseSizeLaw(rows, "all codecs, forward", "t.csv")->exponent.high, -0.3);
  const auto error = [](const std::string& text, const std::string& arm) {
    return std::string(ParseSizeLaw(text, arm, "t.csv").status().message());
  };
  EXPECT_EQ(error(rows, ""), "t.csv: has 2 arms; name one with --law-arm: all codecs, forward; f3");
  EXPECT_EQ(error(rows, "f4"), "t.csv: no arm 'f4'; it has: all codecs, forward; f3");
  EXPECT_THAT(error("a,b\n", ""), HasSubstr("not a law_terms.csv"));
  EXPECT_THAT(error("", ""), HasSubstr("not a law_terms.csv"));
  EXPECT_THAT(error(head, ""), HasSubstr("its campaigns are of one size"));
  EXPECT_THAT(error(head + "f3,-ln eta,3,exponent in N,0.5,-0.1,0.09,\n", ""),
              HasSubstr("want a number in its interval"));
  EXPECT_THAT(error(head + "f3,-ln eta,3,exponent in N,nan,-0.1,0.09,\n", ""),
              HasSubstr("want a number in its interval"));
  EXPECT_THAT(
      error(head + "f3,-ln eta,4,exponent in N,0.4,-3,4,refused by its points: p 0.0001\n", ""),
      HasSubstr("the points of 'f3' do not lie on its law"));
  EXPECT_THAT(error(head + "f3,-ln eta\n", ""), HasSubstr("has 2 fields; want 8"));
  EXPECT_FALSE(ReadSizeLaw("/nowhere/law_terms.csv", "").ok());
}

}  // namespace
}  // namespace longhaul::simulator
