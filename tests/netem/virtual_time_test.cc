// The lab's links on a kernel whose time is virtual (scripts/virtual_kernel.sh): computing takes none,
// so what is measured is what the links are, to the microsecond, however busy the machine is. Closed
// forms by hand from docs/netem.md's figures, within 0.1 %. LONGHAUL_LINKS=long: all profiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "netem/probes/probe.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"
#include "tests/netem/traffic.h"

namespace longhaul {
namespace {

constexpr double kFrameBits = 1514 * 8, kSegment = 1448;
constexpr double kShare = 0.001;
constexpr int kOverheadBytes = 66;  // Ethernet, IP and TCP with timestamps

struct Link {
  const char* profile;
  double bits_per_s, rtt_s;
  bool is_short;  // in the short form
};
constexpr Link kLinks[] = {
    {"colocated", 1e9, 0.005, true},
    {"regional", 1e9, 0.020, false},
    {"same-country", 500e6, 0.035, false},
    {"continental-us", 100e6, 0.065, true},
    {"transatlantic", 100e6, 0.075, false},
    {"agora", 200e6, 0.080, false},
    {"simulator-default", 100e6, 0.100, false},
    {"transpacific", 50e6, 0.105, true},
    {"global", 25e6, 0.230, true},
    {"worst-case", 10e6, 0.340, true},
};

// Prints it to the nanosecond, so that two runs can be compared.
void ExpectNear(const char* what, const Link& link, double expected_s, double measured_s,
                double beside_s = 0) {
  printf("  %s, %s: closed form %.9f measured %.9f, %+.4f %%\n", link.profile, what, expected_s,
         measured_s, 100 * (measured_s / expected_s - 1));
  EXPECT_NEAR(measured_s, expected_s, kShare * expected_s + beside_s)
      << link.profile << ", " << what;
}

class VirtualTime : public testing::TestWithParam<Link> {
 protected:
  void SetUp() override {
    const char* guest = getenv("LONGHAUL_GUEST");
    if (guest == nullptr || std::string(guest) != "virtual") {
      GTEST_SKIP() << "in virtual time only: make test-virtual";
    }
    if (!Long() && !GetParam().is_short) GTEST_SKIP() << "in the long form: make test-virtual";
  }
};

TEST_P(VirtualTime, AnIdleEchoTakesTwoDelaysAndItsOwnTimeTwice) {
  const Link& link = GetParam();
  WithEmulator(EmulatorKind::kNetem, *UniformTopology(link.profile, 2), [&](Emulator& emulator) {
    const auto rtt = ProbeRtt(emulator, 0, 1, /*count=*/5, absl::Seconds(1));
    ASSERT_TRUE(rtt.ok()) << rtt.status();
    const double echo_s = 98 * 8 / link.bits_per_s;
    // Not the slowest: the kernel begins to stamp echoes only behind the first one that asks for it.
    for (const absl::Duration measured : {rtt->min, rtt->median}) {
      ExpectNear("echo", link, link.rtt_s + 2 * echo_s, absl::ToDoubleSeconds(measured));
    }
  });
}

// Once slow start and what it lost are over.
TEST_P(VirtualTime, RenoFillsTheLink) {
  const Link& link = GetParam();
  if (!Long() && link.bits_per_s > 10e6) GTEST_SKIP() << "in the long form: make test-virtual";
  WithEmulator(EmulatorKind::kNetem, *UniformTopology(link.profile, 2), [&](Emulator& emulator) {
    // The more segments the path holds, the longer what slow start lost is repeated.
    const auto rate = ProbeRate(emulator, 0, 1, absl::Seconds((Long() ? 60 : 40) * link.rtt_s),
                                absl::Seconds((Long() ? 20 : 10) * link.rtt_s), "reno");
    ASSERT_TRUE(rate.ok()) << rate.status();
    ExpectNear("seconds of a segment", link, kFrameBits / link.bits_per_s,
               kSegment * 8 / rate->goodput.value);
  });
}

// On a new connection ten segments go in the first round trip and twice as many in each that follows.
// What opens the next flight is the acknowledgement of a flight's first segment: receivers acknowledge
// the first sixteen of a connection at once, later ones in pairs. Behind the last flight comes the
// reply of one byte. Besides, each segment wakes a receiver that reads the clock, 256 ns each time.
TEST_P(VirtualTime, AFirstMessageGoesInFlightsThatDouble) {
  const Link& link = GetParam();
  const int64_t bytes = 131'072;
  const double frame_s = kFrameBits / link.bits_per_s;
  const double round_s = link.rtt_s + frame_s + kOverheadBytes * 8 / link.bits_per_s;
  double left = static_cast<double>(bytes), gone = 0, expected_s = 0;
  // A flight that takes longer than a round trip fills the link from then on.
  for (double flight = 10; left > flight * kSegment && flight * frame_s < round_s; flight *= 2) {
    left -= flight * kSegment;
    expected_s += round_s + (gone > 16 ? frame_s : 0);
    gone += flight;
  }
  const double frames = std::ceil(left / kSegment), reading_s = 1e-6 * (gone + frames);
  expected_s += (left + frames * kOverheadBytes) * 8 / link.bits_per_s + link.rtt_s +
                (kOverheadBytes + 1) * 8 / link.bits_per_s;
  WithEmulator(EmulatorKind::kNetem, *UniformTopology(link.profile, 2), [&](Emulator& emulator) {
    const auto time = MessageTime(emulator, 0, 1, bytes, /*rounds=*/1, "reno", /*warm_up=*/0);
    ASSERT_TRUE(time.ok()) << time.status();
    ExpectNear("first message", link, expected_s, absl::ToDoubleSeconds(*time), reading_s);
  });
}

// A window that was kept leaves at once.
TEST_P(VirtualTime, AWarmMessageTakesItsBytesAndARoundTrip) {
  const Link& link = GetParam();
  // Half a queue's: no window loses anything.
  const auto segments = std::floor(link.bits_per_s * link.rtt_s / kFrameBits / 2);
  const auto bytes = static_cast<int64_t>(segments * kSegment);
  const double expected_s = segments * kFrameBits / link.bits_per_s + link.rtt_s +
                            (kOverheadBytes + 1) * 8 / link.bits_per_s;
  WithEmulator(EmulatorKind::kNetem, *UniformTopology(link.profile, 2),
               {.congestion_control = "reno", .slow_start_after_idle = false},
               [&](Emulator& emulator) {
                 const auto time = MessageTime(emulator, 0, 1, bytes, /*rounds=*/2, "reno");
                 ASSERT_TRUE(time.ok()) << time.status();
                 ExpectNear("warm message", link, expected_s, absl::ToDoubleSeconds(*time));
               });
}

INSTANTIATE_TEST_SUITE_P(Links, VirtualTime, testing::ValuesIn(kLinks), [](const auto& test) {
  std::string name = test.param.profile;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

using LossInVirtualTime = VirtualTime;
TEST_P(LossInVirtualTime, IsNominalWithinThreeStandardErrorsAndEveryLossIsCounted) {
  constexpr double kLoss = 0.01;
  const int64_t count = Long() ? 50'000 : 5'000;
  Topology topology = *UniformTopology(GetParam().profile, 2);
  topology.paths[0].loss_prob = kLoss;
  WithEmulator(EmulatorKind::kNetem, topology, [&](Emulator& emulator) {
    const auto loss = ProbeLoss(emulator, 0, 1, count, Mbit(50));
    ASSERT_TRUE(loss.ok()) << loss.status();
    const auto counters = emulator.counters(0, 1);
    ASSERT_TRUE(counters.ok()) << counters.status();
    const int64_t lost = count - loss->received;
    printf("  %s, loss: %d of %d\n", GetParam().profile, static_cast<int>(lost),
           static_cast<int>(count));
    EXPECT_EQ(counters->drops_loss, lost);
    const double n = static_cast<double>(count);
    EXPECT_NEAR(static_cast<double>(lost), kLoss * n, 3 * std::sqrt(n * kLoss * (1 - kLoss)));
  });
}
// The kernel draws losses from the lab's seed, and each path its own.
TEST_P(LossInVirtualTime, IsTheSameWithTheSameSeed) {
  Topology topology = *UniformTopology(GetParam().profile, 2);
  topology.paths[0].loss_prob = topology.paths[1].loss_prob = 0.1;
  RunInLab([&] {
    // Of 50 datagrams, in turn from either node.
    const auto lost = [&](uint64_t seed) {
      std::vector<int64_t> counts;
      const auto emulator =
          BuildEmulator(EmulatorKind::kNetem, topology, {.congestion_control = "", .seed = seed});
      for (int i = 0; emulator.ok() && i < 20; ++i) {
        const auto loss = ProbeLoss(**emulator, i % 2, 1 - i % 2, 50, Mbit(50));
        counts.push_back(loss.ok() ? 50 - loss->received : -1);
      }
      printf("  seed %d, lost: %s\n", static_cast<int>(seed),
             testing::PrintToString(counts).c_str());
      return counts;
    };
    const std::vector<int64_t> first = lost(1);
    ASSERT_EQ(first.size(), 20u);
    EXPECT_EQ(lost(1), first);
    EXPECT_NE(lost(2), first);
    // Both paths alike would be one seed for both.
    int differ = 0;
    for (size_t i = 0; i < first.size(); i += 2) differ += first[i] != first[i + 1];
    EXPECT_GT(differ, 0);
  });
}
INSTANTIATE_TEST_SUITE_P(Links, LossInVirtualTime, testing::Values(kLinks[3]));

}  // namespace
}  // namespace longhaul
