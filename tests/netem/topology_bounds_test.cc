// What the figures of links may be at least and at most, from both sides, by hand; and two of each
// table of a file that differ.
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "netem/topology/rate_trace.h"
#include "netem/topology/topology.h"
#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string Number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string Below(double value) { return Number(std::nextafter(value, -kInf)); }
std::string Above(double value) { return Number(std::nextafter(value, kInf)); }

absl::StatusOr<Topology> Parse(const std::string& text) {
  return ParseTopology(text, "t.toml", testing::TempDir());
}

const std::string kNodes = "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n";

std::string Error(const std::string& text) { return std::string(Parse(text).status().message()); }
std::string PathError(const std::string& figures) {
  return Error(kNodes + "[between]\n" + figures);
}
std::string NodeError(const std::string& figures) {
  return Error("[[node]]\nname = 'a'\n" + figures);
}

// Values of `key` that are taken, and of which `says` is told.
struct Case {
  std::string key, least, below, most, above, says;
  std::string with = {};
};

TEST(TopologyBounds, EachFigureOfAPathReachesBothEndsAndNoFurther) {
  const std::string rate = "rate_mbit = 1\n";
  for (const Case& c : {
           Case{"rate_mbit", "0.001", Below(0.001), "1e6", Above(1e6), "(0.001 to 1000000)"},
           Case{"delay_ms", "0", "-0.001", "3600000", "3600000.001", "want 0 to an hour"},
           Case{"rtt_ms", "0", "-0.001", "7200000", "7200000.001", "want 0 to an hour"},
           Case{"jitter_ms", "0", "-0.001", "3600000", "3600000.001", "want 0 to an hour"},
           Case{"loss", "0.0", Below(0), "'100%'", "'100.001%'", ""},
           Case{"reorder", "0.0", Below(0), "'100%'", "'100.001%'", "", "delay_ms = 1\n"},
           Case{"duplicate", "0.0", Below(0), "'100%'", "'100.001%'", ""},
           Case{"corrupt", "0.0", Below(0), "'100%'", "'100.001%'", ""},
           Case{"queue_bdp", "1e-300", "0", "1e6", Above(1e6), "at least one packet, at most 1e+06",
                rate},
           Case{"queue_packets", "1", Below(1), "1e9", Above(1e9),
                "at least one packet (1 packets)", rate},
           Case{"queue_bytes", "1514", Below(1514), "1e12", Above(1e12), "(1514 bytes)", rate},
           // 12,112 bits at 1 Mbit/s.
           Case{"queue_ms", "12.112", "12.111", "1e9", Above(1e9), "(12.11 ms)", rate},
           Case{"aqm_target_ms", "0.001", "0.0009", "99.99", "100", "aqm_target is",
                rate + "aqm = 'codel'\n"},
           Case{"aqm_interval_ms", "5.001", "5", "60000", "60000.1", "aqm_",
                rate + "aqm = 'codel'\n"},
       }) {
    const bool has_delay = (c.key + c.with).find("_ms") != std::string::npos &&
                           (c.key == "delay_ms" || c.key == "rtt_ms" || !c.with.empty());
    const std::string with =
        c.with + (has_delay && c.with.find("rate") == std::string::npos ? "" : "delay_ms = 2\n");
    const auto error = [&](const std::string& value) {
      return PathError(with + c.key + " = " + value + "\n");
    };
    EXPECT_EQ(error(c.least), "") << c.key;
    EXPECT_EQ(error(c.most), "") << c.key;
    for (const std::string& beyond : {c.below, c.above}) {
      EXPECT_THAT(error(beyond), HasSubstr(c.says)) << c.key << " = " << beyond;
      EXPECT_NE(error(beyond), "") << c.key << " = " << beyond;
    }
  }
}

TEST(TopologyBounds, LinesReachBothEndsAndNoFurther) {
  for (const char* key : {"up_mbit", "down_mbit"}) {
    const std::string other = key == std::string("up_mbit") ? "down_mbit = 1\n" : "up_mbit = 1\n";
    const auto error = [&](const std::string& v) {
      return NodeError(other + key + " = " + v + "\n");
    };
    EXPECT_EQ(error("0.001"), "");
    EXPECT_EQ(error("1e6"), "");
    EXPECT_THAT(error(Below(0.001)), HasSubstr("(0.001 to 1000000)"));
    EXPECT_THAT(error(Above(1e6)), HasSubstr("(0.001 to 1000000)"));
  }
  // Of the slower direction: 12,112 bits at 2 Mbit/s.
  const std::string lines = "up_mbit = 50\ndown_mbit = 2\n";
  EXPECT_EQ(NodeError(lines + "access_queue_ms = 6.056\n"), "");
  EXPECT_THAT(NodeError(lines + "access_queue_ms = 6.055\n"), HasSubstr("(6.056 ms)"));
}

