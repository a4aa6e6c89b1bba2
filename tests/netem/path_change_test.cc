#include "netem/lab_control/path_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "netem/lab_control/path_figures.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

absl::StatusOr<PathChange> Change(const std::vector<std::string>& words) {
  return ApplyAssignments(UniformTopology("continental-us", 2)->paths[0], words);
}

TEST(PathChange, EveryKeyWithItsUnits) {
  auto change = Change({"rate=2.5gbit", "delay=300us", "jitter=2ms", "jitter_shape=uniform",
                        "loss=1%", "queue=64kb", "carrier=down"});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(InMbit(*change->path.rate), 2500);
  EXPECT_EQ(change->path.delay, absl::Microseconds(300));
  EXPECT_EQ(change->path.jitter, absl::Milliseconds(2));
  EXPECT_EQ(change->path.jitter_shape, JitterShape::kUniform);
  EXPECT_DOUBLE_EQ(change->path.loss_prob, 0.01);
  EXPECT_EQ(change->path.queue->unit, QueueDepth::Unit::kBytes);
  EXPECT_EQ(change->path.queue->amount, 64'000);
  EXPECT_EQ(change->carrier, Carrier::kDown);
}

TEST(PathChange, BurstsAsProbabilitiesOrInPercent) {
  for (const char* word : {"burst_loss=0.01,0.25,1,0", "burst_loss=1%,25%,100%,0%"}) {
    const auto change = Change({word});
    ASSERT_TRUE(change.ok()) << change.status();
    EXPECT_DOUBLE_EQ(change->path.burst_loss->to_bad, 0.01);
    EXPECT_DOUBLE_EQ(change->path.burst_loss->to_good, 0.25);
    EXPECT_DOUBLE_EQ(change->path.burst_loss->loss_bad, 1);
    EXPECT_DOUBLE_EQ(change->path.burst_loss->loss_good, 0);
  }
}

TEST(PathChange, WhatIsNotNamedStays) {
  auto change = Change({"delay=1s"});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(InMbit(*change->path.rate), 100);
  EXPECT_FALSE(change->carrier.has_value());
  EXPECT_FALSE(change->outage.has_value());
}

TEST(PathChange, NoneTakesTheRateAndTheBurstsAway) {
  auto change = Change({"burst_loss=0.01,0.25,1,0", "rate=none"});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_FALSE(change->path.rate.has_value());
  EXPECT_EQ(change->path.burst_loss->to_good, 0.25);
  auto without = ApplyAssignments(change->path, {"burst_loss=none"});
  EXPECT_FALSE(without->path.burst_loss.has_value());
}

TEST(PathChange, ManagedQueuesAndOrder) {
  auto change = Change(
      {"aqm=fq_codel", "ecn=on", "aqm_target=2ms", "aqm_interval=50ms", "jitter_order=free"});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->path.aqm.kind, QueueManagement::Kind::kFqCodel);
  EXPECT_TRUE(change->path.aqm.ecn);
  EXPECT_EQ(change->path.aqm.target, absl::Milliseconds(2));
  EXPECT_EQ(change->path.aqm.interval, absl::Milliseconds(50));
  EXPECT_EQ(change->path.jitter_order, JitterOrder::kFree);
}

TEST(PathChange, ATraceIsTheRateUntilARateIsSet) {
  const std::string file = testing::TempDir() + "/half.trace";
  std::ofstream(file) << "2\n4\n";
  auto change = Change({"rate_trace=" + file});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_NEAR(InMbit(*change->path.rate), 6.056, 1e-9);
  ASSERT_NE(change->path.rate_trace, nullptr);
  EXPECT_EQ(ApplyAssignments(change->path, {"rate=5mbit"})->path.rate_trace, nullptr);
  // Without it the path has the rate that it had, or none.
  const auto without = [](const PathSpec& path) {
    return ApplyAssignments(path, {"rate_trace=none"})->path;
  };
  EXPECT_EQ(without(change->path).rate, Mbit(100));
  EXPECT_EQ(without(ApplyAssignments(change->path, {"rate_trace=" + file})->path).rate, Mbit(100));
  EXPECT_EQ(without(without(change->path)).rate, Mbit(100)) << "there is no trace to take away";
  EXPECT_EQ(without(UniformTopology("continental-us", 2)->paths[0]).rate, Mbit(100));
  EXPECT_FALSE(without(Change({"rate=none", "rate_trace=" + file})->path).rate.has_value());
  EXPECT_EQ(without(ApplyAssignments(change->path, {"rate=5mbit"})->path).rate, Mbit(5));
}

TEST(SelectPaths, OneDirectionBothAndStars) {
  const Topology topology = *UniformTopology("continental-us", 3);
  EXPECT_THAT(*SelectPaths(topology, "w0>w1"), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(*SelectPaths(topology, "w0<>w1"), ElementsAre(Pair(0, 1), Pair(1, 0)));
  EXPECT_THAT(*SelectPaths(topology, "w2>*"), ElementsAre(Pair(2, 0), Pair(2, 1)));
  EXPECT_EQ(SelectPaths(topology, "*>*")->size(), 6u);
  EXPECT_EQ(SelectPaths(topology, "*")->size(), 6u);
}

// A row of the table is all that reads, checks and records a probability.
TEST(PathFigureTable, AProbabilityIsReadCheckedAndRecorded) {
  int shares = 0;
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.share == nullptr) continue;
    ++shares;
    const std::string word(figure.word);
    Topology topology = *UniformTopology("regional", 2);
    const auto changed = ApplyAssignments(topology.paths[0], {word + "=25%"});
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_EQ(figure.ShareOf(changed->path), 0.25) << word;
    topology.paths[0] = changed->path;
    EXPECT_EQ(PathFigures(topology, topology.paths[0])[word], 0.25) << word;
    const std::string file =
        "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[between]\nprofile = 'regional'\n" + word +
        " = ";
    const auto read = ParseTopology(file + "\"25%\"\n", "f.toml", ".");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(figure.ShareOf(read->paths[1]), 0.25) << word;
    EXPECT_THAT(std::string(ParseTopology(file + "-0.1\n", "f.toml", ".").status().message()),
                HasSubstr("f.toml:7: path a > b: " + word + " is -0.1: want a probability"));
  }
  EXPECT_EQ(shares, 4) << "loss, reorder, duplicate, corrupt";
}

}  // namespace
}  // namespace longhaul
