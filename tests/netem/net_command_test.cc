// `longhaul net` as a user meets it: every subcommand in a process of its own.
#include <algorithm>
#include <cstdlib>

#include "netem/tap_ceiling.h"
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
  EXPECT_THAT(Run("net up " + file).text, HasSubstr("bad.toml:3: "));
}

struct BadFile {
  const char* name;
  std::string text;
  const char* says;
};

std::string Path(const std::string& figures) {
  return "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[between]\n" + figures;
}

TEST_F(NetCommand, BadFilesAreNamedWithTheirLineAndBuildNothing) {
  Write("odd.csv", "rtt,a,b\na,,1\n");
  Write("word.csv", "rtt,a,b\na,,far\nb,1,\n");
  Write("whom.csv", "rtt,a,c\na,,1\nc,1,\n");
  const std::string nodes = "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n";
  for (const BadFile& bad : {
           BadFile{"rate-0", Path("rtt_ms = 1\nrate_mbit = 0\n"),
                   "rate-0.toml:7: 'rate_mbit' is 0"},
           {"rate-nan", Path("rtt_ms = 1\nrate_mbit = nan\n"),
            "rate-nan.toml:7: path a > b: rate is"},
           {"delay", Path("delay_ms = -1\n"), "delay.toml:6: path a > b: delay is -1ms"},
           {"delay-nan", Path("delay_ms = nan\n"), "delay-nan.toml:"},
           {"jitter", Path("rtt_ms = 1\njitter_ms = -2\n"), "jitter.toml:7: path a > b: jitter"},
           {"loss", Path("rtt_ms = 1\nloss = 1.5\n"), "loss.toml:7: path a > b: loss is 1.5"},
           {"loss-less", Path("rtt_ms = 1\nloss = -0.1\n"),
            "loss-less.toml:7: path a > b: loss is"},
           {"queue", Path("rtt_ms = 1\nqueue_packets = 0\n"),
            "queue.toml:7: path a > b: queue is 0"},
           {"bytes", Path("rtt_ms = 1\nqueue_bytes = 40\n"),
            "bytes.toml:7: path a > b: queue is 40"},
           {"node", nodes + "[[path]]\nfrom = 'a'\nto = 'x'\nrtt_ms = 1\n",
            "node.toml:5: 'to': no node"},
           {"site", nodes + "[[node]]\nname = 'c'\nsite = 'x'\n", "site.toml:7: no site 'x'"},
           {"twice", nodes + "[[node]]\nname = 'a'\n", "twice.toml:5: node 'a' is given twice"},
           {"long", "[[node]]\nname = '" + std::string(60, 'n') + "'\n", "long.toml:1: node 0"},
           {"square", nodes + "[matrix]\ncsv = 'odd.csv'\n", "odd.csv:2: not square"},
           {"word", nodes + "[matrix]\ncsv = 'word.csv'\n", "word.csv:2: 'far' is no round-trip"},
           {"whom", nodes + "[matrix]\ncsv = 'whom.csv'\n", "whom.csv:1: 'c' is no node"},
           {"gone", nodes + "[matrix]\ncsv = 'gone.csv'\n", "gone.toml:5: "},
       }) {
    const std::string file = Write(bad.name + std::string(".toml"), bad.text);
    const ShellResult result = Run("net up " + file + " --emulator tap");
    EXPECT_EQ(result.status, 1) << bad.name << "\n" << result.text;
    EXPECT_THAT(result.text, HasSubstr(bad.says));
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
  EXPECT_THAT(Run("net list").text, StartsWith("no lab is up"));
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
