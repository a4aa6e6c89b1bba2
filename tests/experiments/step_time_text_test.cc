// What a person reads at the end of a run, from the rows of its record.
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/step_time_summary.h"
#include "tests/experiments/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The summary of a run over loopback whose step i took i ms, half of it compute.
std::string SummaryOf(int64_t steps) {
  const std::string folder = testing::TempDir() + "step_time_text_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::string text;
  {
    Record record = *Record::Open(folder, Record::Mode::kWrite);
    TomlValue root = *ParseToml(kRunToml, "x.toml");
    EXPECT_TRUE(SetByPath(root, "net.transport=loopback").ok());
    const RunSpec spec = *ReadRunSpec(root, TestNames());
    RunRow row;
    row.experiment_id = *record.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
    row.spec_toml = ToToml(spec);
    const int64_t run = *record.BeginRun(row);
    std::vector<StepRow> rows;
    for (int64_t i = 1; i <= steps; ++i) {
      rows.push_back({.step = i,
                      .group_index = 0,
                      .stage = 0,
                      .loss_nat = 5,
                      .tokens = 64,
                      .wall_s = 1e-3 * static_cast<double>(i),
                      .forward_s = 5e-4 * static_cast<double>(i),
                      .backward_s = 0,
                      .optimizer_s = 0,
                      .wait_s = 0,
                      .outer_s = 0});
    }
    EXPECT_TRUE(record.AddSteps(run, rows).ok());
    CrossingRow crossing{};
    crossing.direction = Direction::kForward;
    crossing.dst_rank = 1;
    crossing.message_bytes = 1234;
    EXPECT_TRUE(record.AddCrossings(run, std::span(&crossing, 1)).ok());
    text = *StepTimeSummary(record, run, spec);
  }
  std::filesystem::remove_all(folder);
  return text;
}

TEST(StepTimeSummary, NoSteadyStepIsTooFewStepsAndNeverZeroSeconds) {
  for (const int64_t steps : {0, 1}) {
    EXPECT_THAT(SummaryOf(steps), AllOf(HasSubstr("too few steps"), Not(HasSubstr("0.0000"))));
  }
}

TEST(StepTimeSummary, FewStepsHaveAMedianAndSayWhyTheyHaveNoInterval) {
  EXPECT_THAT(SummaryOf(4), HasSubstr("measured 0.0030 s (median of 3 steady steps: too few steps "
                                      "for an interval), CU 50 %"));
}

// Steps 3 to 20 are steady: 18 values, between the 5th and the 5th from the end.
TEST(StepTimeSummary, MoreStepsHaveTheirIntervalBesideThem) {
  EXPECT_THAT(SummaryOf(20), HasSubstr("measured 0.0115 s [0.0070, 0.0160] (median of 18 steady "
                                       "steps, 95 %), CU 50 % [50, 50]"));
}

TEST(StepTimeSummary, InOneProcessNobodyCountedBytes) {
  EXPECT_THAT(SummaryOf(4), AllOf(HasSubstr("sent B"), HasSubstr("1234"), Not(HasSubstr("count"))));
}

}  // namespace
}  // namespace longhaul
