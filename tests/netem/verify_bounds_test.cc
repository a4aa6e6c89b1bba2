// The bounds of the link gate, each from just inside and just outside, by hand: no lab, the samples
// are written here.
#include "netem/probes/verify_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "netem/lab_control/path_figures.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// Two nodes whose two directions are not alike: 10 and 30 ms, 20 and 50 Mbit/s.
Topology Pair() {
  Topology topology = *UniformTopology("continental-us", 2);
  topology.paths[0].delay = absl::Milliseconds(10);
  topology.paths[0].rate = Mbit(20);
  topology.paths[1].delay = absl::Milliseconds(30);
  topology.paths[1].rate = Mbit(50);
  return topology;
}

constexpr absl::Duration kNanosecond = absl::Nanoseconds(1);

RttSample Rtt(absl::Duration nominal, absl::Duration median, int received = 20) {
  RttSample rtt{};
  rtt.nominal = nominal;
  rtt.median = median;
  rtt.sent = 20;
  rtt.received = received;
  return rtt;
}

std::string OfRtt(const Topology& topology, const RttSample& rtt, int path = 0) {
  return ComplainOfRtt(topology, VerifyOptions{}, topology.paths[static_cast<size_t>(path)], rtt);
}

// The larger of 2 ms and 5 %: at 20 ms it is the one, at 100 ms the other.
TEST(VerifyBounds, ARoundTripMayBeOffByTwoMillisecondsOrATwentieth) {
  const Topology pair = Pair();
  for (const auto& [nominal, bound] : {std::pair(20, 2.0), {40, 2.0}, {100, 5.0}, {340, 17.0}}) {
    const absl::Duration want = absl::Milliseconds(nominal), most = absl::Milliseconds(bound);
    for (const int sign : {-1, 1}) {
      EXPECT_EQ(OfRtt(pair, Rtt(want, want + sign * most)), "") << nominal;
      EXPECT_NE(OfRtt(pair, Rtt(want, want + sign * (most + kNanosecond))), "") << nominal;
    }
  }
  EXPECT_EQ(OfRtt(pair, Rtt(absl::Milliseconds(100), absl::Milliseconds(106))),
            "idle round trip 106.000 ms, want 100.000 +- 5.000 ms");
}

// Jitter of 1 and 2 ms: 3 x 3 ms over the root of the echoes that came back, 16 or 4.
TEST(VerifyBounds, JitterOfBothWaysWidensTheBoundByTheEchoes) {
  Topology pair = Pair();
  pair.paths[0].jitter = absl::Milliseconds(1);
  pair.paths[1].jitter = absl::Milliseconds(2);
  pair.paths[0].loss_prob = 0.2;
  const absl::Duration want = absl::Milliseconds(20);
  for (const auto& [received, bound] : {std::pair(16, 2 + 2.25), {4, 2 + 4.5}}) {
    const absl::Duration most = absl::Milliseconds(bound);
    EXPECT_EQ(OfRtt(pair, Rtt(want, want + most, received)), "") << received;
    EXPECT_NE(OfRtt(pair, Rtt(want, want + most + kNanosecond, received)), "") << received;
  }
}

TEST(VerifyBounds, EveryEchoComesBackUnlessOneOfTheWaysLoses) {
  Topology pair = Pair();
  const absl::Duration want = absl::Milliseconds(40);
  EXPECT_EQ(OfRtt(pair, Rtt(want, want, 20)), "");
  EXPECT_EQ(OfRtt(pair, Rtt(want, want, 19)), "19 of 20 echoes came back");
  for (const size_t way : {0, 1}) {
    Topology lossy = pair;
    lossy.paths[way].loss_prob = 0.01;
    EXPECT_EQ(OfRtt(lossy, Rtt(want, want, 19)), "") << way;
    EXPECT_EQ(OfRtt(lossy, Rtt(want, want, 0)), "0 of 20 echoes came back") << way;
  }
  RttSample none = Rtt(want, absl::ZeroDuration(), 0);
  none.sent = 0;
  EXPECT_EQ(OfRtt(pair, none), "") << "nothing was asked";
}

