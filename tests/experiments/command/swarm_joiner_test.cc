// Groups that join through a swarm over shaped links (outer.joiner_source = "swarm").
#include "tests/experiments/command/elastic_links.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class SwarmJoiner : public ElasticLinks {
 protected:
  static constexpr char kSwarm[] = "outer.joiner_source=swarm";

  // What every worker that joined says of it, by step and rank.
  std::string Joined(int step, int rank) const {
    const Table rows =
        Rows(links(), "SELECT value FROM run_facts WHERE key = 'joined_after_step_" +
                          std::to_string(step) + "_rank_" + std::to_string(rank) + "'");
    return rows.empty() ? "did not join" : rows[0][0];
  }
  static double SecondsOf(const std::string& joined) {
    const size_t at = joined.find(" in ");
    return at == std::string::npos ? 0 : std::stod(joined.substr(at + 4));
  }
  // What was said of joins that not all members gave to.
  Table SaidOfJoins() const {
    return Rows(links(), "SELECT DISTINCT step, said FROM faults WHERE what = 'join' ORDER BY 1");
  }
};

TEST_F(SwarmJoiner, GroupsThatComeBackHoldTheBitsOfOneProcess) {
  const std::vector<Strike> script = {
      {"kill", "group 1 stage 0", "", 2},
      {"kill", "group 2 stage 1", "", 5},  // a giver: after the joiner has its moments
      {"kill", "group 0", "", 10},         // two at once:
      {"kill", "group 2", "during = \"forward\"", 11},
      {"leave", "group 1", "", 17},
      {"join", "group 1", "", 19},
  };
  const CommandResult reference = InProcess(script, {kSwarm});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, {kSwarm});
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(2), "1|0 2|0 2");
  EXPECT_EQ(SaidOfJoins(), Table()) << "all members gave to all joiners";
  for (const int rank : {2, 3}) {
    EXPECT_THAT(Joined(4, rank), testing::ContainsRegex("group 0 [1-9]")) << rank;
    EXPECT_THAT(Joined(4, rank), testing::ContainsRegex("group 2 [1-9]")) << rank;
  }
}

// Its two ends take the shared matrix' moments from other members than each other.
TEST_F(SwarmJoiner, ATiedHeadStaysTheBitsOfOneProcess) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "", 2},
                                      {"kill", "group 2 stage 1", "during = \"backward\"", 9}};
  const std::vector<std::string> tied = {kSwarm, "model.kind=llama", "model.tied_head=true"};
  const CommandResult reference = InProcess(script, tied);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, tied);
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(0), "0 2|1|1");
  EXPECT_EQ(Rows(links(), "SELECT COUNT(*) FROM crossings WHERE direction = 'tied'"),
            (Table{{"6"}}));
}

TEST_F(SwarmJoiner, KillsInATransferCostNobodyElseAndGiveTheBitsOfOneProcess) {
  const std::vector<Strike> script = {
      {"kill", "group 1 stage 0", "", 2},
      {"kill", "group 0 stage 1", "during = \"transfer\"", 3},  // the lowest giver
      {"kill", "group 2 stage 0", "", 10},
      {"kill", "group 2 stage 1", "during = \"transfer\"", 10},  // the joiner,
      {"kill", "group 1", "", 11},                               // and one that joins beside it
      {"kill", "group 1", "during = \"transfer\"", 20},          // of which there is none
  };
  const CommandResult reference = InProcess(script, {kSwarm});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, {kSwarm});
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(1), "1 2|0|0") << "the joiner went on without the giver";
  EXPECT_EQ(Rounds(links()).at(2), "0|1 2|1 2");
  EXPECT_EQ(Rounds(links()).at(3), "0 1|2|2") << "the joiner came back, and the other stayed";
  EXPECT_EQ(Rounds(links()).at(5), "0 1 2||");
  const Table said = SaidOfJoins();
  EXPECT_FALSE(said.empty()) << run.output;
  for (const auto& row : said) {  // a stage that had all hears it from the other
    EXPECT_EQ(row[0], "4");
    EXPECT_THAT(row[1], testing::MatchesRegex("group 0: .*; its moments start anew"));
  }
  constexpr char kKills[] =
      "SELECT step, place, recovered_step FROM faults WHERE what = 'kill' ORDER BY 1, 2";
  EXPECT_EQ(Rows(links(), kKills), Rows(alone(), kKills));
}

TEST_F(SwarmJoiner, MembersTrainOnWhileTheyGive) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "", 2}};
  const CommandResult run =
      OverLinks(script, {kSwarm, "train.steps=8", "model.width=64"}, "rate_mbit = 2\n");
  const double took_s = SecondsOf(Joined(4, 2));
  ASSERT_GT(took_s, 3) << run.output;
  // Who waited for the joiner to have its state would be as late as it is at the next outer step.
  const Table waited = Rows(links(), "SELECT waited_s FROM rounds WHERE round = 2");
  ASSERT_EQ(waited.size(), 1u) << run.output;
  EXPECT_GT(std::stod(waited[0][0]), took_s / 2) << Joined(4, 2);
}

}  // namespace
}  // namespace longhaul
