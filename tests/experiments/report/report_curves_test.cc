// What the report's figures and the table of arms are drawn from.
#include "experiments/report/report_curves.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/time_to_loss.h"
#include "experiments/report/report_data.h"
#include "tests/experiments/record/synthetic_record.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

class ReportCurvesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "report_curves_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    record_.emplace(*Record::Open(folder_, Record::Mode::kWrite));
  }
  void TearDown() override {
    record_.reset();
    std::filesystem::remove_all(folder_);
  }
  ReportedExperiment Reported(int64_t id) {
    const std::vector<ExperimentRow> rows = *record_->Experiments();
    for (const ExperimentRow& row : rows) {
      if (row.id == id) return *ReadExperiment(*record_, row);
    }
    ADD_FAILURE() << "no experiment " << id;
    return {};
  }
  std::string folder_;
  std::optional<Record> record_;
};

// 450 steps of 2 groups become 150 points of 3 steps; the loss of step i is i in one group and i +
// 1 in the other. Step 451 diverged.
TEST_F(ReportCurvesTest, TrainingCurvesAreMeansOfNeighbouringStepsAndEndWhereALossIsNoNumber) {
  const int64_t e = *record_->BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  RunRow run;
  run.experiment_id = e;
  run.arm = "a";
  run.seed = 3;
  run.stages = run.groups = 2;
  const int64_t id = *record_->BeginRun(run);
  std::vector<StepRow> steps;
  for (int64_t step = 1; step <= 451; ++step) {
    for (int64_t rank = 0; rank < 4; ++rank) {
      StepRow s{};
      s.step = step;
      s.group_index = rank / 2;
      s.stage = rank % 2;
      s.tokens = 100;
      if (s.stage == 1) s.loss_nat = static_cast<double>(step + s.group_index);
      if (s.stage == 1 && step == 451) s.loss_nat = std::nan("");
      steps.push_back(s);
    }
  }
  ASSERT_TRUE(record_->AddSteps(id, steps).ok());
  const CsvRows rows = *TrainingCsv(*record_, Reported(e));
  ASSERT_EQ(rows.size(), 1u + 150);
  EXPECT_THAT(rows[1], ElementsAre("1", "a", "single", "3", "600", "2.5", "3"));
  EXPECT_THAT(rows[150], ElementsAre("1", "a", "single", "3", "90000", "449.5", "3"));
}

// Steps of one rank with a loss of 10 - 0.1 step, each `step_s` long on a simulated clock.
int64_t AddClockedRun(Record& record, int64_t experiment, int64_t seed, int64_t steps,
                      double step_s) {
  RunRow run;
  run.experiment_id = experiment;
  run.arm = "a";
  run.seed = seed;
  run.facts[kSimulatedClockFact] = "simulated seconds";
  const int64_t id = *record.BeginRun(run);
  std::vector<StepRow> rows;
  std::vector<SimulatedRow> times;
  for (int64_t step = 1; step <= steps; ++step) {
    StepRow row{};
    row.step = step;
    row.tokens = 100;
    row.loss_nat = 10 - 0.1 * static_cast<double>(step);
    rows.push_back(row);
    const double ended_s = step_s * static_cast<double>(step);
    times.push_back({step, 0, 0, ended_s, 1000 * step});
    times.push_back({step, 0, 1, ended_s - 0.5, 10 * step});  // an earlier rank
  }
  EXPECT_TRUE(record.AddSteps(id, rows).ok());
  EXPECT_TRUE(record.AddSimulated(id, times).ok());
  return id;
}

TEST_F(ReportCurvesTest, ASimulatedClockHasItsSecondsAndBytesBesideTheCurve) {
  const int64_t e = *record_->BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  const int64_t id = AddClockedRun(*record_, e, 1, 3, 2);
  const CsvRows rows = *TrainingCsv(*record_, Reported(e));
  ASSERT_EQ(rows.size(), 1u + 3);
  EXPECT_THAT(rows[0], ElementsAre("run", "arm", "role", "seed", "tokens", "loss_nat", "steps",
                                   "simulated_s", "message_bytes"));
  EXPECT_THAT(rows[3], ElementsAre(std::to_string(id), "a", "single", "1", "300", "9.7", "1",
                                   "6.000000", "3030"));
}

