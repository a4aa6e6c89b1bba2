// Golden rows of the planning model, flat and hierarchical: printed digits, computed columns to
// 1e-5.
#include <string>

#include <gtest/gtest.h>

#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

TEST(SimulatorGolden, NodesOf48A100AsPrintedAndComputed) {
  struct Row {
    int64_t nodes, gpus;
    const char* cost;  // million USD
    int64_t h;
    const char *eta, *local, *times_1e24;
    double eta_computed, local_computed;
  };
  const Row rows[] = {
      {1, 48, "0.7", 1, "1.000", "2.84e+23", "0.3", 1, 2.83564e23},
      {4, 192, "2.9", 168, "0.862", "9.77e+23", "1.0", 0.861716, 9.77407e23},
      {8, 384, "5.8", 176, "0.861", "1.95e+24", "2.0", 0.860600, 1.95228e24},
      {16, 768, "12", 183, "0.860", "3.90e+24", "3.9", 0.859658, 3.90029e24},
      {32, 1536, "23", 191, "0.859", "7.79e+24", "7.8", 0.858628, 7.79123e24},
      {72, 3456, "52", 200, "0.858", "1.75e+25", "17.5", 0.857516, 1.75076e25},
      {144, 6912, "104", 207, "0.857", "3.50e+25", "35.0", 0.856680, 3.49810e25},
      {500, 24000, "360", 221, "0.855", "1.21e+26", "121.2", 0.855094, 1.21237e26},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.nodes);
    const Scenario s = A100Nodes(row.nodes);
    const Outcome out = Simulate(s);
    EXPECT_EQ(out.mode, Mode::kFlat);
    EXPECT_EQ(s.nodes * s.devices, row.gpus);
    EXPECT_EQ(Printed(row.nodes < 16 ? "%.1f" : "%.0f", out.cost / 1e6), row.cost);
    EXPECT_EQ(out.inner_steps, row.h);
    EXPECT_EQ(Printed("%.3f", out.eta), row.eta);
    EXPECT_EQ(Printed("%.2e", out.local), row.local);
    EXPECT_EQ(Printed("%.1f", out.local / 1e24), row.times_1e24);
    EXPECT_NEAR_REL(out.eta, row.eta_computed);
    EXPECT_NEAR_REL(out.local, row.local_computed);
  }
  EXPECT_EQ(Simulate(A100Nodes(1000)).inner_steps, 229);
}

// Tokens of the local-equivalent compute over 20 per parameter: 4.8 T for 240 B.
TEST(SimulatorGolden, TokensAndTheirRatioToTheAllocation) {
  struct Row {
    int64_t nodes;
    const char *trillions, *ratio;
  };
  for (const Row& row : {Row{4, "0.8", "0.2"}, Row{16, "3.2", "0.7"}, Row{32, "6.3", "1.3"},
                         Row{72, "14.2", "3.0"}, Row{144, "28.4", "5.9"}}) {
    SCOPED_TRACE(row.nodes);
    const Outcome out = Simulate(A100Nodes(row.nodes));
    EXPECT_EQ(Printed("%.1f", out.tokens / 1e12), row.trillions);
    EXPECT_EQ(Printed("%.1f", out.overtraining), row.ratio);
  }
}

TEST(SimulatorGolden, IntermediateValuesOf72Nodes) {
  const Scenario s = A100Nodes(72);
  const Outcome out = Simulate(s);
  EXPECT_EQ(Printed("%.4f", out.step_time), "31.5077");
  EXPECT_NEAR_REL(out.payload_bits, 240e9);
  EXPECT_EQ(Printed("%.1f", 2 * out.payload_bits / s.wan_up + s.wan_rtt), "4800.1");
  EXPECT_EQ(Printed("%.2f", out.sync_time), "6280.91");
  EXPECT_NEAR_REL(out.payload_bits / 8, 30e9);
  EXPECT_EQ(Printed("%.2f", MeanSyncRate(out) / 1e6), "38.09");
  EXPECT_EQ(Printed("%.2f", 2 * MeanSyncRate(out) / 1e6), "76.17");
  EXPECT_EQ(Printed("%.1f", out.outer_time / 60), "105.0");
}

