// The link model on synthetic time: every figure is worked out by hand.
#include "netem/emulators/link_stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "netem/emulators/mtu_frames.h"
#include "netem/emulators/tap_network.h"
#include "netem/topology/impairment.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kFrame = 1250;  // 1 ms at 10 Mbit/s
constexpr StageSpec kTenMbit{Mbit(10), {.packets = 10}};

TEST(LinkStage, AnIdleRateTakesTheTransmissionAlone) {
  LinkStage stage(kTenMbit);
  EXPECT_EQ(stage.Admit(100 * kMs, kFrame), 101 * kMs);
}

TEST(LinkStage, BackToBackFramesLeaveOneTransmissionApart) {
  LinkStage stage(kTenMbit);
  EXPECT_EQ(stage.Admit(0, kFrame), 1 * kMs);
  EXPECT_EQ(stage.Admit(0, kFrame), 2 * kMs);
  EXPECT_EQ(stage.Admit(kMs / 2, kFrame), 3 * kMs);
}

TEST(LinkStage, IdleTimeIsNotSavedUp) {
  LinkStage stage(kTenMbit);
  stage.Admit(0, kFrame);
  EXPECT_EQ(stage.Admit(50 * kMs, kFrame), 51 * kMs);
}

TEST(LinkStage, WithoutARateNothingWaits) {
  LinkStage stage({std::nullopt, {.packets = 1}});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(stage.Admit(7, kFrame), 7);
}

TEST(LinkStage, AQueueInPacketsHoldsThatManyOfAnySize) {
  for (int64_t bytes : {int64_t{60}, kFrame}) {
    LinkStage stage(kTenMbit);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(stage.Admit(0, bytes).has_value());
    EXPECT_FALSE(stage.Admit(0, bytes).has_value());
    const int64_t first_left_ns = bytes * 800;  // 8 bits at 10 Mbit/s
    EXPECT_FALSE(stage.Admit(first_left_ns - 1, bytes).has_value());
    EXPECT_EQ(stage.Admit(first_left_ns, bytes), 11 * first_left_ns);
    EXPECT_FALSE(stage.Admit(first_left_ns, 1).has_value());
  }
  LinkStage whole(kTenMbit);  // a TSO frame takes the room of its packets
  EXPECT_TRUE(whole.Admit(0, 8 * kFrame, 8).has_value());
  EXPECT_FALSE(whole.Admit(0, 3 * kFrame, 3).has_value());
  EXPECT_TRUE(whole.Admit(0, 2 * kFrame, 2).has_value());
}

TEST(LinkStage, AQueueInBytesHoldsThatManyInAnyNumberOfPackets) {
  LinkStage stage({Mbit(10), {.bytes = 2 * kFrame}});
  EXPECT_TRUE(stage.Admit(0, kFrame).has_value());
  EXPECT_TRUE(stage.Admit(0, kFrame - 60).has_value());
  EXPECT_FALSE(stage.Admit(0, 61).has_value());
  EXPECT_TRUE(stage.Admit(0, 60).has_value());
}

TEST(LinkStage, DroppedFrameTakesNoTime) {
  LinkStage stage({Mbit(10), {.packets = 2}});
  stage.Admit(0, kFrame);
  stage.Admit(0, kFrame);
  EXPECT_FALSE(stage.Admit(0, kFrame).has_value());
  EXPECT_EQ(stage.Admit(kMs, kFrame), 3 * kMs);
}

TEST(LinkStage, RateIsExactOverAMillionFrames) {
  LinkStage stage({Mbit(95.7)});
  int64_t due = 0;
  for (int i = 0; i < 1'000'000; ++i) due = *stage.Admit(0, 1514);
  EXPECT_NEAR(static_cast<double>(due), 1e6 * 1514 * 8 / 95.7e6 * 1e9, 1000);
}

TEST(LinkStage, ChangeSparesWhatIsInside) {
  LinkStage stage(kTenMbit);
  EXPECT_EQ(stage.Admit(0, kFrame), 1 * kMs);
  stage.Change({Mbit(1), {.packets = 2}});
  EXPECT_EQ(stage.Admit(0, kFrame), 11 * kMs);
  EXPECT_FALSE(stage.Admit(0, kFrame).has_value()) << "the first is still inside";
}

