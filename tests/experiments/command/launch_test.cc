// `longhaul launch` as a user types it: what is recorded, how it ends, what is left.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/launch/launch_record.h"
#include "experiments/launch/program_log.h"
#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ProgramLogs, LinesBecomeRowsAndWhatIsNoneOfThemIsCounted) {
  const ProgramLog log = ParseProgramLog(
      "{\"t\": 10.5, \"step\": 1, \"loss\": 2.5, \"tokens\": 64}\n"
      "{\"t\": 11, \"step\": 2, \"loss\": null, \"tokens\": 64}\n"
      "{\"t\": 11.5, \"step\": 2, \"loss\": 2.25, \"tokens\": 65}\n"
      "{\"t\": 12, \"final\": 2.0, \"standard_error\": 0.25}\n"
      "{\"crossing\": {\"peer\": 1, \"codec\": \"int4-b64\", \"kind\": \"activation\", \"tensors\": 2, "
      "\"elements\": 128, \"payload_bytes\": 68, \"message_bytes\": 100, \"nmse_samples\": 2, "
      "\"nmse_sum\": 0.5, \"nmse_max\": 0.375}}\n"
      "{\"crossing\": {\"peer\": 1, \"codec\": \"int8-b64\", \"kind\": \"activation\", \"tensors\": 1, "
      "\"elements\": 64, \"payload_bytes\": 66, \"message_bytes\": 90, \"nmse_samples\": 1, "
      "\"nmse_sum\": 0.25, \"nmse_max\": 0.25}}\n",
      0, 2);
  EXPECT_EQ(log.bad_lines, 0) << log.first_bad;
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps.at(2).tokens, 65);
  EXPECT_EQ(log.steps.at(2).loss_nat, 2.25);
  EXPECT_EQ(log.final_nat, 2.0);
  EXPECT_EQ(log.standard_error_nat, 0.25);
  ASSERT_EQ(log.crossings.size(), 1u);
  EXPECT_EQ(log.crossings[0].codec, "several");
  EXPECT_EQ(log.crossings[0].payload_bytes, 68 + 66);
  EXPECT_EQ(log.crossings[0].nmse_mean, 0.25);  // (0.5 + 0.25) / 3
  EXPECT_EQ(log.crossings[0].nmse_max, 0.375);
}

// The first from when the program began; a clock that was set back costs the step that it hits.
TEST(ProgramLogs, AStepTakesTheTimeSinceTheLatestBeforeIt) {
  ProgramLog log;
  for (const auto& [step, at_s] : {std::pair(1, 10.5), {2, 12.0}, {3, 11.0}, {5, 12.25}}) {
    log.steps[step] = {.step = step, .loss_nat = {}, .tokens = 8, .at_s = at_s};
  }
  std::vector<double> wall_s;
  for (const StepRow& row : StepsOf(log, 10)) wall_s.push_back(row.wall_s);
  EXPECT_THAT(wall_s, testing::ElementsAre(0.5, 1.5, 0, 0.25));
}

TEST(ProgramLogs, AWrongLineCostsThatLine) {
  for (const char* const line :
       {"no json", "[1]", "{}", "{\"step\": 0}", "{\"step\": 1.5}", "{\"step\": \"1\"}",
        "{\"step\": 99999999999999999999}", "{\"step\": 1, \"tokens\": -1}",
        "{\"step\": 1, \"loss\": \"much\"}", "{\"step\": 1, \"loss\": 1e999}",
        "{\"final\": 1, \"standard_error\": -1}", "{\"crossing\": 3}",
        "{\"crossing\": {\"peer\": 2, \"codec\": \"none\", \"kind\": \"\"}}",
        "{\"crossing\": {\"peer\": 0, \"codec\": \"none\", \"kind\": \"\"}}"}) {
    const ProgramLog log =
        ParseProgramLog(std::string(line) + "\n{\"t\": 1, \"step\": 7, \"loss\": 1}\n", 0, 2);
    EXPECT_EQ(log.bad_lines, 1) << line;
    EXPECT_THAT(log.first_bad, HasSubstr("line 1: ")) << line;
    EXPECT_EQ(log.steps.size(), 1u) << line;
    EXPECT_TRUE(log.crossings.empty()) << line;
  }
}

