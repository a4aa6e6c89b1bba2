// What faults and groups that come and go do to a simulated clock: each beside the same run without, by
// what it must cost.
#include "experiments/train/simulated_clock.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three groups of two stages, four rounds of two steps; F = 0.5 s, B = 1 s, update 0.25 s, over
// 100 Mbit/s and 65 ms there and back.
const std::string kRun = InjectedRunToml("8") + R"([outer]
groups = 3
inner_steps = 2
codec = "none"
on_group_loss = "continue"
joiner_source = "swarm"
[net]
transport = "loopback"
clock = "simulated"
profile = "continental-us"
slow_start_after_idle = false
congestion_control = "reno"
peer_deadline_s = 11
[eval]
rows = 1
)";
constexpr double kKappa = 1514.0 / 1448;
constexpr double kRate = 12.5e6;  // bytes/s

std::string Fault(const std::string& what, const std::string& where, int step,
                  const std::string& more = "") {
  return fmt::format("[[fault]]\nwhat = \"{}\"\nwhere = \"{}\"\nat_step = {}\n{}\n", what, where,
                     step, more);
}

absl::StatusOr<RunSpec> Read(const std::string& faults, const std::vector<std::string>& sets) {
  absl::StatusOr<TomlValue> root = ParseToml(kRun + faults, "run.toml");
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  return ReadRunSpec(*root, CatalogNames());
}