// Opportunities 3 ms apart on the way there, 7 ms on the way back: up to 10 ms later, never
// earlier.
TEST(VerifyBounds, AnEchoMayWaitForTheTracesOfBothWays) {
  Topology pair = Pair();
  pair.paths[0].rate_trace = *ParseRateTrace("3\n6\n", "a");
  pair.paths[1].rate_trace = *ParseRateTrace("7\n", "b");
  EXPECT_EQ(MostTraceWait(pair, 0, 1), absl::Milliseconds(10));
  const absl::Duration want = absl::Milliseconds(40);
  EXPECT_EQ(OfRtt(pair, Rtt(want, want + absl::Milliseconds(12))), "");
  EXPECT_NE(OfRtt(pair, Rtt(want, want + absl::Milliseconds(12) + kNanosecond)), "");
  EXPECT_EQ(OfRtt(pair, Rtt(want, want - absl::Milliseconds(2))), "");
  EXPECT_NE(OfRtt(pair, Rtt(want, want - absl::Milliseconds(2) - kNanosecond)), "");
  pair.paths.resize(1);
  EXPECT_EQ(MostTraceWait(pair, 0, 1), absl::Milliseconds(3));
}

std::string OfRate(const Topology& topology, double bit_per_s, double nominal = 1e6,
                   absl::Duration measured_for = absl::Seconds(2)) {
  return ComplainOfRate(topology, VerifyOptions{}, topology.paths[0],
                        {{nominal}, {bit_per_s}, "udp", measured_for});
}

// One bit beside the bound is out of it.
void ExpectRateWithin(const Topology& topology, double least, double most, double nominal = 1e6,
                      absl::Duration measured_for = absl::Seconds(2)) {
  EXPECT_EQ(OfRate(topology, least + 1, nominal, measured_for), "");
  EXPECT_NE(OfRate(topology, least - 1, nominal, measured_for), "");
  EXPECT_EQ(OfRate(topology, most - 1, nominal, measured_for), "");
  EXPECT_NE(OfRate(topology, most + 1, nominal, measured_for), "");
}

