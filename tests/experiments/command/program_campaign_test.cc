// A campaign over a program that is none of ours, as a user types it. The program is a few lines
// whose loss has a closed form, so that what the campaign must find is known.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/launch/program_verdict.h"
#include "experiments/record/record.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/program_table.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two ranks. The last one's loss: 2.7 - 0.4 ln(tokens / 1000), a number of the seed's, and 0.02 with
// a codec. Each tells a crossing, as a group of the backend does. $MODE breaks something.
constexpr char kProgram[] = R"(import json, math, os, sys, time
e = os.environ
mode, rank, peer = e.get("MODE", ""), int(e["RANK"]), 1 - int(e["RANK"])
seed, tokens = int(e["LONGHAUL_SEED"]), int(e["LONGHAUL_TOKENS"])
codec = e["LONGHAUL_BACKWARD" if rank else "LONGHAUL_FORWARD"]
seed = 1 if mode == "seedless" else seed
tokens = 1000 if mode == "endless" else tokens
loss = 2.7 - 0.4 * math.log(tokens / 1000) + 0.01 * seed + (0.02 if codec != "none" else 0)
lines = []
if rank == 1 and mode != "mute":
    told = 1 if mode == "few" else tokens
    lines += [{"t": 1, "step": 1, "loss": loss, "tokens": 0 if mode == "endless" else told}]
    lines += [{"t": 2, "final": "nan" if mode == "diverged" else loss, "standard_error": 0.5}]
if mode == "twice":
    lines += [{"final": 2 + rank}]
if codec != "none" and mode != "deaf":
    codec = "bf16" if mode == "stubborn" else codec
    lines += [{"crossing": {"peer": peer, "codec": codec, "kind": ["activation", "gradient"][rank],
               "tensors": 2, "elements": 128, "payload_bytes": 68, "message_bytes": 100}}]
with open(e["LONGHAUL_LOG"], "a") as log:
    log.write("".join(json.dumps(line) + "\n" for line in lines))
if mode == "lost" and rank == 1:
    sys.exit(7)
if mode == "leftover" and os.fork() == 0:
    os.setsid()
    time.sleep(3141)
if mode in ("lost", "slow"):
    print("waits for rank 1", flush=True)
    open(e["UP"], "w").close()
    time.sleep(2718)
)";

class ProgramCampaign : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
    scratch_.File("train.py", kProgram);
    spec_ = scratch_.File("campaign.toml", R"([campaign]
name = "own"
question = "What does a boundary of this program cost?"
seeds = [1, 2]
d0_tokens = 1000
budgets = [0.5, 1.0]
control_budgets = [1.0]
[program]
command = ["python3", "-S", "train.py", ")" + scratch_.path() +
                                               R"("]
folder = ")" + scratch_.path() + R"("
environment = { UP = "up" }
[schedule]
stages = 2
[[arm]]
name = "int4"
forward = "int4-b64-h64"
backward = "int8-b64"
)");
  }
  std::vector<std::string> Words(const std::string& mode,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"measure", spec_, "--accept-unresolved", "--set",
                                      "program.environment.MODE=\"" + mode + "\""};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string Results() const { return scratch_.path() + "/results"; }
  // One run of the plan: 2 is the control, 3 the arm, of seed 1. Its output and the record's row.
  RunRow RunOne(const std::string& mode, int id, const std::vector<std::string>& more = {}) {
    const std::string records = scratch_.path() + "/records-" + mode;
    std::vector<std::string> words =
        Words(mode, {"--run", std::to_string(id), "--records", records});
    words.insert(words.end(), more.begin(), more.end());
    output_ = RunLonghaul(words).output;
    const auto record = Record::Open(RecordOf(records, id), Record::Mode::kRead);
    EXPECT_TRUE(record.ok()) << record.status() << output_;
    return record.ok() ? record->Runs(1)->back() : RunRow{};
  }
  // Of this test alone: its folder is the program's last argument.
  std::vector<pid_t> Ranks() const { return ProcessesWith("-S train.py " + scratch_.path()); }
  static std::string RecordOf(const std::string& records, int id) {
    return records + "/000" + std::to_string(id);
  }

  ScratchFolder scratch_;
  std::string spec_, output_;
};

