// A connection segment by segment: by hand where one frame is lost, against the closed form of wire.h where
// none is, and against the formula of Mathis et al. where many are.
#include "pp_group/schedule/tcp_sender.h"

#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "pp_group/schedule/tcp_connection.h"
#include "pp_group/schedule/wire.h"

namespace longhaul {
namespace {

// The least key by which of the first `frames` that a connection sends those alone are lost.
FrameLoss Losing(const std::vector<int>& lost, int frames) {
  FrameLoss loss{.prob = lost.empty() ? 0.001 : 1.0 / frames * static_cast<double>(lost.size())};
  for (;; ++loss.key) {
    FrameFates fates;
    std::vector<int> fallen;
    for (int frame = 0; frame < frames; ++frame) {
      if (fates.Lost(loss)) fallen.push_back(frame);
    }
    if (fallen == lost) return loss;
  }
}

// A millisecond a segment, 50 ms one way.
TcpPath Path(double first_window, FrameLoss loss = {}) {
  return {.segment_s = 1e-3, .delay_s = 0.05, .loss = loss, .first_window = first_window};
}
double Arrives(TcpConnection& c, const TcpPath& path, double ready, double segments) {
  return c.Send(path, ready, segments).back().arrived;
}

// Segments 0 to 19 are there from 51 ms on, a millisecond each. The third behind the lost one, 7, is there at
// 58 and told of at 108; the lost one leaves at once and is there behind its millisecond.
TEST(TcpSender, ThreeSegmentsBehindALostOneTellOfItAndTheWindowHalves) {
  TcpConnection c;
  const TcpPath path = Path(20, Losing({4}, 25));
  EXPECT_NEAR(Arrives(c, path, 0, 20), 0.107 + 0.001 + 0.05, 1e-9);
  c.Send(path, 10, 1);
  EXPECT_EQ(c.window(), 12) << "half of 20 and the four told of before";
  TcpConnection cubic;
  TcpPath other = path;
  other.control = CongestionControl::kCubic;
  Arrives(cubic, other, 0, 20);
  cubic.Send(other, 10, 1);
  EXPECT_EQ(cubic.window(), 16) << "0.7 of them";
}

// One behind it alone: an eighth of the smoothed round trip, and two ticks, may yet bring it.
TEST(TcpSender, OneSegmentBehindALostOneTellsLater) {
  TcpConnection c;
  const double there = Arrives(c, Path(20, Losing({18}, 25)), 0, 20);
  EXPECT_GT(there, 0.119 + 0.1 / 8 + 0.008 + 0.051);
  EXPECT_LT(there, 0.119 + 0.12 / 8 + 0.008 + 0.051);
}

// Nothing behind it: a probe after two round trips, or what a timeout is, if that is sooner. Of one that is
// lost as well, the timeout; of its repetition, twice as long.
TEST(TcpSender, ALostEndWaitsForAProbeAndThenForTimeouts) {
  TcpConnection one, two, three;
  const double probe = Arrives(one, Path(20, Losing({18, 19}, 25)), 0, 20);
  EXPECT_GT(probe, 0.118 + 2 * 0.1 + 0.008 + 0.05) << "the probe tells of the one before it";
  EXPECT_LT(probe, 0.118 + 0.3) << "sooner than a timeout";
  const double timeout = Arrives(two, Path(4, Losing({3, 4}, 9)), 0, 4);
  EXPECT_GT(timeout, 0.1 + 0.3 + 0.05);
  const double twice = Arrives(three, Path(4, Losing({3, 4, 5}, 9)), 0, 4);
  EXPECT_GT(twice, timeout + 0.3);
  EXPECT_LT(twice, timeout + 2 * 0.35);
}

// What comes behind a lost frame is there no sooner than that one; and what follows it tells of it sooner
// than a probe would.
TEST(TcpSender, MessagesAreThereInOrderAndTellOfThoseBefore) {
  TcpConnection c;
  const TcpPath path = Path(20, Losing({4}, 30));
  const double alone = Arrives(c, path, 0, 5);
  EXPECT_GT(alone, 0.25);
  const auto& both = c.Send(path, 0.02, 6);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NEAR(both[0].arrived, 0.02 + 0.001 + 0.1 + 0.051, 1e-9);
  EXPECT_EQ(both[1].arrived, both[0].arrived);
}

// 2 ms behind a lost frame its repetition is lost: the segments sent after it tell, not a timeout.
TEST(TcpSender, ALostRepetitionIsToldOfByWhatWasSentBehindIt) {
  TcpConnection c;
  const double once = Arrives(c, Path(40, Losing({4}, 85)), 0, 80);
  TcpConnection again;
  // Of 40 that leave at once the 41st frame is the repetition.
  const double twice = Arrives(again, Path(40, Losing({4, 40}, 85)), 0, 80);
  EXPECT_LT(twice, once + 0.25);
  EXPECT_GE(twice, once);
}

// Where nothing is lost it is the closed form: cold, warm, behind one another, closed by a pause.
TEST(TcpSender, IsTheClosedFormWhereNothingIsLost) {
  struct Sent {
    double ready, segments;
  };
  for (const std::vector<Sent>& messages :
       {std::vector<Sent>{{0, 300}, {5, 400}},
        std::vector<Sent>{{0, 30}, {0, 30}, {0.01, 60}, {9, 90}},
        std::vector<Sent>{{0, 8.5}, {0.02, 8.5}, {0.04, 8.5}, {0.2, 8.5}}}) {
    for (const auto control : {CongestionControl::kReno, CongestionControl::kCubic}) {
      for (const bool restarts : {false, true}) {
        Connection closed;
        TcpConnection c;
        TcpPath path = Path(10);
        path.queue_segments = 1000;
        path.control = control;
        path.restarts = restarts;
        for (const Sent& m : messages) {
          const double want = Take({.busy_s = m.segments * 1e-3,
                                    .delay_s = 0.05,
                                    .segments = m.segments,
                                    .queue_segments = 1000,
                                    .control = control,
                                    .restarts = restarts,
                                    .whole_buffers = false},
                                   m.ready, &closed)
                                  .arrived;
          EXPECT_NEAR(Arrives(c, path, m.ready, m.segments) - m.ready, want - m.ready,
                      0.02 * (want - m.ready))
              << m.segments << " at " << m.ready << (restarts ? ", restarts" : "");
        }
      }
    }
  }
}

// Mathis, Semke, Mahdavi and Ott 1997: sqrt(3 / 2p) segments a round trip, for Reno with an acknowledgement for
// each segment; losses in one round trip count once and timeouts not at all.
TEST(TcpSender, ALongMessageIsAsFastAsMathisSays) {
  for (const double prob : {0.001, 0.003, 0.01}) {
    double segments = 0, seconds = 0;
    for (uint64_t key = 1; key <= 5; ++key) {
      TcpConnection c;
      TcpPath path = Path(10, {.prob = prob, .key = key});
      path.segment_s = 1e-6;
      const double warm = Arrives(c, path, 0, 2e4);
      seconds += Arrives(c, path, warm, 5e4) - warm;
      segments += 5e4;
    }
    const double formula = std::sqrt(1.5 / prob) / 0.1;
    std::printf("loss %g: %.1f segments a second, Mathis %.1f\n", prob, segments / seconds,
                formula);
    EXPECT_NEAR(segments / seconds / formula, 1, 0.15) << prob;
  }
}

// A window of ten is acknowledged in five answers: without some of them the next one leaves later.
TEST(TcpSender, LostAcknowledgementsHoldTheWindowUpAndLoseNothing) {
  TcpConnection whole, lossy;
  TcpPath path = Path(10);
  path.control = CongestionControl::kReno;
  const double none = Arrives(whole, path, 0, 200);
  path.loss_back = {.prob = 0.5, .key = 3};
  const double half = Arrives(lossy, path, 0, 200);
  EXPECT_GT(half, none + 0.002);
  EXPECT_LT(half, none + 0.3) << "they are cumulative";
}

TEST(TcpSender, EqualKeysGiveEqualTimesAndOthersOthers) {
  const auto there = [](uint64_t key) {
    TcpConnection c;
    std::vector<double> times;
    for (int m = 0; m < 20; ++m) {
      times.push_back(Arrives(c, Path(10, {.prob = 0.02, .key = key}), 0.03 * m, 25));
    }
    return times;
  };
  EXPECT_EQ(there(3), there(3));
  EXPECT_NE(there(3), there(4));
}

// The first ten leave at once. Then two leave every 7 ms, 0.99 x 2.89 x 10 a round trip, but for the first
// two, which have half of that for the pause before: from 101 ms on, as acknowledgements come.
TEST(TcpSender, BbrPacesWhatItSends) {
  TcpConnection c;
  TcpPath path = Path(10);
  path.control = CongestionControl::kBbr;
  const double pair_s = 2 / (0.99 * 739 / 256 * 10 / 0.1);
  EXPECT_NEAR(Arrives(c, path, 0, 20), 0.101 + 3.5 * pair_s + 0.002 + 0.05, 1e-6);
}

// Once it has seen what a path delivers it fills it, and a queue of a tenth of the path loses little.
TEST(TcpSender, BbrFillsAPath) {
  TcpConnection c;
  TcpPath path = Path(10);
  path.control = CongestionControl::kBbr;
  path.queue_segments = 100;
  const double warm = Arrives(c, path, 0, 5000);
  const double s = Arrives(c, path, warm, 20000) - warm;
  EXPECT_GT(s, 20);
  EXPECT_LT(s, 20 * 1.1);
}

// Four segments, and a pause: samples say 4 a round trip or so, and a message of 100 that follows goes at 2.89 of
// that. A window that was kept would bring it within 151 ms.
TEST(TcpSender, BbrIsSlowWhereTheProgramLimitsIt) {
  TcpConnection c;
  TcpPath path = Path(10);
  path.control = CongestionControl::kBbr;
  double ready = 0;
  for (; ready < 8; ready += 0.15) Arrives(c, path, ready, 4);
  const double s = Arrives(c, path, ready, 100) - ready;
  EXPECT_GT(s, 0.3);
  EXPECT_LT(s, 0.45) << "at the start's gain still";
}

// Ten seconds after the round trip was last seen to be least four segments go for 0.2 s: 50 messages of 30
// segments, 40 ms apart, never leave the path empty, and one of them takes so much longer.
TEST(TcpSender, BbrLooksForTheRoundTripEveryTenSeconds) {
  TcpConnection c;
  TcpPath path = Path(10);
  path.control = CongestionControl::kBbr;
  const auto slowest = [&](double from, double to) {
    double most = 0;
    for (double ready = from; ready < to; ready += 0.04) {
      most = std::max(most, Arrives(c, path, ready, 30) - ready);
    }
    return most;
  };
  slowest(0, 5);
  const double usual = slowest(5, 9.5);
  EXPECT_GT(slowest(9.5, 10.5), usual + 0.15);
}

// A burst of four on average, one frame of a hundred.
TEST(FrameFates, LoseAsManyAsTheyShallAndInBursts) {
  const auto shares = [](const FrameLoss& loss) {
    FrameFates fates;
    int lost = 0, behind = 0;
    bool before = false;
    constexpr int kFrames = 400000;
    for (int i = 0; i < kFrames; ++i) {
      const bool now = fates.Lost(loss);
      lost += now;
      behind += now && before;
      before = now;
    }
    return std::pair(lost / double{kFrames}, behind / static_cast<double>(lost));
  };
  const auto [single, single_behind] = shares({.prob = 0.01, .key = 5});
  EXPECT_NEAR(single, 0.01, 5e-4);
  EXPECT_NEAR(single_behind, 0.01, 6e-3);
  const double to_bad = 0.25 * 0.01 / 0.99;
  const auto [burst, burst_behind] =
      shares({.to_bad = to_bad, .to_good = 0.25, .loss_bad = 1, .loss_good = 0, .key = 5});
  EXPECT_NEAR(burst, 0.01, 1.5e-3);
  EXPECT_NEAR(burst_behind, 0.75, 0.03);
}

}  // namespace
}  // namespace longhaul
