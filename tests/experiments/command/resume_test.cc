// Kills at random moments, take-overs, two commands at once: what the record says afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class Resume : public testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"run", scratch_.File("spec.toml", TinySpec()),
                                          "--results", results()};
    for (const char* set : {"train.steps=240", "checkpoint.every_steps=20", "outer.groups=2",
                            "outer.inner_steps=7", "outer.codec=int4-b64+ef"}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string results() const { return scratch_.path() + "/results"; }
  std::string output_file() const { return scratch_.path() + "/output"; }
  std::vector<std::vector<std::string>> Rows(const std::string& sql) const {
    absl::StatusOr<Record> record = Record::Open(results(), Record::Mode::kRead);
    if (!record.ok()) return {};
    auto rows = record->Rows(sql);
    if (!rows.ok() || rows->empty()) return {};
    rows->erase(rows->begin());
    return *rows;
  }
  int64_t LastStep(int64_t run) const {
    const auto rows =
        Rows("SELECT ifnull(MAX(step), 0) FROM steps WHERE run_id = " + std::to_string(run));
    return rows.empty() ? 0 : std::stoll(rows[0][0]);
  }
  std::string CheckpointsOf(const std::string& arm) const {
    for (const auto& folder : std::filesystem::directory_iterator(results() + "/checkpoints")) {
      if (ReadFile(folder.path() / "owner").find("(arm '" + arm + "')") != std::string::npos) {
        return folder.path();
      }
    }
    return "";
  }
  // Whether the run's folder of checkpoints has all four ranks' files of the step.
  bool HasFiles(int64_t run, int64_t step) const {
    const std::string ending = "-step" + std::to_string(step) + ".ckpt";
    std::error_code error;
    for (const auto& folder :
         std::filesystem::directory_iterator(results() + "/checkpoints", error)) {
      if (ReadFile(folder.path() / "owner").find("\nrun " + std::to_string(run) + " ") ==
          std::string::npos) {
        continue;
      }
      int files = 0;
      for (const auto& file : std::filesystem::directory_iterator(folder.path(), error)) {
        files += file.path().filename().string().ends_with(ending);
      }
      if (files == 4) return true;
    }
    return false;
  }
  // Starts, waits until the record of `run` has this step, and sends the signal to the command or
  // to its child. Returns how the command ended.
  CommandResult KilledAt(int64_t run, int64_t step, int signal, bool child,
                         const std::vector<std::string>& more, int64_t files_of_step = 0) {
    const pid_t pid = StartLonghaul(Arguments(more), output_file());
    EXPECT_TRUE(Eventually([&] {
      return LastStep(run) >= step && (files_of_step == 0 || HasFiles(run, files_of_step));
    })) << ReadFile(output_file());
    pid_t target = pid;
    if (child) {
      const std::string task = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid);
      target = std::atoi(ReadFile(task + "/children").c_str());
      EXPECT_GT(target, 0);
    }
    kill(target, signal);
    return WaitFor(pid, output_file());
  }
  ScratchFolder scratch_;
};

// What crossed, without times: those differ. Outer channels number their messages anew (compare).
constexpr char kCounts[] =
    "SELECT src_rank, direction, tensors, elements, predicted_wire_bytes, payload_bytes,"
    " message_bytes, nmse_samples, nmse_max, iif(direction = 'outer', '', payload_hash)"
    " FROM crossings WHERE run_id = ";

TEST_F(Resume, KilledAtRandomStepsARunHasEveryStepAndByteOfOneThatWasNot) {
  const CommandResult whole = RunLonghaul(Arguments({"--arm", "whole"}));
  ASSERT_EQ(whole.exit_status, 0) << whole.output;
  std::mt19937 random(std::random_device{}());
  int64_t step = std::uniform_int_distribution<int64_t>(1, 60)(random);
  for (int kills = 0; kills < 3; ++kills) {
    SCOPED_TRACE("killed at step " + std::to_string(step));
    const bool child = kills == 1;  // a failed run is taken over like one that died
    const CommandResult killed = KilledAt(2, step, SIGKILL, child, {"--resume"});
    EXPECT_NE(killed.exit_status, 0) << killed.output;
    step = LastStep(2) + std::uniform_int_distribution<int64_t>(1, 40)(random);
  }
  const CommandResult resumed = RunLonghaul(Arguments({"--resume"}));
  ASSERT_EQ(resumed.exit_status, 0) << resumed.output;
  EXPECT_EQ(Rows("SELECT id FROM runs").size(), 2u);
  EXPECT_THAT(Rows("SELECT status, (SELECT COUNT(*) FROM steps WHERE run_id = id) FROM runs"),
              Each(ElementsAre("ok", "960")));
  EXPECT_EQ(Rows(std::string(kCounts) + "2"), Rows(std::string(kCounts) + "1"));
  const CommandResult same = RunLonghaul({"compare", results(), "whole", "last"});
  EXPECT_EQ(same.exit_status, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("bit-identical"));
  // After success there is nothing to train.
  const CommandResult again = RunLonghaul(Arguments({"--resume"}));
  EXPECT_EQ(again.exit_status, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("run 2 has finished: ok"));
  EXPECT_EQ(Rows("SELECT id FROM runs").size(), 2u);
}