// The mean of steps i - 19 to i is 10 - 0.1 (i - 9.5): at most 7 from step 40 on.
TEST_F(ReportCurvesTest, TimeToALossIsThatOfTheFirstStepWhoseMeanIsThere) {
  const int64_t e = *record_->BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  CampaignAnalysis a;
  a.experiment.plan_text = "[plan]\ntarget_loss_nat = 7.0\n";
  for (const auto& [arm, steps, seeds] : {std::tuple("there", 50, 2), {"short", 39, 1}}) {
    a.arms.emplace_back().arm = arm;
    a.arms.back().role = Role::kArm;
    for (int seed = 1; seed <= seeds; ++seed) {
      const int64_t id = AddClockedRun(*record_, e, seed, steps, 1 + seed);
      Outcome& outcome = a.arms.back().outcomes.emplace_back();
      outcome.run = *record_->Run(id);
    }
  }
  ASSERT_TRUE(CollectTimesToLoss(*record_, a).ok());
  ASSERT_EQ(a.findings.times_to_loss.size(), 2u);
  const TimeToLoss& there = a.findings.times_to_loss[0];
  EXPECT_EQ(there.reached, 2);
  // 80 and 120 s: t(1) at 97.5 % is 12.7062, the standard error 20.
  EXPECT_DOUBLE_EQ(there.simulated_s->value, 100);
  EXPECT_NEAR(there.simulated_s->interval->low, 100 - 20 * 12.7062, 0.01);
  EXPECT_DOUBLE_EQ(there.tokens->value, 4000);
  const TimeToLoss& late = a.findings.times_to_loss[1];
  EXPECT_EQ(late.reached, 0);
  EXPECT_EQ(late.seeds, 1);
  EXPECT_FALSE(late.simulated_s.has_value());
}

// By hand: (1, 5) and (2, 3) are beaten by nobody; (2, 4) has its like with less, (3, 3) one that costs
// less; of two alike neither beats the other.
TEST(ParetoFront, IsWhatNoOtherBeats) {
  EXPECT_THAT(ParetoFront({{1, 5}, {2, 4}, {2, 3}, {3, 3}, {2, 3}}),
              ElementsAre(true, false, true, false, true));
  EXPECT_TRUE(ParetoFront({}).empty());
}

// Two arms over the clock's hours: 100 s (80 and 120) at 2.5 nat, and 39 x 2 = 78 s at 2.9.
TEST_F(ReportCurvesTest, ParetoHasLossesOverWhatTheyCost) {
  const int64_t e = *record_->BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  CampaignAnalysis a;
  for (const auto& [arm, steps, losses] : {std::tuple("long", 40, std::vector{2.4, 2.6}),
                                           {"short", 39, std::vector{2.9}},
                                           {"diverged", 9, std::vector<double>{}}}) {
    a.arms.emplace_back().arm = arm;
    a.arms.back().role = Role::kArm;
    for (size_t i = 0; i < std::max<size_t>(1, losses.size()); ++i) {
      Outcome& outcome = a.arms.back().outcomes.emplace_back();
      const auto seed = static_cast<int64_t>(i) + 1;
      outcome.run = *record_->Run(AddClockedRun(*record_, e, seed, steps, 2.0 + double(i)));
      if (i < losses.size()) outcome.loss_off = losses[i];
      outcome.run.facts["rank_bytes"] = arm == std::string("long") ? "7000" : "9000";
    }
  }
  const CsvRows rows = *ParetoCsv(*record_, a);
  ASSERT_EQ(rows.size(), 3u) << "no row of an arm without a loss";
  EXPECT_THAT(rows[1], ElementsAre("long", "arm", "2", "2.5", testing::_, testing::_, "100", "1",
                                   "0", "1", "7000", "1"));
  EXPECT_THAT(rows[2],
              ElementsAre("short", "arm", "1", "2.9", "", "", "78", "1", "0", "0", "9000", "0"));
}

// An exact power law plus one constant per seed: the seed is all that is left, and nothing within.
TEST_F(ReportCurvesTest, ResidualsOfAnExactLawAreTheSeedsAlone) {
  const int64_t e = WriteSyntheticCampaign(*record_, {.noise_nat = 0});
  const CsvRows rows = ResidualsCsv(*Reported(e).campaign);
  ASSERT_EQ(rows.size(), 1u + 3 * 6);  // 5 budgets and 1 control
  std::map<std::string, double> of_seed;
  double sum = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const double residual = std::stod(rows[i][6]);
    const auto [first, fresh] = of_seed.emplace(rows[i][2], residual);
    EXPECT_NEAR(residual, first->second, 1e-9);
    EXPECT_NEAR(residual, std::stod(rows[i][4]) - std::stod(rows[i][5]), 1e-12);
    EXPECT_NEAR(std::stod(rows[i][7]), 0, 1e-9);
    if (fresh) sum += residual;
  }
  EXPECT_EQ(of_seed.size(), 3u);
  EXPECT_NEAR(sum, 0, 1e-9);
  EXPECT_GT(std::abs(of_seed.begin()->second), 1e-4);
}

