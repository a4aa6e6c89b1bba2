// Traces of rates: what is read, what is refused, and when a frame leaves, worked out by hand.
#include "netem/topology/rate_trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "netem/emulators/tap_network.h"

namespace longhaul {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr char kTenLines[] = "1\n2\n2\n5\n9\n9\n10\n14\n15\n20\n";

std::shared_ptr<const RateTrace> Parsed(std::string_view text) {
  auto trace = ParseRateTrace(text, "t");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *trace;
}

TEST(RateTrace, IsReadAsMahimahiReadsIt) {
  const auto trace = Parsed(kTenLines);
  EXPECT_EQ(trace->opportunities_ms.size(), 10u);
  EXPECT_EQ(LengthOf(*trace), absl::Milliseconds(20));
  EXPECT_EQ(LongestWait(*trace), absl::Milliseconds(5));
  // 10 x 1500 bytes in 20 ms are 6 Mbit/s of packets; 1514 bytes on the wire for each.
  EXPECT_NEAR(InMbit(MeanRate(*trace, 1500)), 6.056, 1e-9);
  EXPECT_EQ(Parsed("7")->opportunities_ms, std::vector<uint32_t>{7}) << "no newline at the end";
  EXPECT_EQ(Parsed("\xef\xbb\xbf"
                   "7\r\n9\r\n")
                ->opportunities_ms,
            (std::vector<uint32_t>{7, 9}))
      << "as Windows' editors write it";
}

// 1514 bytes are 12,112 bits: at 12.112 Mbit/s one a millisecond, the first when it is whole.
TEST(RateTrace, SecondsAndMbitAreASampleALine) {
  const auto trace = Parsed("seconds, Mbit/s\n0, 12.112\r\n0.004,\t0\n0.01,6.056\n");
  EXPECT_EQ(trace->opportunities_ms, (std::vector<uint32_t>{1, 2, 3, 4, 12, 14, 16}));
  EXPECT_EQ(LengthOf(*trace), absl::Milliseconds(16)) << "the last as long as the one before it";
  EXPECT_NEAR(InMbit(MeanRate(*trace, 1500)), 7 * 12.112 / 16, 1e-9);
  // What is begun in one sample is finished in the next: 1.5 frames and 0.5.
  EXPECT_EQ(Parsed("s,Mbit/s\n0,18.168\n0.001,0\n0.005,6.056\n0.006,0")->opportunities_ms,
            (std::vector<uint32_t>{0, 6}));
  const auto alone = Parsed("s,mbit\n0,0.012112");
  EXPECT_EQ(alone->opportunities_ms, std::vector<uint32_t>{1000});
  // A rate of 0 at the end is part of the trace: 1 s of 12.112 Mbit/s, 3 s of nothing.
  const auto outage = Parsed("time_s,rate_mbit\n0,12.112\n1,0\n2,0\n3,0");
  EXPECT_EQ(LengthOf(*outage), absl::Seconds(4));
  EXPECT_EQ(LongestWait(*outage), absl::Milliseconds(3001));
  EXPECT_EQ(OpportunityNs(*outage, 999), 1000 * kMs);
  EXPECT_EQ(OpportunityNs(*outage, 1000), 4001 * kMs);
  EXPECT_EQ(FirstOpportunityAfter(*outage, 1000 * kMs), 1000);
  const RateRange range = RatesWithin(*outage, 1500, absl::Seconds(2));
  EXPECT_EQ(InMbit(range.least), 0);
  EXPECT_NEAR(InMbit(range.most), 6.056, 1e-9);
}

// 12.112 Mbit/s, one frame a millisecond, in every unit that a heading may name.
TEST(RateTrace, SamplesAreInTheUnitsOfTheirHeading) {
  for (const std::string text :
       {"seconds, Mbit/s\n0,12.112\n0.01,12.112\n", "time_ms,rate_kbps\n0,12112\n10,12112\n",
        "t [s],DL_bitrate (kbit/s)\n0,12112\n0.01,12112\n", "sec,bps\n0,12112000\n0.01,12112000\n",
        "Milliseconds,throughput_Mbps\n0,12.112\n10,12.112\n",
        "s,Gbit/s\n0,0.012112\n0.01,0.012112\n"}) {
    const auto trace = ParseRateTrace(text, "t");
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(LengthOf(**trace), absl::Milliseconds(20)) << text;
    EXPECT_NEAR(InMbit(MeanRate(**trace, 1500)), 12.112, 1e-9) << text;
  }
}

TEST(RateTrace, WhatIsNoFileOfReasonableSizeIsRefusedAtOnce) {
  std::string folder = testing::TempDir() + "/trace-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadRateTrace(folder + "/pipe").ok()) << "and does not wait for a writer";
  std::ofstream(folder + "/good") << kTenLines;
  EXPECT_TRUE(ReadRateTrace(folder + "/good").ok());
}

TEST(RateTrace, AWindowHasItsLeastAndItsMost) {
  const auto trace = Parsed(kTenLines);
  const auto packets = [&](BitsPerSecond rate, double ms) {
    return rate.value * ms / 1e3 / 8 / 1514;
  };
  // 4 ms: from 15 to 19 or from 10 to 14 there is nothing between; 1, 2, 2, 5 lie in one.
  const RateRange four = RatesWithin(*trace, 1500, absl::Milliseconds(4));
  EXPECT_NEAR(packets(four.least, 4), 0, 1e-9);
  EXPECT_NEAR(packets(four.most, 4), 4, 1e-9);
  // 2.5 turns: 3 + 10 + 9 lie between 10 and 60, 1 + 10 + 10 + 7 from 20 to 70.
  const RateRange long_one = RatesWithin(*trace, 1500, absl::Milliseconds(50));
  EXPECT_NEAR(packets(long_one.least, 50), 22, 1e-9);
  EXPECT_NEAR(packets(long_one.most, 50), 28, 1e-9);
  EXPECT_LE(long_one.least, MeanRate(*trace, 1500));
  EXPECT_GE(long_one.most, MeanRate(*trace, 1500));
}

TEST(RateTrace, OpportunitiesRepeatAtTheEnd) {
  const auto trace = Parsed(kTenLines);
  EXPECT_EQ(OpportunityNs(*trace, 9), 20 * kMs);
  EXPECT_EQ(OpportunityNs(*trace, 10), 21 * kMs);
  EXPECT_EQ(OpportunityNs(*trace, 25), (40 + 9) * kMs);
  EXPECT_EQ(FirstOpportunityAfter(*trace, -1), 0);
  EXPECT_EQ(FirstOpportunityAfter(*trace, 2 * kMs - 1), 1);
  EXPECT_EQ(FirstOpportunityAfter(*trace, 2 * kMs), 3);
  EXPECT_EQ(FirstOpportunityAfter(*trace, 20 * kMs), 10);
  EXPECT_EQ(FirstOpportunityAfter(*trace, 41 * kMs), 21);
}

struct Sent {
  int64_t at_us, packet_bytes;
};
// When each of the frames leaves, in us, with a path of `delay_ms` behind the trace.
std::vector<int64_t> Departures(std::shared_ptr<const RateTrace> trace, int delay_ms,
                                const std::vector<Sent>& frames, int64_t start_ns = 0) {
  Topology topology = *UniformTopology("colocated", 2);
  SetRateTrace(topology.paths[0], std::move(trace), topology.mtu);
  topology.paths[0].delay = absl::Milliseconds(delay_ms);
  EXPECT_TRUE(Validate(topology).ok()) << Validate(topology);
  TapNetwork network(topology, 1, start_ns);
  for (uint32_t i = 0; i < frames.size(); ++i) {
    const int64_t at_ns = start_ns + frames[i].at_us * 1000;
    EXPECT_TRUE(network.Arrive(at_ns, 0, 1, i, frames[i].packet_bytes + 14, 1));
  }
  std::vector<int64_t> left(frames.size(), -1);
  while (const auto due_ns = network.next_due_ns()) {
    while (const auto output = network.Next(*due_ns)) {
      if (output->delivered) left[output->handle] = (output->due_ns - start_ns) / 1000;
    }
  }
  EXPECT_EQ(network.counters(0, 1)->held_bytes, 0);
  return left;
}

TEST(RateTrace, TenLinesByPencil) {
  const std::vector<Sent> frames = {
      {0, 1500},      // the whole first one, at 1 ms
      {1'500, 3000},  // needs both at 2 ms
      {3'000, 500},   // 500 and 700 and 300 of the 600 share the one at 5 ms
      {3'000, 700},
      {3'000, 600},    // its last 300 take the first at 9 ms, whose other 1200 are lost
      {9'000, 1500},   // there at the very moment of both at 9 ms: too late; 10 ms
      {16'000, 1500},  // those at 14 and 15 passed unused; 20 ms
      {20'000, 1500},  // the trace begins anew: 20 + 1 ms
      {21'500, 1500},  // 20 + 2 ms
      {21'500, 40},    // the second at 20 + 2 ms
      {30'000, 1500},  // the one at 20 + 10 ms is missed; 20 + 14 ms
  };
  const std::vector<int64_t> pencil = {1'000,  2'000,  5'000,  5'000,  9'000, 10'000,
                                       20'000, 21'000, 22'000, 22'000, 34'000};
  EXPECT_EQ(Departures(Parsed(kTenLines), 0, frames), pencil);
  std::vector<int64_t> later = pencil;
  for (int64_t& us : later) us += 30'000;
  EXPECT_EQ(Departures(Parsed(kTenLines), 30, frames), later) << "the delay comes after the link";
  EXPECT_EQ(Departures(Parsed(kTenLines), 0, frames, /*start_ns=*/123'456'789'000), pencil)
      << "whenever the lab began";
}

// Twenty opportunities of the first are used; the second, which begins with the lab too, has one in 10 ms.
TEST(RateTrace, AnotherTraceIsNotReadFromWhereTheFirstWasLeft) {
  Topology topology = *UniformTopology("colocated", 2);
  topology.paths[0].delay = absl::ZeroDuration();
  SetRateTrace(topology.paths[0], Parsed("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), topology.mtu);
  TapNetwork network(topology, 1);
  const auto leaves_ms = [&](int64_t at_ns) {
    EXPECT_TRUE(network.Arrive(at_ns, 0, 1, 7, 1514, 1));
    int64_t left_ns = 0;
    while (const auto due_ns = network.next_due_ns()) {
      while (const auto output = network.Next(*due_ns)) left_ns = output->due_ns;
    }
    return left_ns / kMs;
  };
  for (int64_t ms = 0; ms < 20; ++ms) EXPECT_EQ(leaves_ms(ms * kMs + kMs / 2), ms + 1);
  SetRateTrace(topology.paths[0], Parsed("10\n"), topology.mtu);
  network.ChangePath(topology, topology.paths[0]);
  EXPECT_EQ(leaves_ms(21 * kMs), 30);
}

TEST(RateTrace, AFullLinkCarriesTheMeanAndNothingIsSavedUp) {
  // As an LTE link: between 0 and 40 opportunities in 100 ms, from a fixed rule.
  std::string text;
  for (int i = 0; i < 600; ++i) {
    const int count = static_cast<int>(20 + 20 * std::sin(i * 0.37) * std::cos(i * 0.11));
    for (int k = 0; k < count; ++k) text += std::to_string(i * 100 + k * 100 / 40) + "\n";
  }
  const auto trace = Parsed(text + "60000\n");
  Topology topology = *UniformTopology("colocated", 2);
  SetRateTrace(topology.paths[0], trace, topology.mtu);
  topology.paths[0].queue = QueueDepth{QueueDepth::Unit::kPackets, 100};
  TapNetwork network(topology, 1);
  const int64_t period_ns = absl::ToInt64Nanoseconds(LengthOf(*trace));
  int64_t now_ns = 0, delivered = 0;
  for (uint32_t i = 0; now_ns < 2 * period_ns; ++i) {
    network.Arrive(now_ns, 0, 1, i, 1514, 1);
    // Always more than the link carries: 24 Mbit/s where 4.8 is the most.
    now_ns += kMs / 2;
    while (const auto output = network.Next(now_ns)) delivered += output->delivered;
  }
  const auto opportunities = static_cast<int64_t>(trace->opportunities_ms.size());
  EXPECT_NEAR(static_cast<double>(delivered), static_cast<double>(2 * opportunities), 3)
      << "but for those at the edges";
}

}  // namespace
}  // namespace longhaul
