// One small network worked out on paper, in which no two figures are alike: up and down, region and
// ocean, nodes and groups. What the golden rows cannot tell apart because their figures are equal.
#include <cmath>

#include <gtest/gtest.h>

#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/simulate.h"
#include "planning/simulator/transfer.h"

namespace longhaul::simulator {
namespace {

// 3 devices of 1/3 PFLOP/s at half of it: 5e14 FLOP/s a node, 16 GB, so 10^9 parameters in FP16.
Scenario Small(int64_t nodes) {
  Scenario s;
  s.nodes = nodes;
  s.devices = 3;
  s.device_fp16_flops = 495e12;
  s.peak_flops = 1e15;
  s.memory_bytes = 16e9;
  s.device_price = 700;
  s.mfu = 0.5;
  s.group_nodes = 3;
  s.wan_up = 20e6;
  s.wan_down = 80e6;
  s.wan_rtt = 0.3;
  s.regional_rate = 200e6;
  s.regional_rtt = 0.05;
  s.step_tokens = 1e6;
  s.gradient_ratio = 10;
  s.activation_ratio = 5;
  s.micro_batches = 6;
  s.moe_layers = 7;
  s.wall_clock = 1e7;
  return s;
}

// 1 + 0.05 log2 n.
constexpr double kOfThree = 1 + 0.05 * 1.5849625007211562;
constexpr double kOfFour = 1.1;
// Between 4x (1) and 16x (0.98) over log10: log10(2.5) / log10(4) of the way.
constexpr double kEtaC10 = 1 - 0.02 * 0.6609640474436812;

void ExpectNear(double got, double want) { EXPECT_NEAR(got, want, 1e-12 * std::abs(want)); }

TEST(SimulatorClosed, AFlatNetworkOfThreeNodes) {
  const Outcome out = Simulate(Small(3));
  EXPECT_EQ(out.mode, Mode::kFlat);
  ExpectNear(out.parameters, 1e9);
  ExpectNear(out.payload_bits, 1.6e9);             // 16 bits of each over 10
  ExpectNear(out.step_time, 12);                   // 6 x 10^9 x 10^6 / 5e14
  const double sync = (80 + 20 + 0.3) * kOfThree;  // 108.2 s: nine steps and a bit
  ExpectNear(out.sync_time, sync);
  EXPECT_EQ(out.inner_steps, 10);
  ExpectNear(out.outer_time, 120);
  ExpectNear(out.raw, 3 * 5e14 * 1e7);
  ExpectNear(out.tokens, 3 * 5e14 * 1e7 / 6e9);
  ExpectNear(out.eta_h, 1 - 0.08);  // log10 of 10 steps
  ExpectNear(out.eta_c, kEtaC10);
  ExpectNear(out.eta_r, 1 - 0.005 * 1.5849625007211562);
  EXPECT_EQ(out.eta_act, 1);
  ExpectNear(out.local, out.raw * out.eta_h * out.eta_c * out.eta_r);
  ExpectNear(out.overtraining, out.tokens / (20 * 1e9));
  ExpectNear(out.cost, 3 * 3 * 700);
  ExpectNear(out.h100_equivalents, 1.5);
  ExpectNear(MeanSyncRate(out), 1.6e9 / 120);
  ExpectNear(LatencyShare(Small(3), out), 0.3 / 100);
  ExpectNear(GlobalMfu(Small(3), out), 0.5 * out.eta);
}

TEST(SimulatorClosed, WithoutStreamingTheExchangeIsWaitedFor) {
  Scenario s = Small(3);
  s.switches.streaming = false;
  const double sync = (80 + 20 + 0.3) * kOfThree;
  ExpectNear(Simulate(s).outer_time, 120 + sync);
  ExpectNear(Simulate(s).raw, 3 * 5e14 * 1e7 * 120 / (120 + sync));
  s.inner_steps = 4;
  ExpectNear(Simulate(s).raw, 3 * 5e14 * 1e7 * 48 / (48 + sync));
  s.switches.streaming = true;
  ExpectNear(Simulate(s).raw, 3 * 5e14 * 1e7 * 48 / sync);
  ExpectNear(Simulate(s).eta_h, 1 - 0.08 * std::log10(4.0));
}

// Eleven nodes are three groups of three; the regional exchange takes 16.05 x 1.079 = 17.3 s, two
// steps; five cycles of 24 s hide the global one.
TEST(SimulatorClosed, AHierarchyOfGroups) {
  Scenario s = Small(11);
  s.topology = Topology::kHierarchical;
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kHierarchical);
  EXPECT_EQ(out.groups, 3);
  EXPECT_EQ(out.replicas, 11);
  ExpectNear(out.regional_sync_time, (16 + 0.05) * kOfThree);
  EXPECT_EQ(out.inner_steps, 2);
  ExpectNear(out.sync_time, (80 + 20 + 0.3) * kOfThree);
  EXPECT_EQ(out.regional_cycles, 5);
  ExpectNear(out.outer_time, 120);
  ExpectNear(out.effective_steps, 2 * std::sqrt(5.0));
  ExpectNear(out.eta_h, 1 - 0.08 * std::log10(2 * std::sqrt(5.0)));
  s.nodes = 5;  // one group and a rest
  EXPECT_EQ(Simulate(s).mode, Mode::kFlat);
  s.nodes = 6;
  EXPECT_EQ(Simulate(s).mode, Mode::kHierarchical);
}

// Four billion parameters are four stages: h = 0.03 sqrt(4e9), an activation 16 h bits a token over
// 5; nine nodes are two pipelines.
TEST(SimulatorClosed, GroupsOfFourStages) {
  Scenario s = Small(9);
  s.parameters = 4e9;
  const double activation = 1e6 * 0.03 * std::sqrt(4e9) * 16 / 5;
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kPipelineGroups);
  EXPECT_EQ(out.stages, 4);
  EXPECT_EQ(out.groups, 2);
  ExpectNear(out.transfer_time, 2 * activation / (6 * 200e6));
  ExpectNear(out.compute_time, 2);  // 6 x 4e9 x 1e6 / (5e14 x 4 x 6)
  const double step = 9 * (2 + (2 * activation / (6 * 200e6) + 0.05) * kOfFour);
  ExpectNear(out.step_time, step);
  ExpectNear(out.bubble, 3.0 / 9);
  ExpectNear(out.sync_time, (320 + 80 + 0.3) * 1.05);
  EXPECT_EQ(out.inner_steps, 4);
  ExpectNear(out.tokens, 1e7 / (4 * step) * 4 * 1e6 * 2);
  ExpectNear(out.raw, 6 * 4e9 * out.tokens);
  ExpectNear(out.eta_r, 1 - 0.005 * (2.4 / 4));

