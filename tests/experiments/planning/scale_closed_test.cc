// Runs in simulated time with every figure unlike the others, against closed forms written here:
// two kinds of links, two stages that differ, rounds that do not divide the steps. Nothing that
// GroupPace says is taken for granted.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/planning/scale.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul::scale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Four groups of two stages, 20 steps in rounds of 7, 7 and 6.
const std::string kRun = InjectedRunToml("20", "[0.5, 0.7]", "[1.0, 1.3]") + R"([outer]
groups = 4
inner_steps = 7
codec = "none"
[net]
transport = "ucx"
profile = "regional"
congestion_control = "reno"
peer_deadline_s = 11
[eval]
rows = 1
)";
constexpr char kBetween[] = "[scale]\nbetween = \"transatlantic\"\nrestart_s = 5\n";

// Inside of a group 1 Gbit/s and 10 ms one way, between groups 100 Mbit/s and 75 ms there and back.
constexpr double kKappa = 1514.0 / 1448;
constexpr double kMessage = 4 * 2 * 64 * 256 + 112;  // an activation of floats, and its header
// A segment's frame takes so long. Pauses of seconds close the windows: 10, 20 and 40 segments go in a
// round trip each, and the rest as fast as the line.
constexpr double Tau(double bit_per_s) { return 8 * 1514 / bit_per_s; }
constexpr double kSegments = kMessage / 1448;
constexpr double kWire = 3 * 0.02 + (kSegments - 70) * Tau(1e9) + 0.01;
constexpr double kStep = 0.5 + 0.7 + 1.3 + 1.0 + 0.25 + 2 * kWire;
// A block has 12 D^2 + 4 D; stage 0 is the larger: its embeddings have 256 + 64 rows, the head of
// stage 1 has 256 and the norm two.
constexpr double kStage = 4 * (12 * 256 * 256 + 4 * 256) + (256 + 64) * 256;
constexpr double kFrame = 4 * kStage + 112;
constexpr double kLine = 12.5e6, kRtt = 0.075;  // bytes/s; 937,500 bytes in flight

