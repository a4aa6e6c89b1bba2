#include "netem/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "netem/queue_limits.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

Topology Pair() {
  auto topology = UniformTopology("continental-us", 2);
  EXPECT_TRUE(topology.ok());
  return *topology;
}

// Every figure below was worked out by hand from the formulas of docs/netem.md.
struct Golden {
  const char* profile;
  double rate_mbit;
  double rtt_ms;
  int64_t path_limit;
  int64_t queue;
  double goodput_mbit;
};
class ProfileTable : public testing::TestWithParam<Golden> {};

TEST_P(ProfileTable, LimitsAndGoodputMatchTheTable) {
  const Golden& want = GetParam();
  auto topology = UniformTopology(want.profile, 2);
  ASSERT_TRUE(topology.ok());
  const PathSpec& path = topology->paths[0];
  EXPECT_DOUBLE_EQ(InMbit(*path.rate), want.rate_mbit);
  EXPECT_DOUBLE_EQ(absl::ToDoubleMilliseconds(NominalRtt(*topology, path)), want.rtt_ms);
  EXPECT_EQ(PathLimitPackets(*topology, path), want.path_limit);
  EXPECT_EQ(AccessLimitPackets(*topology, 0, *path.rate), want.queue);
  EXPECT_NEAR(InMbit(*path.rate) * TcpPayloadShare(1500), want.goodput_mbit,
              5e-4 * want.goodput_mbit);
}

INSTANTIATE_TEST_SUITE_P(All, ProfileTable,
                         testing::Values(Golden{"colocated", 1000, 5, 620, 413, 956.4},
                                         Golden{"regional", 1000, 20, 2477, 1652, 956.4},
                                         Golden{"same-country", 500, 35, 2168, 1445, 478.2},
                                         Golden{"continental-us", 100, 65, 805, 537, 95.64},
                                         Golden{"transatlantic", 100, 75, 929, 620, 95.64},
                                         Golden{"simulator-default", 100, 100, 1239, 826, 95.64},
                                         Golden{"transpacific", 50, 105, 651, 434, 47.82},
                                         Golden{"global", 25, 230, 713, 475, 23.91},
                                         Golden{"worst-case", 10, 340, 422, 281, 9.564}));

TEST(QueueLimits, JumboFramesDivideTheLimit) {
  Topology topology = Pair();
  topology.mtu = 9000;
  // 100 Mbit/s x 32.5 ms / (8 x 9014) = 45.07, plus 90.14 for one BDP of 65 ms.
  EXPECT_EQ(PathLimitPackets(topology, topology.paths[0]), 136);
  EXPECT_NEAR(TcpPayloadShare(9000), 0.9927, 5e-5);
}

TEST(QueueLimits, ShallowQueueNeverGoesBelowSixtyFourPackets) {
  EXPECT_EQ(QueuePackets(Mbit(1), absl::Milliseconds(10), 0.25, 1500), 64);
}

TEST(QueueLimits, PathBehindAccessLinesIsWideSinceNoQueueFormsThere) {
  Topology topology = Pair();
  topology.nodes[0].access = AccessSpec{.up = Mbit(100), .down = Mbit(200)};
  PathSpec path = topology.paths[0];
  path.rate.reset();
  path.delay = absl::Milliseconds(40);
  EXPECT_EQ(PathLimitPackets(topology, path), 2 * 331 + 64);
}

TEST(QueueLimits, AccessLineUsesTheLongestRoundTripOfItsPaths) {
  auto topology = UniformTopology("continental-us", 3);
  ASSERT_TRUE(topology.ok());
  for (PathSpec& path : topology->paths) {
    if (path.from == 0 && path.to == 2) path.delay = absl::Milliseconds(100);
  }
  EXPECT_EQ(AccessLimitPackets(*topology, 0, Mbit(100)),
            QueuePackets(Mbit(100), absl::Milliseconds(132.5), 1, 1500));
}

TEST(UniformTopology, IsAFullMeshInBothDirections) {
  auto topology = UniformTopology("global", 4);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->nodes.size(), 4u);
  EXPECT_EQ(topology->paths.size(), 12u);
  EXPECT_TRUE(Validate(*topology).ok());
  EXPECT_NE(FindPath(*topology, 3, 1), nullptr);
  EXPECT_EQ(FindPath(*topology, 1, 1), nullptr);
}

TEST(UniformTopology, UnknownProfileListsTheKnownOnes) {
  const absl::Status s = UniformTopology("continental", 2).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kNotFound);
  for (const Profile& p : Profiles()) {
    EXPECT_THAT(std::string(s.message()), HasSubstr(std::string(p.name)));
  }
}

struct Broken {
  const char* name;
  void (*change)(Topology&);
  const char* says;
};
class BrokenTopology : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTopology, IsInvalidArgumentThatNamesTheField) {
  Topology topology = Pair();
  GetParam().change(topology);
  const absl::Status s = Validate(topology);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr(GetParam().says));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
INSTANTIATE_TEST_SUITE_P(
    All, BrokenTopology,
    testing::Values(
        Broken{"NoNodes", [](Topology& t) { t.nodes.clear(), t.paths.clear(); }, "no nodes"},
        Broken{"ZeroRate", [](Topology& t) { t.paths[0].rate = Mbit(0); }, "rate is 0 Mbit/s"},
        Broken{"NanRate", [](Topology& t) { t.paths[0].rate = Mbit(kNan); }, "w0 > w1: rate"},
        Broken{"NegativeDelay", [](Topology& t) { t.paths[1].delay = -absl::Milliseconds(1); },
               "w1 > w0: delay is -1ms"},
        Broken{"InfiniteJitter", [](Topology& t) { t.paths[0].jitter = absl::InfiniteDuration(); },
               "jitter"},
        Broken{"LossOfOne", [](Topology& t) { t.paths[0].loss_prob = 1; }, "loss is 1"},
        Broken{"NanLoss", [](Topology& t) { t.paths[0].loss_prob = kNan; }, "loss is nan"},
        Broken{"NoQueue", [](Topology& t) { t.paths[0].queue_bdp = 0; }, "queue"},
        Broken{"SameName", [](Topology& t) { t.nodes[1].name = "w0"; }, "given twice"},
        Broken{"LongName", [](Topology& t) { t.nodes[1].name = std::string(49, 'x'); }, "49 bytes"},
        Broken{"PathInName", [](Topology& t) { t.nodes[1].name = "../x"; }, "letters, digits"},
        Broken{"EmptyName", [](Topology& t) { t.nodes[1].name = ""; }, "0 bytes"},
        Broken{"NowherePath", [](Topology& t) { t.paths[0].to = 7; }, "no node 7"},
        Broken{"LoopPath", [](Topology& t) { t.paths[0].to = 0; }, "to itself"},
        Broken{"PathTwice", [](Topology& t) { t.paths.push_back(t.paths[0]); }, "given twice"},
        Broken{"TinyMtu", [](Topology& t) { t.mtu = 100; }, "mtu 100"},
        Broken{"ZeroUplink",
               [](Topology& t) { t.nodes[0].access = AccessSpec{.up = Mbit(0), .down = Mbit(1)}; },
               "access.up"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace longhaul