  s.switches.pipeline_links = PipelineLinks::kWan;  // the narrower of the two directions
  ExpectNear(Simulate(s).step_time, 9 * (2 + (2 * activation / (6 * 20e6) + 0.3) * kOfFour));
  std::swap(s.wan_up, s.wan_down);
  ExpectNear(Simulate(s).step_time, 9 * (2 + (2 * activation / (6 * 20e6) + 0.3) * kOfFour));
  s = Small(9);
  s.parameters = 4e9;
  s.switches.stage_parallel_sync = true;
  ExpectNear(Simulate(s).sync_time, (80 + 20 + 0.3) * 1.05);
  s.switches.boundary_overlap = true;
  ExpectNear(Simulate(s).step_time, 9 * (2 * activation / (6 * 200e6) + 0.05) * kOfFour);
  s.regional_rate = 2e9;  // 1.1 s on the link, less than its 2 s of computing
  ExpectNear(Simulate(s).step_time, 9 * 2.0);
  s.switches.straggler = Straggler::kBackup;
  ExpectNear(Simulate(s).tokens * 1.1,
             1e7 / Simulate(s).outer_time * 1e6 * 2 * static_cast<double>(Simulate(s).inner_steps));
}

TEST(SimulatorClosed, OnePipelineOverTheOceanCountsItsPart) {
  Scenario s = Small(7);
  s.parameters = 4e9;
  const double activation = 1e6 * 0.03 * std::sqrt(4e9) * 16 / 5;
  const double step = 9 * (2 + (2 * activation / (6 * 20e6) + 0.3) * kOfFour);
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kPurePipeline);
  ExpectNear(out.step_time, step);
  ExpectNear(out.tokens, 1e7 / step * 1e6 * 7 / 4);
}

// 4 billion parameters of which half a billion is active: 0.5 + 3.5 / 9 of them are 14.2 GB of a
// node's 16, spread over all; 0.5 + 3.5 / 8 are 15, over a region of eight; of three they are too
// many.
TEST(SimulatorClosed, ExpertsWaitForTheirRoundTrips) {
  Scenario s = Small(9);
  s.parameters = 4e9;
  s.active_parameters = 0.5e9;
  s.expert_parallel = ExpertParallel::kGlobal;
  Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kFlat);
  ExpectNear(out.state_bytes, (0.5e9 + 3.5e9 / 9) * 16);
  ExpectNear(out.compute_time, 6);  // 6 x 0.5e9 x 1e6 / 5e14
  ExpectNear(out.expert_time, 2 * 0.3 * 7);
  ExpectNear(out.step_time, 10.2);
  ExpectNear(out.overhead, 4.2 / 10.2);
  ExpectNear(out.raw, 9 * 5e14 * 1e7 * 6 / 10.2);
  s.expert_parallel = ExpertParallel::kRegional;
  s.group_nodes = 8;
  out = Simulate(s);
  ExpectNear(out.state_bytes, (0.5e9 + 3.5e9 / 8) * 16);
  ExpectNear(out.expert_time, 2 * 0.05 * 7);
  s.group_nodes = 3;
  EXPECT_EQ(Simulate(s).expert_time, 0);
  EXPECT_EQ(Simulate(s).stages, 4);
}

