// A swarm over shaped links, one process a member, and what befalls it there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "netem/lab/lab.h"
#include "plugin/swarm/file_digest.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 12'000'000;  // two seconds at 50 Mbit/s

// Every pair at 50 Mbit/s, 20 ms.
Topology Members(int nodes) {
  Topology topology = UniformTopology("continental-us", nodes).value();
  for (PathSpec& path : topology.paths) {
    path.rate = Mbit(50);
    path.delay = absl::Milliseconds(10);
  }
  return topology;
}

// Inside a lab: node 0 fetches, the others share.
class Swarm {
 public:
  explicit Swarm(Emulator& emulator) : emulator_(emulator), folder_("/run/swarm") {
    EXPECT_TRUE(std::filesystem::create_directories(folder_ + "/w"));
    std::mt19937_64 noise(3);
    std::ofstream file(folder_ + "/w/model.bin", std::ios::binary);
    for (int64_t i = 0; i < kBytes / 8; ++i) {
      const uint64_t word = noise();
      file.write(reinterpret_cast<const char*>(&word), sizeof(word));
    }
  }

  // Waits until it shares.
  pid_t Share(int node) {
    const std::string listen = fmt::format("{}:6881", NodeAddress(node));
    const std::string log = Path(fmt::format("share{}.log", node));
    const pid_t pid = Start(node, log,
                            {"share", Path("w"), "--listen", listen, "--member", "10.0.0.0/16",
                             "--manifest", Path("m.json"), "--quiet"});
    for (int i = 0; i < 100 && Read(log).find("SHA-256") == std::string::npos; ++i) {
      absl::SleepFor(absl::Milliseconds(50));
    }
    EXPECT_THAT(Read(log), HasSubstr("sharing w"));
    return pid;
  }

  pid_t Fetch(std::vector<int> sources, const std::string& into = "/run/swarm/got") {
    std::vector<std::string> words = {"fetch",  Path("m.json"), "--into",    into,
                                      "--json", "--quiet",      "--give-up", "30"};
    for (const int source : sources) {
      words.push_back("--peer");
      words.push_back(fmt::format("{}:6881", NodeAddress(source)));
    }
    return Start(0, Path("fetch.json"), words);
  }

  // Of the fetch, once it has ended; status 0 and the same files are expected.
  nlohmann::json Outcome(pid_t fetch) {
    int status = 0;
    EXPECT_EQ(waitpid(fetch, &status, 0), fetch);
    EXPECT_EQ(status, 0) << Read(Path("fetch.json"));
    const auto sent = DigestFile(Path("w/model.bin")), got = DigestFile(Path("got/model.bin"));
    EXPECT_TRUE(got.ok() && sent.ok() && got->sha256 == sent->sha256) << got.status();
    return nlohmann::json::parse(Read(Path("fetch.json")), nullptr, false);
  }

  // Waits until a sixth of the files has come from `node`, however slow the machine is.
  void AwaitMidway(int node) {
    for (int i = 0; i < 1000; ++i) {
      if (emulator_.counters(node, 0)->bytes > kBytes / 6) return;
      absl::SleepFor(absl::Milliseconds(20));
    }
    ADD_FAILURE() << "node " << node << " has not sent a sixth in 20 seconds";
  }

