// A campaign whose runs are trained one by one, as an array of jobs, with records of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kCampaign[] = R"([campaign]
name = "tiny"
question = "?"
seeds = [1, 2]
d0_tokens = 60_000
budgets = [0.5, 1.0]
control_budgets = [1.0]
[model]
kind = "gpt"
blocks = 4
width = 32
heads = 4
context = 64
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 8
microbatches = 2
lr = 3e-3
warmup_steps = 10
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 64
[[arm]]
name = "s2"
stages = 2
forward = "int4-b64+ef"
backward = "int8-b64"
)";

class CampaignArray : public testing::Test {
 protected:
  CommandResult Measure(std::vector<std::string> more) const {
    return RunLonghaul(Arguments(std::move(more)));
  }
  std::vector<std::string> Arguments(std::vector<std::string> more) const {
    more.insert(more.begin(), {"measure", spec_});
    return more;
  }
  std::vector<std::string> One(int id) const {
    return Arguments({"--run", std::to_string(id), "--records", records()});
  }
  std::string records() const { return scratch_.path() + "/records"; }
  std::string folder(const std::string& name) const { return scratch_.path() + "/" + name; }
  std::string RecordOf(int id) const { return records() + "/000" + std::to_string(id); }

  // Starts a run and sends `signal` once its record has a step.
  CommandResult StopAfterAStep(int id, int signal) const {
    const std::string output = folder("output");
    const pid_t pid = StartLonghaul(One(id), output);
    for (int i = 0; i < 600 && ReadFile(output).find("  step ") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    kill(pid, signal);
    return WaitFor(pid, output);
  }

  // What `measure` says of a record that needs no further run.
  std::string TablesOf(const std::string& results) const {
    const CommandResult measured =
        Measure({"--results", results, "--accept-unresolved", "--quiet"});
    EXPECT_EQ(measured.exit_status, 0) << measured.output;
    const std::string tables = measured.output.substr(0, measured.output.find("record: "));
    // How long more seeds take is of this machine's pace.
    return std::regex_replace(tables, std::regex("[(][0-9hm]+ of runs"), "(.. of runs");
  }

  ScratchFolder scratch_;
  const std::string spec_ = scratch_.File("tiny.toml", kCampaign);
};

TEST_F(CampaignArray, StoppedKilledAndMergedItHasTheTablesOfOneMachine) {
  const CommandResult list = Measure({"--list"});
  ASSERT_EQ(list.exit_status, 0);
  EXPECT_THAT(list.output, AllOf(HasSubstr("0\treference@0.5\t1\t30208\t1\n"),
                                 HasSubstr("7\ts2\t2\t59904\t1\n"), Not(HasSubstr("\n8\t"))));
  // 3: s2 at seed 1, with error feedback on its boundary, stopped in order; 1: killed.
  const CommandResult stopped = StopAfterAStep(3, SIGTERM);
  EXPECT_EQ(stopped.exit_status, 75) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("with a checkpoint"));
  StopAfterAStep(1, SIGKILL);
  EXPECT_EQ(RunLonghaul({"merge", folder("early"), records()}).output,
            "2 records: 0 runs taken into " + folder("early") +
                "/longhaul.sqlite, 0 already present, 2 skipped (not ended)\n");
  for (int id = 0; id < 8; ++id) {
    const CommandResult run = RunLonghaul(One(id));
    ASSERT_EQ(run.exit_status, 0) << run.output;
    if (id == 3) {
      EXPECT_THAT(run.output, testing::ContainsRegex("goes on after step [1-9]"));
    }
  }
  EXPECT_THAT(RunLonghaul(One(3)).output, HasSubstr("has ended before"));
  const CommandResult merged = RunLonghaul({"merge", folder("merged"), records()});
  ASSERT_EQ(merged.exit_status, 0) << merged.output;
  EXPECT_THAT(merged.output, HasSubstr("8 records: 8 runs taken"));
  EXPECT_THAT(
      RunLonghaul({"merge", folder("merged"), records()}).output,
      HasSubstr("0 runs taken into " + folder("merged") + "/longhaul.sqlite, 8 already present"));
  const std::string tables = TablesOf(folder("merged"));
  EXPECT_THAT(tables, HasSubstr("bit-identical in 2 of 2 seeds"));
  EXPECT_EQ(tables, TablesOf(folder("one_machine")));
}

TEST_F(CampaignArray, RunsCarryWhoTheyAre) {
  ASSERT_EQ(RunLonghaul(One(0)).exit_status, 0);
  Record record = *Record::Open(RecordOf(0), Record::Mode::kRead);
  const RunRow run = *record.Run(1);
  EXPECT_EQ(run.facts.at("attempt"), "1");
  EXPECT_EQ(run.facts.at("device"), "cpu");
  EXPECT_EQ(run.facts.at("dtype"), "float32");
  EXPECT_EQ(run.facts.at("inner_steps"), "0");
  EXPECT_EQ(run.facts.at("outer_codec"), "none");
  EXPECT_GE(run.facts.at("run_id").size(), 16u);
}

TEST_F(CampaignArray, WhatIsNoRunOrNoRecordIsOneLine) {
  ASSERT_EQ(RunLonghaul(One(0)).exit_status, 0);
  EXPECT_THAT(RunLonghaul({"merge", RecordOf(0), records()}).output,
              HasSubstr("it is the folder to merge into"));
  // Another plan under the same folder of records.
  const CommandResult other =
      RunLonghaul(Arguments({"--run", "0", "--records", records(), "--set", "train.lr=1e-3"}));
  EXPECT_EQ(other.exit_status, 1);
  EXPECT_THAT(other.output, HasSubstr("has runs of another plan"));
  std::ofstream(RecordOf(0) + "/longhaul.sqlite") << "no database";
  EXPECT_EQ(RunLonghaul({"merge", folder("out"), records()}).exit_status, 1);
}

}  // namespace
}  // namespace longhaul