TEST(Impairment, SameSeedAndPathDrawTheSame) {
  const ImpairmentSpec spec{.loss_prob = 0.3, .jitter_ns = kMs};
  Impairment a(spec, 7, 0, 1), b(spec, 7, 0, 1), other_seed(spec, 8, 0, 1), back(spec, 7, 1, 0);
  Impairment to_another(spec, 7, 0, 2);
  int differs_by_seed = 0, differs_by_path = 0, differs_by_end = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto fate = a.Next(), same = b.Next();
    EXPECT_EQ(fate.lost, same.lost);
    EXPECT_EQ(fate.jitter_ns, same.jitter_ns);
    differs_by_seed += fate.jitter_ns != other_seed.Next().jitter_ns;
    differs_by_path += fate.jitter_ns != back.Next().jitter_ns;
    differs_by_end += fate.jitter_ns != to_another.Next().jitter_ns;
  }
  EXPECT_GT(differs_by_seed, 990);
  EXPECT_GT(differs_by_path, 990);
  EXPECT_GT(differs_by_end, 990);
}

TEST(Impairment, LossAndJitterHaveTheirNominalMoments) {
  constexpr int kDraws = 400'000;
  Impairment impairment({.loss_prob = 0.01, .jitter_ns = 2 * kMs}, 1, 0, 1);
  double lost = 0, sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto fate = impairment.Next();
    lost += fate.lost;
    sum += static_cast<double>(fate.jitter_ns);
    squares += static_cast<double>(fate.jitter_ns) * static_cast<double>(fate.jitter_ns);
  }
  // Four standard errors each; the draws are fixed, so this cannot flicker.
  EXPECT_NEAR(lost / kDraws, 0.01, 4 * std::sqrt(0.01 * 0.99 / kDraws));
  EXPECT_NEAR(sum / kDraws, 0, 4 * 2 * kMs / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws), 2 * kMs, 4 * 2 * kMs / std::sqrt(2.0 * kDraws));
}

TEST(Impairment, BurstsHaveTheirMeanLossAndLength) {
  constexpr int kDraws = 400'000;
  Impairment impairment({.burst_loss = BurstLoss{.to_bad = 0.01, .to_good = 0.25}}, 1, 0, 1);
  int lost = 0, bursts = 0;
  bool before = false;
  for (int i = 0; i < kDraws; ++i) {
    const bool now = impairment.Next().lost;
    lost += now;
    bursts += now && !before;
    before = now;
  }
  EXPECT_NEAR(static_cast<double>(lost) / kDraws, 0.01 / 0.26, 0.003);
  EXPECT_NEAR(static_cast<double>(lost) / bursts, 4, 0.15) << "1 / to_good packets";
}

TEST(Impairment, UniformJitterStaysWithinItsHalfWidth) {
  Impairment impairment({.jitter_ns = kMs, .jitter_shape = JitterShape::kUniform}, 1, 0, 1);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100'000; ++i) {
    const int64_t jitter_ns = impairment.Next().jitter_ns;
    EXPECT_LE(std::abs(jitter_ns), kMs);
    sum += static_cast<double>(jitter_ns);
    squares += static_cast<double>(jitter_ns) * static_cast<double>(jitter_ns);
  }
  EXPECT_NEAR(sum / 100'000, 0, 0.01 * kMs) << "as much later as earlier";
  EXPECT_NEAR(std::sqrt(squares / 100'000), kMs / std::sqrt(3), 0.01 * kMs);
}

// Three nodes; access lines of 10 Mbit/s up and 5 down; paths of 10 ms without a rate of their own.
Topology Star() {
  Topology topology{.profile = "star", .nodes = {}, .paths = {}};
  for (const char* name : {"a", "b", "c"}) {
    topology.nodes.push_back({name, AccessSpec{.up = Mbit(10), .down = Mbit(5)}});
  }
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if (i != j && !(i == 1 && j == 0)) {
        topology.paths.push_back({.from = i,
                                  .to = j,
                                  .rate = std::nullopt,
                                  .delay = absl::Milliseconds(10),
                                  .jitter = absl::ZeroDuration()});
      }
    }
  }
  return topology;
}

struct Delivered {
  uint32_t handle;
  int to;
  int64_t due_ns;
  bool operator==(const Delivered&) const = default;
};
std::vector<Delivered> Drain(TapNetwork& network) {
  std::vector<Delivered> all;
  while (auto due = network.next_due_ns()) {
    if (auto output = network.Next(*due); output && output->delivered) {
      all.push_back({output->handle, output->to, output->due_ns});
    }
  }
  return all;
}

