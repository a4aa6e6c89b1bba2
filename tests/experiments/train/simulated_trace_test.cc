// The trace of a simulated clock: by hand, and that what it says is exposed is what a step takes
// longer for its exchanges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/trace_steps.h"
#include "experiments/trace/trace_span.h"
#include "experiments/train/simulated_clock.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// A step of one stage takes 1.75 s; a message between peers 32.5 ms and its time on the wire.
const std::string kRun = InjectedRunToml("24") + R"([outer]
groups = 2
inner_steps = 4
codec = "none"
[net]
transport = "loopback"
clock = "simulated"
profile = "continental-us"
slow_start_after_idle = false
[eval]
rows = 1
)";
using Sets = std::vector<std::string>;
const Sets kStreaming = {"outer.algorithm=streaming", "outer.fragments=2", "outer.overlap_steps=1"};
constexpr double kKappa = 1514.0 / 1448;

RunSpec Read(const Sets& sets) {
  TomlValue root = *ParseToml(kRun, "run.toml");
  EXPECT_TRUE(SetByPath(root, "schedule.stages=1").ok());
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  const auto spec = ReadRunSpec(root, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

struct Traced {
  std::vector<TraceSpan> spans;
  std::optional<ExposedTime> exposed;  // of steps 9 to 20: behind slow starts
  double end_s = 0;                    // of step 20
};
Traced TracedRun(const Sets& sets, double frame_bytes) {
  const RunSpec spec = Read(sets);
  auto clock = SimulatedClock::Of(spec);
  EXPECT_TRUE(clock.ok()) << clock.status();
  const OuterPlan plan = OuterPlanOf(spec);
  Traced run;
  std::vector<std::pair<int64_t, int64_t>> exchanges;
  for (int64_t step = 1; step <= 20; ++step) {
    for (int group = 0; group < spec.outer.groups; ++group) {
      for (int stage = 0; stage < spec.schedule.stages; ++stage) {
        (*clock)->SetExchangeBytes(group, stage, frame_bytes);
      }
    }
    EXPECT_TRUE((*clock)->Step(step > 8 ? &run.spans : nullptr).ok());
    if (step <= 8 || spec.outer.groups == 1) continue;
    for (const OuterExchange& e : plan.BegunAfter(step)) {
      if (e.applied <= 20) exchanges.emplace_back(e.begun, e.fragment);
    }
  }
  run.exposed = ExposedTimeOf(run.spans, exchanges, static_cast<int>(spec.ranks()));
  run.end_s = (*clock)->Seconds(0, 0);
  return run;
}
// On the wire and to its end, lengths and headers included, where a first window holds it or more.
double Exchange(double frame_bytes) { return kKappa * (frame_bytes + 232) / 12.5e6 + 0.0325; }

TEST(SimulatedTrace, AnExchangeWithoutOverlapIsExposedToTheLastNanosecond) {
  const Traced run = TracedRun({}, 1e4);
  ASSERT_TRUE(run.exposed);
  EXPECT_EQ(run.exposed->exchanges, 3);  // after steps 12, 16 and 20
  EXPECT_NEAR(run.exposed->took_s, Exchange(1e4), 2e-9);
  EXPECT_NEAR(run.exposed->waited_s, Exchange(1e4), 2e-9);
  EXPECT_EQ(run.exposed->worked_s, 0);
  EXPECT_NEAR(run.exposed->step_s, 1.75, 2e-9);
}

// Two fragments in every four steps, each hidden behind one step of 1.75 s where it takes no longer.
TEST(SimulatedTrace, OverlapHidesWhatAStepIsLongEnoughFor) {
  const Traced hidden = TracedRun(kStreaming, 1e4);
  ASSERT_TRUE(hidden.exposed);
  EXPECT_EQ(hidden.exposed->exchanges, 5);  // after 10, 12, 14, 16, 18; that of 20 ends later
  EXPECT_NEAR(hidden.exposed->took_s, Exchange(1e4), 2e-9);
  EXPECT_EQ(hidden.exposed->exposed_s(), 0);
  const Traced longer = TracedRun(kStreaming, 25e6);
  EXPECT_GE(longer.exposed->took_s, Exchange(25e6) - 2e-9);  // TCP may lose and repeat
  EXPECT_NEAR(longer.exposed->exposed_s(), longer.exposed->took_s - 1.75, 2e-9);
}

// In a pipeline other ranks wait in their bubbles. Exposed is what the run took longer for its
// exchanges, those with norms of a group's ranks included: three of them without overlap.
TEST(SimulatedTrace, ExposedIsWhatTheRunTookLonger) {
  const Sets pipeline = {"schedule.stages=2", "train.microbatches=2"};
  const auto with = [&](Sets sets) {
    sets.insert(sets.end(), pipeline.begin(), pipeline.end());
    return sets;
  };
  // The first connections of all are cold: two runs that differ from step 9 on.
  const auto lasted = [&](const Sets& sets) {
    const Traced run = TracedRun(with(sets), 1e4);
    int64_t begin = INT64_MAX;
    for (const TraceSpan& s : run.spans) {
      if (s.lane == TraceLane::kStep && s.rank == 0) begin = std::min(begin, s.begin_ns);
    }
    return run.end_s - static_cast<double>(begin) * 1e-9;
  };
  const double alone = lasted({"outer.groups=1", "outer.inner_steps=0"});
  const Traced diloco = TracedRun(with({}), 1e4);
  EXPECT_NEAR(3 * diloco.exposed->exposed_s(), lasted({}) - alone, 1e-5);
  EXPECT_NEAR(diloco.exposed->took_s, Exchange(1e4), 1e-8) << "of the rank that is done last";
  const Traced streaming = TracedRun(with(kStreaming), 1e4);
  EXPECT_EQ(streaming.exposed->exposed_s(), 0);
  EXPECT_NEAR(lasted(kStreaming), alone, 1e-5);
}

// The first of two stages: forward, a message, and what comes back; it waits in between.
TEST(SimulatedTrace, LanesByHand) {
  const Traced run = TracedRun({"schedule.stages=2", "outer.groups=1", "outer.inner_steps=0"}, 0);
  std::vector<TraceSpan> own;
  for (const TraceSpan& s : run.spans) {
    if (s.rank == 0 && s.begin_ns >= run.spans.front().begin_ns) own.push_back(s);
  }
  const double message = kKappa * (4 * 128 * 256 + 112) / 12.5e6 + 0.0325;
  const auto lasted = [&](TraceLane lane, const std::string& what) {
    for (const TraceSpan& s : own) {
      if (s.lane == lane && s.what == what) return s.seconds();
    }
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(lasted(TraceLane::kCompute, "0F0"), 0.5);
  EXPECT_NEAR(lasted(TraceLane::kLink, "activation 0"), message, 2e-9);
  EXPECT_NEAR(lasted(TraceLane::kWait, "for 0B0"), 1.5 + 2 * message, 3e-9);
  EXPECT_DOUBLE_EQ(lasted(TraceLane::kCompute, "0B0"), 1.0);
  EXPECT_NEAR(lasted(TraceLane::kCompute, "update"), 0.25, 2e-9);
  EXPECT_NEAR(lasted(TraceLane::kStep, "step 9"), 3.25 + 2 * message, 3e-9);
}

TEST(TraceSteps, AreAroundTheFirstExchangeOrWhatIsSaid) {
  const auto steps = [](const Sets& sets, const std::string& text = "") {
    const auto parsed = ParseTraceSteps(text, Read(sets));
    return parsed.ok() ? std::pair(parsed->first, parsed->last)
                       : std::pair(int64_t{-1}, int64_t{-1});
  };
  EXPECT_EQ(steps({}), std::pair(int64_t{3}, int64_t{5}));
  EXPECT_EQ(steps(kStreaming), std::pair(int64_t{1}, int64_t{4}));
  EXPECT_EQ(steps({"outer.groups=1", "outer.inner_steps=0"}), std::pair(int64_t{2}, int64_t{4}));
  EXPECT_EQ(steps({}, "7:24"), std::pair(int64_t{7}, int64_t{24}));
  for (const char* bad :
       {"7", "7:", ":7", "0:2", "9:8", "1:25", "1:2x", "a:b", "1:99999999999999999999"}) {
    EXPECT_THAT(std::string(ParseTraceSteps(bad, Read({})).status().message()),
                HasSubstr("want A:B, the first and the last step of 1 to 24"))
        << bad;
  }
  EXPECT_THAT(
      std::string(ParseTraceSteps("1:1000", Read({"train.steps=1000", "train.microbatches=64",
                                                  "train.batch_rows=64", "schedule.stages=8"}))
                      .status()
                      .message()),
      HasSubstr("take at most "));
}

}  // namespace
}  // namespace longhaul
