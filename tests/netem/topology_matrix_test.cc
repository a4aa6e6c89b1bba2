// [matrix] and tables of regions: figures for every ordered pair of nodes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "netem/topology/pair_matrix.h"
#include "netem/topology/region_tables.h"
#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

TEST(PairMatrix, ReadsBothDirections) {
  auto matrix = ParsePairMatrix("rtt_ms,a,b\na,,230\nb, 228.5 ,-\n", "m.csv");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->cells[0][1], 230);
  EXPECT_EQ(matrix->cells[1][0], 228.5);
  EXPECT_EQ(matrix->cells[1][1], 0);
}

TEST(PairMatrix, QuotedCells) {
  const auto quoted = ParsePairMatrix("\"x\", \"a\" ,b\na,\"\",\"7\"\nb,\"8\",-\n", "m.csv");
  ASSERT_TRUE(quoted.ok()) << quoted.status();
  EXPECT_EQ(quoted->cells[0][1], 7);
}

TEST(PairMatrix, SemicolonsTabsAndDecimalCommas) {
  for (const char* text : {"x;a;b\na;;230,5\nb;228;\n", "x\ta\tb\r\na\t\t230.5\r\nb\t228\t\r\n",
                           "\"x\",\"a\",\"b\"\n\n\"a\",,\"230.5\"\nb,228,\n,,\n"}) {
    const auto matrix = ParsePairMatrix(text, "m.csv");
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(matrix->names[1], "b");
    EXPECT_EQ(matrix->cells[0][1], 230.5);
    EXPECT_EQ(matrix->cells[1][0], 228);
  }
  const CellKind shares{.what = "share", .share = true};
  const auto loss = ParsePairMatrix("x;a;b\na;;0,5%\nb;0,25;\n", "m.csv", shares);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_DOUBLE_EQ(loss->cells[0][1], 0.005);
  EXPECT_DOUBLE_EQ(loss->cells[1][0], 0.25);
}

// In a folder of its own: rtt.csv and what else a test writes.
class MatrixSection : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    Write("rtt.csv", "rtt_ms,a,b,c\na,,10,20\nb,30,,40\nc,50,60,\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  absl::StatusOr<Topology> Read(const std::string& text) const {
    return ParseTopology(text, "t.toml", folder_);
  }
  std::string folder_ = testing::TempDir() + "/matrix-XXXXXX";
};

TEST_F(MatrixSection, MakesItsNodesAndGivesEachPairItsFigures) {
  Write("rate.csv", "mbit;c;b;a\nc;;11;12\nb;13;;14\na;15;16;\n");  // in an order of its own
  Write("loss.csv", "x\ta\tb\tc\na\t\t1%\t2%\nb\t3%\t\t4%\nc\t5%\t6%\t\n");
  Write("queue.csv", "x,a,b,c\na,,21,22\nb,23,,24\nc,25,26,\n");
  const auto topology = Read("[matrix]\ncsv = '" + folder_ +
                             "/rtt.csv'\nrate_mbit = 'rate.csv'\n"
                             "loss = 'loss.csv'\nqueue_packets = 'queue.csv'\njitter_ms = 0.5\n");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_EQ(topology->nodes[2].name, "c");
  ASSERT_EQ(topology->paths.size(), 6u);
  const double rtt_ms[3][3] = {{0, 10, 20}, {30, 0, 40}, {50, 60, 0}};
  const double mbit[3][3] = {{0, 16, 15}, {14, 0, 13}, {12, 11, 0}};
  const double percent[3][3] = {{0, 1, 2}, {3, 0, 4}, {5, 6, 0}};
  const double packets[3][3] = {{0, 21, 22}, {23, 0, 24}, {25, 26, 0}};
  for (const PathSpec& path : topology->paths) {
    EXPECT_EQ(path.delay, absl::Milliseconds(rtt_ms[path.from][path.to]) / 2);
    EXPECT_EQ(InMbit(*path.rate), mbit[path.from][path.to]);
    EXPECT_DOUBLE_EQ(path.loss_prob, percent[path.from][path.to] / 100);
    EXPECT_EQ(path.queue->amount, packets[path.from][path.to]);
    EXPECT_EQ(path.queue->unit, QueueDepth::Unit::kPackets);
    EXPECT_EQ(path.jitter, absl::Milliseconds(0.5));
  }
}

TEST_F(MatrixSection, FiguresForAllPairs) {
  const auto topology = Read(
      "[matrix]\ncsv = 'rtt.csv'\nrate_mbit = 50\nloss = '2%'\nqueue_ms = 30\naqm = 'codel'\n"
      "[[path]]\nfrom = 'a'\nto = 'b'\nrtt_ms = 1\n");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const PathSpec& path = *FindPath(*topology, 2, 1);
  EXPECT_EQ(path.delay, absl::Milliseconds(30));
  EXPECT_EQ(InMbit(*path.rate), 50);
  EXPECT_DOUBLE_EQ(path.loss_prob, 0.02);
  EXPECT_EQ(path.queue->unit, QueueDepth::Unit::kMilliseconds);
  EXPECT_EQ(path.aqm.kind, QueueManagement::Kind::kCodel);
  EXPECT_EQ(FindPath(*topology, 0, 1)->delay, absl::Milliseconds(0.5)) << "a path wins";
  EXPECT_FALSE(FindPath(*topology, 0, 1)->rate.has_value());
}

// Three cells read by eye in the published tables, and what every such table must be.
TEST(RegionTables, AreWhatWasPublished) {
  const auto rtt = [](const std::string& table, const std::string& from, const std::string& to) {
    const auto matrix = RegionMatrix(table, {from, to});
    return matrix.ok() ? matrix->cells[0][1] : -1;
  };
  EXPECT_EQ(rtt("aws", "us-east-1", "ap-southeast-1"), 220) << "219.64";
  EXPECT_EQ(rtt("aws", "us-west-1", "ap-northeast-1"), 108) << "108.256";
  EXPECT_EQ(rtt("aws", "af-south-1", "ap-southeast-2"), 409) << "408.79";
  EXPECT_EQ(rtt("ibm", "london", "dallas"), 114);
  EXPECT_EQ(rtt("ibm", "dallas", "london"), 113);
  for (const RegionRtts& table : RegionTables()) {
    const auto matrix = RegionMatrix(table.name, {});
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    for (size_t i = 0; i < matrix->names.size(); ++i) {
      for (size_t j = 0; j < matrix->names.size(); ++j) {
        if (i == j) continue;
        EXPECT_GT(matrix->cells[i][j], 1);
        EXPECT_NEAR(matrix->cells[i][j], matrix->cells[j][i], 20) << table.name << i << " " << j;
      }
    }
  }
}

TEST(RegionTables, AsALinkOfItsName) {
  const auto topology = TopologyNamed("aws:eu-west-1,us-east-1,ap-northeast-1");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_EQ(topology->nodes[1].name, "us-east-1");
  EXPECT_EQ(FindPath(*topology, 0, 2)->delay, absl::Milliseconds(101));
  EXPECT_EQ(FindPath(*topology, 2, 0)->delay, absl::Milliseconds(101));
  EXPECT_EQ(FindPath(*topology, 0, 1)->delay, absl::Milliseconds(35));
  EXPECT_EQ(TopologyNamed("aws")->nodes.size(), 17u);
  EXPECT_TRUE(MeshNamed("ibm:tokyo,osaka", 2).ok());
}

}  // namespace
}  // namespace longhaul
