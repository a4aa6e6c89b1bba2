// What is said of a killed process, with files of the kernel that the test writes.
#include "experiments/run/endings.h"

#include <csignal>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class KilledByTest : public testing::Test {
 protected:
  KilledBy Start() {
    return KilledBy([this](const std::string& path) -> std::optional<std::string> {
      const auto file = files_.find(path);
      return file == files_.end() ? std::nullopt : std::optional(file->second);
    });
  }
  std::map<std::string, std::string> files_ = {
      {"/proc/self/cgroup", "0::/box\n"},
      {"/sys/fs/cgroup/box/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n"},
      {"/proc/vmstat", "pgfault 12\noom_kill 4\ndrop 1\n"}};
};

TEST_F(KilledByTest, OtherSignalsAreNamedAndNothingElse) {
  const KilledBy killed = Start();
  files_["/sys/fs/cgroup/box/memory.events"] = "oom_kill 2\n";
  EXPECT_EQ(killed.Text(SIGTERM), "killed by signal 15 (Terminated)");
}

TEST_F(KilledByTest, AKillByHandIsNotBlamedOnMemory) {
  EXPECT_EQ(Start().Text(SIGKILL),
            "killed by signal 9 (Killed) by another process: the kernel counted no out-of-memory "
            "kill");
}

TEST_F(KilledByTest, AnOutOfMemoryKillOfTheControlGroupIsNamed) {
  const KilledBy killed = Start();
  files_["/sys/fs/cgroup/box/memory.events"] = "oom 3\noom_kill 2\n";
  EXPECT_THAT(killed.Text(SIGKILL), HasSubstr("out of memory (OOM kill in this control group)"));
}

TEST_F(KilledByTest, OneElsewhereOnTheMachineIsToldAsThat) {
  const KilledBy killed = Start();
  files_["/proc/vmstat"] = "oom_kill 5\n";
  EXPECT_THAT(killed.Text(SIGKILL),
              AllOf(HasSubstr("possibly out of memory"), Not(HasSubstr("control group"))));
}

TEST_F(KilledByTest, ControlGroupsOfVersion1CountInTheirOwnFile) {
  files_ = {{"/proc/self/cgroup", "5:devices:/\n4:memory:/job/7\n0::/\n"},
            {"/sys/fs/cgroup/memory/job/7/memory.oom_control", "under_oom 0\noom_kill 0\n"}};
  const KilledBy killed = Start();
  files_["/sys/fs/cgroup/memory/job/7/memory.oom_control"] = "under_oom 0\noom_kill 1\n";
  EXPECT_THAT(killed.Text(SIGKILL), HasSubstr(": out of memory"));
}

TEST_F(KilledByTest, AContainerSeesItsGroupAsTheRoot) {
  files_ = {{"/proc/self/cgroup", "0::/unseen/from/here\n"},
            {"/sys/fs/cgroup/memory.events", "oom_kill 0\n"}};
  const KilledBy killed = Start();
  files_["/sys/fs/cgroup/memory.events"] = "oom_kill 1\n";
  EXPECT_THAT(killed.Text(SIGKILL), HasSubstr(": out of memory"));
}

TEST_F(KilledByTest, WhereNothingCountsItSaysSo) {
  files_.clear();
  EXPECT_EQ(Start().Text(SIGKILL),
            "killed by signal 9 (Killed); cause unknown: this kernel exposes no OOM counters");
}

TEST(KilledBy, ReadsThisMachinesFilesWithoutHarm) {
  EXPECT_THAT(KilledBy().Text(SIGKILL), HasSubstr("signal 9"));
}

}  // namespace
}  // namespace longhaul
