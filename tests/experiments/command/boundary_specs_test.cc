// Every boundary method by its spec in experiments/specs, shortened: it runs, says its source, learns
// something, sends what is planned, and says of each change of codecs why.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "experiments/record/record.h"
#include "experiments/report/report_sections.h"
#include "experiments/spec/known_names.h"
#include "experiments/train/traffic.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kSteps = 28;

std::string PathOf(const std::string& name) {
  return std::string(LONGHAUL_SPECS) + "/boundary-" + name + ".toml";
}

// Of a text file that is there wherever the test runs.
const std::vector<std::string> kShort = {"train.steps=28", "train.warmup_steps=2", "train.lr=0.01",
                                         "eval.rows=2",
                                         std::string("data.source=text:") + LONGHAUL_LICENSE};

struct Ran {
  CommandResult result;
  std::vector<StepRow> steps;
  std::vector<CrossingRow> crossings;
  std::vector<CodecSwitchRow> switches;
};
Ran RunInto(const std::string& results, const std::string& name, std::vector<std::string> sets,
            const std::vector<std::string>& more = {}) {
  sets.insert(sets.begin(), kShort.begin(), kShort.end());
  std::vector<std::string> arguments = {"run", PathOf(name), "--results", results};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(), more.begin(), more.end());
  Ran ran{.result = RunLonghaul(arguments), .steps = {}, .crossings = {}, .switches = {}};
  const auto record = Record::Open(results, Record::Mode::kRead);
  if (!record.ok()) return ran;
  ran.steps = *record->Steps(1);
  ran.crossings = *record->Crossings(1);
  ran.switches = *record->CodecSwitches(1);
  return ran;
}

std::vector<uint64_t> HashesOf(const Ran& ran) {
  std::vector<uint64_t> hashes;
  for (const StepRow& row : ran.steps) hashes.push_back(row.parameter_hash);
  return hashes;
}

class BoundarySpecs : public testing::TestWithParam<std::string> {};

