// What the model's formulas must hold to, whatever the scenario.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

TEST(SimulatorFormulas, AlphaBySize) {
  const std::pair<double, const char*> rows[] = {
      {1e6, "0.2000"},   {1e7, "0.1333"},  {35e6, "0.1129"},    {1e8, "0.1000"},   {1e9, "0.0800"},
      {2.4e9, "0.0743"}, {1e10, "0.0667"}, {91.43e9, "0.0575"}, {240e9, "0.0542"},
  };
  for (const auto& [parameters, alpha] : rows) EXPECT_EQ(Printed("%.4f", Alpha(parameters)), alpha);
  EXPECT_NEAR_REL(Alpha(2.4e9), 0.0743468);
  EXPECT_EQ(Printed("%.6f", Alpha(91.43e9)), "0.057462");
  EXPECT_EQ(Printed("%.6f", Alpha(240e9)), "0.054199");
}

TEST(SimulatorFormulas, StragglersByCount) {
  const Factors assumed;
  const auto f = [&](double n) { return StragglerFactor(Straggler::kSync, n, assumed); };
  EXPECT_EQ(f(1), 1);
  EXPECT_EQ(Printed("%.6f", f(72)), "1.308496");
  EXPECT_EQ(Printed("%.6f", f(500)), "1.448289");
  EXPECT_EQ(Printed("%.6f", f(4000)), "1.598289");
  EXPECT_EQ(Printed("%.6f", f(20000)), "1.714386");
  EXPECT_NEAR_REL(StragglerFactor(Straggler::kBackup, 72, assumed), 1 + 0.3 * 0.308496);
  EXPECT_NEAR_REL(StragglerFactor(Straggler::kRelay, 72, assumed), 1 + 0.4 * 0.308496);
  EXPECT_EQ(StragglerFactor(Straggler::kThreshold, 72, assumed), 1);
  EXPECT_NEAR_REL(EtaH(0.05, 100, Straggler::kThreshold), 0.9 / 1.15);
  EXPECT_EQ(EtaH(0.2, 1e9, Straggler::kSync), 0.4);
}

TEST(SimulatorFormulas, GradientTablesAtBetweenAndBeyondAnchors) {
  const auto at = [](GradientTable table, double ratio) {
    return EtaC(table, Case::kConservative, ratio);
  };
  EXPECT_EQ(at(GradientTable::kGovernance, 0.5), 1);
  EXPECT_EQ(at(GradientTable::kGovernance, 1), 1);
  EXPECT_EQ(at(GradientTable::kGovernance, 4), 0.99);
  EXPECT_NEAR(at(GradientTable::kGovernance, 8), 0.97, 1e-12);
  EXPECT_NEAR(at(GradientTable::kGovernance, 40), 0.925, 1e-12);
  EXPECT_EQ(at(GradientTable::kGovernance, 1000), 0.90);
  EXPECT_EQ(at(GradientTable::kDocumentation, 500), 0.75);
  EXPECT_EQ(at(GradientTable::kWithoutErrorFeedback, 150), 0.85);
  EXPECT_EQ(at(GradientTable::kErrorFeedback, 150), 0.91);
  EXPECT_EQ(EtaC(GradientTable::kErrorFeedback, Case::kExpected, 150), 0.99);
}

TEST(SimulatorFormulas, ActivationTablesAtBetweenAndBeyondAnchors) {
  const auto first = [](double ratio) {
    return Printed("%.5f",
                   QualityOfCrossing(ActivationTable::kFirstPipeline, Case::kExpected, ratio));
  };
  EXPECT_EQ(first(3.63), "0.99570");
  EXPECT_EQ(first(5), "0.99135");
  EXPECT_EQ(first(6.4), "0.98731");
  EXPECT_EQ(first(8), "0.98365");
  EXPECT_EQ(first(1.5), "1.00000");
  EXPECT_EQ(first(100), "0.98000");
}

