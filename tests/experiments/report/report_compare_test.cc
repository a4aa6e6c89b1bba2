#include "experiments/report/report_compare.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/record/synthetic_record.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportCompareTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "compare_" + std::to_string(getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Record Make(const std::string& name, const SyntheticWorld& world,
              const std::string& campaign = "smoke") {
    Record record = *Record::Open(root_ + "/" + name, Record::Mode::kWrite);
    WriteSyntheticCampaign(record, world, campaign);
    return record;
  }
  static const ComparedEstimate* Find(const ComparedExperiment& e, const std::string& arm,
                                      const std::string& quantity) {
    for (const ComparedEstimate& x : e.estimates) {
      if (x.arm == arm && x.quantity == quantity && x.evaluation == "off") return &x;
    }
    return nullptr;
  }

  std::string root_;
};

TEST_F(ReportCompareTest, TheSameTwiceIsTheSameBitsAndNothingIsApart) {
  const Record a = Make("a", {}), b = Make("b", {});
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_EQ(comparison->experiments.size(), 1u);
  const ComparedExperiment& e = comparison->experiments[0];
  EXPECT_TRUE(e.same_plan);
  EXPECT_GT(e.runs, 0);
  EXPECT_EQ(e.identical, e.runs);
  EXPECT_TRUE(e.settings.empty());
  EXPECT_TRUE(e.machines.empty());
  for (const ComparedEstimate& x : e.estimates) {
    EXPECT_FALSE(x.Apart()) << x.arm << x.quantity;
    EXPECT_EQ(x.difference ? x.difference->value : 0, 0) << x.arm << x.quantity;
  }
  EXPECT_THAT(ComparisonText(*comparison), HasSubstr("are the same bits"));
}

TEST_F(ReportCompareTest, AnotherCodecQualityIsApartByMover) {
  const Record a = Make("a", {.q = 0.995}), b = Make("b", {.q = 0.97});
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const ComparedExperiment& e = comparison->experiments[0];
  EXPECT_LT(e.identical, e.runs);
  EXPECT_GT(e.identical, 0) << "the reference runs are the same";
  EXPECT_GT(e.widest_nat, 0);
  const ComparedEstimate* s8 = Find(e, "s8", "eta");
  ASSERT_NE(s8, nullptr);
  ASSERT_TRUE(s8->difference && s8->difference->interval);
  EXPECT_TRUE(s8->Apart());
  // Newcombe's square-and-add, written out.
  const EstimateRow &x = *s8->a, &y = *s8->b;
  EXPECT_DOUBLE_EQ(s8->difference->value, *y.value - *x.value);
  EXPECT_DOUBLE_EQ(s8->difference->interval->low,
                   *y.value - *x.value -
                       std::sqrt(std::pow(*y.value - *y.low, 2) + std::pow(*x.high - *x.value, 2)));
  EXPECT_DOUBLE_EQ(s8->difference->interval->high,
                   *y.value - *x.value +
                       std::sqrt(std::pow(*y.high - *y.value, 2) + std::pow(*x.value - *x.low, 2)));
  EXPECT_EQ(s8->difference->interval->method, "mover");
}

TEST_F(ReportCompareTest, SaysWhichSettingsDifferAndWhereArmsAreMissing) {
  const Record a = Make("a", {});
  const Record b = Make("b", {.more_arms = R"([[arm]]
name = "lr"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
train.lr = 2e-3
)"},
                        "other name");
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const ComparedExperiment& e = comparison->experiments[0];
  EXPECT_EQ(e.a, "smoke");
  EXPECT_EQ(e.b, "other name");
  EXPECT_FALSE(e.same_plan);
  EXPECT_EQ(e.arms_of_b - e.arms, 1);
  const ComparedEstimate* lr = Find(e, "lr", "eta");
  ASSERT_NE(lr, nullptr);
  EXPECT_FALSE(lr->a);
  EXPECT_EQ(lr->note, "only in B");
  EXPECT_THAT(ComparisonText(*comparison),
              AllOf(HasSubstr("different plans"), HasSubstr("1 only in B")));
}