// To three others over one line: three windows of ten segments, doubled five times (960 segments are
// beyond what is in flight), 31 of them sent; pushed, so half a round trip ahead.
constexpr double kWindow = 10 * 1514;  // on the wire
double ToThree() { return 5.5 * kRtt + (3 * kKappa * kFrame - 31 * 3 * kWindow) / kLine; }
// To two: 640 segments are beyond it (619): five rounds and 31 windows.
double ToTwo() { return 5.5 * kRtt + (2 * kKappa * kFrame - 31 * 2 * kWindow) / kLine; }
// To one: six and 63, and a round trip more: so long a message fills the path's queue, and the path
// stays full while what it lost is repeated.
double OneWay() { return 7.5 * kRtt + (kKappa * kFrame - 63 * kWindow) / kLine; }
// Both send: behind the 320 of the sixth window acknowledgements wait for those of the other end, 320 on
// the wire less a delay, and behind 640 for the 620 that its queue holds, where 640 would leave meanwhile.
double ToOne() { return OneWay() + (320 + 620 - 640) * Tau(100e6); }
// Parameters and momentum from three: a third of the line each, 312,500 in flight: five rounds, 31
// windows; three round trips before and one for the request.
double FromThree() { return 9 * kRtt + (2 * 4 * kKappa * kStage / 3 - 31 * 14'480) / (kLine / 3); }

absl::StatusOr<ScaleSpec> Read(const std::string& more, const std::vector<std::string>& sets = {}) {
  absl::StatusOr<TomlValue> root = ParseToml(kRun + kBetween + more, "run.toml");
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  return ReadScaleSpec(*std::move(root), CatalogNames());
}

ScaleResult Simulate(const std::string& more, const std::vector<std::string>& sets = {},
                     uint64_t seed = 1) {
  const auto spec = Read(more, sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto pace = GroupPace::Of(*spec);
  EXPECT_TRUE(pace.ok()) << pace.status();
  return SimulateRounds(*spec, *pace, seed);
}

// The first outer step with so many peers, from the moment when all are there.
double ExchangeSeconds(const GroupPace& pace, int64_t peers) {
  Connection fresh;
  return Take(pace.ExchangeWire(peers), 0, &fresh).arrived;
}

std::string Fault(const std::string& what, const std::string& where, int step,
                  const std::string& more = "") {
  return fmt::format("[[fault]]\nwhat = \"{}\"\nwhere = \"{}\"\nat_step = {}\n{}\n", what, where,
                     step, more);
}

void ExpectEnds(const ScaleResult& result, const std::vector<double>& ends,
                const std::vector<int64_t>& members) {
  ASSERT_EQ(result.by_round.size(), ends.size());
  for (size_t r = 0; r < ends.size(); ++r) {
    EXPECT_NEAR(result.by_round[r].end_s, ends[r], 1e-8) << "round " << r + 1;
    EXPECT_EQ(result.by_round[r].members, members[r]) << "round " << r + 1;
  }
}

TEST(ScaleClosed, RoundsAreStepsAndExchanges) {
  const ScaleResult r = Simulate("");
  const double a = 7 * kStep + ToThree(), b = 6 * kStep + ToThree();
  ExpectEnds(r, {a, 2 * a, 2 * a + b}, {4, 4, 4});
  EXPECT_NEAR(r.seconds, 2 * a + b, 1e-8);
  EXPECT_NEAR(r.exchange_s, 3 * ToThree(), 1e-8);
  EXPECT_EQ(r.tokens_counted, 20 * 4 * 2 * 64);
  EXPECT_EQ(r.tokens_lost, 0);
  EXPECT_NEAR(r.goodput(), 20 * 4 * 2 * 64 / (2 * a + b), 1e-8);
  // Both stages: their halves and an optimizer's quarter each.
  const double compute_s = 20 * 4 * (0.5 + 0.7 + 1.0 + 1.3 + 2 * 0.25);
  EXPECT_NEAR(r.compute_s, compute_s, 1e-8);
  EXPECT_NEAR(r.utilisation, compute_s / (8 * (2 * a + b)), 1e-11);
  EXPECT_NEAR(r.round_mean_s, (2 * a + b) / 3, 1e-8);
  EXPECT_NEAR(r.round_p50_s, a, 1e-8);
  EXPECT_NEAR(r.round_max_s, a, 1e-8);
  const auto spec = Read("");
  EXPECT_NEAR(IdealGoodput(*spec, *GroupPace::Of(*spec)), 4 * 2 * 64 / kStep, 1e-8);
}

TEST(ScaleClosed, ExchangesAndFetchesByTheirPeers) {
  const auto shared = GroupPace::Of(*Read(""));
  EXPECT_NEAR(ExchangeSeconds(*shared, 3), ToThree(), 1e-8);
  EXPECT_NEAR(ExchangeSeconds(*shared, 2), ToTwo(), 1e-8);
  EXPECT_NEAR(ExchangeSeconds(*shared, 1), ToOne(), 1e-8);
  EXPECT_NEAR(shared->FetchSeconds(3), FromThree(), 1e-8);
  const auto paths = GroupPace::Of(*Read("exchange = \"paths\"\n"));
  EXPECT_NEAR(ExchangeSeconds(*paths, 3), ToOne(), 1e-8);
  EXPECT_NEAR(paths->FetchSeconds(3), FromThree(), 1e-8);
  EXPECT_NEAR(shared->between().message_bytes, kFrame, 1e-6);
}

TEST(ScaleClosed, AKilledGroupThatStartsSlowlyIsWaitedFor) {
  const ScaleResult r = Simulate(Fault("kill", "group 2 stage 1", 10), {"scale.restart_s=200"});
  const double first = 7 * kStep + ToThree(), second = first + 7 * kStep + ToTwo();
  const double back = first + 2 * kStep + 200 + FromThree();  // steps 8 and 9 were done
  ExpectEnds(r, {first, second, back + 6 * kStep + ToThree()}, {4, 3, 4});
  EXPECT_EQ(r.tokens_lost, 7 * 2 * 64);
  EXPECT_EQ(r.tokens_counted, (20 * 4 - 7) * 2 * 64);
  EXPECT_NEAR(r.compute_s, (20 * 4 - 5) * 4.0, 1e-8);
}

TEST(ScaleClosed, AKillInTheOuterStepCostsTheOthersTheirDeadline) {
  const ScaleResult r = Simulate(Fault("kill", "group 2", 9, "during = \"outer\""));
  const double first = 7 * kStep + ToThree(), second = first + 7 * kStep + 11 + ToTwo();
  // It starts anew within the 11 s and the exchange, and fetches when the round is over.
  ASSERT_LT(5, 11 + ToTwo());
  ExpectEnds(r, {first, second, second + FromThree() + 6 * kStep + ToThree()}, {4, 3, 4});
  EXPECT_NEAR(r.compute_s, 20 * 4 * 4.0, 1e-8) << "it did all of its steps";
}

TEST(ScaleClosed, APoisonedGroupsTokensAreLostAndItsTimeIsSpent) {
  const ScaleResult r = Simulate(Fault("poison", "group 1", 10, "factor = nan"));
  const double a = 7 * kStep + ToThree();
  ExpectEnds(r, {a, 2 * a, 2 * a + 6 * kStep + ToThree()}, {4, 3, 4});
  EXPECT_EQ(r.tokens_lost, 7 * 2 * 64);
}

TEST(ScaleClosed, OneThatLeavesComesBackWithTheWeightsOfItsRound) {
  const ScaleResult r = Simulate(Fault("leave", "group 3", 3) + Fault("join", "group 3", 9));
  const double first = 7 * kStep + ToTwo(), second = first + 7 * kStep + ToTwo();
  ExpectEnds(r, {first, second, second + FromThree() + 6 * kStep + ToThree()}, {3, 3, 4});
  EXPECT_EQ(r.tokens_lost, 7 * 2 * 64);
  EXPECT_EQ(r.tokens_counted, (20 * 4 - 14) * 2 * 64);
}

TEST(ScaleClosed, WhoeverIsLateByTheDeadlineIsInAndALittleLaterIsOut) {
  const std::string stop = Fault("stop", "group 0", 4, "for_s = 5");
  EXPECT_EQ(Simulate(stop, {"scale.round_deadline_s=5"}).by_round[0].members, 4);
  const ScaleResult out = Simulate(stop, {"scale.round_deadline_s=4.999"});
  // It comes when the others have exchanged, fetches, and would be late again: it sits the second
  // round out, fetches what is behind that, and is in the third.
  const double first = 7 * kStep + ToTwo(), second = first + 7 * kStep + ToTwo();
  ASSERT_GT(7 * kStep + 5, first);
  ASSERT_GT(7 * kStep + 5 + FromThree() - first, 4.999);
  ASSERT_LT(FromThree(), 4.999);
  ExpectEnds(out, {first, second, second + FromThree() + 6 * kStep + ToThree()}, {3, 3, 4});
  EXPECT_EQ(out.tokens_lost, 7 * 2 * 64) << "who sits out trains nothing";
}

TEST(ScaleClosed, SlowdownsCostTheStepsThatTheyLast) {
  const double whole_s = Simulate("").seconds;
  const auto longer_s = [&](const std::string& fault) { return Simulate(fault).seconds - whole_s; };
  EXPECT_NEAR(longer_s(Fault("slow", "group 1 stage 1", 9, "factor = 2\nfor_steps = 3")),
              3 * (0.7 + 1.3), 1e-8);
  EXPECT_NEAR(longer_s(Fault("slow", "group 1 stage 0", 9, "factor = 3\nfor_steps = 3")),
              3 * 2 * (0.5 + 1.0 + 0.25), 1e-8);
  EXPECT_NEAR(longer_s(Fault("stop", "group 1", 9, "for_s = 4")), 4, 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_down", "link 4 > 5", 9, "for_s = 4")), 4, 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_down", "link 4 > 5", 9, "for_steps = 2")), 2 * kStep, 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_down", "link 0 > 3", 9, "for_s = 7")), 0, 1e-8) << "no message";
  EXPECT_NEAR(longer_s(Fault("disk_full", "group 0", 9)), 0, 1e-8);
  // Of a message over 10 Mbit/s in place of 1,000, which ten segments less than fill, and 20 do; both
  // ways twice that.
  const double slower = 0.02 + (kSegments - 10) * Tau(10e6) + 0.01 - kWire;
  const std::string rate = "rate_mbit = 10\nfor_steps = 2";
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 5 > 4", 9, rate)), 2 * slower, 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 4 - 5", 9, rate)), 4 * slower, 1e-8);
  // As many steps as begin in 8 s of steps that are `slower`: three.
  ASSERT_LT(2 * (kStep + slower), 8);
  ASSERT_GT(3 * (kStep + slower), 8);
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 4 > 5", 9, "rate_mbit = 10\nfor_s = 8")),
              3 * slower, 1e-8);
}

