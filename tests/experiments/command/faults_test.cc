// What is killed, cut or full ends in a clear line and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr char kLong[] = "train.steps=2000";

class Faults : public testing::Test {
 protected:
  // The results folder's path is in every process of the run: it tells them from others.
  std::vector<std::string> Arguments(const std::vector<std::string>& sets) const {
    std::vector<std::string> arguments = {"run",
                                          scratch_.File("spec.toml", OfSmallText(TinySpec())),
                                          "--results", scratch_.path() + "/results"};
    for (const std::string& s : sets) arguments.insert(arguments.end(), {"--set", s});
    return arguments;
  }
  std::string output_file() const { return scratch_.path() + "/output"; }
  std::vector<std::string> Checkpoints() const {
    std::vector<std::string> files;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             scratch_.path() + "/results/checkpoints", none_yet)) {
      if (entry.path().extension() == ".ckpt") files.push_back(entry.path());
    }
    return files;
  }
  // By the newest run of the record; 0: none yet.
  int64_t StepsRecorded() const {
    const absl::StatusOr<Record> record =
        Record::Open(scratch_.path() + "/results", Record::Mode::kRead);
    if (!record.ok()) return 0;
    const auto experiments = record->Experiments();
    if (!experiments.ok() || experiments->empty()) return 0;
    const auto runs = record->Runs(experiments->back().id);
    if (!runs.ok() || runs->empty()) return 0;
    const auto steps = record->RowsOf<StepRow>(runs->back().id);
    return steps.ok() && !steps->empty() ? steps->back().step : 0;
  }
  bool Trains() const { return ReadFile(output_file()).find("step ") != std::string::npos; }

  ScratchFolder scratch_;
};

TEST_F(Faults, NanLossIsRecordedAsDiverged) {
  const CommandResult result =
      RunLonghaul(Arguments({"train.lr=1e18", "train.clip_norm=1e30", "train.steps=30"}));
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("diverged in step "));
  EXPECT_THAT(result.output, HasSubstr("; lower train.lr"));
}

// Each stage a process and boundaries that carry NaN: the rank that finds it ends the run in its step,
// and no checkpoint of that step is whole.
TEST_F(Faults, NanGradientOfAStageEndsTheRunOverLinks) {
  if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  const CommandResult result = RunLonghaul(
      Arguments({"net.transport=ucx", "net.profile=" + LinksWithoutRates(scratch_, 2),
                 "boundary.forward=none", "boundary.backward=none", "train.lr=1e18",
                 "train.clip_norm=1e30", "train.steps=30", "checkpoint.every_steps=1"}));
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("diverged in step "), HasSubstr(", stage "),
                                   HasSubstr("; lower train.lr")));
  std::map<std::string, int> files_of_step;  // "step2.ckpt"
  for (const std::string& path : Checkpoints()) ++files_of_step[path.substr(path.rfind("step"))];
  const size_t at = result.output.find("diverged in step ") + std::strlen("diverged in step ");
  const std::string step = result.output.substr(at, result.output.find(',', at) - at);
  EXPECT_LT(files_of_step["step" + step + ".ckpt"], 2) << "step " << step;
}

TEST_F(Faults, InterruptEndsWithinTwoSeconds) {
  const pid_t pid = StartLonghaul(Arguments({kLong}), output_file());
  ASSERT_TRUE(Eventually([&] { return Trains(); })) << ReadFile(output_file());
  kill(pid, SIGINT);
  const CommandResult result = WaitFor(pid, output_file());
  EXPECT_EQ(result.exit_status, 130) << result.output;
  EXPECT_LT(result.wall_s, 2.0);
  EXPECT_TRUE(Eventually([&] { return ProcessesWith(scratch_.path()).empty(); }));
}

// Killed at a random moment, each rank a process: what the codecs remember at both ends of the
// boundary, and what keys their noise, comes back.
TEST_F(Faults, ResumedProcessesRepeatTheBitsWhereCodecsRemember) {
  if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::string> sets = {"net.transport=ucx",
                                         "net.profile=" + LinksWithoutRates(scratch_, 2),
                                         "train.steps=120",
                                         "checkpoint.every_steps=1",
                                         "boundary.forward=int4-b64+ef21",
                                         "boundary.backward=int4-b64+sr"};
  std::vector<std::string> named = Arguments(sets);
  named.insert(named.end(), {"--arm", "whole"});
  const CommandResult whole = RunLonghaul(named);
  ASSERT_EQ(whole.exit_status, 0) << whole.output;
  const pid_t pid = StartLonghaul(Arguments(sets), output_file());
  ASSERT_TRUE(Eventually([&] { return Trains(); })) << ReadFile(output_file());
  std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device()() % 500));
  kill(pid, SIGKILL);
  ASSERT_EQ(WaitFor(pid, output_file()).signal, SIGKILL) << "it had ended before it was killed";
  ASSERT_TRUE(Eventually([&] { return ProcessesWith(scratch_.path()).empty(); }));
  std::vector<std::string> again = Arguments(sets);
  again.push_back("--resume");
  const CommandResult resumed = RunLonghaul(again);
  ASSERT_EQ(resumed.exit_status, 0) << resumed.output;
  const CommandResult same =
      RunLonghaul({"compare", scratch_.path() + "/results", "whole", "last"});
  EXPECT_EQ(same.exit_status, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("bit-identical"));
}

TEST_F(Faults, CorruptCheckpointIsNamedAndNothingIsTrained) {
  const std::vector<std::string> sets = {"train.steps=100000", "checkpoint.every_steps=3000"};
  const pid_t pid = StartLonghaul(Arguments(sets), output_file());
  // The record is written once a second, and a checkpoint that it has not all steps of is removed:
  // it has those of the first one, seconds before the next one replaces that. Both stages have a file of it.
  ASSERT_TRUE(Eventually([&] { return StepsRecorded() >= 3000 && Checkpoints().size() >= 2; }));
  kill(pid, SIGKILL);
  ASSERT_EQ(WaitFor(pid, output_file()).signal, SIGKILL) << "it had ended before it was killed";
  for (const std::string& file : Checkpoints()) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  }
  std::vector<std::string> again = Arguments(sets);
  again.push_back("--resume");
  const CommandResult result = RunLonghaul(again);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  // What would end in the same error is no advice.
  EXPECT_THAT(result.output, AllOf(HasSubstr("truncated or corrupt"),
                                   HasSubstr("remove that folder and run the same command without "
                                             "--resume"),
                                   Not(HasSubstr("with --resume goes on"))));
}

TEST_F(Faults, FullDiskIsOneClearLine) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  const std::string results = scratch_.path() + "/results";
  std::filesystem::create_directory(results);
  if (mount("small", results.c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "this sandbox forbids mounting a tmpfs";
  }
  const CommandResult result = RunLonghaul(Arguments({"train.steps=3000"}));
  umount2(results.c_str(), MNT_DETACH);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("disk is full"));
}

}  // namespace
}  // namespace longhaul
