// The links of nodes that have IPv6 beside IPv4: the same for both.
#include <gtest/gtest.h>

#include "netem/nodes/node_setup.h"
#include "netem/probes/probe.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"
#include "tests/netem/wake_control.h"

namespace longhaul {
namespace {

class OverIpv6 : public testing::TestWithParam<EmulatorKind> {
 protected:
  void With(const Topology& topology, const std::function<void(Emulator&)>& body) {
    if (!KernelHasIpv6()) GTEST_SKIP() << "this kernel has no IPv6";
    EmulatorOptions options;
    options.ip = IpVersions::kBoth;
    WithEmulator(GetParam(), topology, options, body);
  }
};

// Figures that no default has, each direction its own; 20 Mbit/s is what the guest carries well.
Topology OneWayAndAnother() {
  Topology topology = *UniformTopology("continental-us", 2);
  topology.paths[0].rate = Mbit(20);
  topology.paths[0].delay = absl::Milliseconds(10);
  topology.paths[1].rate = Mbit(10);
  topology.paths[1].delay = absl::Milliseconds(15);
  return topology;
}

TEST_P(OverIpv6, RoundTripAndRateAreThoseOfThePath) {
  With(OneWayAndAnother(), [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRtt, [&] {
      const auto rtt =
          ProbeRtt(emulator, 0, 1, /*count=*/50, absl::Milliseconds(10), IpVersion::kIpv6);
      EXPECT_TRUE(rtt.ok()) << rtt.status();
      if (!rtt.ok() || rtt->received != 50) return false;
      // 10 + 15 ms and an echo of 14 + 40 + 8 + 56 bytes at 20 and at 10 Mbit/s.
      const double nominal_ms = 25 + 118 * 8 / 20e3 + 118 * 8 / 10e3;
      EXPECT_NEAR(absl::ToDoubleMilliseconds(rtt->nominal), nominal_ms, 1e-3);
      const double over_ms = absl::ToDoubleMilliseconds(rtt->median) - nominal_ms;
      return over_ms > -0.2 && over_ms < 1;
    });
    ExpectInBounds(CanJudgeRate, [&] {
      const auto rate =
          ProbeRate(emulator, 0, 1, absl::Seconds(2), absl::Seconds(3), "cubic", IpVersion::kIpv6);
      EXPECT_TRUE(rate.ok()) << rate.status();
      if (!rate.ok()) return false;
      const double nominal = 20e6 * (1500 - 40 - 32) / 1514;
      EXPECT_NEAR(rate->nominal_goodput.value, nominal, 1);
      return rate->goodput.value > 0.98 * nominal && rate->goodput.value < 1.01 * nominal;
    });
  });
}

TEST_P(OverIpv6, LossIsThatOfThePathAndCountedThere) {
  Topology topology = OneWayAndAnother();
  topology.paths[0].loss_prob = 0.2;
  With(topology, [](Emulator& emulator) {
    const auto loss = ProbeLoss(emulator, 0, 1, 1000, Mbit(10), IpVersion::kIpv6);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(loss->loss(), 0.2, 4 * 0.01265);  // sqrt(0.2 x 0.8 / 1000)
    EXPECT_EQ(emulator.counters(0, 1)->drops_loss, 1000 - loss->received);
    EXPECT_EQ(emulator.counters(0, 1)->packets, loss->received);
  });
}

// A pair without a path, an access line and a shared site: who may talk, may do so in both.
TEST_P(OverIpv6, RoutesAreThoseOfIpv4) {
  Topology topology = *UniformTopology("colocated", 4);
  topology.nodes[0].access = AccessSpec{.up = Mbit(50), .down = Mbit(50)};
  topology.sites = {{"site", AccessSpec{.up = Mbit(40), .down = Mbit(20)}}};
  topology.nodes[2].site = topology.nodes[3].site = 0;
  std::erase_if(topology.paths,
                [](const PathSpec& path) { return path.from == 1 && path.to == 2; });
  With(topology, [](Emulator& emulator) {
    for (const auto& [from, to] : {std::pair(0, 1), {0, 2}, {2, 3}, {3, 1}}) {
      for (IpVersion ip : {IpVersion::kIpv4, IpVersion::kIpv6}) {
        const auto rtt = ProbeRtt(emulator, from, to, 3, absl::Milliseconds(5), ip);
        ASSERT_TRUE(rtt.ok()) << rtt.status();
        EXPECT_EQ(rtt->received, 3) << from << " > " << to;
      }
    }
    // Until here nobody's frames went astray, the kernel's own neither.
    EXPECT_EQ(*emulator.unroutable_drops(), 0);
    const auto asked = ProbeLoss(emulator, 1, 0, 10, Mbit(1), IpVersion::kIpv6);
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(asked->received, 10);
    EXPECT_FALSE(ProbeRtt(emulator, 1, 2, 3, absl::Milliseconds(5), IpVersion::kIpv6).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Links, OverIpv6, testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                         [](const auto& test) { return std::string(ToString(test.param)); });

}  // namespace
}  // namespace longhaul