struct Played {
  std::vector<double> steps;               // when the last rank was done, by step
  std::vector<double> ends;                // of rounds, likewise
  std::vector<std::vector<int>> did;       // the groups, by step
  absl::Status status = absl::OkStatus();  // of the clock, behind these
};
Played Play(const std::string& faults, const std::vector<std::string>& sets = {}) {
  Played played;
  const auto spec = Read(faults, sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  if (!spec.ok()) return played;
  const auto clock = SimulatedClock::Of(*spec);
  EXPECT_TRUE(clock.ok()) << clock.status();
  for (int64_t step = 1; step <= Steps(*spec); ++step) {
    played.status = (*clock)->Step();
    if (!played.status.ok()) return played;
    double latest_s = 0;
    played.did.emplace_back();
    for (int g = 0; g < 3; ++g) {
      if (!(*clock)->Did(g)) continue;
      played.did.back().push_back(g);
      for (const int stage : {0, 1}) latest_s = std::max(latest_s, (*clock)->Seconds(g, stage));
    }
    played.steps.push_back(latest_s);
    if (step % 2 == 0) played.ends.push_back(latest_s);
  }
  return played;
}

// How much later rounds end than without faults.
std::vector<double> Later(const std::string& faults, const std::vector<std::string>& sets = {}) {
  std::vector<double> later = Play(faults, sets).ends;
  const std::vector<double> whole = Play("", sets).ends;
  EXPECT_EQ(later.size(), whole.size());
  for (size_t r = 0; r < later.size(); ++r) later[r] -= whole[r];
  return later;
}

auto AreNear(std::vector<double> expected) {
  return testing::Pointwise(testing::DoubleNear(3e-6), expected);
}

// Stage 0 is the last of its group; but the other one waits for it and tells its norms later, by less
// than they are on their way.
TEST(ElasticClock, AScriptOfNothingIsTheRunWhoseGroupsStayButForOneWait) {
  const Played comes = Play(""),
               stays = Play("", {"outer.on_group_loss=end", "outer.joiner_source=member"});
  ASSERT_EQ(comes.ends.size(), 4u);
  EXPECT_NEAR(comes.ends[0], stays.ends[0], 3e-6);
  for (size_t r = 1; r < 4; ++r) {
    EXPECT_GE(comes.ends[r], stays.ends[r]);
    EXPECT_LT(comes.ends[r], stays.ends[r] + static_cast<double>(r) * 0.0325);
  }
}

TEST(ElasticClock, WhatStopsOrSlowsAGroupMakesItsRoundLongerByThat) {
  EXPECT_THAT(Later(Fault("stop", "group 1", 3, "for_s = 3")), AreNear({0, 3, 3, 3}));
  EXPECT_THAT(Later(Fault("stop", "group 1 stage 0", 4, "for_s = 3")), AreNear({0, 3, 3, 3}));
  // All of its compute; and one pass there and back of one stage, whose update nobody waits for.
  EXPECT_THAT(Later(Fault("slow", "group 2", 3, "factor = 2\nfor_steps = 2")),
              AreNear({0, 2 * 3.25, 2 * 3.25, 2 * 3.25}));
  EXPECT_THAT(Later(Fault("slow", "group 2 stage 1", 3, "factor = 3\nfor_steps = 1")),
              AreNear({0, 2 * 1.5, 2 * 1.5, 2 * 1.5}));
}

TEST(ElasticClock, ALinkInsideOfAGroupCostsTheMessagesThatItCarries) {
  const double message_s = kKappa * (4 * 128 * 256 + 112) / kRate;
  const auto step_3 = [](const std::string& what, const std::string& more) {
    return Fault(what, "link 2 > 3", 3, more);
  };
  EXPECT_THAT(Later(step_3("link_rate", "rate_mbit = 50\nfor_steps = 1")),
              AreNear({0, message_s, message_s, message_s}));
  EXPECT_THAT(Later(step_3("link_delay", "delay_ms = 132.5\nfor_steps = 1")),
              AreNear({0, 0.1, 0.1, 0.1}));
  // Down from the step's beginning on; what it would carry is there half a second later.
  EXPECT_THAT(Later(step_3("link_down", "for_s = 4")), AreNear({0, 3.5, 3.5, 3.5}));
  // For so long as the first of two steps begins: one step.
  EXPECT_THAT(Later(step_3("link_rate", "rate_mbit = 50\nfor_s = 3")),
              AreNear({0, message_s, message_s, message_s}));
  // Norms that ranks tell each other behind the exchange come later, too: to who waits for rank 0 anyway.
  EXPECT_THAT(Later(Fault("link_delay", "link 2 > 3", 4, "delay_ms = 132.5\nfor_steps = 1")),
              AreNear({0, 0.2, 0.1, 0.1}));
}

TEST(ElasticClock, APathBetweenGroupsCostsTheExchangeAlone) {
  const Played whole = Play("");
  // Down from step 4's beginning, and the exchange begins a step later.
  const double step_s = whole.steps[2] - whole.steps[1];
  std::vector<double> later = Later(Fault("link_down", "link 0 > 2", 4, "for_s = 60"));
  EXPECT_NEAR(later[1], 60 - step_s, 0.2) << "but for norms and the update";
  EXPECT_GT(later[1], 50);
  EXPECT_THAT(Later(Fault("link_down", "link 0 > 2", 3, "for_s = 1")), AreNear({0, 0, 0, 0}));
  EXPECT_THAT(Later(Fault("link_rate", "link 0 > 2", 3, "rate_mbit = 10\nfor_steps = 1")),
              AreNear({0, 0, 0, 0}))
      << "over before the exchange";
  // A frame of all parameters of stage 0 takes ten times as long in place of 1.1 s.
  const double frame_s = kKappa * 4 * 3'231'744 / kRate;
  later = Later(Fault("link_rate", "link 0 > 2", 4, "rate_mbit = 10\nfor_steps = 1"));
  EXPECT_NEAR(later[1], 9 * frame_s, 0.1 * frame_s);
}

// Killed at the beginning of round 2, it could train 30 s later, has half of the weights from each of
// the others, and trains a round as the first one, on connections that have carried nothing.
TEST(ElasticClock, AKillCostsItsRoundARestartAndATransfer) {
  const std::string codec = "outer.codec=int8-b64";  // no frame fills a queue, whatever the window
  const Played whole = Play("", {codec});
  const Played killed = Play(Fault("kill", "group 1 stage 1", 3), {codec});
  EXPECT_THAT(killed.did, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1, 2), ElementsAre(0, 2),
                                      ElementsAre(0, 2), ElementsAre(0, 1, 2), ElementsAre(0, 1, 2),
                                      ElementsAre(0, 1, 2), ElementsAre(0, 1, 2)));
  // Five windows of ten segments and more do not fill half of the line; three round trips go before,
  // and one is the request's.
  const double bytes = kKappa * 2 * 4 * 3'231'744;
  const double fetch_s = 9 * 0.065 + (bytes / 2 - 31 * 14'480) / (kRate / 2);
  ASSERT_EQ(killed.ends.size(), 4u);
  EXPECT_NEAR(killed.ends[1], whole.ends[1], 3e-6) << "who is left does not wait";
  EXPECT_NEAR(killed.ends[2], whole.ends[0] + 30 + fetch_s + whole.ends[0], 3e-6);
  const Played sooner = Play(Fault("kill", "group 1 stage 1", 3), {codec, "compute.restart_s=0"});
  EXPECT_NEAR(sooner.ends[2], whole.ends[1] + fetch_s + whole.ends[0], 3e-6);
}

TEST(ElasticClock, AKillInTheOuterStepCostsTheOthersTheirPeerDeadline) {
  const Played whole = Play(""), killed = Play(Fault("kill", "group 2", 4, "during = \"outer\""));
  EXPECT_THAT(killed.did[3], ElementsAre(0, 1)) << "it did the step, and was lost with it";
  EXPECT_NEAR(killed.ends[1], whole.ends[1] + 11, 3e-6);
}

