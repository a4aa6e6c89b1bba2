// Many sites: they build fast, work, cost little, and leave nothing.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "netem/emulators/wake_lead.h"
#include "netem/probes/probe.h"
#include "netem/topology/queue_limits.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

constexpr int kSites = 64;

class Scale : public testing::TestWithParam<EmulatorKind> {};

// Every pair of sites has a path, every site an access line.
Topology Mesh() {
  Topology topology = *UniformTopology("transpacific", kSites);
  for (PathSpec& path : topology.paths) path.rate.reset();
  for (NodeSpec& node : topology.nodes) node.access = AccessSpec{.up = Mbit(50), .down = Mbit(50)};
  return topology;
}

// Of an echo, which crosses twice: tap takes a frame that wakes it for older than it is, and writes
// one before its time, each by no more than its lead (wake_lead.h).
absl::Duration MostEarly(EmulatorKind kind) {
  return kind == EmulatorKind::kTap ? 2 * 2 * absl::Nanoseconds(WakeLead::kMostNs)
                                    : absl::ZeroDuration();
}

int64_t Megabytes(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    int64_t kilobytes = 0;
    if (word == key && lines >> kilobytes) return kilobytes / 1024;
  }
  return -1;
}

TEST_P(Scale, SixtyFourSitesStandWithinTenSecondsAndLeaveNothing) {
  if (const std::string why = WhyNot(GetParam()); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    const absl::Time start = absl::Now();
    const int64_t slab_before = Megabytes("/proc/meminfo", "Slab:");
    auto emulator = BuildEmulator(GetParam(), Mesh());
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    const absl::Duration built = absl::Now() - start;
    printf("  %d sites, %zu paths: kernel memory +%lld MB, process %lld MB\n", kSites,
           (*emulator)->topology().paths.size(),
           static_cast<long long>(Megabytes("/proc/meminfo", "Slab:") - slab_before),
           static_cast<long long>(Megabytes("/proc/self/status", "VmRSS:")));
    EXPECT_TRUE(Judge("64 sites built in, s", 0, absl::ToDoubleSeconds(built), 0, 10));
    for (int far : {1, kSites / 2, kSites - 1}) {
      auto rtt = ProbeRtt(**emulator, 0, far, 5, absl::Milliseconds(5));
      ASSERT_TRUE(rtt.ok()) << rtt.status();
      EXPECT_EQ(rtt->received, 5) << far;
      EXPECT_GE(rtt->min, rtt->nominal - MostEarly(GetParam())) << "faster than its link";
    }
    EXPECT_TRUE((*emulator)->health().ok()) << (*emulator)->health();
    const absl::Time end = absl::Now();
    emulator->reset();
    EXPECT_TRUE(Judge("torn down in, s", 0, absl::ToDoubleSeconds(absl::Now() - end), 0, 10));
    EXPECT_TRUE(std::filesystem::is_empty("/run/netns"));
  });
}

TEST_P(Scale, CostOfACrossingIsPrinted) {
  Topology topology = *UniformTopology("colocated", 2);
  WithEmulator(GetParam(), topology, [](const Emulator& emulator) {
    constexpr int64_t kCount = 40'000;
    const absl::Duration before = emulator.cpu_time();
    auto loss = ProbeLoss(emulator, 0, 1, kCount, Mbit(400));
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_GT(loss->received, 0);
    const absl::Duration used = emulator.cpu_time() - before;
    printf("  %lld of %lld frames of the MTU crossed at 400 Mbit/s, %.2f us of the emulator each\n",
           static_cast<long long>(loss->received), static_cast<long long>(kCount),
           absl::ToDoubleMicroseconds(used) / static_cast<double>(loss->received));
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Scale, testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                         [](const auto& test) { return std::string(ToString(test.param)); });

}  // namespace
}  // namespace longhaul