TEST(TopologyBounds, NodesAndTimesReachBothEndsAndNoFurther) {
  const auto mtu = [](const char* v) {
    return Error(fmt::format("mtu = {}\n[[node]]\nname = 'a'\n", v));
  };
  EXPECT_EQ(mtu("576"), "");
  EXPECT_EQ(mtu("65000"), "");
  EXPECT_THAT(mtu("575"), HasSubstr("want 576 to 65000"));
  EXPECT_THAT(mtu("65001"), HasSubstr("want 576 to 65000"));

  const auto group = [](const char* v) {
    return Error(fmt::format(
        "[[group]]\nname = 'g'\nnodes = {}\ninside = 'regional'\n[between]\nrtt_ms = 1\n", v));
  };
  EXPECT_EQ(group("1"), "");
  EXPECT_EQ(group("256"), "");
  for (const char* bad : {"0", "257", "1.5"}) {
    EXPECT_THAT(group(bad), HasSubstr("no whole number from 1 to 256")) << bad;
  }
  EXPECT_THAT(Error("[[group]]\nname = 'g'\nnodes = 255\n[[group]]\nname = 'h'\n"
                    "nodes = 2\n[between]\nrtt_ms = 1\n"),
              HasSubstr("257 nodes: at most 256"));

  const auto name = [](size_t bytes) {
    return Error("[[node]]\nname = '" + std::string(bytes, 'n') + "'\n");
  };
  EXPECT_EQ(name(48), "");
  EXPECT_THAT(name(49), HasSubstr("want 1 to 48"));
  EXPECT_THAT(name(0), HasSubstr("want 1 to 48"));

  const auto change = [](const std::string& at) {
    return PathError("rtt_ms = 1\n[[change]]\npath = '*'\nset = 'rate=1mbit'\nat_s = " + at + "\n");
  };
  EXPECT_EQ(change("0"), "");
  EXPECT_EQ(change("1e7"), "");
  EXPECT_THAT(change(Below(0)), HasSubstr("0 to 1e+07"));
  EXPECT_THAT(change(Above(1e7)), HasSubstr("0 to 1e+07"));
}

TEST(TopologyBounds, AMeshHasOneToTenThousandNodes) {
  EXPECT_EQ(UniformTopology("regional", 1)->nodes.size(), 1u);
  EXPECT_FALSE(UniformTopology("regional", 0).ok());
  EXPECT_FALSE(UniformTopology("regional", 10001).ok());
}

TEST(TopologyBounds, ATargetIsBelowItsInterval) {
  const std::string codel = "delay_ms = 1\nrate_mbit = 1\naqm = 'codel'\naqm_interval_ms = 40\n";
  EXPECT_EQ(PathError(codel + "aqm_target_ms = 39.999\n"), "");
  EXPECT_THAT(PathError(codel + "aqm_target_ms = 40\n"), HasSubstr("want less than aqm_interval"));
}

// Two of each table that differ in every figure: none takes the other's.
constexpr char kTwoOfEachTable[] = R"(
[[site]]
name = "paris"
up_mbit = 100
down_mbit = 200
access_queue_ms = 30
[[site]]
name = "lyon"
up_mbit = 7
down_mbit = 9
access_queue_packets = 80
[[group]]
name = "p"
nodes = 2
site = "paris"
inside = "colocated"
[[group]]
name = "l"
nodes = 2
site = "lyon"
inside = "regional"
[between]
rtt_ms = 80
[[path]]
from = "p-0"
to = "l-1"
rate_mbit = 3
delay_ms = 11
loss = 0.02
[[path]]
from = "l-0"
to = "p-1"
rate_mbit = 4
delay_ms = 12
loss = 0.03
[[change]]
at_s = 20
path = "p-0>l-1"
set = "rate=10mbit loss=1%"
[[change]]
at_s = 5
path = "l-0>p-1"
set = "outage=3s"
[[change]]
at_s = 20
path = "p-1>l-1"
set = "delay=9ms"
)";

