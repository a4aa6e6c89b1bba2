// `run --clock simulated`: the training is the one without a clock, bit for bit, and its seconds are
// the same whenever it is run.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two groups of two stages that exchange overlapping fragments in a codec whose frames are not all
// of one size.
std::string Spec() {
  std::string spec = OfSmallText(TinySpec());
  const auto replace = [&spec](const std::string& from, const std::string& to) {
    spec.replace(spec.find(from), from.size(), to);
  };
  replace("groups = 1\ninner_steps = 0",
          "groups = 2\ninner_steps = 2\nalgorithm = \"streaming\"\nfragments = 2\n"
          "overlap_steps = 1\ncodec = \"int4-b64-h64+ef\"");
  return spec + "[compute]\nflops_per_s = 1e9\nmfu = 0.4\n";
}

struct Ended {
  CommandResult result;
  std::vector<StepRow> steps;
  std::vector<SimulatedRow> times;
};
Ended RunTo(const std::string& folder, const std::string& spec,
            std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run",  spec,    "--results",
                                        folder, "--set", "train.hash_every=1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Ended run{.result = RunLonghaul(arguments), .steps = {}, .times = {}};
  EXPECT_EQ(run.result.exit_status, 0) << run.result.output;
  const auto record = Record::Open(folder, Record::Mode::kRead);
  if (!record.ok()) return run;
  run.steps = *record->RowsOf<StepRow>(1);
  run.times = *record->RowsOf<SimulatedRow>(1);
  return run;
}

TEST(SimulatedRun, HasTheLossesOfTheRunWithoutAClockAndTheSameMicrosecondsTwice) {
  ScratchFolder scratch;
  const std::string spec = scratch.File("clocked.toml", Spec());
  const std::string plain_spec = Spec().substr(0, Spec().find("[compute]"));
  const Ended plain = RunTo(scratch.path() + "/plain", scratch.File("plain.toml", plain_spec));
  const Ended one = RunTo(scratch.path() + "/one", spec, {"--clock", "simulated"});
  const Ended two = RunTo(scratch.path() + "/two", spec, {"--clock", "simulated"});
  ASSERT_EQ(plain.steps.size(), 6u * 4);
  EXPECT_TRUE(plain.times.empty());
  ASSERT_EQ(one.times.size(), 6u * 4) << "every stage of every step";
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(plain.steps[i].loss_nat, one.steps[i].loss_nat) << i;
    EXPECT_EQ(plain.steps[i].parameter_hash, one.steps[i].parameter_hash) << i;
    EXPECT_EQ(one.times[i].simulated_s, two.times[i].simulated_s) << i;
    EXPECT_EQ(one.times[i].message_bytes, two.times[i].message_bytes) << i;
  }
  double before = 0;
  for (const SimulatedRow& t : one.times) {
    if (t.group_index != 0 || t.stage != 0) continue;
    EXPECT_GT(t.simulated_s, before) << t.step;
    before = t.simulated_s;
  }
  EXPECT_THAT(one.result.output, HasSubstr("simulated seconds: links regional"));
  EXPECT_THAT(one.result.output, HasSubstr("(simulated, no evidence of real time)"));
  const CommandResult list = RunLonghaul({"list", scratch.path() + "/one"});
  EXPECT_THAT(list.output, HasSubstr("run 1: its 6 steps would have taken"));
  EXPECT_THAT(list.output, HasSubstr("(simulated)"));
  EXPECT_THAT(RunLonghaul({"list", scratch.path() + "/plain"}).output, Not(HasSubstr("simulated")));
  // Every message has been counted: what ranks received over boundaries is what others sent.
  const auto record = Record::Open(scratch.path() + "/one", Record::Mode::kRead);
  int64_t crossed = 0, told = 0;
  const std::vector<CrossingRow> crossings = *record->RowsOf<CrossingRow>(1);
  for (const CrossingRow& c : crossings) {
    if (c.direction != Direction::kOuter) crossed += c.message_bytes;
  }
  for (const SimulatedRow& t : one.times) told += t.step == 6 ? t.message_bytes : 0;
  for (const StepRow& s : one.steps) told -= s.outer_sent_bytes;
  EXPECT_EQ(told, crossed);
}

