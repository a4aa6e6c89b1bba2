// Every kind of bad input ends in one clear line on stderr and a status that is not 0.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct BadSpec {
  const char* name;
  const char* from;  // replaced in TinySpec()
  const char* to;
  std::vector<const char*> want;  // all in the message
};

class BadInput : public testing::TestWithParam<BadSpec> {};

TEST_P(BadInput, IsOneLineThatSaysWhereAndWhat) {
  const BadSpec& bad = GetParam();
  std::string spec = TinySpec();
  const size_t at = spec.find(bad.from);
  ASSERT_NE(at, std::string::npos) << bad.from;
  spec.replace(at, std::string(bad.from).size(), bad.to);
  ScratchFolder scratch;
  const std::string file = scratch.File("bad.toml", spec);
  const CommandResult result = RunLonghaul({"run", file, "--results", scratch.path() + "/results"});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  for (const char* want : bad.want) EXPECT_THAT(result.output, HasSubstr(want));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadInput,
    testing::Values(
        BadSpec{"Typo", "forward =", "forwrad =", {"bad.toml:", "forwrad", "forward"}},
        BadSpec{"UnknownCodec", "int4-b64-h64", "int5-b64", {"int5-b64", "int8-b64"}},
        BadSpec{"UnknownSchedule", "\"1f1b\"", "\"2f2b\"", {"2f2b", "1f1b", "gpipe"}},
        BadSpec{"WrongType", "blocks = 4", "blocks = \"four\"", {"bad.toml:", "blocks", "integer"}},
        BadSpec{"MissingKey", "heads = 2\n", "", {"heads"}},
        BadSpec{"StagesDoNotDivide", "stages = 2", "stages = 3", {"stages", "blocks", "4", "3"}},
        BadSpec{
            "MicrobatchesDoNotDivide", "microbatches = 2", "microbatches = 3", {"microbatches"}},
        BadSpec{"NotToml", "[model]", "[model", {"bad.toml:"}},
        BadSpec{"IdleKey",
                "stages = 2",
                "stages = 2\ndepth = 4",
                {"bad.toml:", "'schedule.depth' = 4 would change nothing", "1f1b-deep"}},
        BadSpec{"RankAboveEveryMatrix",
                "int4-b64-h64",
                "powersgd-r64",
                {"'boundary.forward' = \"powersgd-r64\"", "every tensor whole"}}),
    [](const auto& spec) { return std::string(spec.param.name); });

TEST(BadInput, UnknownProfileListsTheKnownOnes) {
  ScratchFolder scratch;
  const std::string file = scratch.File("bad.toml", TinySpec());
  const CommandResult result =
      RunLonghaul({"run", file, "--results", scratch.path() + "/results", "--set",
                   "net.transport=ucx", "--set", "net.profile=moon"});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("moon"), HasSubstr("continental-us")));
}

// The shipped smoke campaign: three seeds, which do not resolve what it asks.
TEST(BadInput, DesignThatCannotResolveIsRefusedAndLeavesNoRecord) {
  ScratchFolder scratch;
  const std::string results = scratch.path() + "/results";
  const CommandResult result =
      RunLonghaul({"measure", LONGHAUL_SPECS "/smoke.toml", "--results", results});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("--accept-unresolved"));
  EXPECT_FALSE(std::filesystem::exists(results));
}

TEST(BadInput, FileThatIsNoFrameIsNamed) {
  for (const char* command : {"inspect", "decode"}) {
    ScratchFolder scratch;
    const std::string out = scratch.path() + "/out";
    std::vector<std::string> arguments = {"codecs", command, LONGHAUL_SPECS "/smoke.toml"};
    if (std::string_view(command) == "decode") arguments.push_back(out);
    const CommandResult result = RunLonghaul(arguments);
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("smoke.toml"), HasSubstr("codecs encode")));
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

TEST(BadInput, AFolderOrAHugeFileIsNoFrame) {
  ScratchFolder scratch;
  const CommandResult folder = RunLonghaul({"codecs", "inspect", scratch.path()});
  EXPECT_EQ(folder.exit_status, 1) << folder.output;
  EXPECT_THAT(folder.output, HasSubstr("cannot read " + scratch.path() + ": want a file"));
  const std::string huge = scratch.File("huge", "");
  std::filesystem::resize_file(huge, uintmax_t{1} << 31);
  const CommandResult refused = RunLonghaul({"codecs", "inspect", huge});
  EXPECT_EQ(refused.exit_status, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("has 2147483648 bytes; at most 1073741824 are read"));
}

// The parser alone takes -1 as 2^64 - 1, what is too large as the largest, and nan.
TEST(BadInput, ANumberThatIsNoneOrTooLargeIsOneLineWithTheOption) {
  const std::vector<std::vector<std::string>> kCommands = {
      {"net", "up", "continental-us", "--seed", "-1"},
      {"net", "probe", "x", "--pings", "9223372036854775808"},
      {"net", "stats", "x", "--interval", "nan"},
      {"schedule", "show", "1f1b", "--depth", "1e308"},
      {"net", "up", "--no-such-option"}};
  for (const std::vector<std::string>& command : kCommands) {
    const CommandResult result = RunLonghaul(command);
    EXPECT_EQ(result.exit_status, 2) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    const std::string own = "longhaul " + command[0] + " " + command[1] + " --help";
    EXPECT_THAT(result.output, AllOf(testing::StartsWith("longhaul: "), HasSubstr(own)));
    if (command.size() < 5 && command[1] == "up") continue;
    EXPECT_THAT(result.output, AllOf(HasSubstr(command[command.size() - 2]),
                                     HasSubstr("'" + command.back() + "' is not a")));
  }
  // A product that is more than 2^63, and a depth that is more than an int holds.
  for (const auto& [option, value] :
       {std::pair("-M", "9223372036854775807"), std::pair("--depth", "4294967297")}) {
    const CommandResult result = RunLonghaul({"schedule", "show", "1f1b", option, value});
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(value), HasSubstr("want ")));
  }
}

