// Groups that come and go, as the command runs them from a script of faults.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

const std::string kSpec = std::string(LONGHAUL_SPECS) + "/faults.toml";

std::vector<std::vector<std::string>> Rows(const std::string& folder, const std::string& sql) {
  const auto record = Record::Open(folder, Record::Mode::kRead);
  if (!record.ok()) return {};
  const auto rows = record->Rows(sql);
  return rows.ok() ? *rows : std::vector<std::vector<std::string>>();
}

// Stages whose groups hold different parameters after an outer step; the header row is counted.
std::vector<std::vector<std::string>> Unequal(const std::string& folder) {
  return Rows(folder,
              "SELECT step, stage FROM steps WHERE outer_synced GROUP BY step, stage"
              " HAVING COUNT(DISTINCT parameter_hash) > 1");
}

// The spec as it stands, once for all tests that read what it gave.
const ScratchFolder& ScriptRun() {
  static const ScratchFolder scratch;
  static const CommandResult run =
      RunLonghaul({"run", kSpec, "--results", scratch.path(), "--set", "train.hash_every=1"});
  EXPECT_EQ(run.exit_status, 0) << run.output;
  return scratch;
}

TEST(Elastic, AScriptInOneProcessIsSurvivedAndRecorded) {
  const ScratchFolder& scratch = ScriptRun();
  EXPECT_EQ(Rows(scratch.path(), "SELECT status, reason FROM runs").at(1),
            (std::vector<std::string>{"ok", ""}));
  const auto rounds = Rows(scratch.path(),
                           "SELECT members || '|' || joiners || '|' || lost || '|' || left_out"
                           " FROM rounds ORDER BY round");
  const char* expected[] = {"0 1 2|||",  "0 2|1|1|", "0 1 2|||",
                            "0 1 2|||2", "1 2|0|0|", "0 1 2|||"};
  ASSERT_EQ(rounds.size(), 7u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rounds[i + 1][0], expected[i]) << "round " << i + 1;
  // Killed in step 6 of a round that began with step 5: one step of 8 rows of 32 is lost.
  EXPECT_EQ(
      Rows(scratch.path(), "SELECT step, what, place, lost_tokens, recovered_step FROM faults")
          .at(1),
      (std::vector<std::string>{"6", "kill", "group 1 stage 0", "256", "9"}));
  EXPECT_EQ(Unequal(scratch.path()).size(), 1u) << "survivors hold equal bits";
  EXPECT_EQ(Rows(scratch.path(), "SELECT COUNT(*) FROM evaluations").at(1).at(0), "2");
  ASSERT_EQ(RunLonghaul({"report", scratch.path()}).exit_status, 0);
  const std::string page = ReadFile(scratch.path() + "/report/index.html");
  EXPECT_THAT(page, HasSubstr("3 faults"));
  EXPECT_THAT(page, HasSubstr("<title>step 6: kill, group 1 stage 0</title>"));
}

TEST(Elastic, AScriptGivesTheSameBitsAgain) {
  const ScratchFolder again;
  const CommandResult run =
      RunLonghaul({"run", kSpec, "--results", again.path(), "--set", "train.hash_every=1"});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  const std::string sql =
      "SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps ORDER BY 1, 2, 3";
  EXPECT_EQ(Rows(again.path(), sql), Rows(ScriptRun().path(), sql));
  EXPECT_GT(Rows(again.path(), sql).size(), 100u);
}

// The spec of the script without its faults, and with `more`.
std::string WithoutFaults(const std::string& outer, const std::string& more = "") {
  std::string text = ReadFile(kSpec);
  text = text.substr(0, text.find("[[fault]]"));
  const size_t at = text.find("[outer]\n") + 8;
  return text.substr(0, at) + outer + text.substr(at) + more;
}

std::string Word(const char* what, int step, int group) {
  return "[[fault]]\nat_step = " + std::to_string(step) + "\nwhat = \"" + what +
         "\"\nwhere = \"group " + std::to_string(group) + "\"\n";
}