TEST(LaunchSummary, ManyRanksAndPathsFitAScreen) {
  Topology topology;
  std::vector<RankEnd> ends(26);
  ends[20].status = 3;
  std::map<std::pair<int64_t, int64_t>, int64_t> bytes;
  for (int64_t a = 0; a < 26; ++a) {
    topology.nodes.push_back({.name = "w" + std::to_string(a), .access = {}});
    for (int64_t b = 0; b < 26; ++b) {
      if (a != b) bytes[{a, b}] = 1000 * a + b;
    }
  }
  const std::string text = LaunchSummary(topology, ends, bytes, 8);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 25) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("and 18 ranks more"), HasSubstr("and 642 paths more"),
                          HasSubstr("w20"), HasSubstr("w25 > w24")));
  EXPECT_THAT(LaunchSummary(topology, ends, bytes, SIZE_MAX), HasSubstr("w0 > w1 "));
}

class LaunchCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  }
  std::vector<std::string> Words(const std::string& script,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"launch",  "--links",   LinksWithoutRates(scratch_, 2),
                                      "--probe", "quick",     "--name",
                                      "program", "--results", Results()};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    return words;
  }
  std::string Results() const { return scratch_.path() + "/results"; }
  RunRow LastRun() const {
    const auto record = Record::Open(Results(), Record::Mode::kRead);
    EXPECT_TRUE(record.ok()) << record.status();
    return record->Runs(1)->back();
  }

  ScratchFolder scratch_;
};

TEST_F(LaunchCommand, ARecordHasWhatTheLinksCarriedAndWhatTheProgramTold) {
  const CommandResult result = RunLonghaul(Words(
      "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, port $MASTER_PORT; printf to-err >&2; "
      "[ $RANK = 0 ] && ping -4 -c 3 -i 0.1 -s 1000 -q w1 >/dev/null; "
      "echo '{\"t\": 5, \"step\": 1, \"loss\": 3.5, \"tokens\": 9}' >>$LONGHAUL_LOG",
      {"--port", "4242", "--gpus", "1,3", "--out-of-bounds", "flag"}));
  ASSERT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("[0] rank 0 of 2, local 0, port 4242\n"),
                    HasSubstr("[1] rank 1 of 2, local 0, port 4242\n"), HasSubstr("[1] to-err\n")));
  const auto record = Record::Open(Results(), Record::Mode::kRead);
  ASSERT_TRUE(record.ok()) << record.status();
  const RunRow run = LastRun();
  EXPECT_EQ(run.status, RunStatus::kOk) << run.reason;
  EXPECT_EQ(run.arm, "program");
  EXPECT_THAT(run.spec_toml, HasSubstr("command = [\"sh\", \"-c\", \"echo rank"));
  EXPECT_EQ(run.facts.at("exit_status_of_rank_1"), "0");
  const auto steps = record->RowsOf<StepRow>(run.id);
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ(steps->at(1).stage, 1);
  EXPECT_EQ(steps->at(1).loss_nat, 3.5);
  EXPECT_EQ(record->RowsOf<LinkRow>(run.id)->size(), 4u) << "two paths before and after";
  const auto crossings = record->RowsOf<CrossingRow>(run.id);
  ASSERT_EQ(crossings->size(), 2u) << "a ping has an answer";
  // Three echoes of 1000 bytes behind 8 of ICMP, 20 of IPv4 and 14 of Ethernet; ARP has no room
  // beside them, nodes know each other.
  EXPECT_EQ(crossings->at(0).kernel_tx_bytes, 3 * 1042);
  EXPECT_EQ(crossings->at(1).kernel_tx_bytes, 3 * 1042);
  EXPECT_FALSE(std::filesystem::exists(Results() + "/launch-1"));
}

