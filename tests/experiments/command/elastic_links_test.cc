// Groups that are lost, stopped, cut off and come back over shaped links.
#include <signal.h>
#include <unistd.h>

#include "tests/experiments/command/elastic_links.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr char kOneSided[] =
    "SELECT value FROM run_facts WHERE key = 'paths_judged_for_lack_alone'";

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
  EXPECT_EQ(Verdict(), "ok: ");
  EXPECT_EQ(Rows(links(), kOneSided),
            (Table{{"18 of 18: those of node 0, where the store is, and of "
                    "groups that came or went: 0 1 2"}}));
  EXPECT_THAT(RunLonghaul({"list", links()}).output, HasSubstr("24/24"));
  ASSERT_EQ(RunLonghaul({"report", links()}).exit_status, 0);
  EXPECT_THAT(
      ReadFile(links() + "/report/index.html"),
      HasSubstr("Run 1: paths judged for bytes that lack, not for more, 18 of 18: those of"));
}

TEST_F(ElasticLinks, StopsSlownessLeavingAndJoiningGiveTheBitsOfOneProcess) {
  const std::vector<Strike> script = {
      {"stop", "group 1 stage 0", "for_s = 3", 2},
      {"stop", "group 2 stage 1", "", 6},
      {"slow", "group 0", "factor = 10\nfor_steps = 8", 10},
      {"leave", "group 1", "", 14},
      {"join", "group 1", "", 18},
      {"leave", "group 0", "", 18},
  };
  const CommandResult reference = InProcess(script);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script);
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(4), "2|1|0") << "one joins while another leaves";
  // Ten times its compute, and not ten times what each stage slept for the other's sake.
  EXPECT_EQ(Rows(links(), "SELECT MAX(wall_s) < 20 FROM steps WHERE group_index = 0"),
            (Table{{"1"}}));
  EXPECT_THAT(Verdict(), testing::ContainsRegex("rank 2 stood still for [2-9]"));
}

TEST_F(ElasticLinks, LinksThatChangeCostTimeAlone) {
  const std::vector<Strike> script = {
      {"link_rate", "link 0 > 1", "rate_mbit = 2\nfor_steps = 3", 3},
      {"link_delay", "link 2 - 3", "delay_ms = 40\nfor_steps = 2", 5},
      {"link_down", "link 0 - 1", "for_s = 1.2", 9},  // in flight: every pipeline's, so that the
      {"link_down", "link 2 - 3", "for_s = 1.2", 9},  // first to begin the step is hindered in it
      {"link_down", "link 4 - 5", "for_s = 1.2", 9},
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
  const Table waited =
      Rows(links(), "SELECT MAX(wall_s) > 0.9 FROM steps WHERE step BETWEEN 9 AND 10");
  EXPECT_EQ(waited.at(0)[0], "1") << run.output;
  // By far, so that a busy machine judges it too.
  EXPECT_EQ(Rows(links(),
                 "SELECT COUNT(*) > 0, SUM(probes_received = 0 OR rtt_min_s > 0.04 OR"
                 " goodput_bit_per_s < 5e6) FROM links WHERE phase = 'after'"),
            (Table{{"1", "0"}}))
      << "mended before the links are verified again: " << Verdict();
}

TEST_F(ElasticLinks, BytesThatAreCorruptedBelowTheChecksumCostTimeAlone) {
  const CommandResult reference = InProcess({});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  // One bit of every fiftieth packet is flipped: no checksum on the way lets it through.
  std::string paths;
  for (int i = 0; i < 6; ++i) {
    for (int j = i + 1; j < 6; ++j) {
      paths += "[[path]]\nfrom = \"n" + std::to_string(i) + "\"\nto = \"n" + std::to_string(j) +
               "\"\nboth = true\nrtt_ms = 10\ncorrupt = 0.02\n";
    }
  }
  const CommandResult run = OverLinks({}, {}, paths);
  ExpectTheBitsOfOneProcess(run.output);
  const Table lost = Rows(links(), "SELECT SUM(probes_sent) > SUM(probes_received) FROM links");
  EXPECT_EQ(lost.at(0)[0], "1") << "corruption must have struck the probes too";
}

TEST_F(ElasticLinks, AGroupThatIsLateMissesItsRoundAndComesBack) {
  if (!LongForm()) GTEST_SKIP() << kLongForm;
  std::vector<Strike> script = TheOthersAreSlow();
  script.push_back({"stop", "group 1 stage 1", "for_s = 7", 6});
  const CommandResult run =
      OverLinks(script, {"train.steps=200", "outer.round_deadline_s=3", "net.peer_deadline_s=12"});
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
  const CommandResult run = OverLinks(script, {"train.steps=200", "outer.round_deadline_s=3"});
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

TEST_F(ElasticLinks, AStoreThatIsKilledOrStoppedEndsTheRunAndItSaysSo) {
  for (const auto& [signal, how] :
       {std::pair(SIGKILL, "ended"), {SIGSTOP, "was stopped for .* s"}}) {
    const std::string results = links() + std::to_string(signal), output = results + "-output";
    const pid_t command = StartLonghaul(
        Arguments(Spec({}, "links.toml"), results,
                  {"net.transport=ucx", "net.profile=" + Mesh(""), "train.steps=5000"}),
        output);
    constexpr char kTold[] = "SELECT 1 FROM rounds WHERE round = 1";
    for (int i = 0; i < 900 && Rows(results, kTold).empty(); ++i) usleep(100'000);
    const std::vector<pid_t> stores = ProcessesOf(command, "--serve-store");
    ASSERT_EQ(stores.size(), 1u) << ReadFile(output);
    kill(stores[0], signal);
    const CommandResult run = WaitFor(command, output);
    EXPECT_NE(run.exit_status, 0);
    const Table verdict = Rows(results, kVerdict);
    ASSERT_EQ(verdict.size(), 1u);
    EXPECT_THAT(verdict[0][0],
                testing::ContainsRegex("failed: the lab after step [0-9]+: the process that serves "
                                       "the c10d store " +
                                       std::string(how) + ": nobody can say"));
    EXPECT_TRUE(ProcessesWith(results).empty() && !AnyIsThere(stores));
  }
}

TEST_F(ElasticLinks, TheLastGroupThatLeavesEndsTheRun) {
  const CommandResult run = OverLinks(
      {{"leave", "group 1", "", 2}, {"leave", "group 2", "", 2}, {"leave", "group 0", "", 6}});
  EXPECT_NE(run.exit_status, 0);
  EXPECT_THAT(Verdict(), HasSubstr("no other is left that holds the training's state"));
}

}  // namespace
}  // namespace longhaul
