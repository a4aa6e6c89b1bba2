// Runs over shaped links: equality with the in-process run, and what happens when parts are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Shaped : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  }
  std::vector<std::string> Arguments(std::vector<std::string> sets, int nodes = 4) const {
    std::vector<std::string> arguments = {"run",
                                          scratch_.File("spec.toml", OfSmallText(TinySpec())),
                                          "--results", results(), "--verbose"};
    // What is tested here hangs on no link's figures, and a busy machine may bend them.
    sets.insert(sets.begin(),
                {"outer.groups=2", "outer.inner_steps=3", "outer.codec=int4-b64+ef",
                 "net.out_of_bounds=flag", "net.profile=" + LinksWithoutRates(scratch_, nodes)});
    for (const std::string& s : sets) arguments.insert(arguments.end(), {"--set", s});
    return arguments;
  }
  std::string results() const { return scratch_.path() + "/results"; }
  std::string output_file() const { return scratch_.path() + "/output"; }
  // What the second of two runs with these settings did, which is over links.
  CommandResult InOneProcessAndOverLinks(std::vector<std::string> sets, int nodes = 4) {
    const CommandResult loopback = RunLonghaul(Arguments(sets, nodes));
    EXPECT_EQ(loopback.exit_status, 0) << loopback.output;
    sets.emplace_back("net.transport=ucx");
    CommandResult shaped = RunLonghaul(Arguments(sets, nodes));
    EXPECT_TRUE(TrainedToTheEnd(shaped)) << shaped.output;
    return shaped;
  }
  void ExpectTheSameBits() {
    const CommandResult same = RunLonghaul({"compare", results(), "1", "last"});
    EXPECT_EQ(same.exit_status, 0) << same.output;
    EXPECT_THAT(same.output, HasSubstr("bit-identical"));
  }

  ScratchFolder scratch_;
};

// One process, on the simulated clock of the last run's links, and both runs over links: the same bits.
// Of the times no more is said than that real ones are those of links too, and of a busy machine.
TEST_F(Shaped, ARateAndNoneAndOneProcessOnASimulatedClockGiveTheSameBits) {
  // Codecs that begin behind a warm-up and are then chosen step by step: everywhere the same ones.
  const auto with = [&](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"boundary.forward=none", "boundary.warmup_steps=2",
                               "boundary.policy.by=accuracy", "boundary.policy.target_nmse=0.01",
                               "boundary.policy.forward=[\"int4-b64-h64\", \"int8-b64\"]"});
    return Arguments(sets);
  };
  std::vector<std::string> simulated =
      with({"net.profile=transpacific", "compute.flops_per_s=1e12", "compute.mfu=0.5"});
  simulated.insert(simulated.end(), {"--clock", "simulated"});
  const CommandResult loopback = RunLonghaul(simulated);
  ASSERT_EQ(loopback.exit_status, 0) << loopback.output;
  const std::vector<std::string> over_links = {"net.transport=ucx"};
  for (const auto& sets : {over_links, {over_links[0], "net.profile=transpacific"}}) {
    const CommandResult shaped = RunLonghaul(with(sets));
    ASSERT_TRUE(TrainedToTheEnd(shaped)) << shaped.output;
    const CommandResult same = RunLonghaul({"compare", results(), "1", "last"});
    EXPECT_EQ(same.exit_status, 0) << same.output;
    EXPECT_THAT(same.output, HasSubstr("bit-identical"));
  }
  const auto record = Record::Open(results(), Record::Mode::kRead);
  ASSERT_TRUE(record.ok()) << record.status();
  const auto switches = [&](int64_t run) {
    std::vector<std::string> lines;
    const std::vector<CodecSwitchRow> rows = *record->RowsOf<CodecSwitchRow>(run);
    for (const CodecSwitchRow& r : rows) {
      lines.push_back(std::to_string(r.step) + ", " + std::to_string(r.group_index) + ": " +
                      r.from_codec + " > " + r.to_codec + ", " + r.cause);
    }
    return lines;
  };
  EXPECT_GE(switches(1).size(), 4u) << "two groups, two directions";
  EXPECT_EQ(switches(2), switches(1));
  EXPECT_EQ(switches(3), switches(1));
  const std::vector<SimulatedRow> clock = *record->RowsOf<SimulatedRow>(1);
  double engine_s = 0, real_s = 0;
  for (const SimulatedRow& t : clock) {
    if (t.group_index == 0 && t.stage == 0) engine_s = t.simulated_s;  // the last step's stays
  }
  const std::vector<StepRow> steps = *record->RowsOf<StepRow>(3);
  for (const StepRow& s : steps) {
    if (s.group_index == 0 && s.stage == 0) real_s += s.wall_s;
  }
  std::printf("6 steps on transpacific links: %.3f s on the simulated clock, %.3f s over tap\n",
              engine_s, real_s);
  EXPECT_GT(engine_s, 6 * 0.105) << "every step has a round trip at least";
  EXPECT_GT(real_s, 0.5 * engine_s);
  EXPECT_LT(real_s, 100 * engine_s);
}

// Rows go to the experts of the other group and back, and all of their bytes are accounted for.
TEST_F(Shaped, SpreadExpertsGiveTheSameBitsInOneProcessAndOverLinks) {
  const CommandResult shaped =
      InOneProcessAndOverLinks({"model.kind=moe", "model.experts=4", "model.expert_parallel=2",
                                "outer.algorithm=dp", "outer.inner_steps=0"});
  EXPECT_THAT(shaped.output, testing::Not(HasSubstr("bytes on the links")));
  if (shaped.exit_status == 0) {
    EXPECT_THAT(shaped.output, HasSubstr("no prediction: rows of spread experts"));
    EXPECT_THAT(shaped.output, testing::ContainsRegex("0 > 2 +other +none"));
  }
  ExpectTheSameBits();
}