TEST(SimulatorGolden, CasesOf72And500Nodes) {
  Scenario s = A100Nodes(72);
  s.expected = Case::kOptimistic;
  EXPECT_EQ(Printed("%.3f", Simulate(s).eta), "0.875");
  EXPECT_EQ(Printed("%.2e", Simulate(s).local), "1.79e+25");
  s.expected = Case::kConservative;
  EXPECT_EQ(Printed("%.3f", Simulate(s).eta), "0.831");
  EXPECT_EQ(Printed("%.2e", Simulate(s).local), "1.70e+25");
  s.nodes = 500;
  EXPECT_EQ(Printed("%.2e", Simulate(s).local), "1.18e+26");
}

TEST(SimulatorGolden, A2304GigabyteNodeNeedsMoreSteps) {
  Scenario s = A100Nodes(72);
  ASSERT_TRUE(SetNode(*FindDevice("gh200"), 16, s));
  const Outcome out = Simulate(s);
  EXPECT_NEAR_REL(out.parameters, 144e9);
  EXPECT_EQ(out.inner_steps, 211);
  EXPECT_EQ(Printed("%.3f", out.eta), "0.852");
  EXPECT_EQ(Printed("%.2e", out.local), "1.84e+25");
}

TEST(SimulatorGolden, DurationsOf72Nodes) {
  struct Row {
    double years;
    const char *local, *tokens;
  };
  for (const Row& row :
       {Row{0.5, "5.84e+24", "4.7"}, Row{1, "1.17e+25", "9.5"}, Row{1.5, "1.75e+25", "14.2"}}) {
    Scenario s = A100Nodes(72);
    s.wall_clock = row.years * kYearSeconds;
    EXPECT_EQ(Printed("%.2e", Simulate(s).local), row.local);
    EXPECT_EQ(Printed("%.1f", Simulate(s).tokens / 1e12), row.tokens);
  }
}

TEST(SimulatorGolden, ConfigurationsAToF) {
  struct Row {
    char name;
    int64_t h_in, h_r;
    double effective, eta_h, eta, expected, optimistic, conservative;
    const char *billions, *printed_eta, *printed_local;
  };
  const Row rows[] = {
      {'A', 244, 1, 244, 0.870606, 0.852683, 9.67161e26, 9.86899e26, 9.37554e26, "240", "0.853",
       "9.67e+26"},
      {'B', 18, 13, 64.8999, 0.901778, 0.883214, 1.00179e27, 1.02224e27, 9.71124e26, "240", "0.883",
       "1.00e+27"},
      {'C', 250, 1, 250, 0.862209, 0.843748, 1.01224e27, 1.03290e27, 9.81253e26, "91", "0.844",
       "1.01e+27"},
      {'D', 19, 12, 65.8179, 0.895514, 0.876340, 1.05134e27, 1.07280e27, 1.01916e27, "91", "0.876",
       "1.05e+27"},
      {'E', 39, 1, 39, 0.913766, 0.867558, 9.84033e26, 1.02547e27, 9.32242e26, "240", "0.868",
       "9.84e+26"},
      {'F', 3, 13, 10.8167, 0.940579, 0.892264, 1.07044e27, 1.11551e27, 1.01410e27, "91", "0.892",
       "1.07e+27"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Scenario s = Configuration(row.name);
    const Outcome out = Simulate(s);
    EXPECT_EQ(out.inner_steps, row.h_in);
    EXPECT_EQ(out.regional_cycles, row.h_r);
    EXPECT_NEAR_REL(out.effective_steps, row.effective);
    EXPECT_NEAR_REL(out.eta_h, row.eta_h);
    EXPECT_NEAR_REL(out.eta, row.eta);
    EXPECT_NEAR_REL(out.local, row.expected);
    EXPECT_EQ(Printed("%.0f", out.parameters / 1e9), row.billions);
    EXPECT_EQ(Printed("%.3f", out.eta), row.printed_eta);
    EXPECT_EQ(Printed("%.2e", out.local), row.printed_local);
    s.expected = Case::kOptimistic;
    EXPECT_NEAR_REL(Simulate(s).local, row.optimistic);
    s.expected = Case::kConservative;
    EXPECT_NEAR_REL(Simulate(s).local, row.conservative);
    EXPECT_EQ(Printed("%.2f", out.cost / 1e9), row.name < 'C' || row.name == 'E' ? "2.88" : "0.96");
  }
}

TEST(SimulatorGolden, ExpertsAcrossNodes) {
  Scenario s = A100Nodes(72);
  s.parameters = 600e9;
  s.active_parameters = 100e9;
  s.expert_parallel = ExpertParallel::kGlobal;
  Outcome out = Simulate(s);
  EXPECT_EQ(Printed("%.0f", out.state_bytes / 1e9), "1711");
  EXPECT_EQ(Printed("%.1f", 100 * out.overhead), "32.8");
  EXPECT_EQ(Printed("%.1f", out.expert_time), "6.4");
  EXPECT_EQ(Printed("%.1f", out.compute_time), "13.1");
  s.nodes = 4000;
  out = Simulate(s);
  EXPECT_EQ(out.inner_steps, 983);
  EXPECT_NEAR_REL(out.eta, 0.828984);
  EXPECT_NEAR_REL(out.local, 6.32121e26);
  EXPECT_EQ(Printed("%.1f", 100 * (1 - out.local / Simulate(Configuration('A')).local)), "34.6");
  s.nodes = 72;
  s.parameters = 1e12;
  s.active_parameters = 150e9;
  out = Simulate(s);
  EXPECT_EQ(Printed("%.0f", out.state_bytes / 1e9), "2589");
  EXPECT_EQ(Printed("%.1f", 100 * out.overhead), "24.5");
}

// Experts of a region spread over its nodes, or over all nodes where there are fewer.
TEST(SimulatorGolden, ExpertsOfARegion) {
  Scenario s = A100Nodes(72);
  s.parameters = 600e9;
  s.active_parameters = 100e9;
  s.expert_parallel = ExpertParallel::kRegional;
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kFlat);
  EXPECT_NEAR_REL(out.state_bytes, (100e9 + 500e9 / 8) * 16);
  EXPECT_NEAR_REL(out.expert_time, 2 * 0.020 * 32);
  s.nodes = 4;
  EXPECT_EQ(Simulate(s).stages, 1);
  s.nodes = 3;  // 267 B each: more than a node holds
  EXPECT_EQ(Simulate(s).mode, Mode::kPurePipeline);
}