TEST_F(Resume, ACorruptNewestCheckpointIsPassedOverAndSaid) {
  const std::vector<std::string> rare = {"--set", "checkpoint.every_steps=60"};
  std::vector<std::string> whole = rare, resume = rare;
  whole.insert(whole.end(), {"--arm", "whole"});
  resume.emplace_back("--resume");
  ASSERT_EQ(RunLonghaul(Arguments(whole)).exit_status, 0);
  // Files are written behind the training: killed when the last one of step 120 is there.
  KilledAt(2, 121, SIGKILL, false, rare, /*files_of_step=*/120);
  int64_t cut = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(results() + "/checkpoints")) {
    if (entry.path().filename() != "group1-stage0-step120.ckpt") continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
    ++cut;
  }
  ASSERT_GE(cut, 1);  // of both arms, where the other's are still there
  const CommandResult resumed = RunLonghaul(Arguments(resume));
  ASSERT_EQ(resumed.exit_status, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("went on from step 60: checkpoint "));
  EXPECT_THAT(Rows("SELECT status FROM runs"), Each(ElementsAre("ok")));
  const CommandResult same = RunLonghaul({"compare", results(), "whole", "last"});
  EXPECT_EQ(same.exit_status, 0) << same.output;
}

TEST_F(Resume, ARunBeginsWithAnotherOnesCheckpointOverOtherStagesAndHasEqualLosses) {
  const auto lossless = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all;
    for (const char* set : {"boundary.forward=none", "boundary.backward=none", "outer.codec=none",
                            "checkpoint.every_steps=50"}) {
      all.insert(all.end(), {"--set", set});
    }
    all.insert(all.end(), more.begin(), more.end());
    return Arguments(all);
  };
  ASSERT_EQ(RunLonghaul(lossless({"--arm", "two"})).exit_status, 0);
  const CommandResult four =
      RunLonghaul(lossless({"--arm", "four", "--from", results(), "--set", "schedule.stages=4",
                            "--set", "checkpoint.every_steps=20"}));
  ASSERT_EQ(four.exit_status, 0) << four.output;
  EXPECT_THAT(Rows("SELECT status FROM runs"), Each(ElementsAre("ok")));
  const std::string losses =
      "SELECT step, group_index, loss_nat FROM steps WHERE loss_nat IS NOT NULL AND step > 200"
      " AND run_id = ";
  EXPECT_EQ(Rows(losses + "2 ORDER BY 1, 2").size(), 80u);
  EXPECT_EQ(Rows(losses + "2 ORDER BY 1, 2"), Rows(losses + "1 ORDER BY 1, 2"));
  EXPECT_THAT(Rows("SELECT MIN(step) FROM steps WHERE run_id = 2"),
              ElementsAre(ElementsAre("201")));
  EXPECT_THAT(Rows("SELECT value FROM run_facts WHERE run_id = 2 AND key = 'restored_changes'"),
              ElementsAre(ElementsAre("stages=2 > 4")));
  // What crossed is what is left of the training, as predicted for that.
  EXPECT_THAT(Rows("SELECT MAX(tensors) FROM crossings WHERE run_id = 2 AND direction = 'forward'"),
              ElementsAre(ElementsAre("80")));
  const CommandResult several = RunLonghaul(lossless({"--arm", "x", "--from", results()}));
  EXPECT_EQ(several.exit_status, 1);
  EXPECT_THAT(several.output, HasSubstr("2 runs left checkpoints there; name one: "));
  const CommandResult other = RunLonghaul(
      lossless({"--arm", "x", "--from", CheckpointsOf("two"), "--set", "model.width=64"}));
  EXPECT_EQ(other.exit_status, 1);
  EXPECT_THAT(other.output, HasSubstr("is of another model: width = 32, and this run's is 64"));
  const CommandResult nothing = RunLonghaul(lossless({"--arm", "x", "--from", "/nowhere"}));
  EXPECT_EQ(nothing.exit_status, 1);
  EXPECT_THAT(nothing.output, HasSubstr("go on from '/nowhere': no checkpoint there"));
  EXPECT_EQ(Rows("SELECT id FROM runs").size(), 2u) << "refused before anything began";
}