// Its gradient crosses between both ends, here on the only boundary's path, and all bytes are
// accounted for; every step has a prediction.
TEST_F(Shaped, ATiedHeadGivesTheSameBitsInOneProcessAndOverLinks) {
  const CommandResult shaped =
      InOneProcessAndOverLinks({"model.kind=llama", "model.tied_head=true"});
  EXPECT_THAT(shaped.output, testing::Not(HasSubstr("bytes on the links")));
  if (shaped.exit_status == 0) {
    EXPECT_THAT(shaped.output, testing::ContainsRegex("0 > 1 +tied +none"));
    EXPECT_THAT(shaped.output, testing::ContainsRegex("3 > 2 +tied +none"));
    EXPECT_THAT(shaped.output, HasSubstr("ln(measured/P2)"));
  }
  ExpectTheSameBits();
}

// Of three unequal stages the ends have a path of their own, which is verified as the others are; beside it
// codecs of single boundaries and drawn noise.
TEST_F(Shaped, ATiedHeadsOwnPathIsVerifiedAndItsBytesArePredicted) {
  const CommandResult shaped = InOneProcessAndOverLinks(
      {"model.kind=llama", "model.tied_head=true", "schedule.stages=3", "schedule.cuts=[1, 2]",
       "outer.groups=1", "outer.inner_steps=0", "boundary.forward=none", "boundary.backward=none",
       "boundary.cuts.0.forward=gauss-0.01", "boundary.cuts.1.backward=int8-b64"},
      3);
  EXPECT_THAT(shaped.output, testing::ContainsRegex("link 0 > 2 after"));
  EXPECT_THAT(shaped.output, testing::Not(HasSubstr("bytes on the links")));
  if (shaped.exit_status == 0) {
    EXPECT_THAT(shaped.output, testing::ContainsRegex("0 > 2 +tied .*[+-]0\\.[0-9]+ %"));
  }
  ExpectTheSameBits();
}

TEST_F(Shaped, KilledWorkerEndsTheRunWithItsRankAndStep) {
  const pid_t pid = StartLonghaul(
      Arguments({"net.transport=ucx", "train.steps=5000", "net.peer_deadline_s=5"}), output_file());
  ASSERT_TRUE(
      Eventually([&] { return ReadFile(output_file()).find("step ") != std::string::npos; }, 60))
      << ReadFile(output_file());
  // Workers read their spec from a descriptor; their parent is the lab of this command.
  const std::vector<pid_t> workers = WorkersOf(pid);
  ASSERT_EQ(workers.size(), 4u);
  kill(workers.back(), SIGKILL);
  const CommandResult result = WaitFor(pid, output_file());
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_LT(result.wall_s, 30.0);  // the deadline of 5 s, the lab's grace of 10, a busy machine
  EXPECT_THAT(result.output, HasSubstr("killed by signal 9"));
  EXPECT_THAT(result.output, testing::ContainsRegex("rank [0-3] after step [0-9]+"));
  EXPECT_TRUE(Eventually([&] { return !AnyIsThere(workers); }, 5));
}

TEST_F(Shaped, KilledCommandLeavesNothing) {
  const std::vector<std::string> mounts = MountsSince({});
  const pid_t pid =
      StartLonghaul(Arguments({"net.transport=ucx", "train.steps=5000"}), output_file());
  ASSERT_TRUE(
      Eventually([&] { return ReadFile(output_file()).find("step ") != std::string::npos; }, 60))
      << ReadFile(output_file());
  const std::vector<pid_t> workers = WorkersOf(pid);
  ASSERT_EQ(workers.size(), 4u);
  kill(pid, SIGKILL);
  WaitFor(pid, output_file());
  EXPECT_TRUE(Eventually([&] { return !AnyIsThere(workers); }, 5));
  EXPECT_THAT(MountsSince(mounts), testing::IsEmpty());
  EXPECT_EQ(ReadFile("/proc/net/dev").find("net0"), std::string::npos);
}

// A continent inside of each group, the ocean between them; workers sleep what the spec says.
TEST_F(Shaped, InjectedComputeOverATopologyFileHasStepTimesAndNoLosses) {
  const std::string links = scratch_.File("links.toml", R"([[group]]
name = "eu"
nodes = 2
inside = "continental-us"
[[group]]
name = "us"
nodes = 2
inside = "continental-us"
[between]
profile = "transatlantic"
)");
  const CommandResult run =
      RunLonghaul(Arguments({"net.transport=ucx", "net.profile=" + links, "compute.forward_s=0.02",
                             "compute.backward_s=0.03", "compute.optimizer_s=0.01"}));
  ASSERT_TRUE(TrainedToTheEnd(run)) << run.output;
  EXPECT_THAT(run.output, HasSubstr("compute was injected"));
  EXPECT_THAT(run.output, HasSubstr("ln(measured/P2)"));
  EXPECT_THAT(run.output, testing::Not(HasSubstr("held-out")));
  const CommandResult wrong =
      RunLonghaul(Arguments({"net.transport=ucx", "net.profile=" + links, "outer.groups=1"}));
  EXPECT_NE(wrong.exit_status, 0);
  EXPECT_THAT(wrong.output, HasSubstr("has 4 nodes; want 2"));
}

}  // namespace
}  // namespace longhaul
