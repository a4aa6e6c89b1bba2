// `longhaul schedule` as a user types it, and runs of several stages a rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ScheduleCommand : public testing::Test {
 protected:
  CommandResult Tiny(const std::vector<std::string>& sets, const std::string& results) {
    std::vector<std::string> arguments = {"run", scratch_.File("tiny.toml", TinySpec()),
                                          "--results", scratch_.path() + "/" + results};
    for (const std::string& set : sets) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    return RunLonghaul(arguments);
  }
  void ExpectOneLine(const CommandResult& result, const testing::Matcher<std::string>& text) {
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_THAT(result.output, text);
  }
  ScratchFolder scratch_;
};

// By hand, F 1 and B 2: the second rank begins at 1; each backward waits for the one behind it. Ten
// of twelve units of nine actions: 1 - 18 / 24.
TEST_F(ScheduleCommand, ShowDrawsAStep) {
  const std::string svg = scratch_.path() + "/out.svg";
  const CommandResult run =
      RunLonghaul({"schedule", "show", "1f1b", "-S", "2", "-M", "3", "--svg", svg});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("rank 0   01..aa2bb.cc\nrank 1   .0aa1bb2cc..\n"));
  EXPECT_THAT(run.output, HasSubstr("bubble where links take no time: 0.25 "));
  EXPECT_THAT(run.output, HasSubstr("most activations live, by rank: 2, 1\n"));
  EXPECT_THAT(run.output, HasSubstr("messages sent in a step, by rank: 3, 3\n"));
  const std::string drawn = ReadFile(svg);
  EXPECT_THAT(drawn, StartsWith("<svg"));
  EXPECT_THAT(drawn, HasSubstr("<title>1B2: 8 to 10</title>"));
}

// GPipe over two ranks, M = 1, 65 ms of round trip, 125 kB at 100 Mbit/s (10.456 ms on the wire with
// TCP's headers): 2 (20 + 40) + 2 (32.5 + 10.456) = 205.9 ms.
TEST_F(ScheduleCommand, ShowPredictsTheStepOverLinks) {
  const CommandResult run =
      RunLonghaul({"schedule", "show", "gpipe", "-S", "2", "-M", "1", "--links", "continental-us",
                   "--forward-ms", "20", "--backward-ms", "40", "--message-kb", "125"});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("step by P2, in the steady state: 0.2059 s"));
}

