// `run --trace` as a user types it: what the file says is what the record says, and what cannot be is
// one line before anything starts.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two groups of two stages, an exchange after every second of six steps.
std::string TracedSpec() {
  std::string spec = OfSmallText(TinySpec());
  const std::string from = "groups = 1\ninner_steps = 0";
  spec.replace(spec.find(from), from.size(), "groups = 2\ninner_steps = 2\ncodec = \"none\"");
  return spec;
}

struct Ran {
  CommandResult result;
  std::string file;
  std::vector<StepRow> steps;
};
Ran RunTraced(const ScratchFolder& scratch, const std::string& name,
              const std::vector<std::string>& more) {
  Ran ran;
  ran.file = scratch.path() + "/" + name + ".json";
  std::vector<std::string> arguments = {"run",       scratch.File(name + ".toml", TracedSpec()),
                                        "--results", scratch.path() + "/" + name,
                                        "--set",     "train.hash_every=1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  for (std::string& a : arguments) {
    if (a == "FILE") a = ran.file;
  }
  ran.result = RunLonghaul(arguments);
  EXPECT_EQ(ran.result.exit_status, 0) << ran.result.output;
  const auto record = Record::Open(scratch.path() + "/" + name, Record::Mode::kRead);
  if (record.ok()) ran.steps = *record->RowsOf<StepRow>(1);
  if (ran.file.empty() || !std::filesystem::exists(ran.file)) return ran;
  const CommandResult rules = RunProgram({LONGHAUL_TEST_PYTHON, LONGHAUL_TRACE_RULES, ran.file});
  EXPECT_EQ(rules.exit_status, 0) << rules.output;
  return ran;
}

// Seconds of each lane, by rank and category.
std::map<std::pair<int, std::string>, double> Seconds(const json& trace) {
  std::map<std::pair<int, std::string>, double> sums;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    sums[{e.at("pid"), e.at("cat")}] += e.at("dur").get<double>() * 1e-6;
  }
  return sums;
}

TEST(RunTrace, HasTheSecondsOfTheRecordAndChangesNoBit) {
  ScratchFolder scratch;
  const Ran plain = RunTraced(scratch, "plain", {});
  const Ran traced = RunTraced(scratch, "traced", {"--trace", "FILE", "--trace-steps", "2:3"});
  ASSERT_EQ(plain.steps.size(), traced.steps.size());
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(plain.steps[i].loss_nat, traced.steps[i].loss_nat);
    EXPECT_EQ(plain.steps[i].parameter_hash, traced.steps[i].parameter_hash);
  }
  const json trace = json::parse(ReadFile(traced.file));
  auto sums = Seconds(trace);
  std::map<int, double> compute, outer, wait;
  for (const StepRow& s : traced.steps) {
    if (s.step < 2 || s.step > 3) continue;
    const int rank = static_cast<int>(s.group_index * 2 + s.stage);
    compute[rank] += s.forward_s + s.backward_s + s.optimizer_s;
    outer[rank] += s.outer_s;
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR((sums[{rank, "compute"}]), compute[rank], 1e-6) << rank;
    EXPECT_NEAR((sums[{rank, "exchange"}]) + (sums[{rank, "exchange: wait"}]), outer[rank], 1e-6);
    EXPECT_GT((sums[{rank, "link"}]), 0) << rank;
    EXPECT_GT((sums[{rank, "steps"}]), compute[rank]);
  }
  EXPECT_THAT(traced.result.output, HasSubstr("trace of steps 2 to 3: " + traced.file + " ("));
  EXPECT_THAT(traced.result.output, HasSubstr("an exchange between groups takes "));
  EXPECT_THAT(traced.result.output, HasSubstr("(mean of 1 in the trace)"));
  EXPECT_FALSE(std::filesystem::exists(traced.file + ".part"));
}

TEST(RunTrace, OfASimulatedClockIsTheSameByteForByte) {
  ScratchFolder scratch;
  const std::vector<std::string> more = {
      "--clock", "simulated",       "--set",   "compute.flops_per_s=1e9",
      "--set",   "compute.mfu=0.4", "--trace", "FILE"};
  const Ran one = RunTraced(scratch, "one", more), two = RunTraced(scratch, "two", more);
  EXPECT_EQ(ReadFile(one.file), ReadFile(two.file));
  EXPECT_EQ(json::parse(ReadFile(one.file)).at("otherData").at("clock"), "simulated");
  EXPECT_THAT(one.result.output, HasSubstr("trace of steps 1 to 3: "));
}

TEST(RunTrace, AKilledRunLeavesNoFile) {
  ScratchFolder scratch;
  const std::string file = scratch.path() + "/t.json", results = scratch.path() + "/killed";
  const pid_t run =
      StartLonghaul({"run", scratch.File("run.toml", TracedSpec()), "--results", results, "--set",
                     "train.steps=100000", "--trace", file, "--trace-steps", "1:100"},
                    scratch.path() + "/out");
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(results + "/longhaul.sqlite"); }));
  kill(run, SIGKILL);
  WaitFor(run, scratch.path() + "/out");
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("t.json")));
  }
}

}  // namespace
}  // namespace longhaul