TEST_F(Resume, TwoAtOnceAreOneRunAndALineOfRefusal) {
  // Long enough for the two that are refused.
  const std::string set = "--set", steps = "train.steps=1500";
  KilledAt(1, 30, SIGKILL, false, {set, steps});
  const CommandResult anew = RunLonghaul(Arguments({set, steps}));
  EXPECT_EQ(anew.exit_status, 1);
  EXPECT_THAT(anew.output, HasSubstr("go on from them with --resume"));
  const pid_t pid =
      StartLonghaul(Arguments({set, steps, "--resume", "--set", "seed=1"}), output_file());
  ASSERT_TRUE(
      Eventually([&] { return Rows("SELECT 1 FROM runs WHERE status = 'running'").size(); }));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{set, steps, "--resume"}, {set, steps}}) {
    const CommandResult second = RunLonghaul(Arguments(more));
    EXPECT_EQ(second.exit_status, 1) << second.output;
    EXPECT_THAT(second.output, HasSubstr("process " + std::to_string(pid)));
  }
  const CommandResult first = WaitFor(pid, output_file());
  EXPECT_EQ(first.exit_status, 0) << first.output;
  EXPECT_THAT(Rows("SELECT status FROM runs"), ElementsAre(ElementsAre("ok")));
}

TEST_F(Resume, AHangUpEndsARunInOrderButNotUnderNohup) {
  const CommandResult ended = KilledAt(1, 3, SIGHUP, false, {});
  EXPECT_EQ(ended.exit_status, 130) << ended.output;
  EXPECT_THAT(Rows("SELECT status FROM runs"), ElementsAre(ElementsAre("interrupted")));
  signal(SIGHUP, SIG_IGN);  // inherited
  const CommandResult kept = KilledAt(2, 3, SIGHUP, false, {"--arm", "nohup"});
  signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(kept.exit_status, 0) << kept.output;
}

TEST_F(Resume, AFullDiskSettlesTheRowAndTheAdviceHolds) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  std::filesystem::create_directory(results());
  if (mount("small", results().c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "this sandbox forbids mounting a tmpfs";
  }
  const CommandResult full = RunLonghaul(Arguments({"--set", "train.steps=1500"}));
  EXPECT_EQ(full.exit_status, 1) << full.output;
  EXPECT_THAT(full.output,
              testing::AllOf(HasSubstr("disk is full"),
                             HasSubstr("the same command with --resume goes on after step")));
  EXPECT_THAT(Rows("SELECT status FROM runs"), ElementsAre(ElementsAre("failed")));
  ASSERT_EQ(mount("small", results().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const CommandResult resumed = RunLonghaul(Arguments({"--set", "train.steps=1500", "--resume"}));
  EXPECT_EQ(resumed.exit_status, 0) << resumed.output;
  EXPECT_THAT(Rows("SELECT status, (SELECT COUNT(*) FROM steps) FROM runs"),
              ElementsAre(ElementsAre("ok", "6000")));
  umount2(results().c_str(), MNT_DETACH);
}

constexpr char kCampaign[] = R"([campaign]
name = "pair"
question = "?"
seeds = [1, 2]
d0_tokens = 20_000
budgets = [0.5, 1.0]
[[arm]]
name = "s2"
stages = 2
forward = "int8-b64"
backward = "int8-b64"
[model]
kind = "gpt"
blocks = 2
width = 32
heads = 2
context = 32
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 4
microbatches = 2
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 8
)";

TEST_F(Resume, TwoMeasuresOfOneCampaignTrainNothingTwice) {
  const std::vector<std::string> measure = {"measure",
                                            scratch_.File("c.toml", kCampaign),
                                            "--results",
                                            results(),
                                            "--jobs",
                                            "1",
                                            "--accept-unresolved"};
  const pid_t first = StartLonghaul(measure, output_file());
  const pid_t second = StartLonghaul(measure, output_file() + "2");
  const CommandResult a = WaitFor(first, output_file());
  const CommandResult b = WaitFor(second, output_file() + "2");
  EXPECT_EQ(a.exit_status, 0) << a.output;
  EXPECT_EQ(b.exit_status, 0) << b.output;
  EXPECT_THAT(Rows("SELECT COUNT(*), status FROM runs GROUP BY arm, seed"),
              testing::AllOf(testing::SizeIs(6), Each(ElementsAre("1", "ok"))));
  EXPECT_EQ(Rows("SELECT DISTINCT pid FROM runs").size(), 2u) << "one of them did all the work";
}

}  // namespace
}  // namespace longhaul
