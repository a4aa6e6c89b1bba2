// Every boundary method by its spec in experiments/specs, shortened: it runs, says its source, learns
// something, sends what is planned, and says of each change of codecs why. The long form: system_runs.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/command/system_runs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string PathOf(const std::string& name) {
  return std::string(LONGHAUL_SPECS) + "/boundary-" + name + ".toml";
}

// Of a text file that is there wherever the test runs.
const std::vector<std::string> kShort = {"train.steps=28", "train.warmup_steps=2", "train.lr=0.01",
                                         "eval.rows=2",
                                         std::string("data.source=text:") + LONGHAUL_LICENSE};

std::vector<std::string> Short(std::vector<std::string> sets) {
  sets.insert(sets.begin(), kShort.begin(), kShort.end());
  return sets;
}

class BoundarySpecs : public testing::TestWithParam<std::string> {};

TEST_P(BoundarySpecs, RunAndSendWhatIsPlanned) {
  EXPECT_THAT(ReadFile(PathOf(GetParam())), StartsWith("# Source: "));
  ScratchFolder scratch;
  std::vector<std::string> sets;
  if (!LongSystems()) {
    if (GetParam() == "warmup") sets = {"boundary.warmup_steps=10"};
    sets = Short(sets);
  }
  if (GetParam() == "bandwidth") {
    sets.push_back(std::string("net.profile=") + LONGHAUL_SPECS + "/two-continents.toml");
  }
  const SystemRun ran = RunSystem(PathOf(GetParam()), sets, scratch.path() + "/results");
  ASSERT_EQ(ran.result.exit_status, 0) << ran.result.output;
  ExpectItLearns(ran, 0.2);
  ExpectPlannedBytes(PathOf(GetParam()), sets, ran);
  if (LongSystems()) ExpectWhatLongSystemsHold(PathOf(GetParam()), sets, ran);
  // The report has every change; the listing how many.
  const auto listing = RunLonghaul({"list", scratch.path()});
  const RunSpec spec = *LoadRunSpec(PathOf(GetParam()), sets, CatalogNames());
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

INSTANTIATE_TEST_SUITE_P(Specs, BoundarySpecs, testing::ValuesIn(SystemNames("boundary-")),
                         [](const auto& info) { return info.param; });

// By hand: every boundary begins behind the warm-up, and says so.
TEST(BoundaryWarmUp, IsTheRunWithoutCodecsUntilItEnds) {
  ScratchFolder scratch;
  const SystemRun warm =
      RunSystem(PathOf("warmup"), Short({"boundary.warmup_steps=10", "schedule.stages=2"}),
                scratch.path() + "/warm");
  const SystemRun plain = RunSystem(PathOf("warmup"),
                                    Short({"boundary.warmup_steps=0", "schedule.stages=2",
                                           "boundary.forward=none", "boundary.backward=none"}),
                                    scratch.path() + "/plain");
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
}

// A kill in the middle: what is chosen, what it is chosen from and every bit are those of a whole run.
TEST(BoundaryPolicy, GoesOnAfterAKillWithItsBitsAndItsChanges) {
  ScratchFolder scratch;
  for (const char* name : {"accuracy", "aqsgd"}) {
    const std::vector<std::string> sets = Short({"train.steps=150", "model.blocks=4"});
    const SystemRun whole = RunSystem(PathOf(name), sets, scratch.path() + "/whole-" + name);
    ASSERT_EQ(whole.result.exit_status, 0) << whole.result.output;
    ExpectTheSameAfterAKill(PathOf(name), sets, whole);
  }
}

TEST(BoundarySamples, DataThatNeverComeAgainAreSaid) {
  ScratchFolder scratch;
  const SystemRun ran =
      RunSystem(PathOf("aqsgd"), Short({"train.steps=20"}), scratch.path() + "/results");
  ASSERT_EQ(ran.result.exit_status, 0) << ran.result.output;
  EXPECT_THAT(ran.result.output,
              HasSubstr("advice: no sample comes twice (160 rows of 174 windows), so that 'aqsgd4' "
                        "sends every activation as its first, in fp16"));
}

}  // namespace
}  // namespace longhaul
