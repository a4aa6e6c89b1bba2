#include "netem/machine/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "netem/machine/host_facts.h"
#include "netem/machine/tap_ceiling.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Capabilities, EveryFailingOneSaysWhatToDo) {
  const Capabilities found = ProbeCapabilities();
  for (const Capability& item : found.items) {
    printf("  %-22s %-40s %s\n", item.name.c_str(), item.found.c_str(), item.advice.c_str());
    EXPECT_FALSE(item.found.empty()) << item.name;
    EXPECT_EQ(item.good, item.advice.empty()) << item.name;
  }
  printf("  best: %s\n", found.best.c_str());
  EXPECT_EQ(found.netem && found.lab, found.best == "netem");
  EXPECT_FALSE(found.best.empty());
}

TEST(Capabilities, AgreeWithWhatCanBeBuilt) {
  const Capabilities found = ProbeCapabilities();
  EXPECT_EQ(found.tap, WhyNot(EmulatorKind::kTap).empty());
  EXPECT_EQ(found.netem, WhyNot(EmulatorKind::kNetem).empty());
}

TEST(TapCeiling, ARateAboveItIsRefusedWithTheFigures) {
  const TapCeiling ceiling{Gbit(4), Mbit(900), 0.9, 0.95};
  Topology topology = *UniformTopology("regional", 2);
  EXPECT_TRUE(CheckRates(topology, ceiling).ok());
  topology.paths[1].rate = Gbit(5);
  const absl::Status too_fast = CheckRates(topology, ceiling);
  EXPECT_EQ(too_fast.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(too_fast.message()), HasSubstr("w1 > w0: 5000 Mbit/s"));
  EXPECT_THAT(std::string(too_fast.message()), HasSubstr("4000 Mbit/s measured"));
  topology.paths[1].rate = Gbit(1);
  topology.paths[1].loss_prob = 0.01;
  EXPECT_THAT(std::string(CheckRates(topology, ceiling).message()), HasSubstr("cut to the MTU"));
  topology.nodes[1].access = AccessSpec{.up = Mbit(100), .down = Mbit(100)};
  EXPECT_TRUE(CheckRates(topology, ceiling).ok()) << "the access line is what limits";
}

TEST(TapCeiling, IsMeasuredOnThisMachine) {
  if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
  auto ceiling = MeasureTapCeiling(absl::Seconds(1));
  ASSERT_TRUE(ceiling.ok()) << ceiling.status();
  printf("  TSO frames %.0f Mbit/s with %.0f %% of a core; MTU frames %.0f Mbit/s with %.0f %%\n",
         InMbit(ceiling->tso), 100 * ceiling->tso_core_share, InMbit(ceiling->mtu_frames),
         100 * ceiling->mtu_core_share);
  EXPECT_GT(ceiling->tso.value, 0);
  EXPECT_GT(ceiling->mtu_frames.value, 0);
  EXPECT_GT(ceiling->tso_core_share, 0);
  EXPECT_LE(ceiling->tso_core_share, 1.01) << "one thread";
}

TEST(HostFacts, SayWhatTheNodesReallyHave) {
  if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    const EmulatorOptions options{.congestion_control = "reno", .slow_start_after_idle = false};
    auto emulator = BuildEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), options);
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    auto facts = ReadHostFacts(**emulator);
    ASSERT_TRUE(facts.ok()) << facts.status();
    for (const auto& [name, text] : Describe(*facts)) {
      printf("  %-22s %s\n", name.c_str(), text.c_str());
      EXPECT_THAT(text, Not(testing::IsEmpty())) << name;
    }
    EXPECT_EQ(facts->emulator, "tap");
    EXPECT_EQ(facts->congestion_control, "reno");
    EXPECT_FALSE(facts->slow_start_after_idle);
    EXPECT_EQ(facts->tcp_rmem, "4096 131072 67108864");
    EXPECT_THAT(facts->offloads, HasSubstr("tso on"));
  });
}

TEST(EmulatorOptions, CongestionControlThatIsNotAllowedSaysWhatIs) {
  if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    const EmulatorOptions options{.congestion_control = "nosuch"};
    auto emulator = BuildEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), options);
    EXPECT_EQ(emulator.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(emulator.status().message()), HasSubstr("allowed here: "));
  });
}

}  // namespace
}  // namespace longhaul
