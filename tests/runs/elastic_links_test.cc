// Groups that are lost, stopped, cut off and come back over shaped links.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/runs/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using Table = std::vector<std::vector<std::string>>;

Table Rows(const std::string& folder, const std::string& sql) {
  const auto record = Record::Open(folder, Record::Mode::kRead);
  if (!record.ok()) return {};
  const auto rows = record->Rows(sql);
  return rows.ok() ? Table(rows->begin() + 1, rows->end()) : Table();  // without the header
}

// "members|joiners|lost", and "|left out" where there is one, of every round.
std::vector<std::string> Rounds(const std::string& folder) {
  std::vector<std::string> rounds;
  for (const auto& row : Rows(folder,
                              "SELECT members || '|' || joiners || '|' || lost || CASE"
                              " left_out WHEN '' THEN '' ELSE '|' || left_out END FROM rounds"
                              " ORDER BY round")) {
    rounds.push_back(row[0]);
  }
  return rounds;
}

// Of the members of every round, H = 4: how far a lost group came is no part of the training.
constexpr char kHashes[] =
    "SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps JOIN rounds"
    " ON round = (step + 3) / 4 AND ' ' || members || ' ' LIKE '% ' || group_index || ' %'"
    " ORDER BY 1, 2, 3";
constexpr char kVerdict[] = "SELECT status || ': ' || reason FROM runs";

// What takes longer than `make test` has: scripts/test-faults.sh sets it.
bool LongForm() { return getenv("LONGHAUL_LONG_FAULTS") != nullptr; }
constexpr char kLongForm[] = "of the long form: make test-faults";

struct Strike {
  std::string what, where, more;  // `more`: further keys, a line each
  int at_step;
};

// 2 stages x 3 groups, H = 4.
class ElasticLinks : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  }

  // The script goes before the last table of the spec, which is an array of its own.
  std::string Spec(const std::vector<Strike>& script, const std::string& name) const {
    std::string spec = ReadFile(std::string(LONGHAUL_SPECS) + "/faults.toml");
    spec.resize(spec.find("[[fault]]"));
    for (const Strike& s : script) {
      spec += "[[fault]]\nat_step = " + std::to_string(s.at_step) + "\nwhat = \"" + s.what +
              "\"\nwhere = \"" + s.where + "\"\n" + s.more + "\n";
    }
    return scratch_.File(name, spec);
  }

  std::string Mesh(const std::string& figures) const {
    std::string nodes, header, rows;
    for (int i = 0; i < 6; ++i) {
      const std::string name = "n" + std::to_string(i);
      nodes += "[[node]]\nname = \"" + name + "\"\n";
      header += "," + name;
      rows += name;
      for (int j = 0; j < 6; ++j) rows += i == j ? ",0" : ",10";
      rows += "\n";
    }
    scratch_.File("rtt.csv", header + "\n" + rows);
    return scratch_.File("mesh.toml", nodes + "[matrix]\ncsv = \"rtt.csv\"\n" + figures);
  }

  static std::vector<std::string> Arguments(const std::string& spec, const std::string& results,
                                            const std::vector<std::string>& sets) {
    std::vector<std::string> arguments = {"run", spec, "--results", results};
    for (const std::string& s : sets) arguments.insert(arguments.end(), {"--set", s});
    return arguments;
  }
  static CommandResult Run(const std::string& spec, const std::string& results,
                           const std::vector<std::string>& sets) {
    return RunLonghaul(Arguments(spec, results, sets));
  }

  // 10 ms of round trip; a rate is probed for seconds before and after every run.
  CommandResult OverLinks(const std::vector<Strike>& script, std::vector<std::string> sets = {},
                          const std::string& figures = "") {
    sets.insert(sets.begin(),
                {"net.transport=ucx", "net.profile=" + Mesh(figures), "net.out_of_bounds=flag"});
    const CommandResult run = Run(Spec(script, "links.toml"), links(), sets);
    EXPECT_TRUE(ProcessesWith(links()).empty()) << "left behind";
    return run;
  }
  CommandResult InProcess(const std::vector<Strike>& script, std::vector<std::string> sets = {}) {
    sets.emplace_back("net.transport=loopback");
    return Run(Spec(script, "alone.toml"), alone(), sets);
  }

  // The same rounds and the same bits as the script gives in one process.
  void ExpectTheBitsOfOneProcess(const std::string& output) {
    EXPECT_EQ(Rounds(links()), Rounds(alone())) << output;
    const Table bits = Rows(links(), kHashes);
    EXPECT_GT(bits.size(), 50u);
    EXPECT_EQ(bits, Rows(alone(), kHashes)) << output;
  }

  // After round 2, so that a group has the time to come back before the run ends.
  static std::vector<Strike> TheOthersAreSlow() {
    return {{"slow", "group 0", "factor = 10", 9}, {"slow", "group 2", "factor = 10", 9}};
  }
  void ExpectGroup1MissesTheSecondRoundAndComesBack(const std::string& output) {
    const std::vector<std::string> rounds = Rounds(links());
    ASSERT_EQ(rounds.size(), 6u) << output;
    EXPECT_EQ(rounds[1].substr(0, 3), "0 2");
    EXPECT_EQ(rounds[5], "0 1 2||") << output;
    EXPECT_EQ(Rows(links(),
                   "SELECT step, stage FROM steps WHERE outer_synced GROUP BY step, stage"
                   " HAVING COUNT(DISTINCT parameter_hash) > 1"),
              Table())
        << "survivors and joiners hold equal bits";
  }

  std::string links() const { return scratch_.path() + "/links"; }
  std::string alone() const { return scratch_.path() + "/alone"; }
  std::string Verdict() const {
    const Table rows = Rows(links(), kVerdict);
    return rows.empty() ? "no run" : rows[0][0];
  }

  ScratchFolder scratch_;
};

