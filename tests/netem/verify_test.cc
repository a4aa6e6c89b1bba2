#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "netem/probes/probe.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

VerifyOptions Quick() {
  VerifyOptions options;
  options.rate_measure = absl::Seconds(1);
  return options;
}

void ExpectAllOk(const Emulator& emulator, const VerifyOptions& options) {
  const absl::Time start = absl::Now();
  auto verdicts = VerifyLinks(emulator, options);
  ASSERT_TRUE(verdicts.ok()) << verdicts.status();
  for (const PathVerdict& v : *verdicts) {
    printf("  %d>%d rtt %.3f of %.3f ms, %s %.3f of %.3f Mbit/s, %ld packets %s\n", v.from, v.to,
           absl::ToDoubleMilliseconds(v.rtt.median), absl::ToDoubleMilliseconds(v.rtt.nominal),
           v.rate ? v.rate->congestion_control.c_str() : "-", v.rate ? InMbit(v.rate->goodput) : 0,
           v.rate ? InMbit(v.rate->nominal_goodput) : 0, v.counters.packets, v.why.c_str());
    EXPECT_TRUE(v.ok) << v.why;
    EXPECT_GT(v.counters.packets, 0);
  }
  printf("  took %.2f s\n", absl::ToDoubleSeconds(absl::Now() - start));
}

class VerifyLinksOn : public testing::TestWithParam<const char*> {};

TEST_P(VerifyLinksOn, FourNodesOfAProfileAreInBounds) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology(GetParam(), 4),
               [](const Emulator& emulator) { ExpectAllOk(emulator, Quick()); });
}
INSTANTIATE_TEST_SUITE_P(Profiles, VerifyLinksOn, testing::Values("continental-us", "worst-case"));

TEST(VerifyLinks, LossyAsymmetricLinksBehindAccessLinesAreInBounds) {
  Topology topology = *UniformTopology("transatlantic", 2);
  topology.nodes[0].access = AccessSpec{.up = Mbit(20), .down = Mbit(60)};
  for (PathSpec& path : topology.paths) {
    path.rate.reset();
    if (path.from == 0) path.delay = absl::Milliseconds(10);
    if (path.from == 1) path.loss_prob = 0.01;
  }
  WithEmulator(EmulatorKind::kTap, topology, [](const Emulator& emulator) {
    VerifyOptions options = Quick();
    options.rate_warm_up =
        absl::Seconds(3);  // a busy machine's jitter ends cubic's slow start early
    ExpectAllOk(emulator, options);
  });
}

// 56 kbit/s and 150 ms: an echo takes 14 ms, a full frame 216 ms, and 64 of them wait before it is
// full. All of it in bounds, and its loss is measured behind an empty queue.
TEST(VerifyLinks, ASlowLinkIsInBoundsAndOneThatIsSlowerStillIsNotJudged) {
  Topology topology = *UniformTopology("transatlantic", 2);
  for (PathSpec& path : topology.paths) {
    path.rate = Mbit(path.from == 0 ? 0.056 : 0.012);
    path.delay = absl::Milliseconds(75);
  }
  WithEmulator(EmulatorKind::kTap, topology, [](const Emulator& emulator) {
    VerifyOptions options = Quick();
    options.pings = 5;
    options.loss_datagrams = 2;
    options.pairs = {{0, 1}};
    const auto there = VerifyLinks(emulator, options);
    ASSERT_TRUE(there.ok()) << there.status();
    EXPECT_TRUE(there->front().ok) << there->front().why;
    EXPECT_EQ(there->front().loss->received, 2);
    EXPECT_EQ(there->front().not_judged, "");
    options.loss_datagrams = 0;
    options.pairs = {{1, 0}};
    const auto back = VerifyLinks(emulator, options);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->front().ok) << back->front().why;
    EXPECT_FALSE(back->front().rate.has_value());
    EXPECT_THAT(back->front().not_judged,
                HasSubstr("too slow to judge: a full frame takes 1.01 s"));
  });
}

TEST(VerifyLinks, OutOfBoundsSaysMeasuredBoundAndWhatToDo) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), [](const Emulator& emulator) {
    VerifyOptions options;
    options.measure_rate = false;
    options.rtt_tolerance = absl::Nanoseconds(1);  // nothing real holds this
    options.rtt_tolerance_fraction = 0;
    options.attempts = 1;
    options.pairs = {{0, 1}};
    auto verdicts = VerifyLinks(emulator, options);
    ASSERT_TRUE(verdicts.ok()) << verdicts.status();
    ASSERT_EQ(verdicts->size(), 1u);
    EXPECT_FALSE(verdicts->front().ok);
    EXPECT_THAT(verdicts->front().why, HasSubstr("link w0 > w1: idle round trip "));
    EXPECT_THAT(verdicts->front().why, HasSubstr("want 20.002 +- 0.000 ms"));
    options.pairs = {{0, 0}};
    EXPECT_FALSE(VerifyLinks(emulator, options).ok());
  });
}

}  // namespace
}  // namespace longhaul