TEST_P(BoundarySpecs, RunAndSendWhatIsPlanned) {
  EXPECT_THAT(ReadFile(PathOf(GetParam())), StartsWith("# Source: "));
  ScratchFolder scratch;
  std::vector<std::string> sets;
  if (GetParam() == "warmup") sets = {"boundary.warmup_steps=10"};
  if (GetParam() == "bandwidth") {
    sets = {std::string("net.profile=") + LONGHAUL_SPECS + "/two-continents.toml"};
  }
  const Ran ran = RunInto(scratch.path() + "/results", GetParam(), sets);
  ASSERT_EQ(ran.result.exit_status, 0) << ran.result.output;
  double first = 0, last = 0;
  for (const StepRow& row : ran.steps) {
    if (row.loss_nat && row.step == 1) first = *row.loss_nat;
    if (row.loss_nat && row.step == kSteps) last = *row.loss_nat;
  }
  EXPECT_LT(last, first - 0.2);
  sets.insert(sets.begin(), kShort.begin(), kShort.end());
  const RunSpec spec = *LoadRunSpec(PathOf(GetParam()), sets, CatalogNames());
  std::map<std::pair<int64_t, int64_t>, double> planned;
  const auto crossings = PlanCrossings(spec, 0, ran.switches);
  for (const PlannedCrossing& c : *crossings) {
    planned[{c.src_rank, c.dst_rank}] += static_cast<double>(c.messages()) * *MessageBytes(c);
  }
  const size_t pairs = planned.size();
  size_t sent = 0;
  for (const CrossingRow& row : ran.crossings) {
    sent += row.message_bytes > 0;
    const double plan = planned[{row.src_rank, row.dst_rank}];
    EXPECT_NEAR(static_cast<double>(row.message_bytes), plan, 0.005 * plan)
        << row.src_rank << " > " << row.dst_rank;
  }
  EXPECT_EQ(sent, pairs);
  // The report has every change; the listing how many.
  const auto listing = RunLonghaul({"list", scratch.path()});
  const bool changes = spec.boundary.policy || spec.boundary.warmup_steps;
  EXPECT_EQ(ran.switches.empty(), !changes);
  const std::string said = "boundaries changed codecs " + std::to_string(ran.switches.size());
  if (changes) {
    EXPECT_THAT(listing.output, HasSubstr(said));
  }
  EXPECT_THAT(ran.result.output, Not(HasSubstr("advice: no sample")));
  if (GetParam() != "bandwidth") return;
  // By hand: 16384 + 112 bytes take 0.13 ms of a gigabit and 1.3 ms of 100 Mbit/s; 8 bits of 4096
  // elements, a scale of two bytes for each of 128 rows of 32, 64 and 112 are 4528 bytes: 0.3622 ms.
  ASSERT_EQ(ran.switches.size(), 2u);
  for (const CodecSwitchRow& change : ran.switches) {
    EXPECT_EQ(change.boundary, 1) << "between the regions";
    EXPECT_EQ(change.to_codec, "int8-b64");
    EXPECT_EQ(change.cause, "0.3622 ms <= 0.5 ms at 100 Mbit/s");
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, BoundarySpecs,
                         testing::Values("aqsgd", "warmup", "layers", "magnitude", "bandwidth",
                                         "accuracy", "subspace"));

// By hand: every boundary begins behind the warm-up, and says so.
TEST(BoundaryWarmUp, IsTheRunWithoutCodecsUntilItEnds) {
  ScratchFolder scratch;
  const std::vector<std::string> sets = {"boundary.warmup_steps=10", "schedule.stages=2"};
  const Ran warm = RunInto(scratch.path() + "/warm", "warmup", sets);
  const Ran plain = RunInto(scratch.path() + "/plain", "warmup",
                            {"boundary.warmup_steps=0", "schedule.stages=2",
                             "boundary.forward=none", "boundary.backward=none"});
  ASSERT_EQ(warm.result.exit_status + plain.result.exit_status, 0) << warm.result.output;
  for (size_t i = 0; i < warm.steps.size(); ++i) {
    EXPECT_EQ(warm.steps[i].parameter_hash == plain.steps[i].parameter_hash,
              warm.steps[i].step <= 10)
        << warm.steps[i].step;
  }
  ASSERT_EQ(warm.switches.size(), 2u);
  EXPECT_EQ(warm.switches[0].step, 11);
  EXPECT_EQ(warm.switches[0].direction, Direction::kForward);
  EXPECT_EQ(warm.switches[0].from_codec, "none");
  EXPECT_EQ(warm.switches[0].to_codec, "int4-b64-h64+ef");
  EXPECT_EQ(warm.switches[0].cause, "behind the warm-up of 10 steps");
  EXPECT_EQ(warm.switches[1].to_codec, "int8-b64");
  const Record record = *Record::Open(scratch.path() + "/warm", Record::Mode::kRead);
  ReportedExperiment reported;
  reported.runs = {*record.Run(1)};
  EXPECT_THAT(*SwitchesPart(record, reported), HasSubstr("behind the warm-up of 10 steps"));
}

// A kill in the middle: what is chosen, what it is chosen from and every bit are those of a whole run.
TEST(BoundaryPolicy, GoesOnAfterAKillWithItsBitsAndItsChanges) {
  ScratchFolder scratch;
  for (const char* name : {"accuracy", "aqsgd"}) {
    const std::string whole = scratch.path() + "/whole-" + name,
                      cut = scratch.path() + "/cut-" + name;
    const std::vector<std::string> sets = {"train.steps=150", "model.blocks=4",
                                           "checkpoint.every_steps=10"};
    const Ran reference = RunInto(whole, name, sets);
    ASSERT_EQ(reference.result.exit_status, 0) << reference.result.output;
    std::vector<std::string> arguments = {"run", PathOf(name), "--results", cut};
    for (const std::string& set : kShort) arguments.insert(arguments.end(), {"--set", set});
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    const pid_t pid = StartLonghaul(arguments, scratch.path() + "/output");
    EXPECT_TRUE(Eventually([&] {
      const auto record = Record::Open(cut, Record::Mode::kRead);
      if (!record.ok()) return false;
      const auto rows = record->Rows("SELECT ifnull(MAX(step), 0) FROM steps");
      return rows.ok() && rows->size() == 2 && std::stoll((*rows)[1][0]) >= 12;
    })) << ReadFile(scratch.path() + "/output");
    kill(pid, SIGKILL);
    ASSERT_EQ(WaitFor(pid, scratch.path() + "/output").signal, SIGKILL)
        << "it had ended before it was killed";
    const Ran resumed = RunInto(cut, name, sets, {"--resume"});
    ASSERT_EQ(resumed.result.exit_status, 0) << resumed.result.output;
    EXPECT_EQ(HashesOf(resumed), HashesOf(reference)) << name;
    ASSERT_EQ(resumed.switches.size(), reference.switches.size());
    for (size_t i = 0; i < resumed.switches.size(); ++i) {
      const CodecSwitchRow &a = resumed.switches[i], &b = reference.switches[i];
      EXPECT_EQ(a.step, b.step);
      EXPECT_EQ(a.from_codec + " > " + a.to_codec + ": " + a.cause,
                b.from_codec + " > " + b.to_codec + ": " + b.cause);
    }
    for (size_t i = 0; i < resumed.crossings.size(); ++i) {
      EXPECT_EQ(resumed.crossings[i].message_bytes, reference.crossings[i].message_bytes);
    }
  }
}

TEST(BoundarySamples, DataThatNeverComeAgainAreSaid) {
  ScratchFolder scratch;
  const Ran ran = RunInto(scratch.path() + "/results", "aqsgd", {"train.steps=20"});
  ASSERT_EQ(ran.result.exit_status, 0) << ran.result.output;
  EXPECT_THAT(ran.result.output,
              HasSubstr("advice: no sample comes twice (160 rows of 174 windows), so that 'aqsgd4' "
                        "sends every activation as its first, in fp16"));
}

}  // namespace
}  // namespace longhaul
