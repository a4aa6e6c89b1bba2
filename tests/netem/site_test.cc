// Several nodes behind one site's access line, on every emulator that this machine can run: among
// themselves they have a LAN, and what they send out and take in shares one line. Judged as
// acceptance_test.cc says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/node_setup.h"
#include "netem/probes/probe.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"
#include "tests/netem/traffic.h"
#include "tests/netem/wake_control.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr int kA = 0, kB = 1, kC = 2, kD = 3;

// a and b behind one line of 40 Mbit/s up and 20 down; c and d elsewhere, 13 ms from everybody (a
// round trip that is no multiple of the probe's 10 ms, so that on one CPU no reply meets a
// request).
Topology TwoInASite() {
  Topology topology{.profile = "site", .nodes = {}, .paths = {}};
  topology.sites = {{"paris", AccessSpec{.up = Mbit(40), .down = Mbit(20)}}};
  topology.nodes = {
      {"a", std::nullopt, 0}, {"b", std::nullopt, 0}, {"c", std::nullopt}, {"d", std::nullopt}};
  for (int from = kA; from <= kD; ++from) {
    for (int to = kA; to <= kD; ++to) {
      if (from == to || (from == kD && to == kC)) continue;
      const bool lan = from <= kB && to <= kB;
      topology.paths.push_back({.from = from,
                                .to = to,
                                .rate = std::nullopt,
                                .delay = absl::Milliseconds(lan ? 0 : 13),
                                .jitter = absl::ZeroDuration()});
    }
  }
  return topology;
}

class Sites : public testing::TestWithParam<EmulatorKind> {};

TEST_P(Sites, LanIsWithoutFiguresAndTheLineIsCrossedByOthers) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    for (const auto& [from, to] : {std::pair{kA, kB}, {kB, kA}, {kA, kC}, {kD, kB}}) {
      ExpectInBounds(CanJudgeRtt,
                     [&, from = from, to = to] { return RttInBounds(emulator, from, to); });
    }
  });
}

TEST_P(Sites, LanIsFasterThanTheLine) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] {
      auto rate = ProbeRate(emulator, kA, kB, absl::Seconds(1), absl::Seconds(2), "cubic");
      EXPECT_TRUE(rate.ok()) << rate.status();
      return Judge("LAN, Mbit/s", 0, InMbit(rate->goodput), 3 * 40, 1e6);
    });
  });
}

// Two flows at once, from two nodes of a site to two others or back.
bool ShareLine(const Emulator& emulator, const char* what, bool out) {
  const auto flow = [&](int inside, int outside) {
    return ProbeRate(emulator, out ? inside : outside, out ? outside : inside, absl::Seconds(3),
                     MeasureFor(), "cubic");
  };
  absl::StatusOr<RateSample> one = RateSample{}, two = RateSample{};
  std::thread other([&] { two = flow(kB, kD); });
  one = flow(kA, kC);
  other.join();
  EXPECT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  const double nominal = InMbit(one->nominal_goodput);
  const double least = std::min(InMbit(one->goodput), InMbit(two->goodput));
  const bool sum = Near(what, nominal, InMbit(one->goodput) + InMbit(two->goodput), 0.02 * nominal);
  return Judge("the lesser of two", nominal / 2, least, nominal / 5, nominal / 2 * 1.02) && sum;
}

TEST_P(Sites, WhatNodesSendOutSharesTheUplink) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] { return ShareLine(emulator, "sum up, Mbit/s", true); });
  });
}

TEST_P(Sites, WhatNodesTakeInSharesTheDownlink) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] { return ShareLine(emulator, "sum down, Mbit/s", false); });
  });
}

TEST_P(Sites, FullUplinkDoesNotDelayTheLan) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRtt, [&] {
      std::thread load([&] {
        auto rate = ProbeRate(emulator, kA, kC, absl::Seconds(1), absl::Seconds(2), "cubic");
        EXPECT_TRUE(rate.ok()) << rate.status();
      });
      absl::SleepFor(absl::Seconds(1));
      const bool ok = RttInBounds(emulator, kA, kB);
      load.join();
      return ok;
    });
  });
}

