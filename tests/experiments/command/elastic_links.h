#pragma once

// Runs whose groups come and go over shaped links, beside the same script in one process.

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {

using Table = std::vector<std::vector<std::string>>;

inline Table Rows(const std::string& folder, const std::string& sql) {
  const auto record = Record::Open(folder, Record::Mode::kRead);
  if (!record.ok()) return {};
  const auto rows = record->Rows(sql);
  return rows.ok() ? Table(rows->begin() + 1, rows->end()) : Table();  // without the header
}

// "members|joiners|lost", and "|left out" where there is one, of every round.
inline std::vector<std::string> Rounds(const std::string& folder) {
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
inline constexpr char kHashes[] =
    "SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps JOIN rounds"
    " ON round = (step + 3) / 4 AND ' ' || members || ' ' LIKE '% ' || group_index || ' %'"
    " ORDER BY 1, 2, 3";
inline constexpr char kVerdict[] = "SELECT status || ': ' || reason FROM runs";

// What takes longer than `make test` has: scripts/test-faults.sh sets it.
inline bool LongForm() { return getenv("LONGHAUL_LONG_FAULTS") != nullptr; }
inline constexpr char kLongForm[] = "of the long form: make test-faults";

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
    std::string spec = OfSmallText(ReadFile(std::string(LONGHAUL_SPECS) + "/faults.toml"));
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
    EXPECT_GE(bits.size(), 50u);
    EXPECT_EQ(bits, Rows(alone(), kHashes)) << output;
  }

  // After round 2, so that a group has the time to come back before the run ends.
  static std::vector<Strike> TheOthersAreSlow() {
    return {{"slow", "group 0", "factor = 40", 9}, {"slow", "group 2", "factor = 40", 9}};
  }
  void ExpectGroup1MissesTheSecondRoundAndComesBack(const std::string& output) {
    const std::vector<std::string> rounds = Rounds(links());
    ASSERT_EQ(rounds.size(), 50u) << output;
    EXPECT_EQ(rounds[1].substr(0, 3), "0 2");
    EXPECT_EQ(rounds[49], "0 1 2||") << output;
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

}  // namespace longhaul
