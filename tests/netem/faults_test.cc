// What breaks under a running lab is seen and named; nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/node_setup.h"
#include "netem/probes/probe.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Faults : public testing::TestWithParam<EmulatorKind> {};

void Within(absl::Duration deadline, const char* what, const std::function<bool()>& condition) {
  const absl::Time start = absl::Now();
  while (!condition() && absl::Now() < start + deadline) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_TRUE(Judge(what, 0, absl::ToDoubleSeconds(absl::Now() - start), 0,
                    absl::ToDoubleSeconds(deadline)));
}

TEST_P(Faults, DeletedDeviceIsNamedAndOtherLinksGoOn) {
  WithEmulator(GetParam(), *UniformTopology("colocated", 3), [](const Emulator& emulator) {
    ASSERT_TRUE(emulator.health().ok()) << emulator.health();
    auto s = InNamespace(emulator.node_netns_fd(1), [] {
      auto netlink = Netlink::Open();
      return netlink.ok() ? netlink->DeleteDevice(kNodeDevice) : netlink.status();
    });
    ASSERT_TRUE(s.ok()) << s;
    Within(absl::Seconds(5), "deleted device seen, s", [&] { return !emulator.health().ok(); });
    EXPECT_EQ(emulator.health().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(emulator.health().message()), HasSubstr("w1"));
    auto rtt = ProbeRtt(emulator, 0, 2, 5, absl::Milliseconds(10));
    ASSERT_TRUE(rtt.ok()) << rtt.status();
    EXPECT_EQ(rtt->received, 5);
    EXPECT_FALSE(VerifyLinks(emulator, {}).ok());
  });
}

TEST_P(Faults, LinkThatIsDownLosesFramesAndIsNoError) {
  WithEmulator(GetParam(), *UniformTopology("colocated", 2), [](const Emulator& emulator) {
    auto s = InNamespace(emulator.node_netns_fd(1), [] {
      auto netlink = Netlink::Open();
      return netlink.ok() ? netlink->SetDown(kNodeDevice) : netlink.status();
    });
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(ProbeRtt(emulator, 0, 1, 3, absl::Milliseconds(10))->received, 0);
    EXPECT_TRUE(emulator.health().ok()) << emulator.health();
  });
}

TEST_P(Faults, RemovedNameOfANamespaceDoesNotStopIt) {
  WithEmulator(GetParam(), *UniformTopology("colocated", 2), [](const Emulator& emulator) {
    ASSERT_EQ(umount2("/run/netns/w1", MNT_DETACH), 0);
    ASSERT_EQ(unlink("/run/netns/w1"), 0);
    EXPECT_EQ(ProbeRtt(emulator, 0, 1, 3, absl::Milliseconds(10))->received, 3);
  });
}

// The whole process stands still, as a laptop that is closed or a virtual machine that is paused.
TEST_P(Faults, EmulatorThatStandsStillForTwoSecondsShowsInItsLateness) {
  WithEmulator(GetParam(), *UniformTopology("worst-case", 2), [](const Emulator& emulator) {
    const Lateness before = emulator.lateness();
    std::thread traffic(
        [&] { EXPECT_TRUE(ProbeRtt(emulator, 0, 1, 20, absl::Milliseconds(20)).ok()); });
    absl::SleepFor(absl::Milliseconds(200));  // echoes are in the delay line
    const pid_t waker = fork();
    if (waker == 0) {
      kill(getppid(), SIGSTOP);
      sleep(2);
      kill(getppid(), SIGCONT);
      _exit(0);
    }
    waitpid(waker, nullptr, 0);
    traffic.join();
    const Lateness after = emulator.lateness();
    if (emulator.kind() == EmulatorKind::kNetem) {
      EXPECT_EQ(after.frames, 0) << "the kernel's links do not stand still";
      return;
    }
    EXPECT_GT(after.late_frames, before.late_frames);
    EXPECT_TRUE(Judge("latest frame, s", 2, absl::ToDoubleSeconds(after.max), 1.5, 10));
    EXPECT_TRUE(emulator.health().ok()) << "it goes on";
  });
}

TEST_P(Faults, WhatIsReorderedGoesAtOnceAndWhatIsCorruptedIsLost) {
  WithEmulator(GetParam(), *UniformTopology("continental-us", 2), [](Emulator& emulator) {
    const auto rtt = [&] { return *ProbeRtt(emulator, 0, 1, 5, absl::Milliseconds(10)); };
    const PathSpec plain = *FindPath(emulator.topology(), 0, 1);
    PathSpec path = plain;
    path.rare.reorder_prob = 1;
    ASSERT_TRUE(emulator.ChangePath(path).ok());
    const RttSample early = rtt();  // one way of two
    EXPECT_EQ(early.received, 5);
    EXPECT_TRUE(Judge("RTT with one way reordered, ms", 32.5,
                      absl::ToDoubleMilliseconds(early.median), 30, 40));
    path = plain;
    path.rare.corrupt_prob = 1;
    ASSERT_TRUE(emulator.ChangePath(path).ok());
    // The kernel's netem flips one bit anywhere in the frame: in 6 of some 98 bytes, the source's
    // hardware address, nobody minds. Of 20 frames more than 8 get through once in 10^6 times.
    const int sent = 20;
    const RttSample corrupted = *ProbeRtt(emulator, 0, 1, sent, absl::Milliseconds(10));
    EXPECT_LE(corrupted.received, emulator.kind() == EmulatorKind::kNetem ? 8 : 0)
        << "its checksum is wrong";
    ASSERT_TRUE(emulator.ChangePath(plain).ok());
    EXPECT_EQ(rtt().received, 5);
    path = plain;
    path.rare.duplicate_prob = 1;
    const absl::Status twice = emulator.ChangePath(path);
    if (emulator.kind() == EmulatorKind::kNetem) {
      EXPECT_THAT(std::string(twice.message()), HasSubstr("--emulator tap"));
      return;
    }
    ASSERT_TRUE(twice.ok()) << twice;
    const int64_t before = emulator.counters(0, 1)->packets;
    EXPECT_EQ(rtt().received, 5);
    EXPECT_GE(emulator.counters(0, 1)->packets - before, 10);
  });
}

TEST_P(Faults, DestructionRemovesEverything) {
  if (const std::string why = WhyNot(GetParam()); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    for (int round = 0; round < 3; ++round) {
      auto emulator = BuildEmulator(GetParam(), *UniformTopology("colocated", 5));
      ASSERT_TRUE(emulator.ok()) << emulator.status();
      EXPECT_TRUE(std::filesystem::exists("/run/netns/w4"));
      emulator->reset();
      EXPECT_TRUE(std::filesystem::is_empty("/run/netns"));
    }
  });
}

TEST_P(Faults, FailureInTheMiddleLeavesNothing) {
  if (const std::string why = WhyNot(GetParam()); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    auto taken = NetNamespace::Create("w2");  // the third of four names
    ASSERT_TRUE(taken.ok());
    auto emulator = BuildEmulator(GetParam(), *UniformTopology("colocated", 4));
    EXPECT_EQ(emulator.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(emulator.status().message()), HasSubstr("w2"));
    int names = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/run/netns")) {
      ++names;
    }
    EXPECT_EQ(names, 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Faults, testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                         [](const auto& test) { return std::string(ToString(test.param)); });

}  // namespace
}  // namespace longhaul
