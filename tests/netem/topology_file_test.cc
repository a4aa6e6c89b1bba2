#include "netem/topology/topology_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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

// toml++ 3.3 by itself has undefined behaviour for each of these (netem/topology/toml_parser.h).
TEST(TopologyFile, TextOutsideAsciiIsReadOrRefusedWithItsLine) {
  const auto says = [](const std::string& text) {
    return std::string(Parse(text).status().message());
  };
  const std::string node = "[[node]]  # caf\xc3\xa9\nname = ";
  EXPECT_THAT(says(node + "'a'  # \xef\xbb\x86\n"), "");
  EXPECT_THAT(says(node + "'caf\xc3\xa9'\n"), HasSubstr("t.toml:1: "));
  EXPECT_THAT(says(node + "1..*\"\xef\xbb\x86\n"), HasSubstr("t.toml:2: "));
  EXPECT_THAT(says(node + "4='!\xc8\x9d\n"), HasSubstr("t.toml:2: "));
  EXPECT_THAT(says(node + "'a'\n\xe3\x81\x82 = 1\n"), HasSubstr("t.toml:3: "));
  EXPECT_THAT(says(node + "\"\"\"a\\\n \xc3\xa9\"\"\"\n"), HasSubstr("t.toml:1: "));
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

struct Bad {
  const char* name;
  const char* text;
  const char* where;
  const char* says;
};
class BadTopologyFile : public testing::TestWithParam<Bad> {};

TEST_P(BadTopologyFile, IsOneLineWithFileAndLine) {
  auto topology = Parse(GetParam().text);
  ASSERT_FALSE(topology.ok());
  const std::string message(topology.status().message());
  EXPECT_THAT(message, StartsWith(GetParam().where));
  EXPECT_THAT(message, HasSubstr(GetParam().says));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTopologyFile,
    testing::Values(
        Bad{"Syntax", "[[node]]\nname = \n", "t.toml:", ""},
        Bad{"UnknownKey", "[[node]]\nname='a'\nrtt=5\n", "t.toml:3: ", "unknown key 'rtt'"},
        Bad{"WrongType", "mtu='big'\n", "t.toml:1: ", "'mtu' is a string, want a number"},
        Bad{"DeepKey", "mtu=1500\na.b.c.d.e.f.g.h.i=1\n", "t.toml:2: ", "more than 8 parts"},
        Bad{"NoTable", "between=5\n", "t.toml:1: ", "'between' is no table: write [between]"},
        Bad{"NoTables", "node=[1]\n", "t.toml:1: ", "is no list of tables: write [[node]]"},
        Bad{"NameTwice", "[[node]]\nname='a'\n[[node]]\nname='a'\n", "t.toml:3: ", "twice"},
        Bad{"HalfAccess", "[[node]]\nname='a'\nup_mbit=5\n", "t.toml:1: ", "both"},
        Bad{"NoNode", "[[node]]\nname='a'\n[[path]]\nfrom='a'\nto='c'\nrtt_ms=1\n",
            "t.toml:3: ", "no node 'c'"},
        Bad{"NoFigures", "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\n",
            "t.toml:5: ", "needs a profile"},
        Bad{"UnknownProfile", "[[node]]\nname='a'\n[between]\nprofile='moon'\n",
            "t.toml:4: ", "worst-case"},
        Bad{"NegativeDelay",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\ndelay_ms=-1\n",
            "t.toml:8: ", "delay is -1ms"},
        Bad{"LossOfTwo",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\nrtt_ms=1\n"
            "loss=2\n",
            "t.toml:9: ", "'loss' is 2: write \"2%\""},
        Bad{"NanDelay",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\ndelay_ms=nan\n",
            "t.toml:8: ", "delay is"},
        Bad{"NanLoss",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\nrtt_ms=1\n"
            "loss=nan\n",
            "t.toml:9: ", "loss is nan"},
        Bad{"LossAboveOne",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[between]\nrtt_ms=1\nloss=1.5\n",
            "t.toml:7: ", "'loss' is 1.5: write \"1.5%\""},
        Bad{"NoPath", "[[node]]\nname='a'\n[[node]]\nname='b'\n", "t.toml: ", "no path"},
        Bad{"ChangeInThePast",
            "[[node]]\nname='a'\n[[change]]\npath='*'\nset='rate=1mbit'\nat_s=-1\n",
            "t.toml:6: ", "'at_s'"},
        Bad{"RateOfZero",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[between]\nrtt_ms=1\nrate_mbit=0\n",
            "t.toml:7: ", "'rate_mbit' is 0"},
        Bad{"NegativeRate",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[between]\nrtt_ms=1\nrate_mbit=-5\n",
            "t.toml:7: ", "rate is -5 Mbit/s"},
        Bad{"RateOfZeroUp", "[[node]]\nname='a'\nup_mbit=0\ndown_mbit=1\n",
            "t.toml:3: ", "access.up is 0"},
        Bad{"QueueBelowAPacket",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[between]\nrtt_ms=1\nqueue_bytes=100\n",
            "t.toml:7: ", "at least one packet (1514 bytes)"},
        Bad{"AccessQueueBelowAPacket",
            "[[node]]\nname='a'\nup_mbit=1\ndown_mbit=1\naccess_queue_packets=0.5\n",
            "t.toml:5: ", "at least one packet"},
        Bad{"LongName",
            "[[node]]\nname='a'\n[[node]]\nname='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaa'\n",
            "t.toml:3: ", "name of 56 bytes: want 1 to 48"},
        Bad{"UnknownSite", "[[node]]\nname='a'\nsite='x'\n", "t.toml:3: ", "no site 'x'"},
        Bad{"SiteTwice",
            "[[site]]\nname='s'\nup_mbit=1\ndown_mbit=1\n[[site]]\nname='s'\nup_mbit=1\ndown_mbit="
            "1\n"
            "[[node]]\nname='a'\nsite='s'\n",
            "t.toml:5: ", "site 's' is given twice"},
        Bad{"SiteWithoutALine", "[[site]]\nname='s'\n[[node]]\nname='a'\nsite='s'\n",
            "t.toml:1: ", "site 's' needs up_mbit and down_mbit"},
        Bad{"SiteWithoutNodes", "[[node]]\nname='a'\n[[site]]\nname='s'\nup_mbit=1\ndown_mbit=1\n",
            "t.toml:3: ", "site 's': no node"},
        Bad{"SiteAndLine",
            "[[site]]\nname='s'\nup_mbit=1\ndown_mbit=1\n[[node]]\nname='a'\nsite='s'\n"
            "up_mbit=1\ndown_mbit=1\n",
            "t.toml:5: ", "of its own and a site's"},
        Bad{"PathTwice",
            "[[node]]\nname='a'\n[[node]]\nname='b'\n[[path]]\nfrom='a'\nto='b'\nboth=true\nrtt_ms="
            "1\n"
            "[[path]]\nfrom='b'\nto='a'\nboth=true\nrtt_ms=1\n",
            "t.toml:10: ", "given twice"},
        Bad{"NotAscii", "[[node]]\nname='a'\nn\xc3\xa4me='b'\n", "t.toml:3: ", ""},
        Bad{"NotAsciiInAName", "[[node]]\nname='\xc3\xa4'\n", "t.toml:1: ", "letters, digits"},
        Bad{"NoNodes", "mtu=1500\n", "t.toml:1: ", "no nodes"}),
    [](const auto& test) { return test.param.name; });

TEST(TopologyNamed, ProfileGivesTwoNodesAAndB) {
  auto topology = TopologyNamed("worst-case");
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->nodes[0].name, "a");
  EXPECT_EQ(topology->nodes[1].name, "b");
  EXPECT_THAT(std::string(TopologyNamed("no-such").status().message()),
              HasSubstr("nor is there a file"));
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
  const auto says = [](const absl::StatusOr<Topology>& t) {
    return std::string(t.status().message());
  };
  EXPECT_THAT(says(MeshNamed(two_regions, 8)), HasSubstr("has 4 nodes; want 8"));
  const std::string apart = MeshFile(
      "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n"
      "[[path]]\nfrom = \"a\"\nto = \"b\"\nrtt_ms = 5\n");
  EXPECT_THAT(says(MeshNamed(apart, 2)), HasSubstr("no path from 'b' to 'a'"));
  std::filesystem::remove(apart);
  EXPECT_THAT(says(MeshNamed(apart, 2)), HasSubstr("cannot be read"));
  EXPECT_TRUE(MeshNamed("regional", 3).ok());
  EXPECT_THAT(says(MeshNamed("moon", 3)), HasSubstr("is unknown"));
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
  for (const std::string& twice : {both + both, both + back + back, back + both}) {
    EXPECT_THAT(std::string(Parse(nodes + twice).status().message()), HasSubstr("is given twice"));
  }
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
  const auto says = [](const std::string& file) {
    return std::string(ReadTopology(file).status().message());
  };
  EXPECT_THAT(says(write("wide.toml", std::string("\xff\xfe[\0", 4))),
              HasSubstr("is UTF-16; save it as UTF-8"));
  EXPECT_THAT(says(write("zeros.toml", std::string("a\0b", 3))), HasSubstr("bytes of zero"));
  EXPECT_THAT(says(folder), HasSubstr("is a folder; want a file"));
  EXPECT_THAT(says(folder + "/none.toml"), HasSubstr("cannot be read: No such file"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace longhaul