TEST(SimulatorClosed, ASearchTakesItsOwnTarget) {
  Scenario s = Small(1);
  s.switches.chi = true;
  for (const Target target : {Target::kLocal, Target::kQuality, Target::kRaw}) {
    s.nodes = 5;
    const Outcome five = Simulate(s);
    const double value = target == Target::kLocal     ? five.local
                         : target == Target::kQuality ? five.quality
                                                      : five.raw;
    EXPECT_EQ(ValueOf(five, target), value);
  }
  // 5e21 FLOP a node: raw counts alone.
  EXPECT_EQ(FewestNodes(s, Target::kRaw, 15e21, 3), 3);
  EXPECT_EQ(FewestNodes(s, Target::kRaw, 15e21, 2), std::nullopt);
  EXPECT_EQ(FewestNodes(s, Target::kLocal, 15e21, 3), std::nullopt);
}

TEST(SimulatorClosed, AWholeNumberIsNotRoundedUpForABillionth) {
  EXPECT_EQ(GuardedCeil(6 + 5e-9), 6);
  EXPECT_EQ(GuardedCeil(6 + 7e-9), 7);
  EXPECT_EQ(GuardedCeil(0.2 + 1), 2);
  EXPECT_EQ(GuardedCeil(0), 1);
  EXPECT_EQ(GuardedCeil(-3), 1);
}

// L = 1.8172 + 482.01 N^-0.3478 + 2085.43 D^-0.3658, and -dL/d ln D of its last term.
TEST(SimulatorClosed, TheLossAndItsSlopeAsPublished) {
  ExpectNear(Loss(1e9, 2e10),
             1.8172 + 482.01 * std::pow(1e9, -0.3478) + 2085.43 * std::pow(2e10, -0.3658));
  EXPECT_NEAR(Loss(1e9, 2e10), 2.5296, 5e-4);
  const double h = 1e-5;
  EXPECT_NEAR(LossSlope(1e9, 2e10),
              (Loss(1e9, 2e10 * std::exp(h)) - Loss(1e9, 2e10 * std::exp(-h))) / (2 * h), 1e-8);
}

// The ends of an interval are two standard deviates of a normal apart: z = +-1.96 and a half.
TEST(SimulatorClosed, DeviatesReachTheEndsOfAnInterval) {
  const Measured m{.value = 0.9, .low = 0.81, .high = 0.99};
  const double end = 1.959963984540054;
  EXPECT_EQ(AtLog(m, 0), 0.9);
  ExpectNear(AtLog(m, end), 0.99);
  ExpectNear(AtLog(m, -end), 0.81);
  ExpectNear(AtLog(m, end / 2), 0.9 * std::sqrt(1.1));
  ExpectNear(AtLog(m, -end / 2), 0.9 * std::sqrt(0.9));
  ExpectNear(AtLinear(m, end), 0.99);
  ExpectNear(AtLinear(m, -end), 0.81);
  ExpectNear(AtLinear(m, end / 3), 0.93);
  ExpectNear(AtLinear(m, -end / 3), 0.87);
}

TEST(SimulatorClosed, MeasuredFactorsTakeThePlaceOfAssumedOnes) {
  Scenario s = Small(9);
  s.parameters = 4e9;
  s.measured.q = 0.98;
  ExpectNear(Simulate(s).eta_act, std::pow(0.98, 6));  // three boundaries, both ways
  s.measured.gamma = 0.5;
  ExpectNear(Simulate(s).eta_act, std::pow(0.98, 2 * std::sqrt(3.0)));
  s.measured.by_stages = {{3, -0.2}, {4, -0.3}};
  ExpectNear(Simulate(s).eta_act, std::exp(-0.3));
  s.measured.eta_c = 0.91;
  ExpectNear(Simulate(s).eta_c, 0.91);
  s.measured.straggler_coefficient = 0.1;
  ExpectNear(Simulate(s).sync_time, (320 + 80 + 0.3) * 1.1);
  const double step = Simulate(s).step_time;
  s.measured.step_time_ratio = 1.25;
  ExpectNear(Simulate(s).step_time, 1.25 * step);
  s = Small(3);
  s.measured.alpha_scale = 2;
  ExpectNear(Simulate(s).alpha, 0.16);
  ExpectNear(Simulate(s).eta_h, 1 - 0.16);
}

}  // namespace
}  // namespace longhaul::simulator
