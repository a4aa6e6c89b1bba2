#include "netem/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "netem/topology/queue_limits.h"

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
  EXPECT_EQ(PathQueuePackets(*topology, path), want.queue);
  EXPECT_EQ(AccessQueuePackets(*topology, 0, *path.rate), want.queue);
  EXPECT_NEAR(InMbit(*path.rate) * TcpPayloadShare(1500), want.goodput_mbit,
              5e-4 * want.goodput_mbit);
}

INSTANTIATE_TEST_SUITE_P(All, ProfileTable,
                         testing::Values(Golden{"colocated", 1000, 5, 413, 956.4},
                                         Golden{"regional", 1000, 20, 1652, 956.4},
                                         Golden{"same-country", 500, 35, 1445, 478.2},
                                         Golden{"continental-us", 100, 65, 537, 95.64},
                                         Golden{"transatlantic", 100, 75, 620, 95.64},
                                         Golden{"agora", 200, 80, 1322, 191.3},
                                         Golden{"simulator-default", 100, 100, 826, 95.64},
                                         Golden{"transpacific", 50, 105, 434, 47.82},
                                         Golden{"global", 25, 230, 475, 23.91},
                                         Golden{"worst-case", 10, 340, 281, 9.564}));

TEST(QueueLimits, JumboFramesDivideTheQueue) {
  Topology topology = Pair();
  topology.mtu = 9000;
  // 100 Mbit/s x 65 ms / (8 x 9014) = 90.14.
  EXPECT_EQ(PathQueuePackets(topology, topology.paths[0]), 91);
  EXPECT_NEAR(TcpPayloadShare(9000), 0.9927, 5e-5);
}

TEST(QueueLimits, ShallowQueueNeverGoesBelowSixtyFourPackets) {
  EXPECT_EQ(QueuePackets(Mbit(1), absl::Milliseconds(10), 0.25, 1500), 64);
}

TEST(QueueLimits, AccessLineUsesTheLongestRoundTripOfItsPaths) {
  auto topology = UniformTopology("continental-us", 3);
  ASSERT_TRUE(topology.ok());
  for (PathSpec& path : topology->paths) {
    if (path.from == 0 && path.to == 2) path.delay = absl::Milliseconds(100);
  }
  EXPECT_EQ(AccessQueuePackets(*topology, 0, Mbit(100)),
            QueuePackets(Mbit(100), absl::Milliseconds(132.5), 1, 1500));
}

TEST(QueueLimits, LineOfASiteServesThePathsOfAllItsNodesButNotItsLan) {
  Topology topology = *UniformTopology("continental-us", 4);
  topology.sites = {{"paris", {.up = Mbit(100), .down = Mbit(50)}}};
  topology.nodes[0].site = topology.nodes[1].site = 0;
  for (PathSpec& path : topology.paths) {
    path.rate.reset();
    if (path.from == 1 && path.to == 3) path.delay = absl::Milliseconds(100);
    if (path.from == 0 && path.to == 1) path.delay = absl::Milliseconds(500);
  }
  ASSERT_TRUE(Validate(topology).ok()) << Validate(topology);
  EXPECT_EQ(AccessQueuePackets(topology, 0, Mbit(100)),
            QueuePackets(Mbit(100), absl::Milliseconds(132.5), 1, 1500));
}