TEST(SimulatorGolden, NetworksThatReach1e28) {
  Outcome out = Simulate(H100Fp8Nodes(20000));
  EXPECT_EQ(out.inner_steps, 277);
  EXPECT_NEAR_REL(out.eta, 0.840877);
  EXPECT_NEAR_REL(out.local, 1.00879e28);
  out = Simulate(A100Nodes(40000));
  EXPECT_EQ(Printed("%.1f", out.cost / 1e9), "28.8");
  EXPECT_NEAR_REL(out.eta, 0.850293);
  EXPECT_NEAR_REL(out.local, 9.6445e27);
  EXPECT_EQ(FewestNodes(H100Fp8Nodes(1), Target::kLocal, 1e28, 100000), 19826);
  EXPECT_EQ(FewestNodes(A100Nodes(1), Target::kLocal, 1e28, 100000), 41479);
}

TEST(SimulatorGolden, SweepOfTheWanRate) {
  struct Row {
    double mbps, rtt;
    int64_t h;
    const char *eta, *local, *percent;
    double computed;
    const char *h_eff, *f_eta, *f_local, *f_percent;
    int64_t h_r;
    double f_computed;
  };
  const Row rows[] = {
      {10, 0.340, 1994, "0.804", "1.64e+25", "88", 1.64249e25, "33.0", "0.866", "1.04e+27", "95",
       121, 1.03876e27},
      {25, 0.230, 798, "0.826", "1.69e+25", "91", 1.68561e25, "21.0", "0.877", "1.05e+27", "96", 49,
       1.05160e27},
      {50, 0.105, 399, "0.842", "1.72e+25", "92", 1.71824e25, "15.0", "0.885", "1.06e+27", "97", 25,
       1.06116e27},
      {100, 0.065, 200, "0.858", "1.75e+25", "94", 1.75076e25, "10.8", "0.892", "1.07e+27", "98",
       13, 1.07044e27},
      {250, 0.100, 80, "0.879", "1.79e+25", "96", 1.79390e25, "6.7", "0.904", "1.08e+27", "99", 5,
       1.08401e27},
      {500, 0.035, 40, "0.895", "1.83e+25", "98", 1.82653e25, "5.2", "0.910", "1.09e+27", "99", 3,
       1.09127e27},
      {1000, 0.005, 20, "0.911", "1.86e+25", "100", 1.85917e25, "4.2", "0.914", "1.10e+27", "100",
       2, 1.09702e27},
  };
  const auto at = [](Scenario s, double mbps, double rtt) {
    s.wan_up = s.wan_down = mbps * 1e6;
    s.wan_rtt = rtt;
    return Simulate(s);
  };
  const double flat_best = at(A100Nodes(72), 1000, 0.1).local;
  const double f_best = at(Configuration('F'), 1000, 0.1).local;
  for (const Row& row : rows) {
    for (const double rtt : {row.rtt, 0.100}) {
      SCOPED_TRACE(row.mbps);
      const Outcome flat = at(A100Nodes(72), row.mbps, rtt);
      EXPECT_EQ(flat.inner_steps, row.h);
      EXPECT_EQ(Printed("%.3f", flat.eta), row.eta);
      EXPECT_EQ(Printed("%.2e", flat.local), row.local);
      EXPECT_EQ(Printed("%.0f", 100 * flat.local / flat_best), row.percent);
      EXPECT_NEAR_REL(flat.local, row.computed);
      const Outcome f = at(Configuration('F'), row.mbps, rtt);
      EXPECT_EQ(f.inner_steps, 3);
      EXPECT_EQ(f.regional_cycles, row.h_r);
      EXPECT_EQ(Printed("%.1f", f.effective_steps), row.h_eff);
      EXPECT_EQ(Printed("%.3f", f.eta), row.f_eta);
      EXPECT_EQ(Printed("%.2e", f.local), row.f_local);
      EXPECT_EQ(Printed("%.0f", 100 * f.local / f_best), row.f_percent);
      EXPECT_NEAR_REL(f.local, row.f_computed);
    }
  }
}