// The file is torch's own interleaved 1F1B. All of them train to the bits of 1F1B, codecs with a
// memory included: every boundary has its own, for each micro-batch.
TEST_F(ScheduleCommand, ARunOfAnyScheduleOrFileHasTheLossesOf1F1B) {
  const std::string file =
      scratch_.File("torch.csv",
                    "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\r\n"
                    ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\r\n");
  const auto losses = [&](std::vector<std::string> sets, const std::string& name) {
    sets.insert(sets.end(), {"schedule.stages=4", "train.microbatches=4",
                             "boundary.forward=int4-b64-h64+ef", "boundary.backward=int8-b64+ef"});
    const CommandResult run = Tiny(sets, name);
    EXPECT_EQ(run.exit_status, 0) << name << ": " << run.output;
    const size_t at = run.output.find("held-out loss");
    return at == std::string::npos ? "none" : run.output.substr(at, run.output.find(',', at) - at);
  };
  const std::string reference = losses({}, "plain");
  EXPECT_EQ(losses({"schedule.kind=csv", "schedule.chunks=2", "schedule.csv=" + file}, "file"),
            reference);
  EXPECT_EQ(losses({"schedule.kind=looped-bfs", "schedule.chunks=2"}, "bfs"), reference);
  EXPECT_EQ(losses({"schedule.kind=1f1b-deep", "schedule.depth=2"}, "deep"), reference);
}

// Two ranks, M = 8, 60 ms a micro-batch: the round trip of 65 ms is worth two. GPipe and a deep 1F1B
// have one time, 1F1B waits; within what 1F1B takes, it is 1F1B.
TEST_F(ScheduleCommand, BestRanksWhatStaysInMemory) {
  const std::string spec = scratch_.File("tiny.toml", TinySpec());
  std::vector<std::string> asked = {"schedule",
                                    "best",
                                    spec,
                                    "--set",
                                    "train.microbatches=8",
                                    "--set",
                                    "train.batch_rows=64",
                                    "--set",
                                    "model.width=256",
                                    "--links",
                                    "continental-us",
                                    "--forward-ms",
                                    "20",
                                    "--backward-ms",
                                    "40",
                                    "--json"};
  const CommandResult run = RunLonghaul(asked);
  ASSERT_EQ(run.exit_status, 0) << run.output;
  const json all = json::parse(run.output).at("schedules");
  std::map<std::string, json> by_name;  // the first of each
  for (const json& s : all) by_name.emplace(s.at("kind").get<std::string>(), s);
  EXPECT_EQ(by_name.size(), 7u);
  const auto step = [&](const char* name) { return by_name.at(name).at("step_s").get<double>(); };
  EXPECT_NEAR(step("1f1b-deep"), step("gpipe"), 1e-9);
  EXPECT_GT(step("1f1b"), 1.1 * step("gpipe"));
  const int64_t least = by_name.at("1f1b").at("worker_bytes");
  EXPECT_LT(least, by_name.at("1f1b-deep").at("worker_bytes"));
  EXPECT_LT(by_name.at("1f1b-deep").at("worker_bytes"), by_name.at("gpipe").at("worker_bytes"));
  asked.insert(asked.end(),
               {"--memory-mb", std::to_string(static_cast<double>(least) / 1e6 + 0.1)});
  const json bounded = json::parse(RunLonghaul(asked).output).at("schedules");
  EXPECT_TRUE(bounded.front().at("within_memory").get<bool>());
  EXPECT_LE(bounded.front().at("worker_bytes").get<int64_t>(), least + 100'000);
  EXPECT_FALSE(bounded.back().at("within_memory").get<bool>());
}

// The published grid is what the command says today, on a link that is short and on one that is long.
TEST_F(ScheduleCommand, ThePublishedGridIsWhatBestSays) {
  std::map<std::string, std::vector<double>> published;
  std::ifstream file(LONGHAUL_TEST_GRID);
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_EQ(cells.size(), 10u) << line;
    const std::string key = absl::StrJoin(cells.begin(), cells.begin() + 5, " ");
    for (size_t i = 5; i < cells.size(); ++i) published[key].push_back(std::atof(cells[i].c_str()));
  }
  ASSERT_EQ(published.size(), 1u + 9 * 2 * 13);
  for (const auto& [profile, engine] : {std::pair("regional", "cpu"), {"global", "aten"}}) {
    const CommandResult run =
        RunLonghaul({"schedule", "best", LONGHAUL_TEST_GRID_SPEC, "--links", profile, "--json",
                     "--set", std::string("model.engine=") + engine, "--set", "compute=measured",
                     "--forward-ms", "20", "--backward-ms", "40"});
    ASSERT_EQ(run.exit_status, 0) << run.output;
    for (const json& s : json::parse(run.output).at("schedules")) {
      const std::string key =
          absl::StrCat(profile, " ", engine, " ", s.at("kind").get<std::string>(), " ",
                       s.at("chunks").get<int>(), " ", s.at("depth").get<int>());
      ASSERT_EQ(published[key].size(), 5u) << key;
      EXPECT_NEAR(published[key][0], s.at("step_s").get<double>(), 1e-6) << key;
      EXPECT_EQ(published[key][2], s.at("peak_activations").get<double>()) << key;
      EXPECT_NEAR(published[key][3] / s.at("worker_bytes").get<double>(), 1, 0.05) << key;
      EXPECT_EQ(published[key][4], s.at("messages_per_step").get<double>()) << key;
    }
  }
}

// By hand: nine blocks of 1 to 9 seconds in three stages take 15, 13 and 17; no other cuts have a slowest
// below 17.
TEST_F(ScheduleCommand, CutsMakeTheSlowestStageFast) {
  const std::string spec = scratch_.File("tiny.toml", TinySpec());
  const auto cut = [&](const std::vector<double>& seconds, int stages) {
    std::string text =
        "\xef\xbb\xbf"
        "block,seconds\r\n";  // as Windows' editors write it
    for (size_t b = 0; b < seconds.size(); ++b) absl::StrAppend(&text, b, ",", seconds[b], "\r\n");
    const CommandResult run = RunLonghaul(
        {"schedule", "cuts", spec, "--set", absl::StrCat("model.blocks=", seconds.size()), "--set",
         "schedule.stages=1", "-S", absl::StrCat(stages), "--times", scratch_.File("t.csv", text)});
    EXPECT_EQ(run.exit_status, 0) << run.output;
    return run.output;
  };
  EXPECT_THAT(cut({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3),
              AllOf(HasSubstr("--set schedule.stages=3 --set 'schedule.cuts=[5, 7]'"),
                    HasSubstr("the slowest stage takes 1.133 of an even share")));  // 51 / 45
  EXPECT_THAT(cut({1, 1, 1, 9}, 2), HasSubstr("'schedule.cuts=[3]'"));
  EXPECT_THAT(cut({9, 1, 1, 1, 1}, 3), HasSubstr("'schedule.cuts=[1, 3]'"))
      << "2 + 2, not 3 + 1: equal slowest, smaller squares";
}

// A run with a stage for each block measures them, and what was measured can be kept.
TEST_F(ScheduleCommand, CutsReadARunsTimes) {
  ASSERT_EQ(Tiny({"schedule.stages=4"}, "probe").exit_status, 0);
  const std::string spec = scratch_.File("tiny.toml", TinySpec()),
                    times = scratch_.path() + "/t.csv";
  const CommandResult run = RunLonghaul(
      {"schedule", "cuts", spec, "-S", "3", "--from", scratch_.path() + "/probe", "--save", times});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(run.output, StartsWith("4 blocks by run 1 of "));
  const CommandResult again = RunLonghaul({"schedule", "cuts", spec, "-S", "3", "--times", times});
  const auto cuts = [](const CommandResult& r) { return r.output.substr(r.output.find("--set")); };
  EXPECT_EQ(cuts(again), cuts(run));
  EXPECT_THAT(cuts(run), HasSubstr("schedule.cuts=["));
  ExpectOneLine(RunLonghaul({"schedule", "cuts", spec, "--set", "model.width=64", "--from",
                             scratch_.path() + "/probe"}),
                HasSubstr("; this spec has a gpt of 4 blocks of width 64"));
}

}  // namespace
}  // namespace longhaul
