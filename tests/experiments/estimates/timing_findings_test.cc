// Step times of a grid's cells, from rows that are written by hand.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/step_time.h"
#include "experiments/estimates/timing_findings.h"
#include "experiments/record/record.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two stages, two micro-batches, injected compute; steps take `factor` times what P2 says.
class Grid : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "timing_findings_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    record_.emplace(*Record::Open(folder_, Record::Mode::kWrite));
    experiment_ = *record_->BeginExperiment(
        {.kind = ExperimentKind::kRun, .name = "grid", .plan_text = "[plan]"});
  }
  void TearDown() override {
    record_.reset();
    std::filesystem::remove_all(folder_);
  }

  static RunSpec SpecOf(const std::string& codec) {
    TomlValue root = *ParseToml(kRunToml, "grid.toml");
    for (const std::string& set :
         {std::string("compute.forward_s=0.02"), std::string("compute.backward_s=0.04"),
          std::string("compute.optimizer_s=0.01"), std::string("train.microbatches=2"),
          "boundary.forward=" + codec, "boundary.backward=" + codec}) {
      EXPECT_TRUE(SetByPath(root, set).ok());
    }
    return *ReadRunSpec(root, TestNames());
  }

  static double P2Of(int64_t message_bytes) {
    const StageCost cost{.forward_s = 0.02, .backward_s = 0.04, .optimizer_s = 0.01};
    const BoundaryLink link{static_cast<double>(message_bytes), 1e7, 0.02};
    return *PredictStepSeconds({"1f1b", 2, {cost, cost}, {link}, {link}});
  }

  int64_t AddRun(const std::string& codec, int64_t message_bytes, int64_t seed, double step_s,
                 RunStatus status = RunStatus::kOk) {
    const RunSpec spec = SpecOf(codec);
    RunRow row;
    row.experiment_id = experiment_;
    row.arm = "regional, " + codec;
    row.seed = seed;
    row.stages = 2;
    row.forward_codec = row.backward_codec = codec;
    row.profile = "regional";
    row.spec_toml = ToToml(spec);
    row.facts = facts_;
    const int64_t run = *record_->BeginRun(row);
    std::vector<StepRow> steps;
    for (int64_t step = 1; step <= 20; ++step) {
      for (int64_t stage = 0; stage < 2; ++stage) {
        // What a worker says of its compute holds waiting for a core; the table counts.
        steps.push_back({.step = step,
                         .group_index = 0,
                         .stage = stage,
                         .loss_nat = std::nullopt,
                         .tokens = 64,
                         .wall_s = step_s,
                         .forward_s = 0.05,
                         .backward_s = 0.09,
                         .optimizer_s = 0.01,
                         .wait_s = step_s - 0.15,
                         .outer_s = 0});
      }
    }
    EXPECT_TRUE(record_->AddSteps(run, steps).ok());
    std::vector<LinkRow> links;
    std::vector<CrossingRow> crossings;
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}}) {
      LinkRow link;
      link.src_node = from;
      link.dst_node = to;
      link.nominal_rate_bit_per_s = 1e7;
      link.nominal_rtt_s = 0.04;
      links.push_back(link);
      CrossingRow crossing;
      crossing.src_rank = from;
      crossing.dst_rank = to;
      crossing.direction = from == 0 ? Direction::kForward : Direction::kBackward;
      crossing.codec = codec;
      crossing.tensors = 40;
      crossing.elements = 1;
      crossing.message_bytes = 40 * message_bytes;
      crossings.push_back(crossing);
    }
    EXPECT_TRUE(record_->AddLinks(run, links).ok());
    EXPECT_TRUE(record_->AddCrossings(run, crossings).ok());
    EXPECT_TRUE(record_->FinishRun(run, status, "").ok());
    return run;
  }

  std::string folder_;
  // Fewer cores than workers, which does not disturb who sleeps.
  std::map<std::string, std::string> facts_ = {{"cores", "1"}, {"still_share", "0"}};
  std::optional<Record> record_;
  int64_t experiment_ = 0;
};

