// Runs of a campaign that branch off one trunk (train.schedule = "wsd").
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kCampaign[] = R"([campaign]
name = "branched"
question = "?"
seeds = [1, 2]
d0_tokens = 20_000
budgets = [0.5, 0.7, 1.0, 1.2]
control_budgets = [0.85, 1.0]
[model]
kind = "gpt"
blocks = 2
width = 16
heads = 2
context = 64
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 8
microbatches = 2
lr = 3e-3
warmup_steps = 5
schedule = "wsd"
decay_share = 0.25
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 16
[[arm]]
name = "s2"
stages = 2
forward = "int8-b64"
backward = "int8-b64"
)";

class BranchesTest : public testing::Test {
 protected:
  CommandResult Measure(std::vector<std::string> more) const {
    more.insert(more.begin(), {"measure", spec_});
    return RunLonghaul(more);
  }
  std::string Folder(const std::string& name) const { return scratch_.path() + "/" + name; }

  ScratchFolder scratch_;
  const std::string spec_ = scratch_.File("branched.toml", kCampaign);
};

// "arm, seed" and all that a run ends with.
std::map<std::string, std::string> Ends(const std::string& results) {
  const Record record = *Record::Open(results, Record::Mode::kRead);
  std::map<std::string, std::string> ends;
  const std::vector<RunRow> runs = *record.Runs(1);
  for (const RunRow& run : runs) {
    std::string text;
    const std::vector<EvaluationRow> evaluations = *record.RowsOf<EvaluationRow>(run.id);
    for (const EvaluationRow& e : evaluations) {
      text += fmt::format("{} {:a}; ", e.step, e.loss_nat);
    }
    const std::vector<StepRow> steps = *record.RowsOf<StepRow>(run.id);
    ends[fmt::format("{}, {}", run.arm, run.seed)] =
        text + fmt::format("{:x} {}", steps.back().parameter_hash.value(), ToString(run.status));
  }
  return ends;
}

TEST_F(BranchesTest, EndWithTheBitsOfRunsOfTheirOwn) {
  const CommandResult measured =
      Measure({"--results", Folder("branched"), "--accept-unresolved", "--jobs", "2"});
  ASSERT_EQ(measured.exit_status, 0) << measured.output;
  // Of each seed the references at 0.5, 0.7 and 1 and the control at 0.85, off that at 1.2.
  EXPECT_THAT(measured.output, HasSubstr("8 runs branch off longer ones"));
  EXPECT_THAT(measured.output, HasSubstr("bit-identical in 2 of 2 seeds"));
  std::map<std::string, std::string> alone;
  for (int id = 0; id < 14; ++id) {  // each run by itself, from its first step
    const CommandResult one =
        Measure({"--run", std::to_string(id), "--records", Folder("records")});
    ASSERT_EQ(one.exit_status, 0) << one.output;
    alone.merge(Ends(fmt::format("{}/{:04}", Folder("records"), id)));
  }
  EXPECT_EQ(Ends(Folder("branched")), alone);
  EXPECT_FALSE(std::filesystem::exists(Folder("branched") + "/branches")) << "what was left";
}

TEST_F(BranchesTest, OnlyTheDecayOfABranchIsTrained) {
  ASSERT_EQ(Measure({"--results", Folder("r"), "--accept-unresolved"}).exit_status, 0);
  const Record record = *Record::Open(Folder("r"), Record::Mode::kRead);
  const std::vector<RunRow> runs = *record.Runs(1);
  for (const RunRow& run : runs) {
    const int64_t first = record.RowsOf<StepRow>(run.id)->front().step;
    const bool branched = run.arm.find('@') != std::string::npos && run.arm != "reference@1.2" &&
                          run.arm != "control@1";
    const int64_t steps = run.train_tokens / (8 * 64);
    EXPECT_EQ(first, branched ? steps - (steps + 3) / 4 + 1 : 1) << run.arm;
  }
}

}  // namespace
}  // namespace longhaul