// A path of its own beside the access line: it costs what it needs longer than three frames on that.
TEST(ScaleClosed, HinderedPathsBetweenGroupsCostTheOuterStepAlone) {
  const double whole_s = Simulate("").seconds;
  const auto longer_s = [&](const std::string& fault) { return Simulate(fault).seconds - whole_s; };
  // At 25 Mbit/s windows of 10, 20, 40 and 80 do not fill it (155), and the message is long enough to
  // fill path and queue: a round trip more.
  const double frame = kFrame / 1448;
  const double slower = (4 + 1 + 0.5) * kRtt + (frame - 150) * Tau(25e6) - ToThree();
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 0 > 2", 9, "rate_mbit = 25\nfor_steps = 3")),
              slower, 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 0 > 2", 9, "rate_mbit = 25")), 2 * slower, 1e-8)
      << "rounds 2 and 3";
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 0 > 2", 9, "rate_mbit = 50")), 0, 1e-8)
      << "a third of the access line is less";
  // A round trip of 475 ms: nine windows, 511 times ten segments, and path and queue hold half of all.
  EXPECT_NEAR(longer_s(Fault("link_delay", "link 1 > 7", 9, "delay_ms = 237.5\nfor_steps = 1")),
              9.5 * 0.475 + (frame - 5110) * Tau(100e6) - ToThree(), 1e-8);
  // Down for 30 s from the beginning of step 13: two steps before the meeting.
  EXPECT_NEAR(longer_s(Fault("link_down", "link 0 > 2", 13, "for_s = 30")),
              30 - 2 * kStep + OneWay() - ToThree(), 1e-8);
  EXPECT_NEAR(longer_s(Fault("link_down", "link 0 > 2", 13, "for_s = 7")), 0, 1e-8) << "up again";
  // Of two hindered paths the slower one counts.
  EXPECT_NEAR(longer_s(Fault("link_rate", "link 0 > 2", 9, "rate_mbit = 30\nfor_steps = 3") +
                       Fault("link_rate", "link 2 > 4", 9, "rate_mbit = 25\nfor_steps = 3")),
              slower, 1e-8);
}

