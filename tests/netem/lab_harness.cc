#include "tests/netem/lab_harness.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "netem/lab.h"
#include "netem/scheduling.h"
#include "netem/tap_device.h"

namespace longhaul {

void RunInLab(const std::function<void()>& body) {
  auto lab = StartLab(
      [&] {
        body();
        return testing::Test::HasFailure() ? 1 : 0;
      },
      {});
  if (absl::IsPermissionDenied(lab.status())) GTEST_SKIP() << lab.status();
  ASSERT_TRUE(lab.ok()) << lab.status();
  int status = 0;
  ASSERT_EQ(waitpid(lab->pid, &status, 0), lab->pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the lab ended with wait status " << status << "; its own messages are above";
}

std::string WhyNot(EmulatorKind kind) {
  if (kind == EmulatorKind::kTap) return std::string(CheckTunDevice().message());
  std::string why = "no lab could be made";
  auto lab = StartLab(
      [] {
        auto probed = ProbeEmulatorKind();
        return probed.ok() && *probed == EmulatorKind::kNetem ? 0 : 1;
      },
      {});
  if (!lab.ok()) return std::string(lab.status().message());
  int status = 0;
  waitpid(lab->pid, &status, 0);
  return status == 0 ? "" : "this kernel has no sch_netem (the guest test has one)";
}

void WithEmulator(EmulatorKind kind, const Topology& topology,
                  const std::function<void(Emulator&)>& body) {
  if (const std::string why = WhyNot(kind); !why.empty()) GTEST_SKIP() << why;
  RunInLab([&] {
    auto emulator = BuildEmulator(kind, topology);
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    // A probe that waits for a core would measure other people's work.
    EnterRealTime(RealTime::kProbe);
    body(**emulator);
  });
}

}  // namespace longhaul
