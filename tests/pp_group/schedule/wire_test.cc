// What messages take on a TCP connection: by hand, and against messages that were sent and timed over a
// shaped link, one at a time and 3.2 s or more apart, or where it is said a second (Linux 6.18, `tap`, reno but for cubic's;
// both ways at once: Linux 6.12 in virtual time, netem).
#include "pp_group/schedule/wire.h"

#include <cmath>
#include <random>
#include <utility>
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

// A burst of 15 from the other end holds the acknowledgement of the first segment back until it has left, at
// 15, and it is here at 25; that of 16 follows 26 later. One way only, 20 and 20.
TEST(TakeAWire, AcknowledgementsWaitBehindTheOtherEndsBurst) {
  Wire wire = OfSegments(45);
  wire.queue_segments = 100;
  Connection alone{.free_at = 0, .window = 15, .threshold = 15}, c = alone;
  EXPECT_DOUBLE_EQ(Take(wire, 100, &alone).arrived, 100 + 20 + 20 + 14 + 10);
  wire.both_ways = true;
  EXPECT_DOUBLE_EQ(Take(wire, 100, &c).arrived, 100 + 25 + 26 + 14 + 10);
}

// 28 went with 4, 8 and 16; of those last 6 acknowledgements come together and 12 segments leave at once, of
// which the queue takes 11: the first one lost is the 40th, when 4 + 39 are the window.
TEST(TakeAWire, AcknowledgementsThatComeTogetherFloodTheQueue) {
  Wire wire = OfSegments(60);
  wire.queue_segments = 11;
  wire.both_ways = true;
  Connection c;
  Take(wire, 100, &c);
  EXPECT_DOUBLE_EQ(c.window, (4 + 39) / 2.0);
}

// By segments: the queue takes 20 of 58 at once, 2 follow and two more where buffers of 45 end in a short one
// (60 / 45). Their acknowledgements tell after two round trips; as many are repeated, and in each
// round trip twice as many: 3.33, 6.67, 13.33, and 14.67 of the last.
TEST(TakeAWire, RepeatsTwoForEachAcknowledgementWhereFewFollow) {
  Wire wire = OfSegments(60);
  wire.queue_segments = 20;
  wire.whole_buffers = false;
  Connection c{.free_at = 0, .window = 58, .threshold = 58};
  const double left = 38 - (2 + 60.0 / 45) * (1 + 2 + 4);
  EXPECT_DOUBLE_EQ(Take(wire, 100, &c).arrived, 100 + 2 * 20 + 3 * 20 + left + 10);
}

// 12 Mbit/s and 50 ms: a segment a millisecond, 50 on their way, and a queue of `queue`.
Wire Cubic(double segments, double queue) {
  return {.busy_s = segments * 1e-3,
          .delay_s = 0.025,
          .segments = segments,
          .queue_segments = queue,
          .control = Wire::Control::kCubic};
}

// RFC 9438: from 0.7 of 1000 it is back at 1000 after K = (0.3 x 1000 / 0.4)^(1/3) = 9.086 s, flat there,
// and 0.4 t^3 above it t seconds later. What a window is worth shows a round trip after it is set.
TEST(TakeAWire, CubicIsBackWhereItLostAfterTheThirdRoot) {
  const double back_s = std::cbrt(0.3 * 1000 / 0.4);
  EXPECT_NEAR(back_s, 9.086, 5e-4);
  const Connection lost{
      .free_at = 0, .window = 700, .threshold = 700, .most = 1000, .grows_from = 700};
  Connection c = lost;
  const Sent sent = Take(Cubic(1e3 * (back_s - 0.05), 2000), 100, &c);
  EXPECT_DOUBLE_EQ(sent.arrived, 100 + back_s - 0.05 + 0.025) << "the path is full all the while";
  EXPECT_NEAR(c.window, 1000, 1e-9);
  Take(Cubic(3e3, 2000), 1000, &c);  // seconds without a message do not count
  EXPECT_NEAR(c.window, 1000 + 0.4 * 27, 1e-6);
  Connection half = lost;
  Take(Cubic(1e3 * (back_s / 2 - 0.05), 2000), 100, &half);
  EXPECT_NEAR(half.window, 1000 - 300.0 / 8, 1e-9);
}

// A Reno that keeps 0.7 adds 3 x 0.3 / 1.7 a round trip: on short paths that is more.
TEST(TakeAWire, CubicIsNeverSlowerThanAReno) {
  Connection c{.free_at = 0, .window = 700, .threshold = 700, .most = 1000, .grows_from = 700};
  Wire wire = Cubic(2e3, 4000);
  wire.delay_s = 0.001;  // 1,000 round trips in 2 s
  Take(wire, 100, &c);
  EXPECT_NEAR(c.window, 700 + 1000 * 0.9 / 1.7, 1e-6);
}

// 180 leave at once, 80 more than the queue takes and 120 follow: it keeps 0.7 of them. Below where it
// lost before, it makes room: the next aim is 0.85 of what it had.
TEST(TakeAWire, CubicKeepsSevenTenthsAndMakesRoom) {
  Connection c{.free_at = 0, .window = 180, .threshold = 180};
  Take(Cubic(300, 100), 100, &c);
  EXPECT_DOUBLE_EQ(c.threshold, 0.7 * 180);
  EXPECT_DOUBLE_EQ(c.most, 180);
  c.window = c.threshold = 160;
  Take(Cubic(300, 100), 200, &c);
  EXPECT_DOUBLE_EQ(c.threshold, 0.7 * 160);
  EXPECT_DOUBLE_EQ(c.most, 0.85 * 160);
}