// Without checkpoints none is struck, and a transfer only where there is one.
TEST(ElasticClock, AKillInATransferCostsTheRoundBehindIt) {
  const std::string join = Fault("join", "group 2", 2);
  const Played killed = Play(join + Fault("kill", "group 1", 2, "during = \"transfer\""));
  EXPECT_THAT(killed.did[2], ElementsAre(0, 2));
  EXPECT_THAT(killed.did[4], ElementsAre(0, 1, 2));
  EXPECT_THAT(Later(Fault("kill", "group 1", 2, "during = \"transfer\"")), AreNear({0, 0, 0, 0}));
}

TEST(ElasticClock, OnlyMembersExchangeAndOnlyTheyAreWaitedFor) {
  // Group 2 has half the speed, and is there in rounds 3 and 4 alone; what its links are costs nothing.
  const std::vector<std::string> sets = {"outer.schedule=[[0, 2], [4, 3]]",
                                         "compute.group_speed=[1, 1, 0.5]"};
  const Played grows = Play(Fault("link_down", "link 0 > 4", 1, "for_s = 1000") +
                                Fault("stop", "group 2", 2, "for_s = 50"),
                            sets);
  const Played whole = Play("");
  EXPECT_NEAR(grows.ends[1], whole.ends[1], 3e-6);
  EXPECT_THAT(grows.did[3], ElementsAre(0, 1));
  EXPECT_THAT(grows.did[4], ElementsAre(0, 1, 2));
  EXPECT_GT(grows.ends[2] - grows.ends[1], whole.ends[2] - whole.ends[1] + 2 * 3.25);
  const Played shrinks = Play(Fault("leave", "group 2", 5), {"compute.group_speed=[1, 1, 0.5]"});
  EXPECT_NEAR(shrinks.ends[3] - shrinks.ends[2], whole.ends[3] - whole.ends[2], 3e-6);
}

TEST(ElasticClock, WhoLinksWouldLeaveOutEndsTheRunInOneLine) {
  const std::string stop = Fault("stop", "group 1", 3, "for_s = 20");
  EXPECT_TRUE(Play(stop, {"outer.round_deadline_s=20.1"}).status.ok());
  const Played late = Play(stop, {"outer.round_deadline_s=19.9"});
  EXPECT_EQ(late.ends.size(), 1u);
  EXPECT_EQ(late.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(late.status.message()),
      HasSubstr("round 2: on the simulated clock group 1 is at the outer step 20.000 s behind "
                "group 0, and outer.round_deadline_s = 19.9 would leave it out"));
  const Played nobody = Play(Fault("kill", "group 0", 1) + Fault("kill", "group 1", 1) +
                             Fault("leave", "group 2", 2));
  EXPECT_THAT(std::string(nobody.status.message()), HasSubstr("round 1 has no members"));
}

TEST(ElasticClock, WhatHasNoModelIsRefusedWithTheLine) {
  const auto refusal = [](const std::string& faults, const std::vector<std::string>& sets = {}) {
    return std::string(Read(faults, sets).status().message());
  };
  EXPECT_THAT(refusal(Fault("kill", "lab", 3)), HasSubstr("'fault' strikes a link or the lab"));
  EXPECT_THAT(refusal(Fault("link_down", "link 0 > 1", 3)), HasSubstr("lasts for ever"));
  EXPECT_THAT(refusal(Fault("disk_full", "group 1", 3)), HasSubstr("and no simulated clock"));
  EXPECT_THAT(refusal(Fault("kill", "group 1", 3, "during = \"checkpoint\"")),
              HasSubstr("strikes a checkpoint"));
  EXPECT_THAT(refusal("", {"compute.restart_s=-1"}), HasSubstr("want 0 to 1000000 s"));
  EXPECT_THAT(
      refusal("", {"compute.restart_s=3", "outer.on_group_loss=end", "outer.joiner_source=member"}),
      HasSubstr("is of groups that are started anew"));
  std::string unclocked = kRun;
  unclocked.erase(unclocked.find("clock = \"simulated\"\n"), 20);
  const auto without = [&](const std::string& more, const std::string& compute) {
    TomlValue root = *ParseToml(unclocked + more, "run.toml");
    EXPECT_TRUE(SetByPath(root, compute).ok());
    return std::string(ReadRunSpec(root, CatalogNames()).status().message());
  };
  EXPECT_THAT(without("", "compute.restart_s=3"),
              HasSubstr("is of net.clock = \"simulated\" alone"));
  EXPECT_THAT(without(Fault("link_rate", "link 0 > 1", 3, "rate_mbit = 1"), "compute=measured"),
              HasSubstr("net.transport = \"loopback\" has neither"));
  const RunSpec spec = *Read("", {"compute.restart_s=3"});
  EXPECT_EQ(ReadRunSpec(*ParseToml(ToToml(spec), "again"), CatalogNames())->compute, spec.compute);
  EXPECT_THAT(ToToml(*Read("", {})), testing::Not(HasSubstr("restart_s")));
}

}  // namespace
}  // namespace longhaul
