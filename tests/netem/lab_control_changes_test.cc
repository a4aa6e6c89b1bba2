// Outages and scheduled changes of a lab that lives on, beside what else it is asked.
#include <atomic>
#include <thread>

#include "tests/netem/lab_control_fixture.h"

namespace longhaul {
namespace {

TEST_F(LabControl, OutageEndsByItself) {
  ASSERT_TRUE(Up("one").ok());
  const auto carrier = [&] {
    auto probe =
        AskLab(*store_, "one", {{"do", "probe"}, {"rate", false}, {"pings", 1}}, absl::Minutes(1));
    return probe->message.at("paths")[0].value("carrier", "");
  };
  ASSERT_TRUE(
      AskLab(*store_, "one", {{"do", "set"}, {"path", "w0>w1"}, {"assignments", {"outage=3s"}}})
          .ok());
  EXPECT_EQ(carrier(), "down");
  absl::SleepFor(absl::Seconds(3));
  EXPECT_EQ(carrier(), "up");
  EXPECT_EQ(
      AskLab(*store_, "one", {{"do", "probe"}, {"rate", false}, {"pings", 1}}, absl::Minutes(1))
          ->message.at("paths")[0]
          .at("rtt")
          .value("received", -1),
      1);
}

// The probe takes more than 4 s: 400 echoes, one every 10 ms.
TEST_F(LabControl, ChangesDoNotWaitForAProbe) {
  Topology topology = *UniformTopology("regional", 2);
  topology.changes = {{absl::Seconds(1), "w0>w1", {"delay=30ms"}, 1},
                      {absl::Seconds(1.5), "w1>w0", {"outage=500ms"}, 2}};
  LabSpec spec{.name = "one", .topology = topology, .emulator = std::nullopt, .options = {}};
  ASSERT_TRUE(StartLabDaemon(*store_, spec).ok());
  nlohmann::json probed;  // of the probing thread until it is joined
  std::atomic<bool> over = false;
  std::thread probing([&] {
    auto probe = AskLab(*store_, "one", {{"do", "probe"}, {"rate", false}, {"pings", 400}},
                        absl::Minutes(1));
    if (probe.ok()) probed = probe->message;
    over = true;
  });
  absl::SleepFor(absl::Seconds(2.5));
  const auto set =
      AskLab(*store_, "one", {{"do", "set"}, {"path", "w1>w0"}, {"assignments", {"jitter=1ms"}}});
  const auto info = AskLab(*store_, "one", {{"do", "info"}});
  EXPECT_FALSE(over) << "the probe still runs";
  probing.join();
  ASSERT_TRUE(set.ok() && info.ok()) << set.status() << info.status();
  EXPECT_EQ(info->message.at("paths")[0].value("delay_ms", 0.0), 30);
  EXPECT_EQ(info->message.at("paths")[1].value("jitter_ms", 0.0), 1);
  EXPECT_EQ(info->message.at("paths")[1].value("carrier", ""), "up") << "the outage is over";
  ASSERT_TRUE(probed.contains("paths")) << probed;
  for (const auto& path : probed.at("paths")) {
    EXPECT_FALSE(path.value("in_bounds", true));
    EXPECT_THAT(path.value("why", ""), testing::HasSubstr("was changed while it was probed"));
  }
}

}  // namespace
}  // namespace longhaul