TEST(BadInput, CodecsTakesNamesAndMeasuresNoneForNothing) {
  const CommandResult one = RunLonghaul({"codecs", "int8-b64"});
  EXPECT_EQ(one.exit_status, 0) << one.output;
  EXPECT_THAT(one.output, AllOf(HasSubstr("int8-b64"), testing::Not(HasSubstr("int4-b64"))));
  const CommandResult unknown = RunLonghaul({"codecs", "int7-b64"});
  EXPECT_EQ(unknown.exit_status, 1);
  EXPECT_THAT(unknown.output, HasSubstr("int8-b64"));
  const CommandResult none = RunLonghaul({"codecs", "int8-b64", "--max-bits", "1"});
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_THAT(none.output, HasSubstr("no codec passes --max-bits 1"));
}

TEST(BadInput, MissingFileIsNamed) {
  const CommandResult result = RunLonghaul({"run", "/no/such/spec.toml"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, HasSubstr("/no/such/spec.toml"));
}

TEST(BadInput, WorkerOutsideALauncherNamesTheVariable) {
  ScratchFolder scratch;
  const CommandResult result = RunLonghaul({"worker", scratch.File("spec.toml", TinySpec())});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("RANK"), HasSubstr("torchrun")));
}

std::vector<std::string> ShapedRun(const ScratchFolder& scratch) {
  return {LONGHAUL_BINARY,
          "run",
          scratch.File("spec.toml", TinySpec()),
          "--results",
          scratch.path() + "/results",
          "--set",
          "net.transport=ucx"};
}

// The last line of what it printed: a run prints its resolved spec first.
std::string LastLine(const CommandResult& result) {
  const size_t end = result.output.find_last_not_of('\n');
  const size_t begin = result.output.rfind('\n', end);
  return result.output.substr(begin + 1, end - begin);
}

TEST(BadMachine, NeitherTunNorNetemIsOneLineThatSaysWhatToDo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to hide /dev/net/tun from one process";
  const CommandResult doctor = RunLonghaul({"doctor", "--lab"});
  if (doctor.output.find("kernel netem") != std::string::npos) {
    GTEST_SKIP() << "this kernel has sch_netem: links work without /dev/net/tun";
  }
  if (doctor.exit_status != 0) GTEST_SKIP() << doctor.output;
  const ScratchFolder scratch;
  std::vector<std::string> argv = {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                                   "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\""};
  for (const std::string& word : ShapedRun(scratch)) argv.push_back(word);
  const CommandResult result = RunProgram(argv);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(LastLine(result), AllOf(HasSubstr("/dev/net/tun"), HasSubstr("modprobe tun")));
}

TEST(BadMachine, NetemThatTheKernelLacksIsOneLineAndNoRecord) {
  if (RunLonghaul({"doctor", "--lab"}).output.find("kernel netem") != std::string::npos) {
    GTEST_SKIP() << "this kernel has sch_netem";
  }
  const ScratchFolder scratch;
  const std::string results = scratch.path() + "/results";
  const CommandResult result = RunLonghaul(
      {"run", LONGHAUL_SPECS "/shaped.toml", "--results", results, "--set", "net.emulator=netem"});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("modprobe sch_netem"), HasSubstr("tap emulator"),
                                   testing::Not(HasSubstr("the next start"))));
  EXPECT_FALSE(std::filesystem::exists(results));
}

// Runs `argv` as an ordinary user in a user namespace where no further one may be made.
CommandResult RunWithoutUserNamespaces(const std::vector<std::string>& argv,
                                       const std::string& output_file) {
  int ready[2], mapped[2];
  EXPECT_EQ(pipe(ready) + pipe(mapped), 0);
  const pid_t pid = fork();
  char byte = 0;
  if (pid == 0) {
    const int output = open(output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(output, 1);
    dup2(output, 2);
    if (unshare(CLONE_NEWUSER) != 0) _exit(99);
    if (write(ready[1], &byte, 1) + read(mapped[0], &byte, 1) != 2) _exit(98);
    std::ofstream("/proc/sys/user/max_user_namespaces") << "0";
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(97);
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(96);
  }
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  for (const char* map : {"uid_map", "gid_map"}) {
    std::ofstream("/proc/" + std::to_string(pid) + "/" + map) << "0 0 65536";
  }
  EXPECT_EQ(write(mapped[1], &byte, 1), 1);
  for (const int fd : {ready[0], ready[1], mapped[0], mapped[1]}) close(fd);
  return WaitFor(pid, output_file);
}

TEST(BadMachine, ForbiddenUserNamespacesAreOneLineThatSaysWhatToDo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to forbid user namespaces to one process";
  const ScratchFolder scratch;
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::all);
  const CommandResult result =
      RunWithoutUserNamespaces(ShapedRun(scratch), scratch.path() + "/output");
  if (result.exit_status > 95) {
    GTEST_SKIP() << "this sandbox forbids the test's own user namespace or program, status "
                 << result.exit_status;
  }
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(LastLine(result),
              AllOf(HasSubstr("user namespace"), HasSubstr("user.max_user_namespaces")));
}

TEST(BadInput, UnknownCommandIsUsage) { EXPECT_EQ(RunLonghaul({"fly"}).exit_status, 2); }

}  // namespace
}  // namespace longhaul