TEST_P(Sites, LanTakesFiguresAndChangesThem) {
  Topology topology = TwoInASite();
  for (PathSpec& path : topology.paths) {
    if (path.from != kA || path.to != kB) continue;
    path.delay = absl::Milliseconds(5);
    path.rate = Mbit(10);
  }
  WithEmulator(GetParam(), topology, [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRtt, [&] { return RttInBounds(emulator, kA, kB); });
    PathSpec path = *FindPath(emulator.topology(), kA, kB);
    path.delay = absl::Milliseconds(20);
    ASSERT_TRUE(emulator.ChangePath(path).ok());
    ExpectInBounds(CanJudgeRtt, [&] { return RttInBounds(emulator, kA, kB); });
    path = *FindPath(emulator.topology(), kC, kB);
    path.delay = absl::Milliseconds(30);
    ASSERT_TRUE(emulator.ChangePath(path).ok());
    ExpectInBounds(CanJudgeRtt, [&] { return RttInBounds(emulator, kC, kB); });
    ExpectInBounds(CanJudgeRtt, [&] { return RttInBounds(emulator, kC, kA); });
    ASSERT_TRUE(emulator.SetCarrier(kA, kB, Carrier::kDown).ok());
    EXPECT_EQ(ProbeRtt(emulator, kA, kB, 3, absl::Milliseconds(5))->received, 0);
    EXPECT_EQ(ProbeRtt(emulator, kA, kC, 3, absl::Milliseconds(5))->received, 3);
  });
}

TEST_P(Sites, EachPathIsCountedAndStrangersAreDropped) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    const auto packets = [&](int from, int to) { return emulator.counters(from, to)->packets; };
    const int64_t out = packets(kA, kC), in = packets(kC, kA), lan = packets(kA, kB);
    EXPECT_EQ(ProbeRtt(emulator, kA, kC, 5, absl::Milliseconds(5))->received, 5);
    EXPECT_EQ(packets(kA, kC) - out, 5);
    EXPECT_EQ(packets(kC, kA) - in, 5);
    EXPECT_EQ(packets(kA, kB) - lan, 0);
    EXPECT_EQ(packets(kB, kC), 0);
    const auto drops_after = [&](int from, int to, const std::string& source) {
      const int64_t before = emulator.unroutable_drops().value_or(-1);
      EXPECT_TRUE(SendSpoofed(emulator, from, to, source).ok());
      absl::SleepFor(absl::Milliseconds(300));
      return emulator.unroutable_drops().value_or(-1) - before;
    };
    EXPECT_EQ(drops_after(kA, kB, "10.9.9.9"), 1);
    EXPECT_EQ(drops_after(kA, kC, "10.9.9.9"), 1);
    EXPECT_EQ(drops_after(kA, kC, NodeAddress(kD)), 1);
    EXPECT_THAT(std::string(SendSpoofed(emulator, kD, kC, NodeAddress(kD)).message()),
                testing::HasSubstr("No route to host"));
    EXPECT_TRUE(emulator.health().ok()) << emulator.health();
  });
}

TEST_P(Sites, DeletedDeviceBehindTheLineIsNamed) {
  WithEmulator(GetParam(), TwoInASite(), [](Emulator& emulator) {
    ASSERT_TRUE(emulator.health().ok()) << emulator.health();
    auto s = InNamespace(emulator.node_netns_fd(kB), [] {
      auto netlink = Netlink::Open();
      return netlink.ok() ? netlink->DeleteDevice(kNodeDevice) : netlink.status();
    });
    ASSERT_TRUE(s.ok()) << s;
    const absl::Time end = absl::Now() + absl::Seconds(5);
    while (emulator.health().ok() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_THAT(std::string(emulator.health().message()), HasSubstr("node b"));
    EXPECT_EQ(ProbeRtt(emulator, kA, kC, 3, absl::Milliseconds(5))->received, 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Sites, testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                         [](const auto& test) { return std::string(ToString(test.param)); });

}  // namespace
}  // namespace longhaul
