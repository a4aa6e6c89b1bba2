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
  EXPECT_THAT(Run("net up " + file + " --nodes 3").text,
              HasSubstr("two-sites.toml has 4 nodes of its own; 3 were asked for"));
  EXPECT_THAT(Run("net up nofile.toml --nodes 3").text, HasSubstr("nofile.toml: "));
}

TEST_F(NetCommand, RegionsOfACloud) {
  const ShellResult up =
      Run("net up aws:eu-west-1,us-east-1,ap-northeast-1 --rate 200mbit --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("lab aws is up: 3 nodes, 6 paths"));
  EXPECT_THAT(up.text, HasSubstr("round-trip times of aws: cloudping.co: median"));
  EXPECT_EQ(Run("net list aws --nodes").text, "eu-west-1\nus-east-1\nap-northeast-1\n");
  EXPECT_EQ(Run("net exec aws/us-east-1 -- ping -c 1 -W 2 eu-west-1 >/dev/null").status, 0);
  EXPECT_THAT(Run("net up aws --nodes 3").text,
              HasSubstr("aws has a node for each region: leave out that 3 were"));
  EXPECT_THAT(Run("net up aws:mars").text,
              HasSubstr("no region 'mars' in the table 'aws'; known:"));
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
           {"loss", Path("rtt_ms = 1\nloss = 1.5\n"), "loss.toml:7: 'loss' is 1.5: write \"1.5%\""},
           {"loss-all", Path("rtt_ms = 1\ncorrupt = 1\n"),
            "7: 'corrupt' is 1: write \"1%\", or \"100%\""},
           {"loss-text", Path("rtt_ms = 1\nloss = '150%'\n"), "7: path a > b: loss is 1.5"},
           {"loss-bare", Path("rtt_ms = 1\nloss = '1'\n"), "7: loss=1: want its unit: 1%"},
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
           {"word", nodes + "[matrix]\ncsv = 'word.csv'\n",
            "word.csv:2: a > b: 'far' is no round-trip"},
           {"whom", nodes + "[matrix]\ncsv = 'whom.csv'\n", "whom.toml:5: 'c' of "},
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

TEST_F(NetCommand, BadTracesAreNamedWithTheirLine) {
  Write("late.trace", "5\n4\n");
  Write("binary.trace", std::string("\x7f"
                                    "ELF\0\1\2",
                                    7));
  Write("zero.trace", "0\n0\n");
  Write("empty.trace", "");
  const auto with = [&](const std::string& figures) {
    return Run("net up " + Write("bad.toml", Path("rtt_ms = 1\n" + figures)) + " --emulator tap");
  };
  for (const auto& [figures, says] : std::vector<std::pair<std::string, std::string>>{
           {"rate_trace = 'late.trace'", "late.trace:2: 4 ms comes after 5 ms"},
           {"rate_trace = 'binary.trace'", "binary.trace:1: '\\x7fELF"},
           {"rate_trace = 'zero.trace'", "zero.trace:2: the last time is 0 ms"},
           {"rate_trace = 'empty.trace'", "empty.trace:1: an empty rate trace"},
           {"rate_trace = 'gone.trace'", "bad.toml:7: "},
           {"rate_trace = '/dev/zero'", "bad.toml:7: /dev/zero: rate trace: no regular file"},
           {"rate_trace = 7", "bad.toml:7: 'rate_trace' is an integer"},
           {"rate_mbit = 5\nrate_trace = 'late.trace'", "both given"},
           {"aqm = 'red'\nrate_mbit = 5", "bad.toml:7: 'aqm' is \"droptail\""},
           {"aqm = 'codel'", "bad.toml:7: path a > b: aqm: without a rate of its own"},
           {"rate_mbit = 5\necn = true", "bad.toml:8: path a > b: ecn: a drop-tail queue"},
           {"rate_mbit = 5\naqm_target_ms = 5", "bad.toml:8: 'aqm_target_ms' without aqm"},
           {"rate_mbit = 5\naqm = 'codel'\naqm_target_ms = nan", "bad.toml:9: path a > b: aqm_t"},
           {"rate_mbit = 5\naqm = 'codel'\naqm_interval_ms = 1e9", "bad.toml:9: path a > b: aqm_i"},
           {"rate_mbit = 5\njitter_order = 'no'", "bad.toml:8: jitter_order is \"keep\""}}) {
    const ShellResult result = with(figures);
    EXPECT_EQ(result.status, 1) << figures;
    EXPECT_THAT(result.text, HasSubstr(says));
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
  EXPECT_EQ(Run("net up --rtt 1ms --rate-trace " + folder_ + "/late.trace").status, 1);
  EXPECT_THAT(Run("net up --rtt 1ms --rate-trace 'a>x=" + folder_ + "/late.trace'").text,
              HasSubstr("no node 'x'"));
  EXPECT_THAT(Run("net list").text, StartsWith("no lab is up"));
}

TEST_F(NetCommand, AFileThatIsNoTopologyIsNamedAsWhatItIs) {
  const std::string matrix = Write("m.csv", ",a,b\na,,1\nb,1,\n");
  for (const auto& [file, says] : std::vector<std::pair<std::string, std::string>>{
           {matrix, "write a topology file (.toml) with [matrix]"},
           {Write("probe.json", "{}"), "is for `longhaul plan --links`"},
           {folder_ + "/none.csv", "there is no such file"},
           {"none.toml", "none.toml: "}}) {
    for (const std::string& command : {"net up " + file, "net run " + file + " -- true"}) {
      const ShellResult result = Run(command);
      EXPECT_EQ(result.status, 1) << command;
      EXPECT_THAT(result.text, HasSubstr(says)) << command;
      EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
    }
  }
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