TEST(VerifyBounds, AGoodputMayBeOffByATwentieth) {
  ExpectRateWithin(Pair(), 950'000, 1'050'000);
  EXPECT_EQ(OfRate(Pair(), 900'000), "goodput 0.9 Mbit/s (udp, 2.0 s), want 0.95 to 1.05 Mbit/s");
}

// 1.1 times the rate is offered: of 20 % lost arrive 0.88, of 5 % the rate is full all the same.
TEST(VerifyBounds, LossThinsWhatIsOfferedAndAFullLinkStaysFull) {
  Topology pair = Pair();
  pair.paths[0].loss_prob = 0.2;
  ExpectRateWithin(pair, 0.95 * 880'000, 1.05 * 880'000);
  pair.paths[0].loss_prob = 0.05;
  ExpectRateWithin(pair, 950'000, 1'050'000);
  // Behind an uplink of the path's own rate, or less, what is lost is lost from that.
  pair.paths[0].loss_prob = 0.2;
  pair.nodes[0].access = AccessSpec{.up = Mbit(20), .down = Mbit(90)};
  ExpectRateWithin(pair, 0.95 * 800'000, 1.05 * 800'000);
  pair.nodes[0].access->up = Mbit(21);
  ExpectRateWithin(pair, 0.95 * 880'000, 1.05 * 880'000);
}

// Six opportunities of 1500 bytes in 12 ms, 1514 on Ethernet each. The trace has no end, so that
// 12, 13, 14, 15 and 16 are within 6 ms, and after 4 there is but 8; of a whole turn one more or
// less may lie on the edges. `nominal` is the probe's payload of the mean: here all of it, or half.
TEST(VerifyBounds, ATraceIsJudgedByWhatItCarriesInTheTimeMeasured) {
  Topology pair = Pair();
  pair.paths[0].rate_trace = *ParseRateTrace("1\n2\n3\n4\n8\n12\n", "t");
  constexpr double kFrame = 1514 * 8;
  const double mean = 6 * kFrame / 0.012, least = 5 * kFrame / 0.012, most = 7 * kFrame / 0.012;
  const absl::Duration half_a_turn = absl::Milliseconds(6), a_turn = absl::Milliseconds(12);
  ExpectRateWithin(pair, 0.95 * kFrame / 0.006, 1.05 * 5 * kFrame / 0.006, mean, half_a_turn);
  ExpectRateWithin(pair, 0.95 * least, 1.05 * most, mean, a_turn);
  ExpectRateWithin(pair, 0.95 * least / 2, 1.05 * most / 2, mean / 2, a_turn);
  // Of what is lost the least is less; the most may come when nothing is.
  pair.paths[0].loss_prob = 0.2;
  ExpectRateWithin(pair, 0.95 * 0.8 * least, 1.05 * most, mean, a_turn);
  // A line beside it may be the narrower one at times: then only the most is a bound.
  for (const size_t node : {0, 1}) {
    pair.nodes[0].access.reset();
    pair.nodes[1].access.reset();
    pair.nodes[node].access = AccessSpec{.up = Mbit(90), .down = Mbit(90)};
    EXPECT_EQ(OfRate(pair, 1, mean, a_turn), "") << node;
    EXPECT_NE(OfRate(pair, 1.05 * most + 1, mean, a_turn), "") << node;
  }
}

TEST(VerifyBounds, ANoteSaysWhichStretchOfATraceWasJudged) {
  Topology pair = Pair();
  EXPECT_EQ(NoteOnRate(pair, pair.paths[0], {{1e6}, {1e6}, "udp", absl::Seconds(2)}), "");
  pair.paths[0].rate_trace = *ParseRateTrace("1000\n4000\n", "t");
  const double mean = 2 * 1514 * 8 / 4.0;
  EXPECT_THAT(NoteOnRate(pair, pair.paths[0], {{mean}, {mean}, "udp", absl::Seconds(2)}),
              HasSubstr("the trace lasts 4 s: 2.0 s of it carry 0 to 0.01211 Mbit/s, which is "
                        "what was judged, not its mean"));
  EXPECT_THAT(NoteOnRate(pair, pair.paths[0], {{mean}, {mean}, "udp", absl::Seconds(4)}),
              testing::EndsWith("which is what was judged"));
}

std::string OfLoss(const PathSpec& path, int64_t sent, int64_t lost) {
  return ComplainOfLoss(path, {MeanLoss(path), sent, sent - lost});
}

// p = 1 %, n = 10,000: 3 sqrt(0.0099 / 10,000) = 0.298 % and one datagram: 69.2 to 130.8 lost.
TEST(VerifyBounds, LossMayBeOffByThreeStandardErrorsAndADatagram) {
  PathSpec path = Pair().paths[0];
  path.loss_prob = 0.01;
  EXPECT_EQ(OfLoss(path, 10'000, 70), "");
  EXPECT_EQ(OfLoss(path, 10'000, 130), "");
  EXPECT_NE(OfLoss(path, 10'000, 69), "");
  EXPECT_EQ(OfLoss(path, 10'000, 131),
            "131 of 10000 datagrams lost, 1.310 %, want 1.000 +- 0.308 %");
  path.loss_prob = 0;
  EXPECT_EQ(OfLoss(path, 10'000, 0), "");
  EXPECT_NE(OfLoss(path, 10'000, 1), "") << "a path that loses nothing loses none";
}

// Good to bad 2 %, back 18 %: a tenth of the packets is lost. One packet's variance is 0.09, the
// memory of 0.8 adds 2 x 0.1 x 0.9 x 0.8 / 0.2 = 0.72: of 100 packets sqrt(0.81 / 100).
TEST(VerifyBounds, BurstsMakeLossLessSure) {
  PathSpec path = Pair().paths[0];
  path.burst_loss = BurstLoss{.to_bad = 0.02, .to_good = 0.18};
  EXPECT_DOUBLE_EQ(LossStandardError(path, 100), 0.09);
  path.burst_loss = BurstLoss{.to_bad = 0.02, .to_good = 0.18, .loss_bad = 0.6, .loss_good = 0.1};
  // p = 0.15; 0.1275 + 0.5^2 of the 0.72.
  EXPECT_DOUBLE_EQ(LossStandardError(path, 100), std::sqrt((0.1275 + 0.25 * 0.72) / 100));
}

// One millisecond beyond the nominal round trip, and three times the jitter of both ways.
TEST(VerifyBounds, TheTailMayBeAMillisecondLate) {
  Topology pair = Pair();
  PathVerdict verdict{.from = 0,
                      .to = 1,
                      .rtt = Rtt(absl::Milliseconds(40), absl::Milliseconds(40)),
                      .rate = {},
                      .loss = {},
                      .counters = {},
                      .ok = true,
                      .why = {},
                      .not_judged = {}};
  const auto judged = [&](absl::Duration p99) {
    verdict.rtt.p99 = p99;
    return VerdictJson(pair, VerifyOptions{}, verdict, PathFigures(pair, pair.paths[0]));
  };
  EXPECT_EQ(judged(absl::Milliseconds(41)).at("in_bounds"), true);
  const auto late = judged(absl::Milliseconds(41) + kNanosecond);
  EXPECT_EQ(late.at("in_bounds"), false);
  EXPECT_EQ(late.at("tail_in_bounds"), false);
  pair.paths[0].jitter = absl::Milliseconds(2);
  pair.paths[1].jitter = absl::Milliseconds(3);
  EXPECT_EQ(judged(absl::Milliseconds(56)).at("tail_in_bounds"), true);
  EXPECT_EQ(judged(absl::Milliseconds(56) + kNanosecond).at("tail_in_bounds"), false);
}

// 12,112 bits a frame: 216 ms at 56 kbit/s, 121 us at 100 Mbit/s.
TEST(VerifyBounds, ARateIsMeasuredForTenFramesOrNotAtAll) {
  EXPECT_EQ(TimeOfFrames(Mbit(0.056), 1500, 1), absl::Seconds(12'112 / 56e3));
  EXPECT_EQ(TimeOfFrames(Mbit(100), 9000, 5), absl::Seconds(5 * 72'112 / 100e6));
  const absl::Duration two = absl::Seconds(2);
  EXPECT_EQ(MeasuringTime(Mbit(100), 1500, two), two);
  EXPECT_EQ(MeasuringTime({60'560}, 1500, two), two) << "ten frames in two seconds";
  EXPECT_EQ(MeasuringTime({30'280}, 1500, two), absl::Seconds(4));
  EXPECT_EQ(MeasuringTime({12'112}, 1500, two), absl::Seconds(10));
  EXPECT_EQ(MeasuringTime({12'111}, 1500, two), std::nullopt);
  EXPECT_EQ(MeasuringTime({6'056}, 1500, absl::Seconds(20)), absl::Seconds(20)) << "was asked for";
}

// What a reader sees of the bounds is what was judged by.
TEST(VerifyBounds, StandBesideWhatWasMeasured) {
  Topology pair = Pair();
  pair.paths[0].loss_prob = 0.01;
  PathVerdict verdict{.from = 0,
                      .to = 1,
                      .rtt = Rtt(absl::Milliseconds(40), absl::Milliseconds(40)),
                      .rate = RateSample{{1e6}, {0.99e6}, "udp", absl::Seconds(2)},
                      .loss = LossSample{0.01, 10'000, 9'900},
                      .counters = {},
                      .ok = true,
                      .why = {},
                      .not_judged = {}};
  const auto json = VerdictJson(pair, VerifyOptions{}, verdict, PathFigures(pair, pair.paths[0]));
  EXPECT_EQ(json["rtt"]["least_median_ms"], 38.0);
  EXPECT_EQ(json["rtt"]["most_median_ms"], 42.0);
  EXPECT_EQ(json["rtt"]["most_p99_ms"], 41.0);
  EXPECT_DOUBLE_EQ(json["goodput"]["least_mbit"].get<double>(), 0.95);
  EXPECT_DOUBLE_EQ(json["goodput"]["most_mbit"].get<double>(), 1.05);
  EXPECT_NEAR(json["datagrams"]["loss_bound"].get<double>(), 0.003085, 1e-6);
  verdict.rate.reset();
  verdict.not_judged = "too slow";
  EXPECT_EQ(VerdictJson(pair, VerifyOptions{}, verdict, {})["goodput_note"], "too slow");
}

}  // namespace
}  // namespace longhaul
