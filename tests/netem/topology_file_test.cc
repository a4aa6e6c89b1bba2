#include "netem/topology/topology_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

absl::StatusOr<Topology> Parse(std::string_view text) {
  return ParseTopology(text, "t.toml", testing::TempDir());
}

TEST(TopologyFile, SpecialPathsWinOverGroupsAndGroupsOverBetween) {
  auto topology = Parse(R"(
mtu = 9000
[[node]]
name = "hub"
up_mbit = 100
down_mbit = 200
access_queue_ms = 50
[[group]]
name = "eu"
nodes = 2
inside = "regional"
[between]
profile = "continental-us"
[[path]]
from = "hub"
to = "eu-1"
profile = "transatlantic"
rate_mbit = "none"
jitter_ms = 1.5
jitter_shape = "uniform"
burst_loss = [0.01, 0.25, 1.0, 0.0]
queue_packets = 300
)");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->mtu, 9000);
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_EQ(topology->nodes[2].name, "eu-1");
  EXPECT_EQ(InMbit(topology->nodes[0].access->up), 100);
  EXPECT_EQ(topology->nodes[0].access->queue->amount, 50);
  EXPECT_EQ(topology->paths.size(), 6u);
  EXPECT_EQ(FindPath(*topology, 1, 2)->delay, absl::Milliseconds(10));
  EXPECT_EQ(FindPath(*topology, 0, 1)->delay, absl::Milliseconds(32.5));
  const PathSpec& special = *FindPath(*topology, 0, 2);
  EXPECT_EQ(special.delay, absl::Milliseconds(37.5));
  EXPECT_FALSE(special.rate.has_value());
  EXPECT_EQ(special.jitter, absl::Milliseconds(1.5));
  EXPECT_EQ(special.jitter_shape, JitterShape::kUniform);
  EXPECT_EQ(special.burst_loss->to_good, 0.25);
  EXPECT_EQ(special.queue->unit, QueueDepth::Unit::kPackets);
}

TEST(TopologyFile, NodesOfASiteShareItsLineAndHaveALan) {
  auto topology = Parse(R"(
[[site]]
name = "paris"
up_mbit = 100
down_mbit = 200
access_queue_packets = 500
[[group]]
name = "p"
nodes = 2
site = "paris"
[[group]]
name = "q"
nodes = 2
site = "paris"
inside = "regional"
[[node]]
name = "far"
[between]
rtt_ms = 80
)");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->sites.size(), 1u);
  EXPECT_EQ(InMbit(topology->sites[0].access.down), 200);
  EXPECT_EQ(topology->sites[0].access.queue->amount, 500);
  const int far = 0, p0 = 1, p1 = 2, q0 = 3, q1 = 4;
  for (int node : {p0, p1, q0, q1}) EXPECT_EQ(topology->nodes[node].site, 0);
  EXPECT_EQ(FindPath(*topology, p0, p1)->delay, absl::ZeroDuration());
  EXPECT_EQ(FindPath(*topology, p0, q1)->delay, absl::ZeroDuration()) << "a LAN, not between";
  EXPECT_EQ(FindPath(*topology, q0, q1)->delay, absl::Milliseconds(10)) << "inside wins";
  EXPECT_EQ(FindPath(*topology, p0, far)->delay, absl::Milliseconds(40));
}

TEST(TopologyNamed, ProfileGivesTwoNodesAAndB) {
  auto topology = TopologyNamed("worst-case");
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->nodes[0].name, "a");
  EXPECT_EQ(topology->nodes[1].name, "b");
}

std::string MeshFile(const std::string& text) {
  const std::string path = testing::TempDir() + "mesh_" + std::to_string(getpid()) + ".toml";
  std::ofstream(path) << text;
  return path;
}

TEST(MeshNamed, AFileHasANodeForEachRankAndAPathBetweenAnyTwo) {
  const std::string two_regions = MeshFile(R"([[group]]
name = "eu"
nodes = 2
inside = "regional"
[[group]]
name = "us"
nodes = 2
inside = "regional"
[between]
profile = "transatlantic"
)");
  const auto mesh = MeshNamed(two_regions, 4);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(FindPath(*mesh, 0, 1)->delay, absl::Milliseconds(10));
  EXPECT_EQ(FindPath(*mesh, 1, 2)->delay, absl::Milliseconds(37.5));
  EXPECT_FALSE(MeshNamed(two_regions, 8).ok());
  EXPECT_TRUE(MeshNamed("regional", 3).ok());
}

TEST(TopologyFile, OneDirectionTakesTheOtherFromAnEntryForBoth) {
  const std::string nodes = "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n";
  const std::string both = "[[path]]\nfrom = 'a'\nto = 'b'\nboth = true\nrtt_ms = 10\n";
  const std::string there = "[[path]]\nfrom = 'a'\nto = 'b'\nrtt_ms = 60\n";
  const std::string back = "[[path]]\nfrom = 'b'\nto = 'a'\nrtt_ms = 30\n";
  const auto topology = Parse(nodes + both + back);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(FindPath(*topology, 0, 1)->delay, absl::Milliseconds(5));
  EXPECT_EQ(FindPath(*topology, 1, 0)->delay, absl::Milliseconds(15));
  const auto each = Parse(nodes + both + back + there);
  ASSERT_TRUE(each.ok()) << each.status();
  EXPECT_EQ(FindPath(*each, 0, 1)->delay, absl::Milliseconds(30));
  EXPECT_EQ(FindPath(*each, 1, 0)->delay, absl::Milliseconds(15));
}

TEST(TopologyFile, SharesAreBelowOneOrSayTheirUnit) {
  const auto topology = Parse(
      "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[between]\nrtt_ms = 2\n"
      "loss = '1%'\nreorder = 0.25\ncorrupt = '100%'\n");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_DOUBLE_EQ(topology->paths[0].loss_prob, 0.01);
  EXPECT_DOUBLE_EQ(topology->paths[0].rare.reorder_prob, 0.25);
  EXPECT_DOUBLE_EQ(topology->paths[0].rare.corrupt_prob, 1);
}

// As editors elsewhere write them.
TEST(TopologyFile, MarksAndLineEndsOfOtherSystems) {
  std::string folder = testing::TempDir() + "/text-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
    return folder + "/" + name;
  };
  write("rtt.csv", "\xef\xbb\xbfrtt,a,b\r\na,,40\r\nb,60,\r\n");
  const auto topology =
      ReadTopology(write("marked.toml",
                         "\xef\xbb\xbf[[node]]\r\nname = 'a'\r\n[[node]]\r\nname = 'b'\r\n"
                         "[matrix]\r\ncsv = 'rtt.csv'\r\n"));
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(FindPath(*topology, 1, 0)->delay, absl::Milliseconds(30));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace longhaul
