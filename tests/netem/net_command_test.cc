// `longhaul net` as a user meets it: every subcommand in a process of its own.
#include <algorithm>
#include <cstdlib>

#include "netem/machine/tap_ceiling.h"
#include "tests/netem/net_fixture.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using NetCommand = NetFixture;

TEST_F(NetCommand, ANewUsersPath) {
  const ShellResult up = Run("net up colocated --name demo --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("lab demo is up: 2 nodes, 2 paths; emulator tap"));
  EXPECT_THAT(up.text, HasSubstr("longhaul net exec demo/a -- ping -c 3 b"));
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

TEST_F(NetCommand, RegionsOfACloud) {
  const ShellResult up =
      Run("net up aws:eu-west-1,us-east-1,ap-northeast-1 --rate 200mbit --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("lab aws is up: 3 nodes, 6 paths"));
  EXPECT_THAT(up.text, HasSubstr("round-trip times of aws: cloudping.co: median"));
  EXPECT_EQ(Run("net list aws --nodes").text, "eu-west-1\nus-east-1\nap-northeast-1\n");
  EXPECT_EQ(Run("net exec aws/us-east-1 -- ping -c 1 -W 2 eu-west-1 >/dev/null").status, 0);
}

TEST_F(NetCommand, WordsOfAProgramAreItsOwn) {
  ASSERT_EQ(Run("net up colocated --name demo --emulator tap").status, 0);
  const std::string show = R"(sh -c 'for w; do printf "<%s>" "$w"; done' x )";
  EXPECT_EQ(Run("net exec demo/a -- " + show + R"(-4 --help -- "" "c d" -- --set)").text,
            "<-4><--help><--><><c d><--><--set>");
  EXPECT_EQ(Run("net exec demo/a " + show + R"(--version -- "")").text, "<--version><--><>");
  EXPECT_THAT(Run("net exec demo/a -- ip -4 addr show net0").text, HasSubstr("inet 10."));
  EXPECT_EQ(Run("net exec demo/a --").status, 1);
  EXPECT_EQ(Run("net exec --help").status, 0);
}

TEST_F(NetCommand, ExecEndsAsAShellDoes) {
  ASSERT_EQ(Run("net up colocated --name demo --emulator tap").status, 0);
  const ShellResult missing = Run("net exec demo/a -- no-such-program");
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.text, HasSubstr("no-such-program in demo/a: exec: No such file"));
  EXPECT_EQ(Run("net exec demo/a -- /").status, 126);
  EXPECT_EQ(Run("net exec demo/a -- sh -c 'kill -9 $$'").status, 137);
  for (const std::string signal : {"TERM", "HUP", "QUIT"}) {
    // --foreground: the signal goes to longhaul alone.
    const ShellResult told =
        RunShell("timeout --foreground --preserve-status -s " + signal +
                 " 1 " LONGHAUL_COMMAND " net exec demo/a -- sh -c 'trap \"echo had " + signal +
                 "; exit 9\" " + signal + "; for i in $(seq 100); do sleep 0.05; done'");
    EXPECT_EQ(told.text, "had " + signal + "\n");
    EXPECT_EQ(told.status, 9);
  }
  const ShellResult ended = RunShell("(" LONGHAUL_COMMAND
                                     " net exec demo/a -- sleep 60; echo $?) & "
                                     "sleep 1; " LONGHAUL_COMMAND " net down demo; wait");
  EXPECT_THAT(ended.text, HasSubstr("lab 'demo' has ended, and sleep in a with it"));
  EXPECT_THAT(ended.text, HasSubstr("137\n"));
}

std::string Path(const std::string& figures) {
  return "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[between]\n" + figures;
}

TEST_F(NetCommand, ATraceAndAManagedQueueFromFileAndFlags) {
  if (const std::string why = WhyNoNetRun(); !why.empty()) GTEST_SKIP() << why;
  Write("up.trace", "1\n2\n2\n5\n9\n9\n10\n14\n15\n20\n");
  const std::string down = Write("down.trace", "1\n");
  const std::string file = Write("lte.toml",
                                 "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n"
                                 "[[path]]\nfrom = 'a'\nto = 'b'\nrtt_ms = 20\n"
                                 "rate_trace = 'up.trace'\naqm = 'codel'\necn = true\n"
                                 "[[path]]\nfrom = 'b'\nto = 'a'\nrtt_ms = 20\n"
                                 "rate_mbit = 20\naqm = 'fq_codel'\n");
  const ShellResult up = Run("net up " + file);
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("emulator tap")) << "the only one that can";
  const std::string list = Run("net list lte").text;
  EXPECT_THAT(list, HasSubstr("6.056 Mbit/s"));
  EXPECT_THAT(list, HasSubstr("codel with ECN, mean of a trace of 0.02 s"));
  EXPECT_EQ(Run("net exec lte/a -- ping -c 1 -W 2 b >/dev/null").status, 0);
  EXPECT_THAT(Run("net stats lte").text, HasSubstr("CE marks"));
  EXPECT_EQ(Run("net set lte 'b>a' rate_trace=" + down).status, 0);
  EXPECT_THAT(Run("net list lte --json").text, HasSubstr("\"mean_mbit\": 12.112"));
  EXPECT_EQ(Run("net exec lte/a -- ping -c 1 -W 2 b >/dev/null").status, 0);
  const ShellResult probe = Run("net probe lte 'b>a' --datagrams 0");
  EXPECT_THAT(probe.text, HasSubstr("the trace lasts 0.001 s"));
  const ShellResult run =
      Run("net run --rtt 10ms --rate-trace 'a>b=" + down + "' --rate-trace 'b>a=" + folder_ +
          "/up.trace' --node b -- "
          "ping -c 2 -i 0.2 -W 2 a");
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_EQ(Run("net run --rtt 10ms --rate 10mbit --aqm codel --ecn on --node a -- true").status,
            0);
}

TEST_F(NetCommand, RateAboveWhatDoctorMeasuredIsRefusedWithItsLine) {
  TapCeiling ceiling{Mbit(300), Mbit(200), 1, 1};
  ASSERT_TRUE(StoreTapCeiling(ceiling).ok());
  const std::string file = Write("fast.toml", Path("profile = 'regional'\n"));
  const ShellResult result = Run("net up " + file + " --emulator tap");
  EXPECT_EQ(result.status, 1) << result.text;
  EXPECT_THAT(result.text, HasSubstr("fast.toml:5: path a > b: 1000 Mbit/s is more than this"));
  EXPECT_THAT(result.text, HasSubstr("300 Mbit/s measured"));
  EXPECT_THAT(Run("net list").text, StartsWith("no lab is up"));
}

TEST_F(NetCommand, NodesOfASiteShareItsLine) {
  const std::string file = Write("shared.toml", R"(
[[site]]
name = "paris"
up_mbit = 20
down_mbit = 40
[[group]]
name = "p"
nodes = 2
site = "paris"
[[node]]
name = "far"
[between]
rtt_ms = 20
)");
  const ShellResult up = Run("net up " + file + " --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(Run("net list shared").text,
              HasSubstr("up 20 Mbit/s, down 40 Mbit/s, shared by site paris"));
  const ShellResult probe = Run("net probe shared --quick --json --pings 5");
  EXPECT_THAT(probe.text, HasSubstr("\"from\": \"p-0\""));
  EXPECT_THAT(Run("net stats shared").text, HasSubstr("p-0 > p-1"));
  EXPECT_EQ(Run("net exec shared/p-0 -- ping -c 1 -W 2 p-1 >/dev/null").status, 0);
  EXPECT_EQ(Run("net exec shared/p-0 -- ping -c 1 -W 2 far >/dev/null").status, 0);
}

}  // namespace
}  // namespace longhaul
