// `longhaul schedule` as a user types it, and runs of several stages a rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

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

// Stage 1 wants the second forward before it gives the first gradient, stage 0 the other way.
TEST_F(ScheduleCommand, AFileThatDeadlocksIsRefusedWithWhoWaits) {
  const std::string file = scratch_.File("stuck.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  ExpectOneLine(RunLonghaul({"schedule", "show", "csv", "--csv", file, "-S", "2", "-M", "2"}),
                HasSubstr("deadlock, ranks wait at 0B0 1F1"));
  ExpectOneLine(Tiny({"schedule.kind=csv", "schedule.csv=" + file}, "stuck"),
                AllOf(HasSubstr("stuck.csv"), HasSubstr("deadlock, ranks wait at 0B0 1F1")));
  ExpectOneLine(Tiny({"schedule.kind=csv", "schedule.csv=" + file, "schedule.stages=4"}, "other"),
                HasSubstr("is of 2 stages on 2 ranks and 2 micro-batches"));
  ExpectOneLine(Tiny({"schedule.kind=csv", "schedule.csv=/none.csv"}, "none"),
                HasSubstr("/none.csv"));
}

TEST_F(ScheduleCommand, WhatAScheduleCannotTakeIsOneLine) {
  ExpectOneLine(Tiny({"schedule.kind=interleaved-1f1b"}, "a"), HasSubstr("2 to 64 chunks"));
  ExpectOneLine(Tiny({"schedule.kind=interleaved-1f1b", "schedule.chunks=2", "schedule.stages=4",
                      "train.microbatches=5", "train.batch_rows=5"},
                     "b"),
                HasSubstr("5 micro-batches wants a multiple of its 2 rounds over 2 ranks: 4 or 6"));
  ExpectOneLine(Tiny({"schedule.kind=looped-bfs", "schedule.chunks=3"}, "c"),
                HasSubstr("does not divide schedule.stages = 2"));
  ExpectOneLine(Tiny({"schedule.kind=looped-bfs", "schedule.chunks=2", "schedule.stages=8"}, "d"),
                HasSubstr("does not divide model.blocks = 4"));
  ExpectOneLine(Tiny({"schedule.csv=x.csv"}, "e"), HasSubstr("want kind = \"csv\" beside a file"));
  ExpectOneLine(Tiny({"schedule.kind=zb-v", "schedule.chunks=2", "schedule.stages=4",
                      "outer.inner_steps=2", "outer.codec=none", "outer.on_group_loss=continue"},
                     "f"),
                HasSubstr("have one stage a rank"));
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
  ExpectOneLine(RunLonghaul({"schedule", "best", spec}), HasSubstr("--forward-ms"));
}

}  // namespace
}  // namespace longhaul
