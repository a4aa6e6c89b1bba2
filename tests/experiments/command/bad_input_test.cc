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

TEST(BadInput, AHugeFileIsNoFrame) {
  ScratchFolder scratch;
  const std::string huge = scratch.File("huge", "");
  std::filesystem::resize_file(huge, uintmax_t{1} << 31);
  const CommandResult refused = RunLonghaul({"codecs", "inspect", huge});
  EXPECT_EQ(refused.exit_status, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("has 2147483648 bytes; at most 1073741824 are read"));
}

TEST(BadInput, CodecsTakesNames) {
  const CommandResult one = RunLonghaul({"codecs", "int8-b64"});
  EXPECT_EQ(one.exit_status, 0) << one.output;
  EXPECT_THAT(one.output, AllOf(HasSubstr("int8-b64"), testing::Not(HasSubstr("int4-b64"))));
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

}  // namespace
}  // namespace longhaul