TEST(TapNetwork, FrameCrossesUplinkPathAndDownlink) {
  TapNetwork network(Star(), 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, /*handle=*/9, kFrame, 1));
  // 1 ms up, 10 ms path, 2 ms down.
  EXPECT_EQ(Drain(network), (std::vector<Delivered>{{9, 1, 13 * kMs}}));
  EXPECT_EQ(network.counters(0, 1)->packets, 1);
  EXPECT_EQ(network.counters(0, 1)->bytes, kFrame);
}

TEST(TapNetwork, UplinkIsSharedByDestinationsAndDownlinkBySources) {
  TapNetwork network(Star(), 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, 1, kFrame, 1));  // at c's or b's door 11 ms
  EXPECT_TRUE(network.Arrive(0, 0, 2, 2, kFrame, 1));  // 12 ms: behind frame 1 in the uplink
  EXPECT_TRUE(network.Arrive(0, 1, 2, 3, kFrame, 1));  // 11 ms, so it enters c's downlink first
  EXPECT_EQ(Drain(network),
            (std::vector<Delivered>{{1, 1, 13 * kMs}, {3, 2, 13 * kMs}, {2, 2, 15 * kMs}}));
}

TEST(TapNetwork, NodesOfASiteShareItsLineAndHaveALan) {
  Topology topology = Star();
  topology.sites = {{"site", AccessSpec{.up = Mbit(10), .down = Mbit(5)}}};
  for (int node : {0, 1}) {
    topology.nodes[node].access.reset();
    topology.nodes[node].site = 0;
  }
  TapNetwork network(topology, 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, 1, kFrame, 1));  // LAN: the path's 10 ms alone
  EXPECT_TRUE(network.Arrive(0, 0, 2, 2, kFrame, 1));  // 1 ms up, 10, 2 ms down
  EXPECT_TRUE(network.Arrive(0, 1, 2, 3, kFrame, 1));  // behind it in the line and the downlink
  EXPECT_EQ(Drain(network),
            (std::vector<Delivered>{{1, 1, 10 * kMs}, {2, 2, 13 * kMs}, {3, 2, 15 * kMs}}));
  // Into the site: one downlink for both.
  EXPECT_TRUE(network.Arrive(100 * kMs, 2, 0, 4, kFrame, 1));
  EXPECT_TRUE(network.Arrive(100 * kMs, 2, 1, 5, kFrame, 1));
  EXPECT_EQ(Drain(network), (std::vector<Delivered>{{4, 0, 113 * kMs}, {5, 1, 115 * kMs}}));
}

TEST(TapNetwork, PairWithoutAPathDropsAndCounts) {
  TapNetwork network(Star(), 1);
  EXPECT_FALSE(network.Arrive(0, 1, 0, 1, kFrame, 1));
  EXPECT_FALSE(network.Arrive(0, 0, 99, 1, kFrame, 1));
  EXPECT_FALSE(network.Arrive(0, 0, -1, 1, kFrame, 1));
  EXPECT_EQ(network.unroutable_drops(), 3);
  EXPECT_EQ(network.counters(1, 0), nullptr);
  EXPECT_FALSE(network.next_due_ns().has_value());
}

TEST(TapNetwork, FullDownlinkHandsTheHandleBackUndelivered) {
  Topology topology = Star();
  topology.nodes[1].access->down = Mbit(0.01);  // 64 packets of 1514 bytes, each 1.2 s long
  TapNetwork network(topology, 1);
  int64_t accepted = 0;
  for (uint32_t i = 0; i < 70; ++i) accepted += network.Arrive(i * 2 * kMs, 0, 1, i, 1514, 1);
  EXPECT_EQ(accepted, 70);
  EXPECT_EQ(Drain(network).size(), 64u);
  EXPECT_EQ(network.counters(0, 1)->drops_queue, 6);
}

TEST(TapNetwork, LossIsCountedApartFromTailDrops) {
  Topology topology = Star();
  topology.paths[0].loss_prob = 0.5;
  TapNetwork network(topology, 1);
  int64_t passed = 0;
  for (uint32_t i = 0; i < 1000; ++i) passed += network.Arrive(i * 2 * kMs, 0, 1, i, kFrame, 1);
  EXPECT_EQ(network.counters(0, 1)->drops_loss, 1000 - passed);
  EXPECT_EQ(network.counters(0, 1)->drops_queue, 0);
  EXPECT_NEAR(static_cast<double>(passed), 500, 80);
}

