// What messages take on a TCP connection: by hand, and against messages that were sent and timed over a
// shaped link, one at a time and 3.2 s or more apart, or where it is said a second (Linux 6.18, reno, `tap`).
#include "pp_group/schedule/wire.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// A segment a second, a round trip of 20.
Wire OfSegments(double segments) {
  return {.busy_s = segments, .delay_s = 10, .segments = segments, .first_window = 4};
}

TEST(TakeAWire, WithoutAConnectionIsTheSameAtAllTimes) {
  Connection c;
  EXPECT_DOUBLE_EQ(Take({.busy_s = 1, .delay_s = 10}, 5, &c).arrived, 16);
  EXPECT_DOUBLE_EQ(Take({.busy_s = 1, .delay_s = 10}, 5, &c).arrived, 17) << "behind the first";
}

// 4, 8, 16 segments in a round trip each, and 32 that fill the path: 28 were sent, 22 are left. With the
// window of 16 38 were left, more than the socket's buffer takes; with that of 32 its sender is rid of all.
TEST(TakeAWire, BeginsSlowlyAndKeepsTheWindow) {
  Connection c;
  const Sent first = Take(OfSegments(50), 100, &c);
  EXPECT_DOUBLE_EQ(first.arrived, 100 + 3 * 20 + 22 + 10);
  EXPECT_DOUBLE_EQ(first.left, 160);
  EXPECT_DOUBLE_EQ(c.window, 54);
  EXPECT_DOUBLE_EQ(Take(OfSegments(50), 1000, &c).arrived, 1060) << "54 hold all of it";
}

// Five messages of 6 at once: 4, 8 and 16 go in a round trip each, whoever they belong to, and 2 of the
// last message in the fourth.
TEST(TakeAWire, MessagesThatFollowEachOtherShareAWindow) {
  Connection c;
  const double arrives[] = {100 + 20 + 2 + 10, 100 + 20 + 8 + 10, 100 + 40 + 6 + 10,
                            100 + 40 + 12 + 10, 100 + 60 + 2 + 10};
  for (const double arrived : arrives) {
    EXPECT_DOUBLE_EQ(Take(OfSegments(6), 100, &c).arrived, arrived);
  }
  EXPECT_DOUBLE_EQ(Take(OfSegments(30), 182, &c).arrived, 182 + 30 + 10) << "32 hold them";
}

// Beyond a threshold the window grows by one a round trip: 6, 7, 8, and 9 that do not fill the path.
TEST(TakeAWire, AWindowBelowThePathSendsItOnceARoundTrip) {
  Connection c{.free_at = 0, .window = 6, .threshold = 6};
  EXPECT_DOUBLE_EQ(Take(OfSegments(25), 100, &c).arrived, 100 + 3 * 20 + 4 + 10);
  EXPECT_DOUBLE_EQ(c.window, std::sqrt(6 * 6 + 2 * 25)) << "one for each window acknowledged";
}

// A round trip of 20 is taken for 30 where the window fills path and queue, so a timeout of 30.2 passes
// three times in a pause of 95: 64 / 8.
TEST(TakeAWire, APauseHalvesTheWindowWhereItRestarts) {
  Wire wire = OfSegments(30);
  wire.restarts = true;
  Connection c{.free_at = 0, .window = 64};
  EXPECT_DOUBLE_EQ(Take(wire, 95, &c).arrived, 95 + 2 * 20 + 6 + 10) << "8, 16 and 6";
  Connection short_pause{.free_at = 0, .window = 64};
  EXPECT_DOUBLE_EQ(Take(wire, 30.1, &short_pause).arrived, 30.1 + 30 + 10);
  Connection long_pause{.free_at = 0, .window = 64};
  EXPECT_DOUBLE_EQ(Take(wire, 1e9, &long_pause).arrived, 1e9 + 3 * 20 + 2 + 10) << "4, 8, 16 and 2";
}