TEST(SimulatorFormulas, ActivationTablesByDepthAsPrinted) {
  struct Row {
    ActivationTable table;
    Case column;
    const char* eta[3];  // S = 2, 4, 8
  };
  for (const Row& row :
       {Row{ActivationTable::kNote, Case::kExpected, {"0.990025", "0.970373", "0.932230"}},
        Row{ActivationTable::kFirstPipeline, Case::kConservative, {"0.9604", "0.8858", "0.7536"}},
        Row{ActivationTable::kLatest, Case::kConservative, {"0.9216", "0.7828", "0.5647"}},
        Row{ActivationTable::kDocumentation, Case::kExpected, {"0.9508", "0.8596", "0.7026"}}}) {
    Scenario s;
    s.switches.activation_table = row.table;
    s.expected = row.column;
    const char* format = row.table == ActivationTable::kNote ? "%.6f" : "%.4f";
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(Printed(format, EtaAct(s, int64_t{2} << i)), row.eta[i]);
    }
  }
  Scenario s = ProfileScenario(ProfileName::kDocumentation);
  EXPECT_EQ(Printed("%.2f", EtaAct(s, 3)), "0.90");
  // The documentation's example prints 0.81.
  EXPECT_EQ(Printed("%.4f", EtaAct(s, 5)), "0.8173");
  EXPECT_EQ(EtaAct(s, 1), 1);
  s.activation_ratio = 1;
  EXPECT_EQ(EtaAct(s, 8), 1);
  // Gradients apart: 0.995 forward at 4x and 0.98 backward at 10x; forward alone; backward alone.
  s.switches.activation_table = ActivationTable::kFirstPipeline;
  s.activation_ratio = 4;
  s.backward_ratio = 10;
  EXPECT_NEAR(EtaAct(s, 4), std::pow(0.995 * 0.98, 3), 1e-15);
  s.backward_ratio = 1;
  EXPECT_NEAR(EtaAct(s, 4), std::pow(0.995, 3), 1e-15);
  s.activation_ratio = 1;
  s.backward_ratio = 10;
  EXPECT_NEAR(EtaAct(s, 4), std::pow(0.98, 3), 1e-15);
}

TEST(SimulatorFormulas, ExactMultiplesOfANodeAreThatManyStages) {
  for (const Scenario& base : {A100Nodes(4000), H100Fp8Nodes(2000)}) {
    const double most = base.memory_bytes / StateBytesPerParameter(base.precision);
    for (int64_t stages = 1; stages <= 64; ++stages) {
      Scenario s = base;
      s.parameters = static_cast<double>(stages) * most;
      EXPECT_EQ(Simulate(s).stages, stages);
      s.parameters = std::nextafter(s.parameters, 1e30);
      EXPECT_EQ(Simulate(s).stages, stages);
      s.parameters = static_cast<double>(stages) * most * 1.0001;
      EXPECT_EQ(Simulate(s).stages, stages + 1);
    }
  }
}

TEST(SimulatorFormulas, PrecisionsCountBytesAndBits) {
  EXPECT_EQ(StateBytesPerParameter(Precision::kFp16), 16);
  EXPECT_EQ(StateBytesPerParameter(Precision::kFp8), 14);
  EXPECT_EQ(StateBytesPerParameter(Precision::kFp4), 13);
  EXPECT_EQ(BitsPerValue(Precision::kFp16), 16);
  EXPECT_EQ(BitsPerValue(Precision::kFp4), 4);
}

// Steps of H are integers, so a quantity that only sets H moves C_local in steps, never back.
TEST(SimulatorFormulas, MoreBandwidthNeverHurtsAndMoreDelayNeverHelps) {
  std::vector<Scenario> bases = {A100Nodes(72), Configuration('F'),
                                 A100Nodes(500, ProfileName::kLatest)};
  bases.push_back(A100Nodes(4000, ProfileName::kGovernancePp));
  bases.back().parameters = 960e9;
  for (size_t i = 0; i < bases.size(); ++i) {
    SCOPED_TRACE(i);
    double before = 0;
    for (double rate = 1e6; rate < 1e11; rate *= 1.7) {
      Scenario s = bases[i];
      s.wan_up = s.wan_down = rate;
      const double local = Simulate(s).local;
      // Two ceilings under a root, or one per step of a pipeline, may move against each other.
      if (i == 0 || i == 2) {
        EXPECT_GE(local, before);
      }
      EXPECT_GT(local, 0);
      before = local;
    }
    before = 1e99;
    for (double rtt = 0; rtt < 100; rtt = rtt * 2 + 0.001) {
      Scenario s = bases[i];
      s.wan_rtt = rtt;
      const double local = Simulate(s).local;
      EXPECT_LE(local, before);
      before = local;
    }
    before = 1e99;
    for (double coefficient = 0; coefficient < 0.5; coefficient += 0.02) {
      Scenario s = bases[i];
      s.measured.straggler_coefficient = coefficient;
      const double local = Simulate(s).local;
      if (i == 0 || i == 2) {
        EXPECT_LE(local, before);
      }
      before = local;
    }
  }
}

TEST(SimulatorFormulas, BetterCrossingsNeverHurt) {
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  double before = 0;
  for (double q = 0.8; q <= 1; q += 0.005) {
    s.measured.q = q;
    EXPECT_GT(Simulate(s).local, before);
    before = Simulate(s).local;
  }
}

TEST(SimulatorFormulas, ChiIsOneAtItsAllocationAndInBetweenElsewhere) {
  for (const double compute : {1e20, 1e24, 1e27}) {
    const double parameters = std::sqrt(compute / (6 * 25.6));
    const double tokens = 25.6 * parameters;
    EXPECT_NEAR(Chi(1, parameters, tokens, compute, 25.6), 1, 1e-9);
    for (const double skew : {0.01, 0.3, 3.0, 100.0}) {
      const double chi = Chi(1, parameters * skew, tokens / skew, compute, 25.6);
      EXPECT_GT(chi, 0);
      EXPECT_LE(chi, 1);
    }
  }
}

