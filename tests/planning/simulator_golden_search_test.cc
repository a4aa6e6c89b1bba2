// Golden rows of searches for the fewest nodes, and of what decides between profiles and forms.
#include <string>

#include <gtest/gtest.h>

#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

TEST(SimulatorGolden, FewestNodesPerRegistrationThreshold) {
  struct Row {
    int64_t devices;
    const char *peta, *gigabytes, *billions, *h100;
    int64_t nodes[3];
    const char* cost[3];
  };
  const Row rows[] = {
      {48, "14.98", "3840", "240", "15.1", {5, 42, 413}, {"4", "30", "297"}},
      {25, "7.80", "2000", "125", "7.9", {8, 79, 783}, {"3", "30", "294"}},
      {12, "3.74", "960", "60", "3.8", {16, 161, 1611}, {"3", "29", "290"}},
      {6, "1.87", "480", "30", "1.9", {32, 317, 3186}, {"3", "29", "287"}},
      {3, "0.94", "240", "15", "0.9", {63, 627, 6309}, {"3", "28", "284"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.devices);
    Scenario s = A100Nodes(1);
    ASSERT_TRUE(SetNode(*FindDevice("a100"), row.devices, s));
    const Outcome one = Simulate(s);
    EXPECT_EQ(Printed("%.2f", s.peak_flops / 1e15), row.peta);
    EXPECT_EQ(Printed("%.0f", s.memory_bytes / 1e9), row.gigabytes);
    EXPECT_EQ(Printed("%.0f", one.parameters / 1e9), row.billions);
    EXPECT_EQ(Printed("%.1f", one.h100_equivalents), row.h100);
    for (int i = 0; i < 3; ++i) {
      const double target = i == 0 ? 1e24 : i == 1 ? 1e25 : 1e26;
      const std::optional<int64_t> nodes = FewestNodes(s, Target::kLocal, target, 100000);
      ASSERT_TRUE(nodes.has_value());
      EXPECT_EQ(*nodes, row.nodes[i]);
      EXPECT_EQ(Printed("%.0f", static_cast<double>(*nodes) * one.cost / 1e6), row.cost[i]);
    }
  }
}

TEST(SimulatorGolden, ASearchTakesTheNodesThatReachTheTargetExactly) {
  const double exactly = Simulate(A100Nodes(42)).local;
  EXPECT_EQ(FewestNodes(A100Nodes(1), Target::kLocal, exactly, 100), 42);
  EXPECT_EQ(FewestNodes(A100Nodes(1), Target::kLocal, exactly * (1 + 1e-12), 100), 43);
  EXPECT_EQ(FewestNodes(A100Nodes(1), Target::kLocal, exactly, 41), std::nullopt);
}

TEST(SimulatorGolden, FewestH100Nodes) {
  struct Row {
    int64_t devices, nodes[3];
  };
  for (const Row& row : {Row{16, {2, 20, 197}}, Row{8, {4, 39, 390}}, Row{4, {8, 77, 771}},
                         Row{2, {16, 152, 1527}}, Row{1, {30, 302, 3045}}}) {
    Scenario s = H100Fp8Nodes(1);
    ASSERT_TRUE(SetNode(*FindDevice("h100"), row.devices, s));
    EXPECT_EQ(FewestNodes(s, Target::kLocal, 1e24, 100000), row.nodes[0]);
    EXPECT_EQ(FewestNodes(s, Target::kLocal, 1e25, 100000), row.nodes[1]);
    EXPECT_EQ(FewestNodes(s, Target::kLocal, 1e26, 100000), row.nodes[2]);
  }
}

TEST(SimulatorGolden, LatestProfile) {
  struct Row {
    int64_t nodes, h;
    const char *eta, *local, *chi, *quality;
  };
  const Row rows[] = {
      {2, 18, "0.844", "4.99e+23", "0.597", "2.98e+23"},
      {4, 18, "0.751", "8.88e+23", "0.772", "6.85e+23"},
      {8, 18, "0.649", "1.53e+24", "0.920", "1.41e+24"},
      {16, 19, "0.541", "2.56e+24", "1.000", "2.56e+24"},
      {32, 19, "0.440", "4.16e+24", "1.000", "4.16e+24"},
      {72, 20, "0.332", "7.06e+24", "0.891", "6.29e+24"},
      {144, 20, "0.260", "1.11e+25", "0.736", "8.15e+24"},
      {500, 20, "0.166", "2.45e+25", "0.430", "1.06e+25"},
      {1000, 21, "0.126", "3.73e+25", "0.290", "1.08e+25"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.nodes);
    const Outcome out = Simulate(A100Nodes(row.nodes, ProfileName::kLatest));
    EXPECT_EQ(Printed("%.0f", out.parameters / 1e9), "250");
    EXPECT_EQ(out.inner_steps, row.h);
    EXPECT_EQ(Printed("%.3f", out.eta), row.eta);
    EXPECT_EQ(Printed("%.2e", out.local), row.local);
    EXPECT_EQ(Printed("%.3f", out.chi), row.chi);
    EXPECT_EQ(Printed("%.2e", out.quality), row.quality);
  }
}

TEST(SimulatorGolden, TheReplicaFormDecides) {
  struct Row {
    int64_t nodes;
    const char *linear, *loss, *local;
  };
  for (const Row& row :
       {Row{4, "0.862", "0.600", "6.81e+23"}, Row{72, "0.858", "0.157", "3.20e+24"},
        Row{500, "0.855", "0.052", "7.43e+24"}}) {
    Scenario s = A100Nodes(row.nodes);
    EXPECT_EQ(Printed("%.3f", Simulate(s).eta), row.linear);
    s.switches.replica = Replica::kLoss;
    EXPECT_EQ(Printed("%.3f", Simulate(s).eta), row.loss);
    EXPECT_EQ(Printed("%.2e", Simulate(s).local), row.local);
  }
}

}  // namespace
}  // namespace longhaul::simulator
