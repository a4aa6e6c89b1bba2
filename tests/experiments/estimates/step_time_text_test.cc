// What a person reads at the end of a run, from the rows of its record.
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/step_time_summary.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The summary of a run over loopback whose step i took i ms, half of it compute.
std::string SummaryOf(int64_t steps, Detail detail = Detail::kScreen) {
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
    text = *StepTimeSummary(record, run, spec, detail);
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

// Two stages, one micro-batch, no compute; a message of the boundary keeps its link busy for 3 s, one
// of the tied head on the same path for 7 s, and delays are 10 s: by pencil 33 s a step
// (step_time_test.cc).
TEST(StepTimeAnalysis, ATiedHeadsCrossingIsNotTheBoundarysOnItsPath) {
  const std::string folder = testing::TempDir() + "step_time_tied_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  {
    Record record = *Record::Open(folder, Record::Mode::kWrite);
    const RunSpec spec = *ReadWith({"model.kind=llama", "model.tied_head=true",
                                    "train.microbatches=1", "schedule.kind=gpipe"});
    RunRow row;
    row.experiment_id = *record.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
    row.spec_toml = ToToml(spec);
    row.id = *record.BeginRun(row);
    std::vector<StepRow> steps;
    for (int64_t i = 1; i <= 4; ++i) {
      for (const int64_t stage : {0, 1}) {
        steps.push_back({.step = i,
                         .group_index = 0,
                         .stage = stage,
                         .loss_nat = 5,
                         .tokens = 64,
                         .wall_s = 33,
                         .forward_s = 0,
                         .backward_s = 0,
                         .optimizer_s = 0,
                         .wait_s = 33,
                         .outer_s = 0});
      }
    }
    std::vector<LinkRow> links;
    std::vector<CrossingRow> crossings;
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}}) {
      links.push_back({.phase = LinkPhase::kBefore,
                       .src_node = from,
                       .dst_node = to,
                       .nominal_rate_bit_per_s = 8 * 1514.0,
                       .nominal_rtt_s = 20});
      CrossingRow crossing{};
      crossing.src_rank = from;
      crossing.dst_rank = to;
      crossing.direction = from < to ? Direction::kForward : Direction::kBackward;
      crossing.tensors = 4;
      crossing.message_bytes = 4 * 3 * 1448;
      crossings.push_back(crossing);
      crossing.direction = Direction::kTied;
      crossing.message_bytes = 4 * 7 * 1448;
      crossings.push_back(crossing);
    }
    EXPECT_TRUE(record.AddSteps(row.id, steps).ok());
    EXPECT_TRUE(record.AddLinks(row.id, links).ok());
    EXPECT_TRUE(record.AddCrossings(row.id, crossings).ok());
    const absl::StatusOr<StepTime> time = AnalyseStepTime(record, row, spec);
    ASSERT_TRUE(time.ok()) << time.status();
    ASSERT_TRUE(time->p2_s.has_value());
    EXPECT_NEAR(*time->p2_s, 33, 1e-9);
    EXPECT_NEAR(time->alone_s, 0, 1e-9);
  }
  std::filesystem::remove_all(folder);
}

TEST(StepTimeSummary, InOneProcessNobodyCountedBytes) {
  EXPECT_THAT(SummaryOf(4, Detail::kAll),
              AllOf(HasSubstr("sent B"), HasSubstr("1234"), Not(HasSubstr("count"))));
  EXPECT_THAT(SummaryOf(4),
              AllOf(HasSubstr("sent MB"), HasSubstr("0.001"), Not(HasSubstr("count"))));
}

}  // namespace
}  // namespace longhaul