TEST_F(ReportCurvesTest, AnArmsBitsAndErrorsAreCountedPerDirection) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const auto arms = *ArmsOnTheWire(*record_, *Reported(e).campaign);
  ASSERT_EQ(arms.size(), 3u);
  EXPECT_EQ(arms[2].arm, "s8");
  EXPECT_THAT(arms[2].changes,
              ElementsAre("boundary.backward: none -> int8-b64",
                          "boundary.forward: none -> int4-b64-h64", "schedule.stages: 1 -> 8"));
  const double elements = 4.0 * 128 * 64;  // of a micro-batch; each frame has 64 bytes beside
  EXPECT_NEAR(arms[2].forward.bits_per_element, 4.25 + 8 * 64 / elements, 1e-9);
  EXPECT_NEAR(arms[2].backward.bits_per_element, 8.25 + 8 * 64 / elements, 1e-9);
  EXPECT_NEAR(*arms[2].forward.nmse_mean, 7.1e-3, 1e-12);
  EXPECT_NEAR(*arms[2].backward.nmse_max, 4.4e-5 * 1.6, 1e-12);
  EXPECT_EQ(WireCsv(arms)[3][0], "s8");
}

// Three runs of an arm; one sent 3,000 and 1,000 bytes between groups, which is 4,000 / 3 a run, of 250 elements
// each 32 and 8 bits: 20 on the mean. It would have ended after 6 s.
TEST_F(ReportCurvesTest, AnArmsBytesBetweenGroupsAndItsSecondsAreMeansOverItsRuns) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& run : runs) {
    if (run.arm != "s4" || run.seed != 1) continue;
    CrossingRow one{}, other{};
    one.direction = other.direction = Direction::kOuter;
    one.dst_rank = other.src_rank = 1;
    one.elements = other.elements = 250;
    one.payload_bytes = 1000;
    one.message_bytes = 3000;
    other.payload_bytes = 250;
    other.message_bytes = 1000;
    ASSERT_TRUE(record_->AddCrossings(run.id, std::vector<CrossingRow>{one, other}).ok());
    const std::vector<SimulatedRow> times = {{1, 0, 0, 2, 10}, {2, 0, 0, 6, 20}};
    ASSERT_TRUE(record_->AddSimulated(run.id, times).ok());
  }
  const auto arms = *ArmsOnTheWire(*record_, *Reported(e).campaign);
  EXPECT_EQ(arms[1].arm, "s4");
  EXPECT_DOUBLE_EQ(arms[1].outer.bits_per_element, 20);
  EXPECT_NEAR(arms[1].outer_bytes, 4000 / 3.0, 1e-9);
  EXPECT_EQ(arms[1].simulated_s, 6);
  const CsvRows rows = WireCsv(arms);
  EXPECT_EQ(rows[0][8], "outer_bits_per_element");
  EXPECT_EQ(rows[2][8], "20");
  EXPECT_EQ(rows[2][10], "6");
  EXPECT_EQ(rows[1][9], "") << "an arm without groups sends nothing between them";
}

TEST_F(ReportCurvesTest, BitsOfACutAreThoseOfItsOwnBoundary) {
  const int64_t e = WriteSyntheticCampaign(*record_, {.more_arms = R"([[arm]]
name = "cut"
stages = 4
forward = "none"
backward = "none"
boundary.cuts.1 = { forward = "int8-b64" }
)"});
  const auto arms = *ArmsOnTheWire(*record_, *Reported(e).campaign);
  ASSERT_EQ(arms.size(), 4u);
  EXPECT_NEAR(arms[3].forward.bits_per_element, 8.25, 0.05);
  EXPECT_NEAR(arms[3].backward.bits_per_element, 32, 0.05);
  EXPECT_THAT(arms[3].changes, testing::Contains("boundary.cuts.1.forward: - -> int8-b64"));
}

TEST(ChangesInWords, NamesKeysByTheirTableAndLeavesSeedAndLengthOut) {
  const std::string from = "seed = 1\n\n[train]\ntokens = 5\nlr = 0.003\n\n[eval]\nrows = 8\n";
  const std::string to = "seed = 2\n\n[train]\nsteps = 9\nlr = 0.001\n\n[net]\nprofile = \"x\"\n";
  EXPECT_THAT(ChangesInWords(from, to),
              ElementsAre("eval.rows: 8 -> -", "net.profile: - -> x", "train.lr: 0.003 -> 0.001"));
  EXPECT_TRUE(ChangesInWords(from, from).empty());
}

}  // namespace
}  // namespace longhaul
