// What a script's faults make of links, two and more at a time: an emulator that is only told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/run/link_faults.h"
#include "netem/topology/rate_trace.h"
#include "tests/netem/told_emulator.h"

namespace longhaul {
namespace {

// Carriers may be told again what they are: faults that overlap are laid on each other anew.
class ToldAgain : public ToldEmulator {
 public:
  using ToldEmulator::ToldEmulator;
  absl::Status SetCarrier(int from, int to, Carrier carrier) override {
    down[{from, to}] = carrier == Carrier::kDown;
    return absl::OkStatus();
  }
};

// Two paths that differ: 100 Mbit/s and 10 ms there, 40 Mbit/s and 25 ms back.
Topology Links() {
  Topology topology = *UniformTopology("continental-us", 3);
  for (PathSpec& path : topology.paths) {
    if (path.from == 0 && path.to == 1) path.delay = absl::Milliseconds(10);
    if (path.from == 1 && path.to == 0) {
      path.rate = Mbit(40);
      path.delay = absl::Milliseconds(25);
    }
  }
  return topology;
}

Fault On(FaultKind what, int from, int to, double figure, double for_s = 0) {
  Fault fault;
  fault.what = what;
  fault.where = {.kind = FaultPlace::Kind::kLink, .from = from, .to = to};
  (what == FaultKind::kLinkRate ? fault.rate_mbit : fault.delay_ms) = figure;
  fault.for_s = for_s;
  return fault;
}

class LinkFaultScript : public testing::Test {
 protected:
  // "100 Mbit 10 ms", "down" behind it.
  std::string Path(int from, int to) {
    const PathSpec& path = *FindPath(emulator_.topology(), from, to);
    return fmt::format("{:g} Mbit {:g} ms{}", InMbit(*path.rate),
                       absl::ToDoubleMilliseconds(path.delay),
                       emulator_.down[{from, to}] ? " down" : "");
  }

  ToldAgain emulator_{Links()};
};

TEST_F(LinkFaultScript, TwoFaultsOfOnePathLieOnEachOtherAndEndApart) {
  LinkFaults faults({On(FaultKind::kLinkRate, 0, 1, 20, 5), On(FaultKind::kLinkDelay, 0, 1, 90, 3),
                     On(FaultKind::kLinkRate, 0, 1, 30, 1)},
                    emulator_);
  ASSERT_TRUE(faults.Strike(0, absl::Seconds(10)).ok());
  EXPECT_EQ(Path(0, 1), "20 Mbit 10 ms");
  ASSERT_TRUE(faults.Strike(1, absl::Seconds(11)).ok());
  EXPECT_EQ(Path(0, 1), "20 Mbit 90 ms");
  ASSERT_TRUE(faults.Strike(2, absl::Seconds(12)).ok());
  EXPECT_EQ(Path(0, 1), "30 Mbit 90 ms") << "the later of the script lies on top";
  EXPECT_EQ(faults.next_end(), absl::Seconds(13));
  ASSERT_TRUE(faults.MendDue(absl::Seconds(13) - absl::Nanoseconds(1)).ok());
  EXPECT_EQ(Path(0, 1), "30 Mbit 90 ms");
  ASSERT_TRUE(faults.MendDue(absl::Seconds(13)).ok());
  EXPECT_EQ(Path(0, 1), "20 Mbit 90 ms");
  ASSERT_TRUE(faults.MendDue(absl::Seconds(14)).ok());
  EXPECT_EQ(Path(0, 1), "20 Mbit 10 ms");
  ASSERT_TRUE(faults.MendDue(absl::Seconds(15)).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms");
  EXPECT_EQ(faults.next_end(), absl::InfiniteDuration());
  EXPECT_EQ(Path(1, 0), "40 Mbit 25 ms") << "the way back is another path";
}

TEST_F(LinkFaultScript, TwoOutagesOfAPathAreOneUntilTheLastEnds) {
  LinkFaults faults({On(FaultKind::kLinkDown, 0, 1, 0, 2), On(FaultKind::kLinkDown, 0, 1, 0, 4)},
                    emulator_);
  ASSERT_TRUE(faults.Strike(0, absl::Seconds(1)).ok());
  ASSERT_TRUE(faults.Strike(1, absl::Seconds(2)).ok());
  ASSERT_TRUE(faults.MendDue(absl::Seconds(3)).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms down");
  ASSERT_TRUE(faults.MendDue(absl::Seconds(6)).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms");
}

TEST_F(LinkFaultScript, BothWaysGetTheFigureAndTheirOwnBack) {
  Fault both = On(FaultKind::kLinkDelay, 1, 0, 70);
  both.where.both_ways = true;
  LinkFaults faults({both, On(FaultKind::kLinkDown, 1, 0, 0)}, emulator_);
  ASSERT_TRUE(faults.Strike(0, {}).ok());
  ASSERT_TRUE(faults.Strike(1, {}).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 70 ms");
  EXPECT_EQ(Path(1, 0), "40 Mbit 70 ms down");
  EXPECT_EQ(faults.next_end(), absl::InfiniteDuration()) << "neither ends by time";
  ASSERT_TRUE(faults.Mend(0).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms");
  EXPECT_EQ(Path(1, 0), "40 Mbit 25 ms down");
  ASSERT_TRUE(faults.Strike(0, {}).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms") << "a fault strikes once";
  ASSERT_TRUE(faults.MendAll().ok());
  EXPECT_EQ(Path(1, 0), "40 Mbit 25 ms");
}

TEST_F(LinkFaultScript, WhatIsDueAtOnceIsMendedAtOnce) {
  LinkFaults faults({On(FaultKind::kLinkRate, 0, 1, 20, 5), On(FaultKind::kLinkRate, 1, 0, 5, 5),
                     On(FaultKind::kLinkRate, 0, 2, 9, 6)},
                    emulator_);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(faults.Strike(i, absl::Seconds(1)).ok());
  ASSERT_TRUE(faults.MendDue(absl::Seconds(6)).ok());
  EXPECT_EQ(Path(0, 1), "100 Mbit 10 ms");
  EXPECT_EQ(Path(1, 0), "40 Mbit 25 ms");
  EXPECT_EQ(Path(0, 2), "9 Mbit 32.5 ms");
}

TEST_F(LinkFaultScript, ARateOfAFaultTakesATracesPlace) {
  Topology traced = Links();
  for (PathSpec& path : traced.paths) {
    if (path.from == 0) SetRateTrace(path, *ParseRateTrace("1\n", "t"), 1500);
  }
  ToldAgain emulator(traced);
  LinkFaults faults({On(FaultKind::kLinkRate, 0, 1, 20, 5)}, emulator);
  const auto has_trace = [&] { return FindPath(emulator.topology(), 0, 1)->rate_trace != nullptr; };
  ASSERT_TRUE(faults.Strike(0, {}).ok());
  EXPECT_FALSE(has_trace());
  ASSERT_TRUE(faults.MendAll().ok());
  EXPECT_TRUE(has_trace());
}

}  // namespace
}  // namespace longhaul