TEST_F(ElasticLinks, KillsInEveryPartOfAStepGiveTheBitsOfOneProcess) {
  const std::vector<Strike> script = {
      {"kill", "group 1 stage 0", "", 2},
      {"kill", "group 2 stage 1", "during = \"forward\"", 6},
      {"poison", "group 1", "factor = nan", 9},
      {"kill", "group 0 stage 0", "during = \"backward\"", 11},
      {"kill", "group 1 stage 1", "during = \"outer\"", 14},  // the exchange is taken again
      {"kill", "group 0", "", 18},                            // two groups at once:
      {"kill", "group 2", "", 19},                            // all but one
  };
  const CommandResult reference = InProcess(script);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script);
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(4), "1|0 2|0 2");
  EXPECT_GE(std::stoi(Rows(links(), "SELECT attempts FROM rounds WHERE round = 4").at(0)[0]), 2);
  // Told once each, with its price and the step with which the group was back.
  EXPECT_EQ(Rows(links(), "SELECT step, what, lost_tokens, recovered_step FROM faults ORDER BY 1"),
            Rows(alone(), "SELECT step, what, lost_tokens, recovered_step FROM faults ORDER BY 1"));
  EXPECT_THAT(Verdict(), HasSubstr("invalid: trained to the end, but its times are no evidence: "
                                   "groups came or went 6 times"));
  EXPECT_THAT(RunLonghaul({"list", links()}).output, HasSubstr("24/24"));
}

TEST_F(ElasticLinks, StopsSlownessLeavingAndJoiningGiveTheBitsOfOneProcess) {
  const std::vector<Strike> script = {
      {"stop", "group 1 stage 0", "for_s = 3", 2},
      {"stop", "group 2 stage 1", "", 6},
      {"slow", "group 0", "factor = 4\nfor_steps = 3", 10},
      {"leave", "group 1", "", 14},
      {"join", "group 1", "", 18},
      {"leave", "group 0", "", 18},
  };
  const CommandResult reference = InProcess(script);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script);
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(4), "2|1|0") << "one joins while another leaves";
  EXPECT_THAT(Verdict(), testing::ContainsRegex("rank 2 stood still for [2-9]"));
}