// The spec of faults that are done in one process, with some that cost time alone; over 1,000 s there is
// nobody late.
TEST(SimulatedRun, UnderAScriptHasTheLossesOfTheRunWithoutAClock) {
  ScratchFolder scratch;
  const std::string script = R"([[fault]]
at_step = 10
what = "stop"
where = "group 0"
for_s = 3
[[fault]]
at_step = 11
what = "slow"
where = "group 1"
factor = 5
[[fault]]
at_step = 13
what = "leave"
where = "group 1"
[[fault]]
at_step = 18
what = "join"
where = "group 1"
)";
  const std::string spec = OfSmallText(ReadFile(LONGHAUL_SPECS "/faults.toml")) + script;
  const std::string links =
      "[[fault]]\nat_step = 7\nwhat = \"link_rate\"\nwhere = \"link 0 > 4\"\n"
      "rate_mbit = 1\n[[fault]]\nat_step = 8\nwhat = \"link_down\"\n"
      "where = \"link 4 - 5\"\nfor_s = 2\n";
  const Ended plain = RunTo(scratch.path() + "/plain", scratch.File("plain.toml", spec));
  const Ended clocked = RunTo(
      scratch.path() + "/clocked",
      scratch.File("clocked.toml", spec + links + "[compute]\nflops_per_s = 1e9\nmfu = 0.4\n"),
      {"--clock", "simulated"});
  ASSERT_GT(plain.steps.size(), 100u);
  ASSERT_EQ(plain.steps.size(), clocked.steps.size());
  ASSERT_EQ(clocked.times.size(), clocked.steps.size()) << "who does a step has its second";
  double before = 0, ends = 0;
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(plain.steps[i].loss_nat, clocked.steps[i].loss_nat) << i;
    EXPECT_EQ(plain.steps[i].parameter_hash, clocked.steps[i].parameter_hash) << i;
    const SimulatedRow& t = clocked.times[i];
    ASSERT_EQ(t.step, clocked.steps[i].step);
    ASSERT_EQ(t.group_index, clocked.steps[i].group_index);
    ends = std::max(ends, t.simulated_s);
    if (t.group_index != 2 || t.stage != 0) continue;
    EXPECT_GT(t.simulated_s, before) << t.step;
    before = t.simulated_s;
  }
  EXPECT_GT(ends, 2 * 30 + 3) << "two restarts, which a round waits for, and a stop";
  EXPECT_THAT(RunLonghaul({"list", scratch.path() + "/clocked"}).output,
              HasSubstr("run 1: its 24 steps would have taken"));
  ASSERT_EQ(RunLonghaul({"report", scratch.path() + "/clocked"}).exit_status, 0);
  EXPECT_THAT(ReadFile(scratch.path() + "/clocked/report/index.html"), HasSubstr("simulated"));
  const auto record = Record::Open(scratch.path() + "/clocked", Record::Mode::kRead);
  const auto untold = record->Rows("SELECT COUNT(*) FROM faults WHERE said LIKE '%costs time%'");
  EXPECT_EQ(untold->at(1).at(0), "0");
}

TEST(SimulatedRun, EndsWhereLinksWouldLeaveAGroupOutThatTheTrainingHas) {
  ScratchFolder scratch;
  const std::string spec = scratch.File(
      "late.toml", OfSmallText(ReadFile(LONGHAUL_SPECS "/faults.toml")) +
                       "[[fault]]\nat_step = 2\nwhat = \"stop\"\nwhere = \"group 1\"\nfor_s = 61\n"
                       "[compute]\nflops_per_s = 1e9\nmfu = 0.4\n");
  const CommandResult late =
      RunLonghaul({"run", spec, "--clock", "simulated", "--results", scratch.path() + "/late"});
  EXPECT_EQ(late.exit_status, 1) << late.output;
  EXPECT_THAT(
      late.output,
      HasSubstr("round 1: on the simulated clock group 1 is at the outer step 61.000 s behind "
                "group 0, and outer.round_deadline_s = 60 would leave it out"));
}

// The bytes of messages never shrink where a group is lost.
TEST(SimulatedRun, OfTheSpecOfSimulatedFaultsHasSecondsAndBytesThatGrow) {
  ScratchFolder scratch;
  const std::string spec =
      scratch.File("spec.toml", OfSmallText(ReadFile(LONGHAUL_SPECS "/simulated-faults.toml")));
  const Ended run = RunTo(scratch.path() + "/run", spec);
  EXPECT_EQ(run.times.size(), (24u * 3 - 4 - 3) * 2)
      << "group 2 comes later, group 1 misses steps 6 to 8";
  ASSERT_EQ(RunLonghaul({"report", scratch.path() + "/run"}).exit_status, 0);
  std::istringstream csv(ReadFile(scratch.path() + "/run/report/1-spec/training.csv"));
  std::string line;
  std::getline(csv, line);
  double seconds = 0, bytes = 0;
  int rows = 0;
  for (; std::getline(csv, line); ++rows) {
    const size_t last = line.rfind(','), before = line.rfind(',', last - 1);
    EXPECT_GT(std::stod(line.substr(before + 1)), seconds) << line;
    EXPECT_GT(std::stod(line.substr(last + 1)), bytes) << line;
    seconds = std::stod(line.substr(before + 1));
    bytes = std::stod(line.substr(last + 1));
  }
  EXPECT_EQ(rows, 24);
}

}  // namespace
}  // namespace longhaul