TEST(TapNetwork, ChangeAndOutageSpareWhatIsOnItsWay) {
  Topology topology = Star();
  TapNetwork network(topology, 1);
  EXPECT_TRUE(network.Arrive(0, 0, 1, 1, kFrame, 1));  // leaves at 13 ms whatever follows
  topology.paths[0].delay = absl::Milliseconds(100);
  network.ChangePath(topology, topology.paths[0]);
  EXPECT_TRUE(network.Arrive(50 * kMs, 0, 1, 2, kFrame, 1));
  network.SetCarrier(0, 1, Carrier::kDown);
  EXPECT_FALSE(network.Arrive(60 * kMs, 0, 1, 3, kFrame, 1));
  network.SetCarrier(0, 1, Carrier::kUp);
  EXPECT_TRUE(network.Arrive(70 * kMs, 0, 1, 4, kFrame, 1));
  EXPECT_EQ(Drain(network),
            (std::vector<Delivered>{{1, 1, 13 * kMs}, {2, 1, 153 * kMs}, {4, 1, 173 * kMs}}));
  EXPECT_EQ(network.counters(0, 1)->drops_loss, 1);
}

TEST(NeedsMtuFrames, WhereAWholeTsoFrameWouldHurt) {
  const auto needs = [](std::string_view profile, double loss) {
    Topology topology = *UniformTopology(profile, 2);
    topology.paths[0].loss_prob = loss;
    return NeedsMtuFrames(topology, 0);
  };
  EXPECT_FALSE(needs("regional", 0));
  EXPECT_FALSE(needs("transpacific", 0));
  EXPECT_TRUE(needs("global", 0));
  EXPECT_TRUE(needs("regional", 1e-6));
}

// Rates from 50 Mbit/s on and queues from 128 packets on take whole frames; each other reason is one
// by itself, on the way from the node, and none on a way that leads elsewhere.
TEST(NeedsMtuFrames, EachReasonByItself) {
  const auto needs = [](const std::function<void(Topology&)>& change) {
    Topology topology = *UniformTopology("regional", 3);
    for (PathSpec& path : topology.paths) path.queue = QueueDepth{QueueDepth::Unit::kPackets, 500};
    change(topology);
    std::vector<int> nodes;
    for (int node = 0; node < 3; ++node) {
      if (NeedsMtuFrames(topology, node)) nodes.push_back(node);
    }
    return nodes;
  };
  using Nodes = std::vector<int>;
  const auto path = [&needs](const std::function<void(PathSpec&)>& change) {
    return needs([&](Topology& t) { change(t.paths[2]); });  // from 1 to 0
  };
  EXPECT_EQ(path([](PathSpec& p) { p.rate = Mbit(50); }), Nodes());
  EXPECT_EQ(path([](PathSpec& p) { p.rate = Mbit(49.99); }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.queue->amount = 128; }), Nodes());
  EXPECT_EQ(path([](PathSpec& p) { p.queue->amount = 127; }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.rare.reorder_prob = 1e-9; }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.rare.duplicate_prob = 1e-9; }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.rare.corrupt_prob = 1e-9; }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.burst_loss = BurstLoss{.to_bad = 1e-9, .to_good = 1}; }),
            Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { p.aqm.kind = QueueManagement::Kind::kCodel; }), Nodes{1});
  EXPECT_EQ(path([](PathSpec& p) { SetRateTrace(p, *ParseRateTrace("1\n1\n", "t"), 1500); }),
            Nodes{1});
  // A line is on the ways of its own node and of all that send to it.
  const auto line = [&needs](BitsPerSecond up, BitsPerSecond down, double queue,
                             QueueManagement::Kind kind) {
    return needs([&](Topology& t) {
      t.nodes[1].access = AccessSpec{.up = up,
                                     .down = down,
                                     .queue = QueueDepth{QueueDepth::Unit::kPackets, queue},
                                     .aqm = {.kind = kind}};
    });
  };
  using Kind = QueueManagement::Kind;
  EXPECT_EQ(line(Mbit(50), Mbit(50), 128, Kind::kDropTail), Nodes());
  EXPECT_EQ(line(Mbit(49), Mbit(50), 128, Kind::kDropTail), Nodes{1});
  EXPECT_EQ(line(Mbit(50), Mbit(49), 128, Kind::kDropTail), (Nodes{0, 2}));
  EXPECT_EQ(line(Mbit(50), Mbit(50), 127, Kind::kDropTail), (Nodes{0, 1, 2}));
  EXPECT_EQ(line(Mbit(50), Mbit(50), 128, Kind::kFqCodel), (Nodes{0, 1, 2}));
}

}  // namespace
}  // namespace longhaul