TEST_F(ElasticLinks, APlanThatGrowsAndShrinksGivesTheBitsOfOneProcess) {
  const std::vector<std::string> plan = {"outer.schedule=[[0, 1], [8, 3], [16, 2]]"};
  const CommandResult reference = InProcess({}, plan);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks({}, plan);
  EXPECT_EQ(Rounds(links()), Rounds(alone())) << run.output;
  EXPECT_EQ(Rows(links(), kHashes), Rows(alone(), kHashes)) << run.output;
  EXPECT_EQ(Rounds(links()).at(2), "0 1 2||");
  EXPECT_EQ(Rounds(links()).at(4).substr(0, 3), "0 1");
}

TEST_F(ElasticLinks, AKillAndAFullDiskInACheckpointCostNoOther) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "during = \"checkpoint\"", 3},
                                      {"disk_full", "group 2 stage 1", "", 12}};
  const CommandResult reference = InProcess(script, {"checkpoint.every_steps=4"});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, {"checkpoint.every_steps=4", "checkpoint.keep=9"});
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(1), "0 2|1|1");
  const Table said =
      Rows(links(), "SELECT said FROM faults WHERE what = 'disk_full' AND said != ''");
  ASSERT_EQ(said.size(), 1u) << run.output;
  EXPECT_THAT(said[0][0], HasSubstr("No space left on device"));
}

TEST_F(ElasticLinks, ARunThatWasKilledGoesOnFromItsCheckpointWithTheSameBits) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "", 6},
                                      {"stop", "group 0", "for_s = 2", 18}};
  const CommandResult reference = InProcess(script);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  std::vector<std::string> arguments =
      Arguments(Spec(script, "links.toml"), links(),
                {"net.transport=ucx", "net.profile=" + Mesh(""), "net.out_of_bounds=flag",
                 "checkpoint.every_steps=4", "checkpoint.keep=9"});
  const std::string output = scratch_.path() + "/output";
  const pid_t pid = StartLonghaul(arguments, output);
  for (int i = 0; i < 900 && Rows(links(), "SELECT 1 FROM steps WHERE step = 17").empty(); ++i) {
    usleep(100'000);
  }
  kill(pid, SIGKILL);
  WaitFor(pid, output);
  ASSERT_FALSE(Rows(links(), "SELECT 1 FROM steps WHERE step = 17").empty()) << ReadFile(output);
  arguments.emplace_back("--resume");
  const CommandResult resumed = RunLonghaul(arguments);
  EXPECT_EQ(Rows(links(), "SELECT value FROM run_facts WHERE key = 'resumed_from_step'"),
            (Table{{"16"}}))
      << resumed.output;
  ExpectTheBitsOfOneProcess(resumed.output);
}

TEST_F(ElasticLinks, LinksThatChangeCostTimeAlone) {
  const std::vector<Strike> script = {
      {"link_rate", "link 0 > 1", "rate_mbit = 2\nfor_steps = 3", 3},
      {"link_delay", "link 2 - 3", "delay_ms = 40\nfor_steps = 2", 5},
      {"link_down", "link 2 - 3", "for_s = 2", 9},     // in flight: a pipeline's
      {"link_down", "link 1 - 5", "for_s = 1.5", 13},  // idle until the outer step
      {"link_down", "link 4 - 5", "for_s = 1", 17},    // flapping
      {"link_down", "link 4 - 5", "for_s = 1", 18},
      {"link_down", "link 4 - 5", "for_s = 1", 19},
  };
  const CommandResult reference = InProcess({});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, {}, "rate_mbit = 20\n");
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rows(links(), "SELECT what FROM faults").size(), script.size());
  // The pipeline whose link was down waited for it.
  const Table waited = Rows(links(),
                            "SELECT MAX(wall_s) > 1.5 FROM steps WHERE group_index = 1 AND step"
                            " BETWEEN 9 AND 10");
  EXPECT_EQ(waited.at(0)[0], "1") << run.output;
  EXPECT_EQ(Verdict(), "ok: ") << "mended before the links are verified again";
}

