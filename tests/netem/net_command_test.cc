// `longhaul net` as a user meets it: every subcommand in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/netem/lab_harness.h"
#include "tests/netem/shell_command.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class NetCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    made_ = true;
  }
  void TearDown() override {
    if (!made_) return;
    Run("net down --all");
    EXPECT_EQ(Run("net list").text, "no lab is up; start one with 'longhaul net up PROFILE'\n");
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/longhaul"));
    std::filesystem::remove_all(folder_);
  }

  static ShellResult Run(const std::string& arguments) {
    return RunShell(LONGHAUL_COMMAND " " + arguments);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string file = folder_ + "/" + name;
    std::ofstream(file) << text;
    return file;
  }

  std::string folder_ = testing::TempDir() + "/net-XXXXXX";
  bool made_ = false;
};

TEST_F(NetCommand, ANewUsersPath) {
  const ShellResult up = Run("net up colocated --name demo --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("lab demo is up: 2 nodes, 2 paths; emulator tap"));
  EXPECT_THAT(up.text, HasSubstr("longhaul net exec demo/a -- ping -c 3 10.0.0.3"));
  EXPECT_THAT(Run("net list").text, HasSubstr("demo"));
  EXPECT_EQ(Run("net list demo --nodes").text, "a\nb\n");
  EXPECT_THAT(Run("net list demo").text, HasSubstr("a > b"));
  const ShellResult exec = Run("net exec demo/b -- sh -c 'ls /sys/class/net; exit 5'");
  EXPECT_EQ(exec.status, 5);
  EXPECT_EQ(exec.text, "lo\nnet0\n");
  EXPECT_EQ(Run("net exec demo/b ls -d /").text, "/\n") << "without -- as well";
  EXPECT_EQ(Run("net set demo 'a<>b' rtt=40ms loss=1%").status, 0);
  EXPECT_THAT(Run("net stats demo").text, HasSubstr("queue drops"));
  const ShellResult probe = Run("net probe demo --quick --json --pings 5");
  EXPECT_THAT(probe.text, HasSubstr("\"nominal_ms\": 40.0"));
  EXPECT_EQ(Run("net down demo").text, "lab demo is down\n");
}

TEST_F(NetCommand, ShellRunsInTheNode) {
  ASSERT_EQ(Run("net up colocated --name demo --emulator tap").status, 0);
  setenv("SHELL", "/bin/sh", 1);
  EXPECT_EQ(Run("net shell demo/a <<'END'\necho in $LONGHAUL_NODE\nEND").text, "in demo/a\n");
}

TEST_F(NetCommand, TopologyFileWithGroups) {
  const std::string file = Write("two-sites.toml", R"(
[[group]]
name = "eu"
nodes = 2
inside = "regional"
[[group]]
name = "us"
nodes = 2
inside = "regional"
[between]
profile = "transatlantic"
)");
  const ShellResult up = Run("net up " + file + " --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_EQ(Run("net list two-sites --nodes").text, "eu-0\neu-1\nus-0\nus-1\n");
}

TEST_F(NetCommand, BadInputIsOneLineAndBuildsNothing) {
  const std::string file = Write("bad.toml", "[[node]]\nname = 'a'\nup_mbit = -1\ndown_mbit = 1\n");
  for (const std::string& arguments :
       {"net up " + file, std::string("net up no-such-profile"), std::string("net down none"),
        std::string("net exec a -- true"), std::string("net exec x/a -- true"),
        std::string("net probe x"), std::string("net set x 'a>b' rate=1"),
        std::string("net up colocated --name a/b"), std::string("net stats x"),
        std::string("net capture x 'a>b' /dev/null"), std::string("net down"),
        std::string("net list --nodes")}) {
    const ShellResult result = Run(arguments);
    EXPECT_EQ(result.status, 1) << arguments << "\n" << result.text;
    EXPECT_THAT(result.text, StartsWith("longhaul: ")) << arguments;
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
  EXPECT_THAT(Run("net up " + file).text, HasSubstr("bad.toml:1: "));
}

}  // namespace
}  // namespace longhaul
