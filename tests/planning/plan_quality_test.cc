// What tokens are worth: factors read off calibrations and a curve that are written here.
#include "planning/plan/quality.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/plan/link_matrix.h"
#include "tests/planning/plan_files.h"

namespace longhaul::plan {
namespace {

using testing::HasSubstr;

Quality Read() {
  const auto calibration = simulator::ParseCalibration(kCalibration, "c.json");
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  return Quality({*calibration});
}

// By size, as a micro-batch has them.
std::optional<BothWays> Bytes(const std::string& pair) {
  if (pair == "none / none") return BothWays{400, 400};
  if (pair == "int8-b64 / int8-b64") return BothWays{105, 105};
  if (pair == "int4-b64-h64 / none") return BothWays{55, 400};
  if (pair == "fp16 / fp16") return BothWays{200, 200};
  if (pair == "tiny / tiny") return BothWays{5, 5};
  return std::nullopt;
}

TEST(PlanQuality, AMeasuredDepthStandsAndOthersAreMarked) {
  const Quality quality = Read();
  const auto at = [&](int64_t s) { return *quality.Activations("int8-b64 / int8-b64", s, Bytes); };
  const EtaFactor two = at(2);
  EXPECT_NEAR(two.ln.value, -0.1, 1e-12);
  EXPECT_NEAR(two.ln.low, -0.2, 1e-12);
  EXPECT_NEAR(two.ln.high, -0.05, 1e-12);
  EXPECT_TRUE(two.beyond.empty());
  const EtaFactor between = at(3);  // half way from -0.1 to -0.4
  EXPECT_NEAR(between.ln.value, -0.25, 1e-12);
  ASSERT_EQ(between.beyond.size(), 1u);
  EXPECT_EQ(between.beyond[0].how, "S = 3 lies between 2 and 4");
  const EtaFactor deep = at(6);  // q = 0.95 a crossing, ten of them
  EXPECT_NEAR(deep.ln.value, 10 * std::log(0.95), 1e-12);
  EXPECT_NEAR(deep.ln.low, 10 * std::log(0.94), 1e-12);
  EXPECT_EQ(deep.beyond[0].how, "S = 6; the deepest measured is 4");
  EXPECT_EQ(at(1).ln.value, 0);
}

// A campaign of one direction: its q stands for S - 1 crossings.
TEST(PlanQuality, OneDirectionCrossesHalfAsOften) {
  const auto found = Read().Activations("int4-b64-h64 / none", 5, Bytes);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->ln.value, 4 * std::log(0.81), 1e-12);
}

TEST(PlanQuality, ACodecThatNobodyMeasuredLiesBetweenItsNeighboursByBytes) {
  const auto found = Read().Activations("fp16 / fp16", 2, Bytes);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->ln.value, -0.05, 1e-12);  // of -0.1 and of nothing
  EXPECT_NEAR(found->ln.low, -0.2, 1e-12);
  EXPECT_EQ(found->ln.high, 0);
  ASSERT_EQ(found->beyond.size(), 1u);
  EXPECT_EQ(found->beyond[0].what, Beyond::kBits);
  EXPECT_THAT(found->beyond[0].how, HasSubstr("between 'int8-b64 / int8-b64' and 'none / none'"));
  EXPECT_FALSE(Read().Activations("tiny / tiny", 2, Bytes)) << "nothing measured has fewer bytes";
  EXPECT_FALSE(Read().Activations("other / other", 2, Bytes)) << "no such codec";
}

