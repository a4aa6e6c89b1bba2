// Managed queues and rate traces under real TCP: how long the queue stands, who is marked, and what
// a trace carries. On every emulator that can; judged as acceptance_test.cc does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>

#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/probes/probe.h"
#include "netem/topology/rate_trace.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"
#include "tests/netem/wake_control.h"

namespace longhaul {
namespace {

using Kind = QueueManagement::Kind;

// Node 0 behind a line of 20 Mbit/s whose queue holds 300 ms; 40 ms there and back.
Topology BehindALine(const QueueManagement& aqm) {
  Topology topology = *UniformTopology("regional", 2);
  topology.nodes[0].access = AccessSpec{.up = Mbit(20),
                                        .down = Mbit(20),
                                        .queue = QueueDepth{QueueDepth::Unit::kMilliseconds, 300},
                                        .aqm = aqm};
  for (PathSpec& path : topology.paths) {
    path.rate.reset();
    path.delay = absl::Milliseconds(20);
  }
  return topology;
}

// The same figures as a path's own.
Topology AsAPath(const QueueManagement& aqm) {
  Topology topology = *UniformTopology("regional", 2);
  for (PathSpec& path : topology.paths) {
    path.rate = Mbit(20);
    path.delay = absl::Milliseconds(20);
    path.queue = QueueDepth{QueueDepth::Unit::kMilliseconds, 300};
    path.aqm = aqm;
  }
  return topology;
}

// Round trips beside a bulk flow from 0 to 1, once its slow start is over.
RttSample RttBesideABulkFlow(const Emulator& emulator) {
  std::thread load([&] {
    auto rate = ProbeRate(emulator, 0, 1, absl::Seconds(1), absl::Seconds(6), "cubic");
    EXPECT_TRUE(rate.ok()) << rate.status();
  });
  absl::SleepFor(absl::Seconds(3));
  auto rtt = ProbeRtt(emulator, 0, 1, /*count=*/300, absl::Milliseconds(10));
  load.join();
  EXPECT_TRUE(rtt.ok()) << rtt.status();
  absl::SleepFor(absl::Milliseconds(500));
  return rtt.ok() ? *rtt : RttSample{};
}

void ExpectStandingQueue(EmulatorKind emulator_kind, const Topology& topology, Kind kind) {
  WithEmulator(emulator_kind, topology, [&](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] {
      const RttSample rtt = RttBesideABulkFlow(emulator);
      const double queue_ms = absl::ToDoubleMilliseconds(rtt.median) - 40;
      const std::string what = "standing queue, ms: " + std::string(ToString(kind));
      // Drop-tail: cubic holds between 0.7 and all of 340 ms. CoDel: about its target of 5 ms. The
      // echoes of FQ-CoDel are a flow of their own and wait for a frame or two.
      if (kind == Kind::kDropTail) return Judge(what.c_str(), 300, queue_ms, 150, 310);
      return Judge(what.c_str(), kind == Kind::kCodel ? 5 : 0, queue_ms, 0, InGuest() ? 25 : 15);
    });
  });
}

class Managed : public testing::TestWithParam<EmulatorKind> {};

TEST_P(Managed, DropTailFillsTheQueueOfALine) {
  ExpectStandingQueue(GetParam(), BehindALine({}), Kind::kDropTail);
}
TEST_P(Managed, CodelKeepsTheQueueOfALineNearItsTarget) {
  ExpectStandingQueue(GetParam(), BehindALine({.kind = Kind::kCodel}), Kind::kCodel);
}
TEST_P(Managed, FqCodelLetsAThinFlowPastABulkFlow) {
  ExpectStandingQueue(GetParam(), BehindALine({.kind = Kind::kFqCodel}), Kind::kFqCodel);
}

TEST(ManagedPath, CodelKeepsItsQueueNearTheTargetOnTap) {
  ExpectStandingQueue(EmulatorKind::kTap, AsAPath({.kind = Kind::kCodel}), Kind::kCodel);
}

LineCounters Uplink(const Emulator& emulator) {
  auto lines = emulator.line_counters();
  EXPECT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->size(), 2u);
  EXPECT_EQ(lines->front().name, "w0");
  EXPECT_TRUE(lines->front().is_up);
  return lines->front();
}