TEST_F(Grid, TellsWhereAStepGoesAndThatTheCodecPays) {
  constexpr int64_t kPlain = 100'000, kCoded = 25'000;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    const double jitter = 1 + 1e-4 * static_cast<double>(seed);
    AddRun("none", kPlain, seed, P2Of(kPlain) * std::exp(0.02) * jitter);
    AddRun("int8-b64", kCoded, seed, P2Of(kCoded) * std::exp(0.02) * jitter);
  }
  AddRun("int8-b64", kCoded, 4, 9.0, RunStatus::kInvalid);
  const auto findings = AnalyseTiming(*record_, experiment_);
  ASSERT_TRUE(findings.ok()) << findings.status();
  ASSERT_EQ(findings->cells.size(), 2u);
  const TimingCell &plain = findings->cells[0], &coded = findings->cells[1];
  EXPECT_EQ(plain.codecs, "none");
  EXPECT_EQ(plain.repeats, 3);
  EXPECT_NEAR(plain.p2_s, P2Of(kPlain), 1e-9);
  EXPECT_NEAR(plain.residual.value, 0.02, 1e-3);
  EXPECT_TRUE(plain.residual.interval.has_value());
  EXPECT_FALSE(plain.gain.has_value());
  // 2 (F + B) + optimizer; S = 2 and M = 2 wait one forward and one backward more.
  EXPECT_NEAR(plain.compute_s, 0.13, 1e-9);
  EXPECT_NEAR(plain.bubble_s, 0.06, 1e-9);
  EXPECT_NEAR(plain.coding_s, 0, 1e-9);
  EXPECT_NEAR(plain.wire_s, P2Of(kPlain) - 0.19, 1e-9);
  EXPECT_NEAR(plain.compute_s + plain.bubble_s + plain.coding_s + plain.wire_s + plain.rest_s,
              plain.step_s.value, 1e-9);
  EXPECT_TRUE(plain.note.empty()) << plain.note;

  EXPECT_EQ(coded.repeats, 3);
  EXPECT_EQ(coded.invalid, 1);
  ASSERT_TRUE(coded.gain.has_value());
  EXPECT_NEAR(coded.gain->value, P2Of(kPlain) / P2Of(kCoded), 1e-9);
  EXPECT_EQ(GainVerdict(coded), "pays");
  EXPECT_EQ(findings->undisturbed, 2);
  EXPECT_EQ(findings->within, 2);
  EXPECT_EQ(findings->beyond + findings->not_judged, 0);
  EXPECT_NEAR(findings->median_residual.value, 0.02, 1e-3);
  const std::string text = TextOf(TimingTable(*findings));
  EXPECT_THAT(text, HasSubstr("pays"));
  EXPECT_THAT(text, AllOf(HasSubstr("over 2 cells: +0.020"),
                          HasSubstr("2 cells within 0.10, 0 beyond, 0 without a verdict")));
  EXPECT_EQ(CsvRowsOf(TimingTable(*findings)).size(), 3u);
  for (const auto& row : CsvRowsOf(TimingTable(*findings))) {
    EXPECT_EQ(row.size(), CsvRowsOf(TimingTable(*findings))[0].size());
  }
}

TEST_F(Grid, ACodecThatOnlyCostsIsSaidToAndOneRepeatDecidesNothing) {
  for (int64_t seed = 1; seed <= 3; ++seed) {
    AddRun("none", 25'000, seed, 0.3 + 1e-5 * static_cast<double>(seed));
    AddRun("int8-b64", 25'000, seed, 0.4 + 1e-5 * static_cast<double>(seed));
  }
  AddRun("identity", 25'000, 1, 0.1);
  const auto findings = AnalyseTiming(*record_, experiment_);
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_EQ(GainVerdict(findings->cells[1]), "costs");
  EXPECT_EQ(GainVerdict(findings->cells[2]), "no difference shown");
  EXPECT_FALSE(findings->cells[2].step_s.interval.has_value());
}

TEST_F(Grid, ACellWithoutAFinishedRunHasNoNumbers) {
  AddRun("none", 25'000, 1, 0.3, RunStatus::kInvalid);
  const auto findings = AnalyseTiming(*record_, experiment_);
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_EQ(findings->undisturbed, 0);
  EXPECT_EQ(findings->not_judged, 0);
  EXPECT_THAT(TextOf(TimingTable(*findings)), HasSubstr("1 invalid"));
  EXPECT_EQ(CsvRowsOf(TimingTable(*findings))[1][7], "");
}

// Steps of exp(0.02), exp(0.3) and exp(0.1) times P2, three repeats that are 1 % apart (t interval
// +-0.025); one repeat; three of a machine that was disturbed.
TEST_F(Grid, AVerdictIsGivenOnlyWhereItCouldHaveBeenTheOther) {
  constexpr int64_t kBytes = 25'000;
  const auto repeats = [&](const std::string& codec, double residual) {
    for (int64_t seed = 1; seed <= 3; ++seed) {
      AddRun(codec, kBytes, seed,
             P2Of(kBytes) * std::exp(residual + 0.01 * static_cast<double>(seed - 2)));
    }
  };
  repeats("none", 0.02);
  repeats("int8-b64", 0.3);
  repeats("int4-b64-h64", 0.1);
  AddRun("identity", kBytes, 1, P2Of(kBytes));
  auto findings = AnalyseTiming(*record_, experiment_);
  ASSERT_TRUE(findings.ok()) << findings.status();
  std::vector<std::string> verdicts;
  for (const TimingCell& cell : findings->cells) verdicts.push_back(cell.verdict.text);
  EXPECT_THAT(verdicts,
              testing::ElementsAre("within 0.10", "beyond 0.10",
                                   "no verdict: the interval reaches to both sides of 0.10",
                                   "no verdict: too few values for an interval"));
  EXPECT_EQ(findings->undisturbed, 4);
  EXPECT_THAT(TextOf(TimingTable(*findings)),
              HasSubstr("1 cells within 0.10, 1 beyond, 2 without a verdict"));
  EXPECT_EQ(CsvRowsOf(TimingTable(*findings))[1].back(), "within 0.10");
  facts_["still_share"] = "0.8";
  repeats("none", 0.02);
  findings = AnalyseTiming(*record_, experiment_);
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_EQ(
      findings->cells[0].verdict.text,
      "no verdict: timing disturbed: a worker did not run for 80 % of the training, bound 1 %");
  EXPECT_EQ(findings->undisturbed, 3);
  // What others are compared with is disturbed too.
  EXPECT_EQ(GainVerdict(findings->cells[1]), "no verdict: timing disturbed");
}

}  // namespace
}  // namespace longhaul
