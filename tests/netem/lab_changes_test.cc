// Changes of a lab on a given clock, and what the emulator is told of them.
#include "netem/lab_control/lab_changes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/netem/told_emulator.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Time kStart = absl::UnixEpoch();
absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

struct Told {
  double at_s;
  std::string words;  // "": none, only time passes
};

// Whether the path a > b is down after each of them.
std::vector<bool> DownAfter(const std::vector<Told>& all) {
  ToldEmulator emulator(*UniformTopology("continental-us", 2));
  LabChanges changes(emulator, kStart);
  std::vector<bool> down;
  for (const Told& told : all) {
    changes.RunUntil(At(told.at_s));
    if (!told.words.empty()) {
      EXPECT_TRUE(changes.Set("w0>w1", {told.words}, At(told.at_s)).ok()) << told.words;
    }
    EXPECT_EQ(changes.IsDown({0, 1}), (emulator.down[{0, 1}]));
    EXPECT_FALSE((emulator.down[{1, 0}])) << "the way back is another path";
    down.push_back(emulator.down[{0, 1}]);
  }
  return down;
}

TEST(LabChanges, AnOutageEndsByItselfAtItsTime) {
  EXPECT_THAT(DownAfter({{1, "outage=3s"}, {3.999, ""}, {4, ""}}), ElementsAre(true, true, false));
}

