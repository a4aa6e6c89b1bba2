#include "netem/emulators/tap_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace longhaul {
namespace {

TEST(TapNetwork, DueTimesComeInOrderAndCanBeSeenAhead) {
  Topology topology = *UniformTopology("continental-us", 5);
  for (PathSpec& path : topology.paths) path.jitter = absl::Milliseconds(5);
  std::mt19937 rng(11);
  for (int round = 0; round < 50; ++round) {
    TapNetwork network(topology, static_cast<uint64_t>(round));
    const auto frames = static_cast<uint32_t>(rng() % 60);
    int64_t now_ns = 0;
    for (uint32_t i = 0; i < frames; ++i) {
      now_ns += rng() % 1'000'000;
      const int from = static_cast<int>(rng() % 5),
                to = (from + 1 + static_cast<int>(rng() % 4)) % 5;
      ASSERT_TRUE(network.Arrive(now_ns, from, to, i, 1514, 1));
    }
    TapNetwork copy = network;
    std::vector<int64_t> dues;
    while (const auto due_ns = copy.next_due_ns()) {
      const auto output = copy.Next(*due_ns);
      ASSERT_TRUE(output);
      EXPECT_EQ(output->due_ns, *due_ns);
      dues.push_back(*due_ns);
    }
    ASSERT_EQ(dues.size(), frames);
    EXPECT_TRUE(std::is_sorted(dues.begin(), dues.end()));
    for (int i = 0; i < 200; ++i) {
      const int64_t ns = static_cast<int64_t>(rng() % 150'000'000);
      const auto next = std::upper_bound(dues.begin(), dues.end(), ns);
      EXPECT_EQ(network.next_due_after(ns),
                next == dues.end() ? std::nullopt : std::optional(*next));
    }
  }
}

TEST(TapNetwork, DoesNotLookFarIntoAQueue) {
  Topology topology = *UniformTopology("regional", 2);
  TapNetwork network(topology, 1);
  for (uint32_t i = 0; i < 500; ++i) ASSERT_TRUE(network.Arrive(0, 0, 1, i, 1514, 1));
  const int64_t first_ns = *network.next_due_ns();
  EXPECT_GT(*network.next_due_after(first_ns), first_ns);
  EXPECT_EQ(network.next_due_after(first_ns + 1'000'000'000), std::nullopt);
}

TEST(TapNetwork, ReorderedDuplicatedAndCorruptedAsOftenAsAsked) {
  Topology topology = *UniformTopology("regional", 2);
  PathSpec& path = topology.paths[0];
  path.reorder_prob = 0.1;
  path.duplicate_prob = 0.2;
  path.corrupt_prob = 0.3;
  constexpr int kFrames = 20'000;
  const auto count = [&](uint64_t seed) {
    TapNetwork network(topology, seed);
    std::vector<int> counts(3);
    int64_t now_ns = 0;
    for (uint32_t i = 0; i < kFrames; ++i) {
      now_ns += 20'000;
      const TapNetwork::Arrival arrival = network.Arrive(now_ns, 0, 1, i, 1514, 1);
      EXPECT_TRUE(arrival.taken);
      counts[1] += arrival.duplicated;
      counts[2] += arrival.flip.has_value();
      while (const auto output = network.Next(now_ns)) counts[0] += output->handle == i;
    }
    return counts;
  };
  const std::vector<int> counts = count(3);
  // Four standard deviations, sqrt(n p (1 - p)).
  EXPECT_NEAR(counts[0], 2000, 170);
  EXPECT_NEAR(counts[1], 4000, 227);
  EXPECT_NEAR(counts[2], 6000, 260);
  EXPECT_EQ(counts, count(3)) << "the same seed, the same fate";
  EXPECT_NE(counts, count(4));
}

TEST(TapNetwork, ACopyIsNotCopiedAgain) {
  Topology topology = *UniformTopology("regional", 2);
  topology.paths[0].duplicate_prob = 1;
  TapNetwork network(topology, 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, 1, 1514, 1).duplicated);
  EXPECT_FALSE(network.Arrive(0, 0, 1, 2, 1514, 1, 0, /*copy=*/true).duplicated);
}

}  // namespace
}  // namespace longhaul