TEST_F(ReportCompareTest, ABoundHasNoDifference) {
  const Record a = Make("a", {}), b = Make("b", {.extra_nat = {{"s8", 0.6}}});
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const ComparedEstimate* s8 = Find(comparison->experiments[0], "s8", "eta");
  ASSERT_NE(s8, nullptr);
  EXPECT_FALSE(s8->difference);
  EXPECT_EQ(s8->note, "a bound has no difference");
  EXPECT_FALSE(s8->Apart());
}

// A folder given twice, through a link, or as a copy.
TEST_F(ReportCompareTest, TheSameRunsOnBothSidesAreRefused) {
  {
    Record a = Make("a", {});
    ASSERT_TRUE(a.AddFacts(1, {{kRunIdFact, "one"}}).ok());
    Record other = Make("other", {});
    ASSERT_TRUE(other.AddFacts(1, {{kRunIdFact, "two"}}).ok());
  }
  std::filesystem::create_symlink(root_ + "/a", root_ + "/link");
  std::filesystem::copy(root_ + "/a", root_ + "/copy");
  const Record a = *Record::Open(root_ + "/a", Record::Mode::kRead);
  for (const std::string name : {"a", "link", "copy"}) {
    const Record b = *Record::Open(root_ + "/" + name, Record::Mode::kRead);
    const absl::Status status = CompareRecords(a, b).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are runs of the first")) << name;
  }
  EXPECT_TRUE(CompareRecords(a, *Record::Open(root_ + "/other", Record::Mode::kRead)).ok());
}

TEST_F(ReportCompareTest, NothingInCommonIsOneLine) {
  const Record a = Make("a", {});
  Record b = *Record::Open(root_ + "/b", Record::Mode::kWrite);
  WriteSyntheticShapedRuns(b, 1.0);
  EXPECT_THAT(CompareRecords(a, b).status().message(),
              AllOf(HasSubstr("smoke"), HasSubstr("shaped")));
}

TEST_F(ReportCompareTest, StepTimesOfShapedRunsAreCompared) {
  Record a = *Record::Open(root_ + "/a", Record::Mode::kWrite);
  Record b = *Record::Open(root_ + "/b", Record::Mode::kWrite);
  WriteSyntheticShapedRuns(a, 1.0);
  WriteSyntheticShapedRuns(b, 1.5);
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  int64_t compared = 0;
  for (const ComparedEstimate& x : comparison->experiments[0].estimates) {
    const bool shaped = !x.arm.starts_with("one-process");  // the others are not disturbed
    if (x.quantity != "step time" || !x.difference || !shaped) continue;
    ++compared;
    EXPECT_NEAR(x.difference->value, *x.a->value * 0.5, *x.a->value * 0.01) << x.arm;
  }
  EXPECT_GE(compared, 2);
}

TEST_F(ReportCompareTest, WritesAPageAndACsv) {
  const Record a = Make("a", {.q = 0.995}), b = Make("b", {.q = 0.97});
  const auto comparison = CompareRecords(a, b);
  ASSERT_TRUE(comparison.ok());
  const auto page = WriteComparison(*comparison, "", root_ + "/out");
  ASSERT_TRUE(page.ok()) << page.status();
  std::stringstream text;
  text << std::ifstream(*page).rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("Two records beside each other"), HasSubstr(">apart<"),
                                HasSubstr("No figures: "), Not(HasSubstr("<figure>"))));
  std::ifstream csv(root_ + "/out/compare.csv");
  std::string header;
  std::getline(csv, header);
  EXPECT_THAT(header, HasSubstr("difference,difference_low,difference_high,verdict,note"));
}

}  // namespace
}  // namespace longhaul