TEST(LabChanges, AnOutageEndsNoOther) {
  // A longer one that began later, a shorter one within, the same end, and one after the other.
  EXPECT_THAT(DownAfter({{0, "outage=2s"}, {1, "outage=5s"}, {2, ""}, {5.9, ""}, {6, ""}}),
              ElementsAre(true, true, true, true, false));
  EXPECT_THAT(DownAfter({{0, "outage=5s"}, {1, "outage=2s"}, {3, ""}, {4.9, ""}, {5, ""}}),
              ElementsAre(true, true, true, true, false));
  EXPECT_THAT(DownAfter({{0, "outage=3s"}, {1, "outage=2s"}, {2.9, ""}, {3, ""}}),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(DownAfter({{0, "outage=1s"}, {1, ""}, {1.5, "outage=1s"}, {2.4, ""}, {2.5, ""}}),
              ElementsAre(true, false, true, true, false));
}

TEST(LabChanges, AnOutagesEndLeavesDownWhatWasTakenDown) {
  EXPECT_THAT(DownAfter({{0, "outage=2s"}, {1, "carrier=down"}, {3, ""}, {4, "carrier=up"}}),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(DownAfter({{0, "carrier=down"}, {1, "outage=1s"}, {3, ""}, {4, "carrier=up"}}),
              ElementsAre(true, true, true, false));
}

TEST(LabChanges, CarrierUpEndsOutagesAndTheirEndsDoNothingMore) {
  EXPECT_THAT(DownAfter({{0, "outage=5s"}, {1, "carrier=up"}, {2, "outage=9s"}, {6, ""}, {11, ""}}),
              ElementsAre(true, false, true, true, false));
}

// Every order of three outages and a carrier=down: up when the last of them is over, or never.
TEST(LabChanges, OverlapsInAllOrders) {
  std::vector<std::string> words = {"outage=1s", "outage=4s", "outage=9s", "carrier=down"};
  do {
    ToldEmulator emulator(*UniformTopology("continental-us", 2));
    LabChanges changes(emulator, kStart);
    double last_end = 0;
    const std::map<std::string, double> length = {
        {"outage=1s", 1}, {"outage=4s", 4}, {"outage=9s", 9}, {"carrier=down", 0}};
    for (size_t i = 0; i < words.size(); ++i) {
      const double at = 0.25 * static_cast<double>(i);
      changes.RunUntil(At(at));
      ASSERT_TRUE(changes.Set("w0>w1", {words[i]}, At(at)).ok());
      last_end = std::max(last_end, at + length.at(words[i]));
    }
    changes.RunUntil(At(last_end));
    EXPECT_TRUE((emulator.down[{0, 1}])) << "taken down without an end";
    ASSERT_TRUE(changes.Set("w0>w1", {"carrier=up"}, At(last_end)).ok());
    EXPECT_FALSE((emulator.down[{0, 1}]));
    EXPECT_EQ(changes.next(), std::nullopt);
  } while (std::next_permutation(words.begin(), words.end()));
}

Topology Scheduled() {
  Topology topology = *UniformTopology("continental-us", 2);
  topology.changes = {{absl::Seconds(1), "w0>w1", {"rate=10mbit"}, 7},
                      {absl::Seconds(2), "w0>w1", {"outage=3s"}, 9},
                      {absl::Seconds(2), "w1>w0", {"delay=5ms", "loss=1%"}, 11},
                      {absl::Seconds(10), "w0<>w1", {"rate=20mbit"}, 13}};
  return topology;
}

TEST(LabChanges, TheScheduleIsMadeAtItsTimes) {
  ToldEmulator emulator(Scheduled());
  LabChanges changes(emulator, kStart);
  const auto& paths = emulator.topology().paths;
  const auto run = [&](double at, double next) {
    EXPECT_EQ(changes.next(), At(at));
    changes.RunUntil(At(at));
    EXPECT_EQ(changes.next(), At(next));
  };
  run(1, 2);
  EXPECT_EQ(InMbit(*paths[0].rate), 10);
  EXPECT_EQ(InMbit(*paths[1].rate), 100);
  run(2, 5);  // the outage's end
  EXPECT_TRUE((emulator.down[{0, 1}]));
  EXPECT_EQ(paths[1].delay, absl::Milliseconds(5));
  EXPECT_EQ(paths[1].loss_prob, 0.01);
  run(5, 10);
  EXPECT_FALSE((emulator.down[{0, 1}]));
  changes.RunUntil(At(10));
  EXPECT_EQ(InMbit(*paths[0].rate), 20);
  EXPECT_EQ(InMbit(*paths[1].rate), 20);
  EXPECT_EQ(changes.next(), std::nullopt);
  EXPECT_THAT(changes.late(), IsEmpty());
  EXPECT_EQ(changes.failure(), "");
  EXPECT_EQ(changes.count({0, 1}), 4) << "the end of an outage is one";
  EXPECT_EQ(changes.count({1, 0}), 2);
}

TEST(LabChanges, WhatIsMoreThanATenthOfASecondLateIsTold) {
  ToldEmulator emulator(Scheduled());
  LabChanges changes(emulator, kStart);
  changes.RunUntil(At(1.1));  // just within
  EXPECT_THAT(changes.late(), IsEmpty());
  changes.RunUntil(At(2.101));
  ASSERT_EQ(changes.late().size(), 2u);
  EXPECT_THAT(changes.late()[0].what, HasSubstr("line 9 (w0>w1: outage=3s)"));
  EXPECT_THAT(changes.late()[1].what, HasSubstr("line 11 (w1>w0: delay=5ms loss=1%)"));
  EXPECT_EQ(changes.late()[1].at, absl::Seconds(2));
  EXPECT_EQ(changes.late()[1].late, absl::Milliseconds(101));
  changes.RunUntil(At(6));  // an outage lasts as long as was asked for, from when it began: 5.101
  ASSERT_EQ(changes.late().size(), 3u);
  EXPECT_THAT(changes.late()[2].what, HasSubstr("the end of an outage of w0 > w1"));
  EXPECT_EQ(changes.late()[2].late, absl::Milliseconds(899));
}

TEST(LabChanges, WhatFailsIsNamedAndTheRestGoesOn) {
  Topology topology = Scheduled();
  topology.changes[0].figures = {"rate_trace=/no/such"};  // gone since it was checked
  ToldEmulator emulator(topology);
  LabChanges changes(emulator, kStart);
  changes.RunUntil(At(2));
  EXPECT_THAT(changes.failure(), HasSubstr("the change of line 7 failed: /no/such"));
  EXPECT_TRUE((emulator.down[{0, 1}]));
  EXPECT_FALSE(changes.Set("w0>w1", {}, At(3)).ok());
  EXPECT_FALSE(changes.Set("w0>*", {"rate=0"}, At(3)).ok());
}

// Two paths, each with two outages of its own: 1 to 4 s and 2 to 3 s there, 1 to 3 s and 2 to 6 s
// back. None of them ends one of the other path.
TEST(LabChanges, TwoPathsWithTwoOutagesEachKeepThemApart) {
  ToldEmulator emulator(*UniformTopology("continental-us", 3));
  LabChanges changes(emulator, kStart);
  const auto set = [&](double at, const char* path, const char* outage) {
    changes.RunUntil(At(at));
    EXPECT_TRUE(changes.Set(path, {outage}, At(at)).ok());
  };
  set(1, "w0>w2", "outage=3s");
  set(1, "w2>w0", "outage=2s");
  set(2, "w0>w2", "outage=1s");
  set(2, "w2>w0", "outage=4s");
  std::vector<std::string> seen;
  while (const auto next = changes.next()) {
    changes.RunUntil(*next);
    seen.push_back(fmt::format("{:g}{}{}", absl::ToDoubleSeconds(*next - kStart),
                               emulator.down[{0, 2}] ? " there" : "",
                               emulator.down[{2, 0}] ? " back" : ""));
  }
  EXPECT_THAT(seen, ElementsAre("3 there back", "4 back", "6"));
  EXPECT_FALSE((emulator.down[{0, 1}]));
}

// A burst of words for one path leaves its other figures, and every other path, as they were.
TEST(LabChanges, ASetChangesTheFiguresThatItNamesOnThePathThatItNames) {
  ToldEmulator emulator(*UniformTopology("continental-us", 3));
  LabChanges changes(emulator, kStart);
  ASSERT_TRUE(changes.Set("w1>w2", {"rate=7mbit", "delay=11ms"}, At(1)).ok());
  ASSERT_TRUE(changes.Set("w1>w2", {"loss=3%"}, At(2)).ok());
  for (const PathSpec& path : emulator.topology().paths) {
    const bool named = path.from == 1 && path.to == 2;
    EXPECT_EQ(InMbit(*path.rate), named ? 7 : 100);
    EXPECT_EQ(path.delay, absl::Milliseconds(named ? 11 : 32.5));
    EXPECT_EQ(path.loss_prob, named ? 0.03 : 0);
  }
}

}  // namespace
}  // namespace longhaul