TEST_F(LaunchCommand, TheFirstRankThatFailsEndsTheOthersAlsoOneThatIgnoresIt) {
  const CommandResult result = RunLonghaul(
      Words("cd " + scratch_.path() +
                "; if [ $RANK = 1 ]; then until [ -e deaf ]; do sleep 0.05; done; exit 7; fi; "
                "trap '' TERM; touch deaf; while :; do sleep 0.2; done",
            {"--grace", "300ms", "--out-of-bounds", "flag"}));
  EXPECT_EQ(result.exit_status, 7) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 0 had not ended after 300ms: killed"),
                                   HasSubstr("rank 1 ended with exit status 7")));
  EXPECT_EQ(LastRun().status, RunStatus::kFailed);
  EXPECT_THAT(LastRun().reason, HasSubstr("rank 1 ended with exit status 7"));
  EXPECT_EQ(LastRun().facts.at("exit_status_of_rank_0"), "137");
}

TEST_F(LaunchCommand, KilledOrInterruptedNothingIsLeft) {
  for (const int signal : {SIGKILL, SIGINT, SIGTERM, SIGHUP}) {
    const std::string mark = "31415." + std::to_string(signal);
    const std::string out = scratch_.path() + "/out", up = scratch_.path() + "/up" + mark;
    const pid_t command = StartLonghaul(
        Words("touch " + up + "$RANK; exec sleep " + mark, {"--out-of-bounds", "flag"}), out);
    const auto both_run = [&] {
      return std::filesystem::exists(up + "0") && std::filesystem::exists(up + "1");
    };
    ASSERT_TRUE(Eventually(both_run));
    EXPECT_EQ(kill(command, signal), 0);
    const CommandResult result = WaitFor(command, out);
    if (signal == SIGKILL) {
      EXPECT_EQ(result.signal, SIGKILL);
    } else {
      EXPECT_EQ(result.exit_status, 128 + signal) << result.output;
    }
    EXPECT_TRUE(Eventually([&] { return ProcessesWith("sleep " + mark).empty(); }));
    // A process that ends loses its command line first and the run's lock, which it inherited, last.
    const RunStatus expected = signal == SIGKILL ? RunStatus::kDied : RunStatus::kInterrupted;
    EXPECT_TRUE(Eventually([&] { return LastRun().status == expected; }))
        << ToString(LastRun().status);
  }
}

// Whatever the ranks make of a signal, and also before they are started and after they have ended.
TEST_F(LaunchCommand, ASignalThatEndsItGivesTheStatus) {
  const std::string up = scratch_.path() + "/up", out = scratch_.path() + "/out";
  const auto ended_by = [&](int signal, const std::string& probe, const std::string& script,
                            const std::string& sign) {
    std::filesystem::remove(up);
    auto words = Words(script, {"--grace", "300ms", "--out-of-bounds", "flag"});
    *std::find(words.begin(), words.end(), "quick") = probe;
    const pid_t command = StartLonghaul(words, out);
    EXPECT_TRUE(Eventually([&] {
      return std::filesystem::exists(up) ||
             (!sign.empty() && ReadFile(out).find(sign) != std::string::npos);
    }));
    usleep(300'000);
    EXPECT_EQ(kill(command, signal), 0);
    const CommandResult result = WaitFor(command, out);
    EXPECT_EQ(result.exit_status, 128 + signal) << result.output;
    EXPECT_EQ(LastRun().status, RunStatus::kInterrupted) << LastRun().reason;
    return result.output;
  };
  const std::string loop = "touch " + up + "; while :; do sleep 0.1; done";
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    for (const char* trap : {"trap '' HUP INT TERM; ", "trap 'exit 0' HUP INT TERM; "}) {
      ended_by(signal, "none", trap + loop, "");
    }
  }
  EXPECT_THAT(ended_by(SIGTERM, "full", loop, "2 paths before the program"),
              HasSubstr("ended by signal 15 while links were probed before the program"));
  EXPECT_FALSE(std::filesystem::exists(up)) << "nothing was started";
  EXPECT_THAT(
      ended_by(SIGINT, "full", "true", "2 paths after the program"),
      AllOf(HasSubstr("while links were probed after the program"), HasSubstr("exit status 0")));
}