// Killed after group 2 was lost in step 22 and joined after step 24: its checkpoint of that step is
// as good as the others'.
TEST(Elastic, ARunThatLostAGroupIsResumedWithTheSameBits) {
  const ScratchFolder whole, killed;
  const std::string spec =
      killed.File("spec.toml", WithoutFaults("", Word("kill", 6, 1) + Word("kill", 22, 2)));
  const auto run = [&](const ScratchFolder& folder, bool resume) {
    std::vector<std::string> arguments = {"run",       spec,
                                          "--results", folder.path() + "/results",
                                          "--set",     "train.steps=80",
                                          "--set",     "checkpoint.every_steps=4",
                                          "--set",     "checkpoint.keep=100",
                                          "--set",     "train.hash_every=1"};
    if (resume) arguments.emplace_back("--resume");
    return arguments;
  };
  ASSERT_EQ(RunLonghaul(run(whole, false)).exit_status, 0);
  const std::string results = killed.path() + "/results", output = killed.path() + "/output";
  const pid_t pid = StartLonghaul(run(killed, false), output);
  const std::string told = "SELECT 1 FROM steps WHERE step = 35";
  for (int i = 0; i < 6000 && Rows(results, told).size() < 2; ++i) usleep(10'000);
  kill(pid, SIGKILL);
  WaitFor(pid, output);
  ASSERT_GT(RemoveCheckpointsAfter(24, results), 0) << ReadFile(output);
  const CommandResult resumed = RunLonghaul(run(killed, true));
  ASSERT_EQ(resumed.exit_status, 0) << resumed.output;
  const auto from = Rows(results, "SELECT value FROM run_facts WHERE key = 'resumed_from_step'");
  ASSERT_EQ(from.size(), 2u) << resumed.output;
  EXPECT_EQ(from[1][0], "24");
  const std::string bits =
      "SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps ORDER BY 1, 2, 3";
  EXPECT_EQ(Rows(results, bits), Rows(whole.path() + "/results", bits));
  const std::string rounds = "SELECT members, joiners, lost FROM rounds ORDER BY round";
  EXPECT_EQ(Rows(results, rounds), Rows(whole.path() + "/results", rounds));
}

TEST(Elastic, AScheduleOfGroupsGivesTheBitsOfTheScriptThatSaysTheSame) {
  const ScratchFolder planned, scripted;
  const std::string schedule =
      planned.File("planned.toml", WithoutFaults("schedule = [[0, 1], [8, 3], [16, 2]]\n"));
  const std::string script = scripted.File(
      "scripted.toml",
      WithoutFaults("", Word("join", 8, 1) + Word("join", 8, 2) + Word("leave", 17, 2)));
  for (const auto& [spec, folder] : {std::pair(schedule, &planned), {script, &scripted}}) {
    const CommandResult run = RunLonghaul({"run", spec, "--results", folder->path()});
    ASSERT_EQ(run.exit_status, 0) << run.output;
  }
  const std::string bits =
      "SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps ORDER BY 1, 2, 3";
  EXPECT_EQ(Rows(planned.path(), bits), Rows(scripted.path(), bits));
  const std::string rounds =
      "SELECT members || '|' || joiners || '|' || lost FROM rounds ORDER BY round";
  const auto told = Rows(planned.path(), rounds);
  const char* expected[] = {"0||", "0|1 2|", "0 1 2||", "0 1 2||", "0 1||2", "0 1||"};
  ASSERT_EQ(told.size(), 7u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(told[i + 1][0], expected[i]) << "round " << i + 1;
  EXPECT_EQ(told, Rows(scripted.path(), rounds));
  // Steps of group 2: of the two rounds that it was there for, on two stages.
  EXPECT_EQ(
      Rows(planned.path(), "SELECT COUNT(*), MIN(step), MAX(step) FROM steps WHERE group_index = 2")
          .at(1),
      (std::vector<std::string>{"16", "9", "16"}));
  EXPECT_EQ(Rows(planned.path(), "SELECT DISTINCT said, lost_tokens FROM faults").at(1),
            (std::vector<std::string>{"outer.schedule", "0"}));
  EXPECT_EQ(Unequal(planned.path()).size(), 1u);
}

TEST(Elastic, AJoinerOfASwarmHoldsMomentsOfAllMembers) {
  const ScratchFolder& one = ScriptRun();  // from one member
  const ScratchFolder all;
  const CommandResult run =
      RunLonghaul({"run", kSpec, "--results", all.path(), "--set", "outer.joiner_source=swarm",
                   "--set", "train.hash_every=1"});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  const auto hashes = [](const ScratchFolder& scratch, int first, int last) {
    return Rows(scratch.path(),
                "SELECT step, group_index, stage, parameter_hash FROM steps WHERE"
                " step BETWEEN " +
                    std::to_string(first) + " AND " + std::to_string(last) + " ORDER BY 1, 2, 3");
  };
  EXPECT_EQ(hashes(one, 1, 8), hashes(all, 1, 8));
  EXPECT_NE(hashes(one, 9, 9), hashes(all, 9, 9)) << "group 1 joined after step 8";
  EXPECT_EQ(Unequal(all.path()).size(), 1u) << "all hold equal bits after outer steps";
}

TEST(Elastic, TooFewGroupsEndTheRunAndItSaysWhere) {
  const ScratchFolder scratch;
  const CommandResult run =
      RunLonghaul({"run", kSpec, "--results", scratch.path(), "--set", "outer.min_groups=3"});
  EXPECT_NE(run.exit_status, 0);
  EXPECT_THAT(run.output, HasSubstr("round 2 (step 8): 2 groups are left of 3, outer.min_groups"));
  EXPECT_EQ(Rows(scratch.path(), "SELECT status FROM runs").at(1).at(0), "failed");
}

}  // namespace
}  // namespace longhaul