TEST(PlanQuality, RoundsAreACellOrALineOverLnHOfTheNearestGroups) {
  const Quality quality = Read();
  const EtaFactor cell = *quality.Rounds(2, 10);
  EXPECT_NEAR(cell.ln.value, std::log(0.9), 1e-12);
  EXPECT_TRUE(cell.beyond.empty());
  // sqrt(10 x 1000) = 100 is half way: the ends of independent points add up in quadrature.
  const EtaFactor between = *quality.Rounds(2, 100);
  EXPECT_NEAR(between.ln.value, std::log(0.9 * 0.6) / 2, 1e-12);
  const double half = std::hypot(std::log(0.9 / 0.8), std::log(0.6 / 0.5)) / 2;
  EXPECT_NEAR(between.ln.low, between.ln.value - half, 1e-12);
  EXPECT_EQ(between.beyond[0].how, "H = 100 lies between 10 and 1000");
  // 100,000 is a second such gap and a half behind: -1 and 2 of the points.
  const EtaFactor beyond = *quality.Rounds(3, 100'000);
  EXPECT_NEAR(beyond.ln.value, 2 * std::log(0.6) - std::log(0.9), 1e-12);
  ASSERT_EQ(beyond.beyond.size(), 2u);
  EXPECT_EQ(beyond.beyond[0].how, "G = 3; the nearest measured is 2");
  EXPECT_EQ(beyond.beyond[1].how, "H = 100000 lies outside of the line through 10 and 1000");
  EXPECT_FALSE(quality.Rounds(1, 10)) << "one group has no cell here, and two say nothing of it";
  EXPECT_EQ(quality.OuterCodec("none")->ln.value, 0);
  EXPECT_NEAR(quality.OuterCodec("int4-b64-h64+ef")->ln.low, std::log(0.98), 1e-12);
  EXPECT_FALSE(quality.OuterCodec("bf16"));
}

TEST(PlanQuality, AnOuterAlgorithmIsTheArmOfTheNearestGroupsThenRounds) {
  const Quality quality = Read();
  const EtaFactor own = *quality.Outer("streaming", "e3m0-b64", 4, 12);
  EXPECT_NEAR(own.ln.value, std::log(0.7), 1e-12);
  EXPECT_NEAR(own.ln.low, std::log(0.6), 1e-12);
  EXPECT_NEAR(own.ln.high, std::log(0.8), 1e-12);
  EXPECT_TRUE(own.beyond.empty());
  const EtaFactor other = *quality.Outer("streaming", "e3m0-b64", 2, 10);
  EXPECT_NEAR(other.ln.value, std::log(0.6), 1e-12) << "of two groups, whatever H";
  ASSERT_EQ(other.beyond.size(), 1u);
  EXPECT_EQ(other.beyond[0].how, "H = 10; the nearest measured is 30");
  const EtaFactor many = *quality.Outer("swarm", "dyn8-b4096", 8, 1);
  ASSERT_EQ(many.beyond.size(), 1u);
  EXPECT_EQ(many.beyond[0].how, "G = 8; the nearest measured is 2");
  EXPECT_FALSE(quality.Outer("streaming", "none", 4, 12)) << "another codec is another thing";
  EXPECT_FALSE(quality.Outer("muloco", "none", 4, 12));
}

// The first calibration is the curve's; of others those whose factors a choice takes.
TEST(PlanQuality, SizeIsToldFromOnePerCentOn) {
  EXPECT_FALSE(Read().Size(1e6, {}));
  EXPECT_EQ(Read().Size(2e9, {})->how, "2e+09 parameters; measured at 1e+06: x 2e+03");
  EXPECT_EQ(Read().Size(1e6, {{.name = "x", .ln = {}, .parameters = 5e5}})->how,
            "1e+06 parameters; measured at 5e+05: x 2");
}

LossFile Losses() {
  const PlanFiles files;
  const auto read = ReadLossFile(files.Write("losses.csv", kLosses));
  EXPECT_TRUE(read.ok()) << read.status();
  return *read;
}

// Two budgets make a line over ln D: 3.2 nat with 50,000 tokens, 3.0 with 100,000.
TEST(PlanQuality, TokensToALossAreReadOffTheCurve) {
  const auto ln = LnTokensToLoss(Losses(), 3.1);
  ASSERT_TRUE(ln.ok()) << ln.status();
  EXPECT_NEAR(std::exp(ln->value), 1e5 * std::sqrt(0.5), 1e-6);
  // Seeds differ by 0.04 nat at both budgets; without one, the other's line. Each moves ln D by
  // 0.02 / slope; t(1) = 12.706 times that over the root of 2, and the root of 2 for two moves.
  const double move = 0.02 / (0.2 / std::log(2.0));
  EXPECT_NEAR(ln->high - ln->value, 12.706 * move, 1e-3 * move);
}

TEST(PlanQuality, ALossThatTheCurveDoesNotReachIsOneLine) {
  const auto low = LnTokensToLoss(Losses(), 2.5);
  EXPECT_EQ(low.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(low.status().message()), HasSubstr("2.5 lies below the curve's floor"));
  EXPECT_THAT(std::string(LnTokensToLoss(Losses(), 4).status().message()),
              HasSubstr("above the curve"));
}

// ---- link matrices ----

TEST(LinkMatrix, AProbeGivesHalfTheRoundTripAndTheGoodputWithHeaders) {
  std::vector<std::string> notes;
  const auto links = ParseProbe(Probe({"b", "a"}, 95.64, 65), "m.json", 2, &notes);
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(links->nodes[0].name, "b") << "in the order in which paths name them";
  ASSERT_EQ(links->paths.size(), 2u);
  EXPECT_NEAR(links->paths[0].rate->value, 95.64e6 * 1514 / 1448, 1);
  EXPECT_EQ(links->paths[0].delay, absl::Milliseconds(32.5));
  const auto again = TopologyToml(*links);
  EXPECT_THAT(again, HasSubstr("from = \"b\"\nto = \"a\"\ndelay_ms = 32.5\nrate_mbit = 99.99"));
}

TEST(LinkMatrix, WhatIsNoMatrixIsOneLine) {
  std::vector<std::string> notes;
  const auto refusal = [&notes](const std::string& text, int nodes) {
    return std::string(ParseProbe(text, "m.json", nodes, &notes).status().message());
  };
  EXPECT_THAT(refusal("[]", 2),
              HasSubstr("m.json: not what 'longhaul net probe LAB --json' writes"));
  EXPECT_THAT(refusal("{\"paths\": [{\"from\": 1}]}", 2), HasSubstr("without 'from' and 'to'"));
  EXPECT_THAT(refusal(Probe({"a", "b"}, 10, 5), 3),
              HasSubstr("has 2 nodes; the run has 3 workers"));
  std::string dead = Probe({"a", "b"}, 10, 5);
  dead.replace(dead.find("\"loss\": 0"), 9, "\"loss\": 1");
  EXPECT_THAT(refusal(dead, 2), HasSubstr("path a > b loses everything"));
  std::string one = Probe({"a", "b"}, 10, 5);
  one.replace(one.find("\"b\""), 3, "\"c\"");
  EXPECT_THAT(refusal(one, 3), HasSubstr("no path a > b"));
  EXPECT_THAT(refusal(Probe({"a", "b"}, -1, 5), 2), HasSubstr("Mbit/s"));
  EXPECT_THAT(std::string(ReadLinkMatrix("/no/m.json", 2, &notes).status().message()),
              HasSubstr("/no/m.json: cannot be read"));
}

// Two nodes whose first path is `a_to_b`, the other one whole.
std::string WithPath(const std::string& a_to_b) {
  return R"({"paths": [{"from": "a", "to": "b", )" + a_to_b +
         R"(}, {"from": "b", "to": "a", "rate_mbit": 9, "in_bounds": true,
             "rtt": {"median_ms": 5, "received": 20}, "goodput": {"mbit": 8}}]})";
}

