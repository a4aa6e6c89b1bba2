// Runs in simulated time against the simulated clock of a training, round by round.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/train/simulated_clock.h"
#include "tests/experiments/planning/scale_runs.h"

namespace longhaul::scale {
namespace {

const std::string kScript = R"([[fault]]
what = "kill"
where = "any group"
mean_time_between_steps = 60
[[fault]]
what = "kill"
where = "group 3"
at_step = 24
during = "outer"
[[fault]]
what = "slow"
where = "group 1 stage 1"
mean_time_between_steps = 40
factor = 3
for_steps = 4
[[fault]]
what = "stop"
where = "group 2"
mean_time_between_steps = 50
for_s = 8
[[fault]]
what = "link_rate"
where = "link 2 > 3"
mean_time_between_steps = 30
rate_mbit = 1
for_steps = 3
[[fault]]
what = "link_delay"
where = "link 0 - 6"
at_step = 31
delay_ms = 100
for_steps = 10
[[fault]]
what = "leave"
where = "group 0"
at_step = 52
[[fault]]
what = "join"
where = "group 0"
at_step = 65
)";

// Two groups over paths of their own, round by round beside the clock of a training, which walks through
// every action and tells norms in every exchange.
TEST(Scale, RoundsAreThoseOfTheSimulatedClock) {
  for (const char* idle : {"true", "false"}) {
    for (const char* profile : {"regional", "continental-us", "global"}) {
      const Simulated s = Simulate("[scale]\nexchange = \"paths\"\n",
                                   {"outer.groups=2", "train.microbatches=2", "schedule.kind=1f1b",
                                    fmt::format("net.slow_start_after_idle={}", idle),
                                    fmt::format("net.profile={}", profile)});
      auto clock = SimulatedClock::Of(s.spec.run);
      ASSERT_TRUE(clock.ok()) << clock.status();
      for (const RoundResult& round : s.result.by_round) {
        for (int step = 0; step < 10; ++step) ASSERT_TRUE((*clock)->Step().ok());
        const double trained_s = std::max((*clock)->Seconds(0, 0), (*clock)->Seconds(0, 1));
        std::printf("%s, idle restart %s: %.3f s, by the clock of a training %.3f\n", profile, idle,
                    round.end_s, trained_s);
        EXPECT_NEAR(round.end_s / trained_s, 1, 0.01) << profile << idle;
      }
    }
  }
}

// One text read as both: four groups under a script that is drawn. Members are the same. Ends of rounds
// differ by what only the clock has: norms, cold connections of who is started anew, and groups that go
// on, each when it has what it is owed, while others still wait for a hindered path.
TEST(Scale, UnderAScriptRoundsAreThoseOfTheSimulatedClock) {
  double most = 0;
  int64_t met = 0;
  for (int seed = 1; seed <= 6; ++seed) {
    const std::vector<std::string> sets = {
        "outer.groups=4",         "outer.on_group_loss=continue", "outer.round_deadline_s=86400",
        "net.transport=loopback", "net.clock=simulated",          "train.steps=80",
        "outer.codec=int8-b64",   "compute.restart_s=12",         fmt::format("seed={}", seed)};
    TomlValue root = *ParseToml(kRun + kScript, "run.toml");
    for (const std::string& set : sets) ASSERT_TRUE(SetByPath(root, set).ok()) << set;
    const auto run = ReadRunSpec(root, CatalogNames());
    ASSERT_TRUE(run.ok()) << run.status();
    auto clock = SimulatedClock::Of(*run);
    ASSERT_TRUE(clock.ok()) << clock.status();
    const Simulated s =
        Simulate(kScript + "[scale]\nexchange = \"paths\"\n", sets, static_cast<uint64_t>(seed));
    for (const RoundResult& round : s.result.by_round) {
      for (int step = 0; step < 10; ++step) ASSERT_TRUE((*clock)->Step().ok());
      double trained_s = 0;
      int64_t members = 0;
      for (int g = 0; g < 4; ++g) {
        if (!(*clock)->Did(g)) continue;
        ++members;
        for (const int stage : {0, 1}) trained_s = std::max(trained_s, (*clock)->Seconds(g, stage));
      }
      EXPECT_EQ(members, round.members);
      most = std::max(most, std::abs(round.end_s / trained_s - 1));
      met += members;
    }
  }
  std::printf("ends of rounds apart by %.2f %% at most, %lld of 192 members\n", 100 * most,
              static_cast<long long>(met));
  EXPECT_LT(most, 0.01);
  EXPECT_LT(met, 180);
}

}  // namespace
}  // namespace longhaul::scale