TEST(ScaleClosed, AGroupOfSlowerMachinesIsWaitedFor) {
  const std::vector<std::string> sets = {"net.clock=simulated", "net.transport=loopback"};
  std::vector<std::string> slow = sets;
  slow.push_back("compute.group_speed=[1, 0.5, 1, 4]");
  // Its compute takes twice as long, messages do not.
  EXPECT_NEAR(Simulate("", slow).seconds - Simulate("", sets).seconds,
              20 * (0.5 + 0.7 + 1.3 + 1.0 + 0.25), 1e-8);
}

TEST(ScaleClosed, DataParallelGroupsExchangeInEveryStep) {
  const ScaleResult r = Simulate("", {"outer.algorithm=dp", "outer.inner_steps=0"});
  EXPECT_EQ(r.rounds, 20);
  EXPECT_NEAR(r.seconds, 20 * (kStep + ToThree()), 1e-8);
}

// 200 groups for 1,000 steps, a kill every 50 steps of each: gaps rounded up have the mean
// 1 / (1 - exp(-1/50)) = 50.50; 3,960 kills, of which a standard deviation is 63.
TEST(ScaleClosed, TheMeanTimeBetweenFailuresIsOfEachGroupInHours) {
  const ScaleResult r = Simulate("", {fmt::format("scale.mtbf_h={}", 50 * kStep / 3600),
                                      "outer.groups=200", "train.steps=1000"});
  EXPECT_NEAR(static_cast<double>(r.faults), 3960, 4 * 63);
}

TEST(ScaleClosed, EachKeyReachesBothEndsAndNoFurther) {
  const auto error = [](const std::string& set) {
    return std::string(Read("", {set}).status().message());
  };
  for (const char* in :
       {"scale.restart_s=0", "scale.restart_s=1e6", "scale.mtbf_h=0", "scale.mtbf_h=1e9",
        "scale.round_deadline_s=1e-300", "scale.round_deadline_s=inf", "scale.exchange=paths",
        "scale.exchange=shared", "outer.groups=100000"}) {
    EXPECT_EQ(error(in), "") << in;
  }
  EXPECT_THAT(error("scale.restart_s=-1e-300"), HasSubstr("want 0 to 1000000 s"));
  EXPECT_THAT(error("scale.restart_s=1000000.1"), HasSubstr("want 0 to 1000000 s"));
  EXPECT_THAT(error("scale.mtbf_h=-1e-300"), HasSubstr("want 0 to 1000000000 h"));
  EXPECT_THAT(error("scale.mtbf_h=1000000001"), HasSubstr("want 0 to 1000000000 h"));
  EXPECT_THAT(error("scale.round_deadline_s=0"), HasSubstr("want more than 0 s"));
  EXPECT_THAT(error("outer.groups=100001"), HasSubstr("want at most 100000"));
  EXPECT_THAT(error("scale.x=1"), testing::EndsWith("known: between, exchange, mtbf_h, restart_s, "
                                                    "round_deadline_s"));
}

}  // namespace
}  // namespace longhaul::scale