TEST_F(ElasticLinks, AGroupThatIsLateMissesItsRoundAndComesBack) {
  if (!LongForm()) GTEST_SKIP() << kLongForm;
  std::vector<Strike> script = TheOthersAreSlow();
  script.push_back({"stop", "group 1 stage 1", "for_s = 7", 6});
  const CommandResult run =
      OverLinks(script, {"outer.round_deadline_s=3", "net.peer_deadline_s=12"});
  ExpectGroup1MissesTheSecondRoundAndComesBack(run.output);
}

TEST_F(ElasticLinks, AGroupThatIsCutOffForARoundMissesItAndComesBack) {
  if (!LongForm()) GTEST_SKIP() << kLongForm;
  std::vector<Strike> script = TheOthersAreSlow();
  for (const int other : {0, 1, 4, 5}) {
    for (const int own : {2, 3}) {
      script.push_back({"link_down", "link " + std::to_string(other) + " - " + std::to_string(own),
                        "for_s = 8", 6});
    }
  }
  const CommandResult run = OverLinks(script, {"outer.round_deadline_s=3"});
  ExpectGroup1MissesTheSecondRoundAndComesBack(run.output);
}

TEST_F(ElasticLinks, TwoGroupsThatCannotReachEachOtherCostOneOfThem) {
  if (!LongForm()) GTEST_SKIP() << kLongForm;
  const CommandResult run =
      OverLinks({{"link_down", "link 2 - 4", "", 6}}, {"net.peer_deadline_s=2", "train.steps=12"});
  const std::vector<std::string> rounds = Rounds(links());
  ASSERT_EQ(rounds.size(), 3u) << run.output;
  EXPECT_EQ(rounds[1].substr(0, 3), "0 1") << run.output;
}

TEST_F(ElasticLinks, AGroupThatOnlyDiesIsGivenUp) {
  if (!LongForm()) GTEST_SKIP() << kLongForm;
  std::vector<Strike> script;
  for (const int step : {6, 9, 13, 17, 21, 25, 29}) {
    script.push_back({"kill", "group 1 stage 1", "", step});
  }
  const CommandResult run = OverLinks(script, {"train.steps=36"});
  const std::vector<std::string> rounds = Rounds(links());
  ASSERT_EQ(rounds.size(), 9u) << run.output;
  EXPECT_EQ(rounds[7], "0 2||1");
  EXPECT_EQ(rounds[8], "0 2||");
  const Table given_up = Rows(links(), "SELECT place, said FROM faults WHERE what = 'given_up'");
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_EQ(given_up[0][0], "group 1");
  EXPECT_THAT(given_up[0][1], HasSubstr("6 lives in a row"));
}

TEST_F(ElasticLinks, ALabThatIsKilledEndsTheRunAndItSaysSo) {
  const CommandResult run = OverLinks({{"kill", "lab", "", 6}});
  EXPECT_NE(run.exit_status, 0);
  EXPECT_THAT(Verdict(), HasSubstr("failed: after step"));
  EXPECT_THAT(Verdict(), HasSubstr("killed by signal 9"));
  EXPECT_EQ(Rows(links(), "SELECT step, what, place FROM faults"), (Table{{"6", "kill", "lab"}}));
}

TEST_F(ElasticLinks, TheLastGroupThatLeavesEndsTheRun) {
  const CommandResult run = OverLinks(
      {{"leave", "group 1", "", 2}, {"leave", "group 2", "", 2}, {"leave", "group 0", "", 6}});
  EXPECT_NE(run.exit_status, 0);
  EXPECT_THAT(Verdict(), HasSubstr("no other is left that holds the training's state"));
}

}  // namespace
}  // namespace longhaul
