// Rows of the documents that do not follow from their own formulas: the computed value is what the
// model says; the printed one stands beside it.
#include <cmath>

#include <gtest/gtest.h>

#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

Outcome AtWan(Scenario s, double mbps, double rtt = 0.1) {
  s.wan_up = s.wan_down = mbps * 1e6;
  s.wan_rtt = rtt;
  return Simulate(s);
}

void ExpectMisprint(const std::string& computed, const char* want, const char* printed) {
  EXPECT_EQ(computed, want);
  EXPECT_NE(computed, printed);
}

TEST(SimulatorMisprints, FourNodesConservative) {
  Scenario s = A100Nodes(4);
  s.expected = Case::kConservative;
  ExpectMisprint(Printed("%.2e", Simulate(s).local), "9.47e+23", "9.52e+23");
  EXPECT_NEAR_REL(Simulate(s).local, 9.47486e23);
}

TEST(SimulatorMisprints, ConfigurationFAt100Mbps) {
  const double share = AtWan(Configuration('F'), 100).local / AtWan(Configuration('F'), 1000).local;
  ExpectMisprint(Printed("%.0f", 100 * share), "98", "97");
  EXPECT_EQ(Printed("%.2f", 100 * share), "97.58");
}

TEST(SimulatorMisprints, FiveHundredNodesOnSlowLinks) {
  ExpectMisprint(Printed("%.2e", AtWan(A100Nodes(500), 50, 0.105).local), "1.19e+26", "1.18e+26");
  ExpectMisprint(Printed("%.2e", AtWan(A100Nodes(500), 25, 0.230).local), "1.17e+26", "1.16e+26");
  ExpectMisprint(Printed("%.2e", AtWan(A100Nodes(500), 10, 0.340).local), "1.14e+26", "1.13e+26");
}

TEST(SimulatorMisprints, TwoThousandFlatNodesOnSlowLinks) {
  ExpectMisprint(Printed("%.2e", AtWan(H100Fp8Nodes(2000), 50, 0.105).local), "9.92e+26",
                 "9.91e+26");
  ExpectMisprint(Printed("%.2e", AtWan(H100Fp8Nodes(2000), 10, 0.340).local), "9.45e+26",
                 "9.44e+26");
}

TEST(SimulatorMisprints, CostAndReplicasOf20000Nodes) {
  const Outcome out = Simulate(H100Fp8Nodes(20000));
  ExpectMisprint(Printed("%.1f", out.cost / 1e9), "9.6", "9.5");
  // Printed "about 1 to 2 %".
  EXPECT_EQ(Printed("%.2f", 100 * (1 - out.eta_r)), "0.19");
  EXPECT_EQ(Printed("%.2f", 100 * (1 - Simulate(A100Nodes(40000)).eta_r)), "0.08");
}

// Printed "every 50 to 90 minutes".
TEST(SimulatorMisprints, MinutesBetweenExchanges) {
  EXPECT_EQ(Printed("%.0f", Simulate(A100Nodes(4)).outer_time / 60), "88");
  EXPECT_EQ(Printed("%.0f", Simulate(A100Nodes(1000)).outer_time / 60), "120");
}

// Printed about 47 s, which is 360 B: one direction, FP16, uncompressed, at 100 Mbit/s.
TEST(SimulatorMisprints, SecondsPerMicroBatch) {
  const auto seconds = [](double parameters) {
    Scenario s = A100Nodes(72);
    s.memory_bytes /= 4;  // so that it must be cut
    s.parameters = parameters;
    s.activation_ratio = 1;
    s.switches.pipeline_links = PipelineLinks::kWan;
    return Simulate(s).transfer_time / 2;
  };
  ExpectMisprint(Printed("%.1f", seconds(240e9)), "38.5", "47.0");
  EXPECT_EQ(Printed("%.1f", seconds(360e9)), "47.2");
}

// Printed 29 B and 0.6 T tokens for 1e24 FLOP, which is 1e23.
TEST(SimulatorMisprints, AllocationOf1e24) {
  const auto parameters = [](double compute) { return std::sqrt(compute / (6 * 20)); };
  ExpectMisprint(Printed("%.0f", parameters(1e24) / 1e9), "91", "29");
  EXPECT_EQ(Printed("%.2f", 20 * parameters(1e24) / 1e12), "1.83");
  EXPECT_EQ(Printed("%.0f", parameters(1e23) / 1e9), "29");
  EXPECT_EQ(Printed("%.2f", 20 * parameters(1e23) / 1e12), "0.58");
}

// Printed about 3.5 T tokens for 15 B parameters.
TEST(SimulatorMisprints, TokensOf15BillionAt1e24) {
  Scenario s = A100Nodes(63);
  ASSERT_TRUE(SetNode(*FindDevice("a100"), 3, s));
  const Outcome out = Simulate(s);
  EXPECT_NEAR(out.parameters, 15e9, 1);
  EXPECT_EQ(Printed("%.1f", 1e24 / (6 * out.parameters) / 1e12), "11.1");
  EXPECT_EQ(Printed("%.1f", out.tokens / 1e12), "12.4");
}

TEST(SimulatorMisprints, FourNodesMiss1e24AndFiveReachIt) {
  EXPECT_LT(Simulate(A100Nodes(4)).local, 1e24);
  EXPECT_EQ(Printed("%.2e", Simulate(A100Nodes(4)).local), "9.77e+23");
  EXPECT_EQ(FewestNodes(A100Nodes(1), Target::kLocal, 1e24, 100), 5);
}

// Printed "6 to 8 points" for the rate alone.
TEST(SimulatorMisprints, WhatTheRateCosts) {
  const double flat = AtWan(A100Nodes(72), 10).local / AtWan(A100Nodes(72), 1000).local;
  const double f = AtWan(Configuration('F'), 10).local / AtWan(Configuration('F'), 1000).local;
  EXPECT_EQ(Printed("%.1f", 100 * (1 - flat)), "11.7");
  EXPECT_EQ(Printed("%.1f", 100 * (1 - f)), "5.3");
}

// Printed 14 to 18 % for the whole gap at 100x: rate and compression against 1 Gbit/s uncompressed.
TEST(SimulatorMisprints, TheWholeGapAt100x) {
  const auto gap = [](Scenario s) {
    const double eta_c = Simulate(s).eta_c;
    return 1 - AtWan(s, 10).local / (AtWan(s, 1000).local / eta_c);
  };
  Scenario f = Configuration('F');
  EXPECT_EQ(Printed("%.1f", 100 * gap(f)), "10.0");
  f.expected = Case::kConservative;
  EXPECT_EQ(Printed("%.1f", 100 * gap(f)), "14.8");
  EXPECT_EQ(Printed("%.1f", 100 * gap(Configuration('E'))), "15.6");
  EXPECT_EQ(Printed("%.1f", 100 * gap(A100Nodes(72))), "13.4");
}

TEST(SimulatorMisprints, BubbleOfThreeStages) {
  Scenario s = A100Nodes(72);
  s.parameters = 720e9;
  ExpectMisprint(Printed("%.1f", 100 * Simulate(s).bubble), "20.0", "22.2");
}

}  // namespace
}  // namespace longhaul::simulator
