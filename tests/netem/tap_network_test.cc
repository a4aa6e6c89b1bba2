#include "netem/emulators/tap_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
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
  path.rare.reorder_prob = 0.1;
  path.rare.duplicate_prob = 0.2;
  path.rare.corrupt_prob = 0.3;
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
      // A full frame takes 12.1 us at 1 Gbit/s; who has no delay is there before the next comes.
      while (const auto output = network.Next(now_ns + 19'000)) counts[0] += output->handle == i;
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

// Three nodes whose queues, of lines and of paths, are managed; frames are lost and overtaken.
Topology ManagedTopology() {
  Topology topology = *UniformTopology("continental-us", 3);
  topology.nodes[0].access = AccessSpec{.up = Mbit(5), .down = Mbit(5)};
  topology.nodes[0].access->aqm = {.kind = QueueManagement::Kind::kFqCodel, .ecn = true};
  topology.nodes[1].access = AccessSpec{.up = Mbit(50), .down = Mbit(3)};
  topology.nodes[1].access->aqm.kind = QueueManagement::Kind::kCodel;
  for (PathSpec& path : topology.paths) {
    path.loss_prob = 0.01;
    path.rare.reorder_prob = 0.01;
    path.jitter = absl::Milliseconds(3);
    path.aqm.kind = path.to == 2 ? QueueManagement::Kind::kFqCodel : QueueManagement::Kind::kCodel;
    path.rate = Mbit(4);
    path.queue = QueueDepth{QueueDepth::Unit::kPackets, 40};
  }
  return topology;
}

// Every handle comes back once, whatever drops it; the counters say the same; the same seed again
// gives the same times.
TEST(TapNetwork, ManagedQueuesHandEveryFrameBackOnce) {
  const Topology topology = ManagedTopology();
  ASSERT_TRUE(Validate(topology).ok()) << Validate(topology);
  const auto run = [&](uint64_t seed) {
    TapNetwork network(topology, seed);
    std::mt19937 rng(3);
    std::vector<int> back(20'000, 0);
    std::vector<int64_t> times;
    int64_t now_ns = 0, out = 0, marked = 0;
    const auto take = [&](int64_t until_ns) {
      while (const auto output = network.Next(until_ns)) {
        ++back[output->handle];
        ++out;
        marked += output->congested;
        if (output->delivered) times.push_back(output->due_ns);
      }
    };
    for (uint32_t i = 0; i < back.size(); ++i) {
      now_ns += rng() % 1'000'000;
      const int from = static_cast<int>(rng() % 3),
                to = (from + 1 + static_cast<int>(rng() % 2)) % 3;
      const auto arrival = network.Arrive(now_ns, from, to, i, 1514, 1, 0, false,
                                          {.hash = rng() % 20, .ecn_capable = rng() % 2 == 0});
      if (!arrival) ++back[i];
      take(now_ns);
      if (i == 10'000) {
        // Frames that wait are not lost when their queue changes its kind.
        PathSpec changed = topology.paths[0];
        changed.aqm.kind = QueueManagement::Kind::kDropTail;
        Topology all = topology;
        all.paths[0] = changed;
        network.ChangePath(all, changed);
      }
    }
    while (const auto due_ns = network.next_due_ns()) take(*due_ns);
    EXPECT_TRUE(std::all_of(back.begin(), back.end(), [](int n) { return n == 1; }));
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    PathCounters sum;
    for (const PathSpec& path : topology.paths) {
      const PathCounters& c = *network.counters(path.from, path.to);
      EXPECT_EQ(c.held_bytes, 0);
      sum.packets += c.packets;
      sum.drops_queue += c.drops_queue;
      sum.drops_loss += c.drops_loss;
      sum.drops_aqm += c.drops_aqm;
      sum.ecn_marks += c.ecn_marks;
    }
    EXPECT_EQ(sum.packets + sum.drops_queue + sum.drops_loss + sum.drops_aqm,
              static_cast<int64_t>(back.size()));
    EXPECT_GT(sum.drops_aqm, 100);
    EXPECT_GT(marked, 100);
    int64_t line_marks = 0;
    for (const LineCounters& line : network.line_counters()) line_marks += line.ecn_marks;
    EXPECT_EQ(line_marks, sum.ecn_marks) << "of the only queue that marks";
    return times;
  };
  EXPECT_EQ(run(1), run(1));
}

TEST(TapNetwork, JitterThatIsFreeReordersBehindARate) {
  Topology topology = *UniformTopology("regional", 2);
  topology.paths[0].jitter = absl::Milliseconds(2);
  const auto overtaken = [&](JitterOrder order) {
    topology.paths[0].jitter_order = order;
    TapNetwork network(topology, 1);
    for (uint32_t i = 0; i < 500; ++i) EXPECT_TRUE(network.Arrive(i * 100'000, 0, 1, i, 1514, 1));
    int count = 0;
    uint32_t last = 0;
    double sum_ms = 0;
    while (const auto due_ns = network.next_due_ns()) {
      while (const auto output = network.Next(*due_ns)) {
        count += output->handle < last;
        last = output->handle;
        sum_ms += static_cast<double>(output->due_ns) / 1e6 - 0.1 * output->handle;
      }
    }
    return std::pair(count, sum_ms / 500);
  };
  const auto [kept, kept_ms] = overtaken(JitterOrder::kKeep);
  const auto [freed, freed_ms] = overtaken(JitterOrder::kFree);
  EXPECT_EQ(kept, 0);
  EXPECT_GT(freed, 100);
  EXPECT_NEAR(freed_ms, 10.012, 0.3) << "the mean delay is the nominal one: 3 standard errors";
  EXPECT_GT(kept_ms, freed_ms + 2) << "a late frame holds back those behind it";
}

TEST(TapNetwork, ADropTailQueueApartServesAsTheOtherDoes) {
  // The same link as a stage that knows departures at once, and as a queue that is served: one
  // frame after the other, delay behind.
  Topology plain = *UniformTopology("continental-us", 2);
  plain.paths[0].queue = QueueDepth{QueueDepth::Unit::kPackets, 1e6};
  Topology managed = plain;
  managed.paths[0].aqm.kind = QueueManagement::Kind::kCodel;
  TapNetwork a(plain, 1), b(managed, 1);
  b.ChangePath(plain, plain.paths[0]);  // it keeps the queue that is served by events
  std::mt19937 rng(8);
  int64_t now_ns = 0;
  for (uint32_t i = 0; i < 5'000; ++i) {
    now_ns += rng() % 240'000;
    const int64_t bytes = 60 + rng() % 1454;
    ASSERT_TRUE(a.Arrive(now_ns, 0, 1, i, bytes, 1));
    ASSERT_TRUE(b.Arrive(now_ns, 0, 1, i, bytes, 1));
  }
  const auto drain = [](TapNetwork& network) {
    std::vector<int64_t> times;
    while (const auto due_ns = network.next_due_ns()) {
      while (const auto output = network.Next(*due_ns)) times.push_back(output->due_ns);
    }
    return times;
  };
  const auto of_a = drain(a), of_b = drain(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (size_t i = 0; i < of_a.size(); ++i) EXPECT_NEAR(of_a[i], of_b[i], 2) << "ns, frame " << i;
}

// A burst of 300 datagrams that comes all at once: as many as the queue holds pass, whatever the
// delay, and leave one transmission apart; as a path's own rate and as an access line's.
TEST(TapNetwork, AnIdleLinkTakesABurstOfItsQueueAndNoMore) {
  constexpr int64_t kTransmitNs = 121'120, kDelayNs = 32'500'000;  // 1514 bytes at 100 Mbit/s
  Topology as_path = *UniformTopology("continental-us", 2);
  as_path.paths[0].queue = QueueDepth{QueueDepth::Unit::kPackets, 20};
  Topology as_line = as_path;
  as_line.paths[0].rate.reset();
  as_line.paths[0].queue.reset();
  as_line.nodes[0].access =
      AccessSpec{Mbit(100), Mbit(100), QueueDepth{QueueDepth::Unit::kPackets, 20}};
  for (const Topology& topology : {as_path, as_line}) {
    TapNetwork network(topology, 1);
    for (uint32_t i = 0; i < 300; ++i) {
      EXPECT_EQ(network.Arrive(0, 0, 1, i, 1514, 1).taken, i < 20) << i;
    }
    std::vector<int64_t> times;
    while (const auto due_ns = network.next_due_ns()) {
      while (const auto output = network.Next(*due_ns)) times.push_back(output->due_ns);
    }
    ASSERT_EQ(times.size(), 20u);
    for (int64_t k = 0; k < 20; ++k) EXPECT_EQ(times[k], (k + 1) * kTransmitNs + kDelayNs);
    EXPECT_EQ(network.counters(0, 1)->drops_queue, 280);
  }
}

// A late frame holds back those behind it and takes nothing from the rate: the link is as fast as
// without jitter.
TEST(TapNetwork, JitterBehindARateCostsNoRate) {
  Topology topology = *UniformTopology("continental-us", 2);
  topology.paths[0].jitter = absl::Milliseconds(5);
  topology.paths[0].queue = QueueDepth{QueueDepth::Unit::kPackets, 1e6};
  TapNetwork network(topology, 1);
  constexpr int kFrames = 10'000;
  for (uint32_t i = 0; i < kFrames; ++i) ASSERT_TRUE(network.Arrive(0, 0, 1, i, 1514, 1));
  int64_t last_ns = 0;
  uint32_t next = 0;
  while (const auto due_ns = network.next_due_ns()) {
    while (const auto output = network.Next(*due_ns)) {
      EXPECT_EQ(output->handle, next++);
      last_ns = output->due_ns;
    }
  }
  const double sent_ms = kFrames * 0.12112;
  EXPECT_NEAR(static_cast<double>(last_ns) / 1e6, sent_ms + 32.5, 5 * 5.0);
}

TEST(TapNetwork, ACopyIsNotCopiedAgain) {
  Topology topology = *UniformTopology("regional", 2);
  topology.paths[0].rare.duplicate_prob = 1;
  TapNetwork network(topology, 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, 1, 1514, 1).duplicated);
  EXPECT_FALSE(network.Arrive(0, 0, 1, 2, 1514, 1, 0, /*copy=*/true).duplicated);
}

}  // namespace
}  // namespace longhaul