TEST(SimulatorGolden, RoundTripTimeChangesNothing) {
  for (const Scenario& base :
       {A100Nodes(72), A100Nodes(500), H100Fp8Nodes(2000), Configuration('F')}) {
    const Outcome want = Simulate(base);
    for (const double ms : {2, 20, 65, 75, 105, 230, 340}) {
      Scenario s = base;
      s.wan_rtt = ms / 1000;
      EXPECT_EQ(Simulate(s).inner_steps, want.inner_steps);
      EXPECT_EQ(Simulate(s).local, want.local);
    }
  }
  Scenario s = A100Nodes(72);
  s.wan_rtt = 0.340;
  EXPECT_EQ(Printed("%.4f", 100 * LatencyShare(s, Simulate(s))), "0.0071");
}

TEST(SimulatorGolden, AdverseNetworks) {
  struct Row {
    double mbps, rtt;
    int64_t h_500;
    double local_500;
    int64_t h_2000;
    double local_2000;
    const char* f;
  };
  for (const Row& row : {Row{100, 0.100, 221, 1.21237e26, 250, 1.01224e27, "1.07e+27"},
                         Row{50, 0.105, 442, 1.18971e26, 499, 9.91991e26, "1.06e+27"},
                         Row{25, 0.230, 883, 1.16709e26, 998, 9.71683e26, "1.05e+27"},
                         Row{10, 0.340, 2207, 1.13714e26, 2495, 9.44837e26, "1.04e+27"}}) {
    SCOPED_TRACE(row.mbps);
    const auto at = [&row](Scenario s) {
      s.wan_up = s.wan_down = row.mbps * 1e6;
      s.wan_rtt = row.rtt;
      return Simulate(s);
    };
    EXPECT_EQ(at(A100Nodes(500)).inner_steps, row.h_500);
    EXPECT_NEAR_REL(at(A100Nodes(500)).local, row.local_500);
    EXPECT_EQ(at(H100Fp8Nodes(2000)).inner_steps, row.h_2000);
    EXPECT_NEAR_REL(at(H100Fp8Nodes(2000)).local, row.local_2000);
    EXPECT_EQ(Printed("%.2e", at(Configuration('F')).local), row.f);
    if (row.mbps != 10) continue;
    const auto conservative = [&at](Scenario s) {
      s.expected = Case::kConservative;
      return at(s).local;
    };
    EXPECT_NEAR_REL(conservative(A100Nodes(500)), 1.10233e26);
    EXPECT_NEAR_REL(conservative(Configuration('F')), 9.84092e26);
  }
}

}  // namespace
}  // namespace longhaul::simulator