// What the queue of the uplink did to one bulk flow.
LineCounters AfterABulkFlow(const Emulator& emulator, const char* tcp_ecn) {
  for (int node : {0, 1}) {
    EXPECT_TRUE(InNamespace(emulator.node_netns_fd(node), [&] {
                  return WriteFile("/proc/sys/net/ipv4/tcp_ecn", tcp_ecn);
                }).ok());
  }
  const LineCounters before = Uplink(emulator);
  auto rate = ProbeRate(emulator, 0, 1, absl::Seconds(1), absl::Seconds(4), "cubic");
  EXPECT_TRUE(rate.ok()) << rate.status();
  LineCounters after = Uplink(emulator);
  after.packets -= before.packets;
  after.drops_queue -= before.drops_queue;
  after.drops_aqm -= before.drops_aqm;
  after.ecn_marks -= before.ecn_marks;
  printf("  tcp_ecn %s: %.3f Mbit/s, %d packets, %d marks, %d drops by CoDel, %d by a full queue\n",
         tcp_ecn, InMbit(rate->goodput), static_cast<int>(after.packets),
         static_cast<int>(after.ecn_marks), static_cast<int>(after.drops_aqm),
         static_cast<int>(after.drops_queue));
  return after;
}

TEST_P(Managed, AFlowWithEcnIsMarkedAndNotDropped) {
  WithEmulator(GetParam(), BehindALine({.kind = Kind::kCodel, .ecn = true}),
               [](Emulator& emulator) {
                 const LineCounters with = AfterABulkFlow(emulator, "1");
                 EXPECT_GT(with.packets, 1000);
                 EXPECT_GT(with.ecn_marks, 0);
                 EXPECT_EQ(with.drops_aqm, 0);
                 EXPECT_EQ(with.drops_queue, 0);
                 const LineCounters without = AfterABulkFlow(emulator, "0");
                 EXPECT_EQ(without.ecn_marks, 0);
                 EXPECT_GT(without.drops_aqm, 0);
               });
}

INSTANTIATE_TEST_SUITE_P(Links, Managed, testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                         [](const auto& test) { return std::string(ToString(test.param)); });

TEST(ManagedPath, TheKernelSaysThatTapDoesIt) {
  RunInLab([] {
    auto refused = BuildEmulator(EmulatorKind::kNetem, AsAPath({.kind = Kind::kCodel}));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(refused.status().message()).find("--emulator tap"), std::string::npos);
    auto chosen = ChooseEmulatorKind(std::nullopt, AsAPath({.kind = Kind::kCodel}));
    EXPECT_TRUE(chosen.ok() && *chosen == EmulatorKind::kTap);
  });
}

// A link as LTE is one: 2 to 22 Mbit/s, from a fixed rule; 4 s long.
std::shared_ptr<const RateTrace> LteLike() {
  std::string text;
  double owed = 0;
  for (int ms = 1; ms <= 4000; ++ms) {
    owed += 1 + 0.6 * std::sin(ms / 130.0) + 0.24 * std::sin(ms / 17.0);
    for (; owed >= 1; owed -= 1) text += std::to_string(ms) + "\n";
  }
  auto trace = ParseRateTrace(text + "4000\n", "lte-like");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *trace;
}

TEST(RateTraceOnTap, AFullLinkCarriesTheTracesMean) {
  Topology topology = *UniformTopology("regional", 2);
  SetRateTrace(topology.paths[0], LteLike(), topology.mtu);
  topology.paths[0].queue = QueueDepth{QueueDepth::Unit::kMilliseconds, 500};
  WithEmulator(EmulatorKind::kTap, topology, [&](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] {
      // The whole trace, twice: wherever it begins, that is the mean.
      auto rate = ProbeUdpRate(emulator, 0, 1, absl::Seconds(1), absl::Seconds(8));
      EXPECT_TRUE(rate.ok()) << rate.status();
      const double nominal = InMbit(rate->nominal_goodput);
      return Near("mean of a trace, Mbit/s", nominal, InMbit(rate->goodput), 0.01 * nominal);
    });
    // TCP, whose queue the trace empties and fills: at least nine tenths.
    ExpectInBounds(CanJudgeRate, [&] {
      auto rate = ProbeRate(emulator, 0, 1, absl::Seconds(3), absl::Seconds(8), "cubic");
      EXPECT_TRUE(rate.ok()) << rate.status();
      const double nominal = InMbit(rate->nominal_goodput);
      return Judge("cubic over a trace", nominal, InMbit(rate->goodput), 0.9 * nominal,
                   1.01 * nominal);
    });
  });
}

TEST(RateTraceOnTap, AShortProbeIsJudgedByWhatItsTimeCanCarry) {
  Topology topology = *UniformTopology("regional", 2);
  SetRateTrace(topology.paths[0], LteLike(), topology.mtu);
  WithEmulator(EmulatorKind::kTap, topology, [](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] {
      VerifyOptions options;
      options.rate_measure = absl::Seconds(1);
      auto verdicts = VerifyLinks(emulator, options);
      EXPECT_TRUE(verdicts.ok()) << verdicts.status();
      for (const PathVerdict& verdict : *verdicts) {
        if (!verdict.ok) printf("  %s\n", verdict.why.c_str());
      }
      return verdicts->front().ok;
    });
  });
}

}  // namespace
}  // namespace longhaul