// ln eta = -0.02 / 0.4 by the curve, whose two budgets are exact; K = 2.
TEST_F(ProgramCampaign, FindsThePriceThatTheProgramWasMadeWith) {
  const CommandResult result = RunLonghaul(Words("", {"--results", Results()}));
  ASSERT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("A/A control@1 against reference@1: bit-identical in 2"),
                    HasSubstr("a program's model, D0 = 0.001 M tokens")));
  const auto record = Record::Open(Results(), Record::Mode::kRead);
  ASSERT_TRUE(record.ok()) << record.status();
  double q = 0;
  const auto estimates = record->Estimates(1);
  ASSERT_TRUE(estimates.ok()) << estimates.status();
  for (const EstimateRow& row : *estimates) {
    if (row.arm == "int4" && row.quantity == "q" && row.evaluation == "off") q = *row.value;
  }
  EXPECT_NEAR(q, std::exp(-0.02 / 0.4 / 2), 1e-6);
  const auto runs = record->Runs(1);
  ASSERT_EQ(runs->size(), 8u);
  const RunRow& arm = runs->at(3);
  EXPECT_EQ(arm.arm, "int4");
  EXPECT_EQ(arm.stages, 2);
  EXPECT_EQ(arm.facts.at("program"), "python3 -S train.py " + scratch_.path());
  EXPECT_THAT(arm.facts.at("named_files"), HasSubstr("program.command"));
  const auto crossings = record->RowsOf<CrossingRow>(arm.id);
  ASSERT_EQ(crossings->size(), 2u);
  EXPECT_EQ(crossings->at(0).direction, Direction::kForward);
  EXPECT_EQ(crossings->at(0).payload_bytes, 68);
  EXPECT_THAT(RunLonghaul({"list", Results()}).output, HasSubstr("q of int4, codec off: 0.9753"));
  // Nothing is left to run; another text of the program is another plan.
  EXPECT_THAT(RunLonghaul(Words("", {"--results", Results()})).output,
              HasSubstr("8 runs, 8 done before"));
}

TEST_F(ProgramCampaign, ALossThatDoesNotCountIsRefusedInOneLine) {
  EXPECT_EQ(RunOne("mute", 2).status, RunStatus::kInvalid);
  EXPECT_THAT(output_, HasSubstr("it never told its loss: no rank called longhaul.log(final=...)"));
  EXPECT_EQ(RunOne("twice", 2).status, RunStatus::kInvalid);
  EXPECT_THAT(output_, HasSubstr("ranks 0 and 1 told different losses, 2 and 3"));
  EXPECT_EQ(RunOne("few", 2).status, RunStatus::kInvalid);
  EXPECT_THAT(output_, HasSubstr("program reported 1 tokens but was given a budget of 1000"));
  EXPECT_EQ(RunOne("diverged", 2).status, RunStatus::kDiverged);
  EXPECT_EQ(RunOne("deaf", 3).status, RunStatus::kInvalid);
  EXPECT_THAT(output_,
              HasSubstr("it sent no bytes through the codec int4-b64-h64 (boundary.forward)"));
  EXPECT_EQ(RunOne("stubborn", 3).status, RunStatus::kInvalid);
  EXPECT_THAT(output_, HasSubstr("only through bf16"));
}

TEST_F(ProgramCampaign, ARankThatFailsOrHangsIsNamedWithItsLastLine) {
  EXPECT_EQ(RunOne("lost", 2).status, RunStatus::kFailed);
  EXPECT_THAT(output_, HasSubstr("rank 1 ended with exit status 7; it printed nothing"));
  EXPECT_EQ(RunOne("slow", 2, {"--set", "program.timeout_s=1"}).status, RunStatus::kFailed);
  EXPECT_THAT(output_, AllOf(HasSubstr("after program.timeout_s = 1 s ranks 0, 1 of 2"),
                             HasSubstr("the last line of rank 0: waits for rank 1")));
  EXPECT_EQ(RunOne("leftover", 2).status, RunStatus::kOk) << output_;
  EXPECT_TRUE(Ranks().empty());
}

TEST_F(ProgramCampaign, ProgramsThatIgnoreSeedOrTokensConcludeNothing) {
  const auto said = [&](const std::string& mode, const std::string& seeds) {
    std::string output =
        RunLonghaul(Words(mode, {"--set", "campaign.control_budgets=[]", "--set",
                                 "campaign.seeds=" + seeds, "--results", Results() + mode}))
            .output;
    std::replace(output.begin(), output.end(), '\n', ' ');  // long lines are wrapped
    return output;
  };
  EXPECT_THAT(said("seedless", "[1, 2]"),
              HasSubstr("CONTROLS FAILED, no conclusion is drawn: all 2 seeds of reference@1 told "
                        "the same loss, 2.71"));
  EXPECT_THAT(said("endless", "[1]"), HasSubstr("the program does not go by $LONGHAUL_TOKENS"));
}