// 10, 20, and 40 that last longer than half a round trip: once 25 of them are acknowledged slow start ends
// with 65. The 245 segments behind that are 4.9 round trips with 5 % more each; no queue was full.
TEST(TakeAWire, CubicLeavesSlowStartBeforeItLoses) {
  Connection c;
  Wire wire = Cubic(300, 100);
  const Sent sent = Take(wire, 0, &c);
  EXPECT_NEAR(c.window, 65 * std::pow(1.05, 4.9), 1e-9);
  EXPECT_DOUBLE_EQ(sent.arrived, 3 * 0.05 + 0.230 + 0.025);
  Connection reno;
  wire.control = Wire::Control::kReno;
  EXPECT_DOUBLE_EQ(Take(wire, 0, &reno).arrived, sent.arrived + 0.05) << "a round trip to repeat";
  // Where acknowledgements are more than 2 ms apart the delay tells: 10 and 20 fill 10 segments' path,
  // whose queue then takes longer than an eighth of a round trip.
  Connection slow;
  Take({.busy_s = 200 * 5e-3,
        .delay_s = 0.025,
        .segments = 200,
        .queue_segments = 1e3,
        .control = Wire::Control::kCubic},
       0, &slow);
  EXPECT_DOUBLE_EQ(slow.threshold, 28);
}

struct Link {
  const char* name;
  double bit_per_s, rtt_s, queue, bytes;
  bool whole_buffers;
  std::vector<double> measured_s;
  double apart_s = 10;
  bool restarts = false;
  Wire::Control control = Wire::Control::kReno;
  bool both_ways = false;
};
constexpr double kNotHeld = 0;  // of a message that took now this and now that
// Two peers that send each other the same at once.
Link BothWays(const char* name, double bit_per_s, double rtt_s, double queue,
              std::vector<double> measured_s) {
  return {name,
          bit_per_s,
          rtt_s,
          queue,
          1717930,
          false,
          std::move(measured_s),
          10,
          false,
          Wire::Control::kReno,
          true};
}

TEST(TakeAWire, TakesWhatMessagesOverAShapedLinkTook) {
  constexpr double kWithin[] = {0.05, 0.08, 0.15, 0.05};
  for (const Link& link :
       {Link{"continental-us", 100e6, 0.065, 537, 1717930, true, {0.494, 1.908, 0.233, 0.209}},
        Link{"transpacific", 50e6, 0.105, 434, 1717930, true, {0.844, 2.701, 0.378, 0.359}},
        Link{"global", 25e6, 0.230, 475, 1717930, false, {1.773, 3.045, 0.816, 0.753}},
        Link{"continental-us", 100e6, 0.065, 537, 4e6, true, {0.745, 0.394}},
        Link{"continental-us", 100e6, 0.065, 537, 20e6, true, {2.062}},
        Link{"restarts", 100e6, 0.065, 537, 1717930, true, {0.496, 0.185}, 1, true},
        Link{"restarts", 100e6, 0.065, 537, 1717930, true, {0.493, 0.497, 0.498, 0.495}, 3.2, true},
        // Means of two passes on Linux 6.18, chosen for the connection alone.
        Link{"continental-us, cubic",
             100e6,
             0.065,
             537,
             1717930,
             true,
             {0.500, kNotHeld, kNotHeld},
             4,
             false,
             Wire::Control::kCubic},
        Link{"transpacific, cubic",
             50e6,
             0.105,
             434,
             1717930,
             true,
             {0.831, kNotHeld, 0.357},
             4,
             false,
             Wire::Control::kCubic},
        Link{"global, cubic",
             25e6,
             0.230,
             475,
             1717930,
             false,
             {1.790, kNotHeld, 0.718},
             4,
             false,
             Wire::Control::kCubic},
        Link{"continental-us, cubic",
             100e6,
             0.065,
             537,
             20e6,
             true,
             {2.088},
             6,
             false,
             Wire::Control::kCubic},
        BothWays("continental-us", 100e6, 0.065, 537, {0.497, 0.282, 0.241, 0.241}),
        BothWays("transatlantic", 100e6, 0.075, 619, {0.557, 0.332, 0.260, 0.256}),
        BothWays("simulator-default", 100e6, 0.1, 826, {0.718, 0.317, 0.322, 0.294}),
        BothWays("transpacific", 50e6, 0.105, 434, {0.844, 0.496, 0.445, 0.445}),
        BothWays("global", 25e6, 0.23, 475, {1.808, kNotHeld, 0.920, 0.919}),
        BothWays("worst-case", 10e6, 0.34, 281, {3.593, 2.280, 2.452, 2.280})}) {
    const double segments = link.bytes / 1448;
    Connection c;
    for (size_t message = 0; message < link.measured_s.size(); ++message) {
      const double ready = link.apart_s * static_cast<double>(message);
      const double engine_s = Take({.busy_s = segments * 1514 * 8 / link.bit_per_s,
                                    .delay_s = link.rtt_s / 2,
                                    .segments = segments,
                                    .queue_segments = link.queue,
                                    .control = link.control,
                                    .restarts = link.restarts,
                                    .whole_buffers = link.whole_buffers,
                                    .both_ways = link.both_ways},
                                   ready, &c)
                                  .arrived -
                              ready;
      std::printf("%s, message %zu: engine %.3f s, measured %.3f s, window behind it %.0f\n",
                  link.name, message + 1, engine_s, link.measured_s[message], c.window);
      if (link.measured_s[message] == kNotHeld) continue;
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
              .control = link % 4 < 2 ? Wire::Control::kReno : Wire::Control::kCubic,
              .restarts = link % 2 == 0,
              .whole_buffers = link % 3 == 0,
              .both_ways = link % 2 == 1};
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