// The window of 40 leaves at once, ten more than the queue holds, and 20 follow.
TEST(TakeAWire, WhatTheQueueDoesNotHoldIsRepeatedAndTheWindowFalls) {
  Wire wire = OfSegments(60);
  wire.queue_segments = 30;
  Connection c{.free_at = 0, .window = 40, .threshold = 40};
  EXPECT_DOUBLE_EQ(Take(wire, 100, &c).arrived, 100 + 60 + 10) << "the path is full all the while";
  EXPECT_DOUBLE_EQ(c.threshold, 20);
  EXPECT_DOUBLE_EQ(c.window, std::sqrt(20 * 20 + 2 * 20));
}

struct Link {
  const char* name;
  double bit_per_s, rtt_s, queue, bytes;
  bool whole_buffers;
  std::vector<double> measured_s;
  double apart_s = 10;
  bool restarts = false;
};
TEST(TakeAWire, TakesWhatMessagesOverAShapedLinkTook) {
  constexpr double kWithin[] = {0.05, 0.08, 0.15, 0.05};
  for (const Link& link :
       {Link{"continental-us", 100e6, 0.065, 537, 1717930, true, {0.494, 1.908, 0.233, 0.209}},
        Link{"transpacific", 50e6, 0.105, 434, 1717930, true, {0.844, 2.701, 0.378, 0.359}},
        Link{"global", 25e6, 0.230, 475, 1717930, false, {1.773, 3.045, 0.816, 0.753}},
        Link{"continental-us", 100e6, 0.065, 537, 4e6, true, {0.745, 0.394}},
        Link{"continental-us", 100e6, 0.065, 537, 20e6, true, {2.062}},
        Link{"restarts", 100e6, 0.065, 537, 1717930, true, {0.496, 0.185}, 1, true},
        Link{"restarts",
             100e6,
             0.065,
             537,
             1717930,
             true,
             {0.493, 0.497, 0.498, 0.495},
             3.2,
             true}}) {
    const double segments = link.bytes / 1448;
    Connection c;
    for (size_t message = 0; message < link.measured_s.size(); ++message) {
      const double ready = link.apart_s * static_cast<double>(message);
      const double engine_s = Take({.busy_s = segments * 1514 * 8 / link.bit_per_s,
                                    .delay_s = link.rtt_s / 2,
                                    .segments = segments,
                                    .queue_segments = link.queue,
                                    .restarts = link.restarts,
                                    .whole_buffers = link.whole_buffers},
                                   ready, &c)
                                  .arrived -
                              ready;
      std::printf("%s, message %zu: engine %.3f s, measured %.3f s, window behind it %.0f\n",
                  link.name, message + 1, engine_s, link.measured_s[message], c.window);
      EXPECT_NEAR(engine_s / link.measured_s[message], 1, kWithin[message]) << link.name;
    }
  }
}

// Whatever the link: never sooner than rate and delay allow, in order, and the window stays a number.
TEST(TakeAWire, NeverBeatsRateAndDelay) {
  std::mt19937_64 random(7);
  const auto between = [&](double low, double high) {  // evenly in decades
    return low * std::pow(high / low, std::uniform_real_distribution<double>()(random));
  };
  for (int link = 0; link < 3000; ++link) {
    Wire wire{.delay_s = link % 7 == 0 ? 0 : between(1e-6, 10),
              .queue_segments = link % 5 == 0 ? INFINITY : between(1, 1e5),
              .first_window = 10 * between(1, 1e4),
              .restarts = link % 2 == 0,
              .whole_buffers = link % 3 == 0};
    const double segment_s = link % 11 == 0 ? 0 : between(1e-8, 1);
    Connection c;
    double ready = 0, before = 0;
    for (int message = 0; message < 6; ++message) {
      wire.segments = between(1e-2, 1e5);
      wire.busy_s = wire.segments * segment_s;
      ready += between(1e-6, 1e4);
      const Sent sent = Take(wire, ready, &c);
      const double least = ready + wire.busy_s + wire.delay_s;
      ASSERT_TRUE(std::isfinite(sent.arrived) && std::isfinite(c.window)) << link;
      ASSERT_GE(sent.arrived, least * (1 - 1e-12)) << link;
      ASSERT_GE(sent.arrived, before) << link;
      ASSERT_GE(sent.left, ready) << link;
      ASSERT_LE(sent.left, sent.arrived * (1 + 1e-12)) << link;
      ASSERT_GE(c.window, 2) << link;
      before = sent.arrived;
    }
  }
}

}  // namespace
}  // namespace longhaul