TEST_F(ProgramCampaign, KilledNothingIsLeftAndTheSameCommandGoesOn) {
  const std::string out = scratch_.path() + "/out", up = scratch_.path() + "/up";
  const pid_t command = StartLonghaul(Words("slow", {"--results", Results()}), out);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(up); }));
  EXPECT_FALSE(Ranks().empty());
  kill(command, SIGKILL);
  WaitFor(command, out);
  EXPECT_TRUE(Eventually([&] {
    const auto record = Record::Open(Results(), Record::Mode::kRead);
    return record.ok() && record->Runs(1)->back().status == RunStatus::kDied;
  }));
  ASSERT_TRUE(Eventually([&] { return Ranks().empty(); }));  // a late one would write `up` again
  std::filesystem::remove(up);
  const pid_t again = StartLonghaul(Words("slow", {"--results", Results()}), out);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(up); }));
  kill(again, SIGINT);
  EXPECT_THAT(WaitFor(again, out).output,
              HasSubstr("interrupted after 0 of 8 runs; the same command goes on from there"));
}

TEST_F(ProgramCampaign, AResolvedSpecReadsBack) {
  const auto campaign = LoadCampaign(
      spec_,
      {"program.environment.A=\"b \\\"c\"", "outer.groups=3", "program.files=[\"train.py\"]"},
      CatalogNames());
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const RunSpec& spec = campaign->runs.back().spec;
  EXPECT_EQ(spec.workers(), 6);
  EXPECT_EQ(TrainTokens(spec), 1000);
  const auto tree = ParseToml(ToToml(spec), "resolved");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto again = ReadProgramSpec(*tree, CatalogNames());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again->program, *spec.program);
  EXPECT_EQ(ToToml(*again), ToToml(spec));
}

// What the ranks' groups counted, judged without any process.
TEST(ProgramVerdict, ExactEvaluationBesideACodecIsNoOtherCodec) {
  RunSpec spec{};
  spec.program.emplace();
  spec.schedule.stages = 2;
  spec.boundary = {.forward = "int8-b64", .backward = "none"};
  ProgramRun run{};
  run.ended.ranks.resize(2);
  run.logs = {ParseProgramLog(
                  "{\"crossing\": {\"peer\": 1, \"codec\": \"none\", \"kind\": \"activation\", "
                  "\"tensors\": 1, \"elements\": 64, \"payload_bytes\": 256}}\n"
                  "{\"crossing\": {\"peer\": 1, \"codec\": \"int8-b64\", \"kind\": "
                  "\"activation\", \"tensors\": 2, \"elements\": 128, \"payload_bytes\": 132}}\n",
                  0, 2),
              ParseProgramLog("{\"final\": 2.5, \"final_on\": 2.75}\n", 1, 2)};
  run.last_lines.resize(2);
  EXPECT_TRUE(Judge(spec, run).ok()) << Judge(spec, run);
  EXPECT_EQ(FinalOnOf(run.logs), 2.75);
  ASSERT_EQ(run.logs[0].crossings.size(), 2u);
  for (const CrossingRow& row : run.logs[0].crossings) {
    const bool coded = row.direction == Direction::kForward;
    EXPECT_EQ(row.codec, coded ? "int8-b64" : "none");
    EXPECT_EQ(row.payload_bytes, coded ? 132 : 256);
  }
  spec.boundary.backward = "int8-b64";
  EXPECT_THAT(std::string(Judge(spec, run).message()), HasSubstr("(boundary.backward)"));
}

// Of two data parallel ranks: a sum's messages are the outer codec's, and go between groups.
TEST(ProgramVerdict, ASumWithTheOuterCodecCountsAndOneWithoutDoesNot) {
  RunSpec spec{};
  spec.program.emplace();
  spec.schedule.stages = 1;
  spec.boundary = {.forward = "none", .backward = "none"};
  spec.outer.groups = 2;
  spec.outer.codec = "int8-b64";
  ProgramRun run{};
  run.ended.ranks.resize(2);
  run.last_lines.resize(2);
  const std::string sum =
      "{\"crossing\": {\"peer\": 1, \"codec\": \"int8-b64\", \"kind\": \"\", \"tensors\": 0, "
      "\"collective_bytes\": 700}}\n{\"final\": 2.5}\n";
  run.logs = {ParseProgramLog(sum, 0, 2), ParseProgramLog("{\"final\": 2.5}\n", 1, 2)};
  run.logs[0].RanksAre(0, 0, 1);
  EXPECT_TRUE(Judge(spec, run).ok()) << Judge(spec, run);
  ASSERT_EQ(run.logs[0].crossings.size(), 1u);
  EXPECT_EQ(run.logs[0].crossings[0].direction, Direction::kOuter);
  EXPECT_EQ(run.logs[0].crossings[0].message_bytes, 700);
  EXPECT_EQ(run.logs[0].crossings[0].payload_bytes, 0);
  run.logs[0] = ParseProgramLog("{\"final\": 2.5}\n", 0, 2);
  EXPECT_THAT(std::string(Judge(spec, run).message()), HasSubstr("int8-b64 (outer.codec)"));
}

}  // namespace
}  // namespace longhaul