TEST(TopologyFile, TwoOfEachTableKeepTheirOwnFigures) {
  const auto topology = Parse(kTwoOfEachTable);
  ASSERT_TRUE(topology.ok()) << topology.status();
  const Topology& t = *topology;
  EXPECT_EQ(InMbit(t.sites[0].access.up), 100);
  EXPECT_EQ(InMbit(t.sites[0].access.down), 200);
  EXPECT_EQ(t.sites[0].access.queue->unit, QueueDepth::Unit::kMilliseconds);
  EXPECT_EQ(t.sites[0].access.queue->amount, 30);
  EXPECT_EQ(InMbit(t.sites[1].access.up), 7);
  EXPECT_EQ(InMbit(t.sites[1].access.down), 9);
  EXPECT_EQ(t.sites[1].access.queue->unit, QueueDepth::Unit::kPackets);
  EXPECT_EQ(t.sites[1].access.queue->amount, 80);
  const int p0 = 0, p1 = 1, l0 = 2, l1 = 3;
  for (const auto& [node, site] : {std::pair(p0, 0), {p1, 0}, {l0, 1}, {l1, 1}}) {
    EXPECT_EQ(t.nodes[static_cast<size_t>(node)].site, site);
  }
  EXPECT_EQ(FindPath(t, p0, p1)->delay, absl::Milliseconds(2.5));
  EXPECT_EQ(FindPath(t, l1, l0)->delay, absl::Milliseconds(10));
  const auto figures = [&](int from, int to) {
    const PathSpec& path = *FindPath(t, from, to);
    return fmt::format("{} {:g} ms {:g}", path.rate ? fmt::format("{:g}", InMbit(*path.rate)) : "-",
                       absl::ToDoubleMilliseconds(path.delay), path.loss_prob);
  };
  EXPECT_EQ(figures(p0, l1), "3 11 ms 0.02");
  EXPECT_EQ(figures(l0, p1), "4 12 ms 0.03");
  EXPECT_EQ(figures(l1, p0), "- 40 ms 0") << "the way back of the first has none of its own";
  EXPECT_EQ(figures(p1, l0), "- 40 ms 0");
  std::vector<std::string> changes;
  for (const ScheduledChange& change : t.changes) {
    changes.push_back(fmt::format("{:g} s {}: {} words, line {}", absl::ToDoubleSeconds(change.at),
                                  change.path, change.figures.size(), change.line));
  }
  EXPECT_THAT(changes,
              ElementsAre("5 s l-0>p-1: 1 words, line 40", "20 s p-0>l-1: 2 words, line 36",
                          "20 s p-1>l-1: 1 words, line 44"))
      << "by their times; of equal ones as the file says them";
  EXPECT_THAT(t.changes[1].figures, ElementsAre("rate=10mbit", "loss=1%"));
}

TEST(WhyTapAlone, NamesThePathAndItsReason) {
  const auto why = [](const std::function<void(PathSpec&)>& change) {
    Topology topology = *UniformTopology("regional", 3);
    change(topology.paths[3]);  // from w1 to w2
    return WhyTapAlone(topology);
  };
  EXPECT_EQ(why([](PathSpec&) {}), "");
  EXPECT_EQ(why([](PathSpec& p) { p.rare.reorder_prob = p.rare.corrupt_prob = 0.5; }), "");
  EXPECT_THAT(why([](PathSpec& p) { p.rare.duplicate_prob = 1e-9; }),
              testing::StartsWith("path w1 > w2: duplicate: "));
  EXPECT_THAT(why([](PathSpec& p) { p.aqm.kind = QueueManagement::Kind::kFqCodel; }),
              testing::StartsWith("path w1 > w2: aqm: "));
  EXPECT_THAT(why([](PathSpec& p) { SetRateTrace(p, *ParseRateTrace("1\n", "t"), 1500); }),
              testing::StartsWith("path w1 > w2: rate_trace: "));
}

TEST(MeanLoss, OfCorruptionIsOfWhatIsNotDropped) {
  PathSpec path = UniformTopology("regional", 2)->paths[0];
  path.loss_prob = 0.2;
  path.rare.corrupt_prob = 0.5;
  EXPECT_DOUBLE_EQ(MeanLoss(path), 0.6);
  path.loss_prob = 0;
  path.burst_loss = BurstLoss{.to_bad = 0.1, .to_good = 0.3, .loss_bad = 0.8, .loss_good = 0.4};
  EXPECT_DOUBLE_EQ(MeanLoss(path), 0.5 + 0.5 * 0.5);  // 0.25 x 0.8 + 0.75 x 0.4
}

}  // namespace
}  // namespace longhaul