// Bisection needs 200 rounds to be as sure as these few are.
TEST(SimulatorFormulas, TheComputeOfALossIsWhatBisectionFinds) {
  for (const double want : {1.9, 2.0, 2.5, 4.0}) {
    double low = 1e10, high = 1e30;
    for (int i = 0; i < 300; ++i) {
      const double middle = std::sqrt(low * high);
      // Spent at D = r N: N = sqrt(C/(6r)).
      const double parameters = std::sqrt(middle / (6 * 25.6));
      (Loss(parameters, 25.6 * parameters) > want ? low : high) = middle;
    }
    EXPECT_NEAR(ComputeOfLoss(want, 25.6, 1e10, 1e30) / low, 1, 1e-9);
  }
  EXPECT_EQ(ComputeOfLoss(1.0, 25.6, 1e10, 1e30), 1e30);
  EXPECT_NEAR(ComputeOfLoss(50, 25.6, 1e10, 1e30) / 1e10, 1, 1e-12);
}

TEST(SimulatorFormulas, OneNodeLosesNothing) {
  for (const ProfileName profile : {ProfileName::kGovernance, ProfileName::kGovernancePp,
                                    ProfileName::kDocumentation, ProfileName::kLatest}) {
    const Scenario s = A100Nodes(1, profile);
    const Outcome out = Simulate(s);
    EXPECT_EQ(out.eta, 1);
    EXPECT_EQ(out.chi, 1);
    EXPECT_EQ(out.inner_steps, 1);
    EXPECT_EQ(out.local, s.peak_flops * s.mfu * s.wall_clock);
    EXPECT_EQ(out.quality, out.local);
  }
}

TEST(SimulatorFormulas, TooFewNodesFallBackAndSaySo) {
  Scenario s = A100Nodes(15);
  s.topology = Topology::kHierarchical;
  EXPECT_EQ(Simulate(s).mode, Mode::kFlat);
  EXPECT_TRUE(Simulate(s).warnings.hierarchy_fell_back);
  EXPECT_EQ(Simulate(s).local, Simulate(A100Nodes(15)).local);
  s = A100Nodes(7);
  s.parameters = 960e9;
  Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kPurePipeline);
  EXPECT_TRUE(out.warnings.pipeline_fell_back);
  EXPECT_FALSE(out.warnings.too_few_nodes);
  EXPECT_NEAR_REL(out.tokens, s.wall_clock / out.step_time * s.step_tokens * 7 / 4);
  s.nodes = 3;
  EXPECT_TRUE(Simulate(s).warnings.too_few_nodes);
  s.nodes = 8;
  EXPECT_EQ(Simulate(s).mode, Mode::kPipelineGroups);
}

TEST(SimulatorFormulas, AnInnerStepsOfOnesOwnWaitsWhereItIsTooShort) {
  Scenario s = A100Nodes(72);
  s.inner_steps = 100;  // 200 would hide the exchange
  const Outcome out = Simulate(s);
  EXPECT_NEAR_REL(out.outer_time, out.sync_time);
  EXPECT_NEAR_REL(out.tokens, s.wall_clock / out.outer_time * 100 * s.step_tokens * 72);
  s.switches.streaming = false;
  const Outcome summed = Simulate(s);
  EXPECT_NEAR_REL(summed.outer_time, 100 * out.step_time + out.sync_time);
  EXPECT_NEAR_REL(summed.tokens, s.wall_clock / summed.outer_time * 100 * s.step_tokens * 72);
}

TEST(SimulatorFormulas, Utilisation) {
  const Scenario s = A100Nodes(72);
  EXPECT_NEAR_REL(GlobalMfu(s, Simulate(s)), 0.4 * 0.857516);
}

TEST(SimulatorFormulas, ReplicaLossAsPublished) {
  EXPECT_NEAR_REL(ReplicaLossFactor(4e9, 2, 30, true),
                  std::pow(2, 1.0923 * std::pow(4e9, -0.2342)));
  EXPECT_EQ(Printed("%.4f", ReplicaLossFactor(4e9, 2, 30, true)), "1.0043");
  EXPECT_EQ(Printed("%.4f", ReplicaLossFactor(4e9, 4, 30, true)), "1.0086");
  EXPECT_EQ(ReplicaLossFactor(4e9, 1, 30, true), 1);
  EXPECT_EQ(ReplicaLossFactor(4e9, 8, 1, true), 1);
  EXPECT_EQ(EtaRLinear(1e9, 1 << 20, 0.85), 0.9);
  EXPECT_EQ(EtaRLinear(1e9, int64_t{1} << 40, 0.85), 0.85);
  EXPECT_NEAR_REL(EtaRLinear(1e9, int64_t{1} << 40, 0), 0.8);
}

}  // namespace
}  // namespace longhaul::simulator