TEST_F(LaunchCommand, APairWithoutAPathIsSaidAndFailsAtOnce) {
  const std::string links =
      scratch_.File("star.toml",
                    "[[node]]\nname = 'hub'\n[[node]]\nname = 'x'\n[[node]]\nname = 'y'\n"
                    "[[path]]\nfrom = 'hub'\nto = 'x'\nboth = true\nrtt_ms = 1\n"
                    "[[path]]\nfrom = 'hub'\nto = 'y'\nboth = true\nrtt_ms = 1\n");
  const CommandResult result = RunLonghaul(
      {"launch", "--links", links, "--probe", "none", "--results", Results(), "--", "sh", "-c",
       "if [ $RANK = 1 ]; then ping -4 -c 1 hub >/dev/null && echo with hub; ping -4 -c 1 -W 9 y; "
       "echo ended $?; fi"});
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("no path between: x and y; a connection there fails"),
                                   HasSubstr("[1] with hub"), HasSubstr("No route to host"),
                                   HasSubstr("[1] ended 2")));
  EXPECT_LT(result.wall_s, 8);
}

TEST_F(LaunchCommand, WordsBehindTheDashesAreTheProgramsOwn) {
  const CommandResult own =
      RunLonghaul({"launch", "--links", LinksWithoutRates(scratch_, 2), "--probe", "none",
                   "--results", Results(), "--", "echo", "--json", "-n", "7"});
  EXPECT_THAT(own.output, HasSubstr("[1] --json -n 7\n"));
}

// A program of torch's, as its author would write it, with one boundary compressed: its bytes are
// the codec's. 4.25 bits and a header in a message are what docs/wire-format.md says.
TEST_F(LaunchCommand, ATorchProgramsBoundaryIsInTheRecord) {
  const std::string program = scratch_.File("boundary.py", R"(
import torch, torch.distributed as dist, longhaul
dist.init_process_group("longhaul")
rank = dist.get_rank()
boundary = dist.new_group([0, 1], backend="longhaul",
                          pg_options=longhaul.Options(forward="int4-b64", backward="int8-b64", nmse_every=1))
for step in range(1, 4):
    x = torch.randn(256, 64)
    if rank == 0:
        dist.send(x, 1, group=boundary)
    else:
        dist.recv(x, 0, group=boundary)
        longhaul.log(step, loss=4.0 - step, tokens=256)
longhaul.log(group=boundary)
if rank == 1:
    longhaul.log(final=1.25, standard_error=0.5)
dist.destroy_process_group()
)");
  setenv("PYTHONPATH", LONGHAUL_PYTHON_PACKAGE, 1);
  const CommandResult result =
      RunLonghaul({"launch", "--links", LinksWithoutRates(scratch_, 2), "--probe", "none", "--name",
                   "program", "--results", Results(), "--", LONGHAUL_PYTHON, program});
  ASSERT_EQ(result.exit_status, 0) << result.output;
  const auto record = Record::Open(Results(), Record::Mode::kRead);
  ASSERT_TRUE(record.ok()) << record.status();
  const auto crossings = record->RowsOf<CrossingRow>(LastRun().id);
  const auto forward = std::find_if(crossings->begin(), crossings->end(), [](const auto& row) {
    return row.direction == Direction::kForward;
  });
  ASSERT_NE(forward, crossings->end());
  EXPECT_EQ(forward->codec, "int4-b64");
  EXPECT_EQ(forward->tensors, 3);
  EXPECT_EQ(forward->elements, 3 * 256 * 64);
  EXPECT_NEAR(
      8.0 * static_cast<double>(forward->payload_bytes) / static_cast<double>(forward->elements),
      4.25, 0.05);
  EXPECT_GT(forward->kernel_tx_bytes, forward->payload_bytes);
  EXPECT_EQ(forward->nmse_samples, 3);
  const auto evaluations = record->RowsOf<EvaluationRow>(LastRun().id);
  ASSERT_EQ(evaluations->size(), 1u);
  EXPECT_EQ(evaluations->at(0).loss_nat, 1.25);
  EXPECT_EQ(evaluations->at(0).standard_error_nat, 0.5);
  EXPECT_EQ(evaluations->at(0).step, 3);
}

}  // namespace
}  // namespace longhaul
