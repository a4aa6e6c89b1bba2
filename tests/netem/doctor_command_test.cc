// `longhaul doctor` as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/netem/lab_harness.h"
#include "tests/netem/shell_command.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(Doctor, NamesEverythingAndEndsWithWhatShapesTheLinks) {
  const ShellResult doctor = RunShell(LONGHAUL_COMMAND " doctor --quick");
  EXPECT_EQ(doctor.status, 0) << doctor.text;
  for (const char* subject :
       {"kernel", "private lab", "namespaces without root", "sch_netem", "/dev/net/tun",
        "real-time", "clock source", "cores", "congestion controls", "buffer limits", "torch",
        "UCX", "libtorrent", "GPU", "GPU codecs", "links will be shaped by: "}) {
    EXPECT_THAT(doctor.text, HasSubstr(subject));
  }
  EXPECT_THAT(doctor.text, HasSubstr("`longhaul weights`"));
}

TEST(Doctor, LabOnlyIsOneLineAndAStatus) {
  const ShellResult lab = RunShell(LONGHAUL_COMMAND " doctor --lab");
  EXPECT_EQ(std::count(lab.text.begin(), lab.text.end(), '\n'), 1) << lab.text;
  const bool any = WhyNot(EmulatorKind::kTap).empty() || WhyNot(EmulatorKind::kNetem).empty();
  EXPECT_EQ(lab.status, any ? 0 : 1) << lab.text;
}

TEST(Doctor, KeepsWhatItMeasured) {
  if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
  const std::string cache = testing::TempDir() + "doctor-cache";
  const ShellResult doctor =
      RunShell("export XDG_CACHE_HOME=" + cache +
               "; " LONGHAUL_COMMAND
               " doctor; cat $XDG_CACHE_HOME/longhaul/tap-ceiling; rm -r $XDG_CACHE_HOME");
  EXPECT_EQ(doctor.status, 0) << doctor.text;
  EXPECT_THAT(doctor.text, HasSubstr("a core"));
  EXPECT_THAT(doctor.text, HasSubstr("added to a round trip"));
}

}  // namespace
}  // namespace longhaul