// 100 Mbit/s and 65 ms: the delay is in none of them, but of the depth in bandwidth-delay products.
TEST(QueueLimits, QueueMayBeAskedForInOtherWords) {
  using Unit = QueueDepth::Unit;
  constexpr int64_t kAny = QueueCapacity::kAny;
  Topology topology = Pair();
  topology.nodes[0].access = AccessSpec{.up = Mbit(100), .down = Mbit(100)};
  const auto expect = [&](Unit unit, double amount, int64_t packets, const QueueCapacity& as_held) {
    PathSpec& path = topology.paths[0];
    path.queue = topology.nodes[0].access->queue = QueueDepth{unit, amount};
    EXPECT_EQ(PathQueuePackets(topology, path), packets);
    EXPECT_EQ(AccessQueuePackets(topology, 0, Mbit(100)), packets);
    for (const auto& capacity :
         {PathQueueCapacity(topology, path), AccessQueueCapacity(topology, 0, Mbit(100))}) {
      EXPECT_EQ(capacity.packets, as_held.packets) << packets;
      EXPECT_EQ(capacity.bytes, as_held.bytes) << packets;
    }
  };
  expect(Unit::kPackets, 10, 10, {10, kAny});
  expect(Unit::kBdp, 1, 537, {537, kAny});
  expect(Unit::kBdp, 0.01, 64, {64, kAny});
  expect(Unit::kBytes, 30'000, 20, {kAny, 30'000});       // 19.8 full frames
  expect(Unit::kMilliseconds, 20, 166, {kAny, 250'000});  // 165.1
}

TEST(QueueLimits, AFullQueueEmptiesInItsBitsOverTheRate) {
  Topology topology = Pair();
  PathSpec& path = topology.paths[0];
  path.rate = Mbit(0.1);
  path.queue = QueueDepth{QueueDepth::Unit::kPackets, 50};
  EXPECT_NEAR(absl::ToDoubleSeconds(FullQueuesTime(topology, path)), 50 * 12'112 / 1e5, 1e-6);
  // And of the lines, each by its own rate.
  topology.nodes[0].access =
      AccessSpec{Mbit(1), Mbit(9), QueueDepth{QueueDepth::Unit::kPackets, 30}};
  topology.nodes[1].access =
      AccessSpec{Mbit(9), Mbit(2), QueueDepth{QueueDepth::Unit::kPackets, 70}};
  EXPECT_NEAR(absl::ToDoubleSeconds(FullQueuesTime(topology, path)),
              12'112 * (50 / 1e5 + 30 / 1e6 + 70 / 2e6), 1e-6);
}

TEST(MeanLoss, OfBurstsIsTheShareOfTheBadState) {
  PathSpec path = Pair().paths[0];
  path.burst_loss = BurstLoss{.to_bad = 0.01, .to_good = 0.24, .loss_bad = 0.5};
  EXPECT_DOUBLE_EQ(MeanLoss(path), 0.04 * 0.5);
  path.burst_loss->loss_good = 0.1;
  EXPECT_DOUBLE_EQ(MeanLoss(path), 0.04 * 0.5 + 0.96 * 0.1);
  path.burst_loss.reset();
  path.loss_prob = 0.25;
  EXPECT_DOUBLE_EQ(MeanLoss(path), 0.25);
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

TEST(NodeNames, ThoseOfClustersAreNames) {
  for (const char* name :
       {"gpu_node_01", "GPU-A", "ip-10-1-2-3.us-east-1.compute.internal", "node.1", "1a", "0x",
        "x0", "trainer-workers-replica-0-worker-00017-us-east", "10.1.2.3.example", "0xg", "n0",
        "a.v4"}) {
    const bool number = std::string_view(name) == "0x";
    EXPECT_EQ(CheckNodeName("node", name).ok(), !number) << name;
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

const AccessSpec kLine{.up = Mbit(10), .down = Mbit(10)};
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
        Broken{"LossAboveOne", [](Topology& t) { t.paths[0].loss_prob = 1.5; }, "loss is 1.5"},
        Broken{"NanLoss", [](Topology& t) { t.paths[0].loss_prob = kNan; }, "loss is nan"},
        Broken{"NoQueue", [](Topology& t) { t.paths[0].queue_bdp = 0; }, "queue"},
        Broken{"Localhost", [](Topology& t) { t.nodes[1].name = "localhost"; }, "localhost is"},
        Broken{"LocalhostInCapitals", [](Topology& t) { t.nodes[1].name = "LocalHost"; },
               "localhost is"},
        Broken{"LocalhostWithADomain",
               [](Topology& t) { t.nodes[1].name = "localhost.localdomain"; }, "localhost is"},
        Broken{"NameBelowLocalhost", [](Topology& t) { t.nodes[1].name = "db.localhost"; },
               "localhost is"},
        Broken{"Number", [](Topology& t) { t.nodes[1].name = "0"; }, "an IPv4 address"},
        Broken{"LongNumber", [](Topology& t) { t.nodes[1].name = "2130706433"; },
               "an IPv4 address"},
        Broken{"Address", [](Topology& t) { t.nodes[1].name = "10.1.2.3"; }, "as n10.1.2.3"},
        Broken{"ShortAddress", [](Topology& t) { t.nodes[1].name = "127.1"; }, "an IPv4 address"},
        Broken{"HexAddress", [](Topology& t) { t.nodes[1].name = "0x7F.1"; }, "an IPv4 address"},
        Broken{"OctalAddress", [](Topology& t) { t.nodes[1].name = "0177.0.0.01"; },
               "an IPv4 address"},
        Broken{"Ipv6", [](Topology& t) { t.nodes[1].name = "fe80::1"; }, "letters, digits"},
        Broken{"DotAtTheEnd", [](Topology& t) { t.nodes[1].name = "b."; }, "a dot at the end"},
        Broken{"TwoDots", [](Topology& t) { t.nodes[1].name = "b..c"; }, "two in a row"},
        Broken{"OtherCase", [](Topology& t) { t.nodes[1].name = "W0"; },
               "node 1 'W0': a lookup cannot keep it apart from node 'w0' (upper and lower case"},
        Broken{"NameByIpv4", [](Topology& t) { t.nodes[1].name = "w0.v4"; },
               "apart from node 'w0' (NAME.v4 is"},
        Broken{"NameByIpv4First", [](Topology& t) { t.nodes[0].name = "W1.V4"; },
               "node 1 'w1': a lookup cannot keep it apart from node 'W1.V4' (NAME.v4"},
        Broken{"SameName", [](Topology& t) { t.nodes[1].name = "w0"; }, "given twice"},
        Broken{"LongName", [](Topology& t) { t.nodes[1].name = std::string(49, 'x'); }, "49 bytes"},
        Broken{"PathInName", [](Topology& t) { t.nodes[1].name = "../x"; }, "letters, digits"},
        Broken{"EmptyName", [](Topology& t) { t.nodes[1].name = ""; }, "0 bytes"},
        Broken{"NowherePath", [](Topology& t) { t.paths[0].to = 7; }, "no node 7"},
        Broken{"LoopPath", [](Topology& t) { t.paths[0].to = 0; }, "to itself"},
        Broken{"PathTwice", [](Topology& t) { t.paths.push_back(t.paths[0]); }, "given twice"},
        Broken{"TinyMtu", [](Topology& t) { t.mtu = 100; }, "mtu 100"},
        Broken{"QueueBelowOnePacket",
               [](Topology& t) {
                 t.paths[0].queue = QueueDepth{QueueDepth::Unit::kPackets, 0.5};
               },
               "at least one packet"},
        Broken{"TwoKindsOfLoss",
               [](Topology& t) {
                 t.paths[0].loss_prob = 0.1;
                 t.paths[0].burst_loss = BurstLoss{.to_bad = 0.1};
               },
               "both given"},
        Broken{"BurstProbabilityAboveOne",
               [](Topology& t) { t.paths[0].burst_loss = BurstLoss{.to_bad = 1.5}; },
               "1.5 is no probability"},
        Broken{"QueueBelowOneFrameInBytes",
               [](Topology& t) {
                 t.paths[0].queue = QueueDepth{QueueDepth::Unit::kBytes, 1513};
               },
               "at least one packet (1514 bytes)"},
        Broken{"QueueBelowOneFrameInMilliseconds",
               [](Topology& t) {
                 t.paths[0].queue = QueueDepth{QueueDepth::Unit::kMilliseconds, 0.12};
               },
               "at least one packet (0.1211 ms)"},
        Broken{"NanQueue",
               [](Topology& t) {
                 t.paths[0].queue = QueueDepth{QueueDepth::Unit::kBdp, kNan};
               },
               "queue is nan"},
        Broken{"SiteThatIsNotThere", [](Topology& t) { t.nodes[1].site = 3; }, "no site 3"},
        Broken{"SiteWithoutNodes",
               [](Topology& t) {
                 t.sites = {{"paris", kLine}};
               },
               "site 'paris': no node"},
        Broken{"SiteTwice",
               [](Topology& t) {
                 t.sites = {{"paris", kLine}, {"paris", kLine}};
                 t.nodes[0].site = 0;
                 t.nodes[1].site = 1;
               },
               "site 'paris': the name is given twice"},
        Broken{"SiteAndLineOfItsOwn",
               [](Topology& t) {
                 t.sites = {{"paris", kLine}};
                 t.nodes[0].site = 0;
                 t.nodes[0].access = kLine;
               },
               "of its own and a site's"},
        Broken{"SiteWithoutRate",
               [](Topology& t) {
                 t.sites = {{"paris", {.up = Mbit(10), .down = Mbit(kNan)}}};
                 t.nodes[0].site = 0;
               },
               "site 'paris': access.down is nan"},
        Broken{"LongSiteName",
               [](Topology& t) {
                 t.sites = {{std::string(49, 'x'), kLine}};
                 t.nodes[0].site = 0;
               },
               "49 bytes"},
        Broken{"ZeroUplink",
               [](Topology& t) { t.nodes[0].access = AccessSpec{.up = Mbit(0), .down = Mbit(1)}; },
               "access.up"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace longhaul