  void SetLink(int node, Carrier carrier) {
    EXPECT_TRUE(emulator_.SetCarrier(0, node, carrier).ok());
    EXPECT_TRUE(emulator_.SetCarrier(node, 0, carrier).ok());
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

 private:
  pid_t Start(int node, const std::string& log, std::vector<std::string> words) {
    words.insert(words.begin(), {LONGHAUL_WEIGHTS, "weights"});
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const auto pid = SpawnInNode(emulator_, node,
                                 {.argv = words,
                                  .environment = {"PATH=/usr/bin:/bin"},
                                  .inherit_fds = {{1, out}, {2, STDERR_FILENO}}});
    close(out);
    EXPECT_TRUE(pid.ok()) << pid.status();
    return pid.value_or(-1);
  }

  Emulator& emulator_;
  const std::string folder_;
};

int64_t From(const nlohmann::json& outcome, int node) {
  for (const auto& member : outcome.value("delivered", nlohmann::json::array())) {
    if (member["ip"] == NodeAddress(node)) return member["bytes"];
  }
  return 0;
}

TEST(ShapedSwarm, SourcesAddUpTheirPaths) {
  WithEmulator(EmulatorKind::kTap, Members(4), [](Emulator& emulator) {
    Swarm swarm(emulator);
    for (const int node : {1, 2, 3}) swarm.Share(node);
    const nlohmann::json outcome = swarm.Outcome(swarm.Fetch({1, 2, 3}));
    for (const int node : {1, 2, 3}) EXPECT_GT(From(outcome, node), kBytes / 10) << outcome.dump();
    for (const int node : {1, 2, 3}) {  // nothing went another way
      EXPECT_GE(emulator.counters(node, 0)->bytes, From(outcome, node));
    }
  });
}

TEST(ShapedSwarm, SeedKilledMidwayIsMadeUpForByTheOthers) {
  WithEmulator(EmulatorKind::kTap, Members(4), [](Emulator& emulator) {
    Swarm swarm(emulator);
    const pid_t first = swarm.Share(1);
    for (const int node : {2, 3}) swarm.Share(node);
    const pid_t fetch = swarm.Fetch({1, 2, 3});
    swarm.AwaitMidway(1);
    kill(first, SIGKILL);
    const nlohmann::json outcome = swarm.Outcome(fetch);
    EXPECT_GT(From(outcome, 2) + From(outcome, 3), kBytes / 2) << outcome.dump();
  });
}

TEST(ShapedSwarm, StoppedSeedIsLeftForTheOther) {
  WithEmulator(EmulatorKind::kTap, Members(3), [](Emulator& emulator) {
    Swarm swarm(emulator);
    const pid_t first = swarm.Share(1);
    swarm.Share(2);
    const pid_t fetch = swarm.Fetch({1, 2});
    swarm.AwaitMidway(1);
    kill(first, SIGSTOP);
    const nlohmann::json outcome = swarm.Outcome(fetch);
    EXPECT_GT(From(outcome, 2), kBytes / 2) << outcome.dump();
    EXPECT_LT(outcome["seconds"], 25) << outcome.dump();
    kill(first, SIGKILL);
  });
}

TEST(ShapedSwarm, LinkCutAndBackOnlyCostsTime) {
  WithEmulator(EmulatorKind::kTap, Members(2), [](Emulator& emulator) {
    Swarm swarm(emulator);
    swarm.Share(1);
    const pid_t fetch = swarm.Fetch({1});
    swarm.AwaitMidway(1);
    swarm.SetLink(1, Carrier::kDown);
    absl::SleepFor(absl::Seconds(3));
    EXPECT_FALSE(std::filesystem::exists(swarm.Path("got")));
    swarm.SetLink(1, Carrier::kUp);
    const nlohmann::json outcome = swarm.Outcome(fetch);
    EXPECT_GT(outcome["seconds"], 4) << outcome.dump();
  });
}

TEST(ShapedSwarm, OneLeavesAnotherComesWhileOneJoins) {
  WithEmulator(EmulatorKind::kTap, Members(3), [](Emulator& emulator) {
    Swarm swarm(emulator);
    const pid_t leaving = swarm.Share(1);
    const pid_t fetch = swarm.Fetch({1, 2});  // 2 is not there yet
    swarm.AwaitMidway(1);
    kill(leaving, SIGTERM);
    int status = 0;
    EXPECT_EQ(waitpid(leaving, &status, 0), leaving);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(Swarm::Read(swarm.Path("share1.log")), HasSubstr(NodeAddress(0) + " "));
    swarm.Share(2);
    const nlohmann::json outcome = swarm.Outcome(fetch);
    EXPECT_GT(From(outcome, 2), 0) << outcome.dump();
  });
}

TEST(ShapedSwarm, FullDiskIsOneLineAndKeepsThePartial) {
  WithEmulator(EmulatorKind::kTap, Members(2), [](Emulator& emulator) {
    Swarm swarm(emulator);
    swarm.Share(1);
    const std::string disk = swarm.Path("disk");
    std::filesystem::create_directories(disk);
    ASSERT_EQ(mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=16m"), 0);
    const pid_t fetch = swarm.Fetch({1}, disk + "/got");
    swarm.AwaitMidway(1);
    std::ofstream(disk + "/filler") << std::string(15 << 20, 'x');
    int status = 0;
    EXPECT_EQ(waitpid(fetch, &status, 0), fetch);
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_THAT(Swarm::Read(swarm.Path("fetch.json")), HasSubstr("No space left on device"));
    EXPECT_TRUE(std::filesystem::exists(disk + "/got.partial"));
    // The next one sees beforehand that there is no room.
    const pid_t again = swarm.Fetch({1}, disk + "/got");
    EXPECT_EQ(waitpid(again, &status, 0), again);
    EXPECT_THAT(Swarm::Read(swarm.Path("fetch.json")), HasSubstr("the disk has room for"));
    std::filesystem::remove(disk + "/filler");
    const pid_t last = swarm.Fetch({1}, disk + "/got");
    EXPECT_EQ(waitpid(last, &status, 0), last);
    EXPECT_EQ(status, 0) << Swarm::Read(swarm.Path("fetch.json"));
  });
}

}  // namespace
}  // namespace longhaul
