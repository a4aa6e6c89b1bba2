#include "tests/netem/lab_harness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netem/emulators/tap_device.h"
#include "netem/kernel/posix.h"
#include "netem/kernel/scheduling.h"
#include "netem/lab/lab.h"

namespace longhaul {

namespace {

constexpr int kSkipped = 77;
std::string skip_reason;  // of the body that runs in this process

int EndOfBody(int reason_fd) {
  if (testing::Test::HasFailure()) return 1;
  if (skip_reason.empty()) return 0;
  const ssize_t written = write(reason_fd, skip_reason.data(), skip_reason.size());
  return written == static_cast<ssize_t>(skip_reason.size()) ? kSkipped : 1;
}

}  // namespace

void SkipFromLab(const std::string& why) { skip_reason = why.substr(0, 4000); }

void RunInLab(const std::function<void()>& body) {
  int reason[2];
  ASSERT_EQ(pipe2(reason, O_CLOEXEC), 0);
  auto lab = StartLab(
      [&] {
        body();
        return EndOfBody(reason[1]);
      },
      {reason[1]});
  close(reason[1]);
  const Fd reason_fd(reason[0]);
  if (absl::IsPermissionDenied(lab.status())) GTEST_SKIP() << lab.status();
  ASSERT_TRUE(lab.ok()) << lab.status();
  int status = 0;
  ASSERT_EQ(waitpid(lab->pid, &status, 0), lab->pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    char why[4096] = {};
    EXPECT_GT(read(reason_fd.get(), why, sizeof(why) - 1), 0);
    GTEST_SKIP() << why;
  }
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
  WithEmulator(kind, topology, {}, body);
}

void WithEmulator(EmulatorKind kind, const Topology& topology, const EmulatorOptions& options,
                  const std::function<void(Emulator&)>& body) {
  if (const std::string why = WhyNot(kind); !why.empty()) GTEST_SKIP() << why;
  RunInLab([&] {
    auto emulator = BuildEmulator(kind, topology, options);
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    // A probe that waits for a core would measure other people's work.
    EnterRealTime(RealTime::kProbe);
    body(**emulator);
  });
}

}  // namespace longhaul