TEST(LinkMatrix, APathWithoutFiguresIsRefusedByItsCause) {
  const std::string rtt = R"("rtt": {"median_ms": 5, "received": 20})";
  for (
      const auto& [path, says] : std::vector<std::pair<std::string, std::string>>{
          {R"("carrier": "down", "in_bounds": false, "why": "path a > b is down; bring it up")",
           "path a > b was down when it was probed"},
          {R"("carrier": "up", "in_bounds": false, "why": "path a > b the way back, b > a, is down")",
           "has no round trip: rtt.median_ms is missing; the probe says: path a > b the way back"},
          {R"("rate_mbit": 5)", "has no round trip: rtt.median_ms is missing; probe it again"},
          {R"("rtt": {"median_ms": null})", "has no round trip: rtt.median_ms is null"},
          {R"("rtt": {"median_ms": -5})", "has no round trip: rtt.median_ms is -5"},
          {R"("rtt": {"median_ms": 0})", "has no round trip: rtt.median_ms is 0"},
          {R"("rtt": {"median_ms": "65 ms"})", "rtt.median_ms is \"65 ms\""},
          {R"("rtt": {"median_ms": 5, "received": 0})", "answered no echo"},
          {rtt + R"(, "rate_mbit": 9, "goodput": {"mbit": null})", "goodput.mbit is null"},
          {rtt + R"(, "rate_mbit": 9, "goodput": null)", "goodput.mbit has no figure"},
          {rtt + R"(, "goodput": {"mbit": 0})", "has 0 Mbit/s"},
          {rtt, "has neither goodput.mbit nor rate_mbit"}}) {
    std::vector<std::string> notes;
    const auto links = ParseProbe(WithPath(path), "m.json", 2, &notes);
    ASSERT_FALSE(links.ok()) << path;
    EXPECT_THAT(std::string(links.status().message()),
                testing::AllOf(testing::StartsWith("m.json: path a > b "), HasSubstr(says)));
  }
  std::vector<std::string> notes;
  EXPECT_THAT(std::string(ParseProbe("not json", "m.json", 2, &notes).status().message()),
              HasSubstr("m.json: no JSON"));
  EXPECT_THAT(
      std::string(ParseProbe(WithPath(R"("rtt": {"median_ms": 1e999})"), "m.json", 2, &notes)
                      .status()
                      .message()),
      HasSubstr("no JSON, or a number too large"));
}

TEST(LinkMatrix, WhatIsNotAsMeasuredInBoundsIsSaid) {
  const std::string rtt = R"("rtt": {"median_ms": 5, "received": 20})";
  for (const auto& [path, says] : std::vector<std::pair<std::string, std::string>>{
           {rtt + R"(, "goodput": {"mbit": 5}, "in_bounds": false, "why": "goodput 5, want 9")",
            "path a > b was out of bounds when it was probed: goodput 5, want 9"},
           {rtt + R"(, "rate_mbit": 9)", "path a > b has no measured rate: its nominal 9 Mbit/s"},
           {rtt + R"(, "rate_mbit": null)", "path a > b has no rate, measured or nominal"}}) {
    std::vector<std::string> notes;
    const auto links = ParseProbe(WithPath(path), "m.json", 2, &notes);
    ASSERT_TRUE(links.ok()) << links.status();
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0], HasSubstr(says));
  }
  // A node of a matrix is looked up by nobody.
  std::vector<std::string> notes;
  EXPECT_TRUE(ParseProbe(Probe({"0", "10.1.2.3"}, 9, 5), "m.json", 2, &notes).ok());
}

}  // namespace
}  // namespace longhaul::plan
