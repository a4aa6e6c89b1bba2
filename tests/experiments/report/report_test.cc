#include "experiments/report/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "tests/experiments/record/synthetic_record.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "report_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Fill() {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    WriteSyntheticCampaign(record, {});
    WriteSyntheticShapedRuns(record, 1.04);
  }
  std::string Report(const ReportOptions& options) {
    const Record record = *Record::Open(folder_, Record::Mode::kRead);
    const absl::StatusOr<std::string> index = WriteReport(record, options);
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? Slurp(*index) : "";
  }
  static std::string Slurp(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // Of the interpreter that the figures' test may use; "" when there is none with matplotlib.
  static std::string Python() {
    for (const std::string python : {LONGHAUL_TEST_PYTHON, "python3"}) {
      if (!python.empty() &&
          std::system((python + " -c 'import matplotlib' >/dev/null 2>&1").c_str()) == 0) {
        return python;
      }
    }
    return "";
  }

  std::string folder_;
};

TEST_F(ReportTest, SaysFirstWhatWasResolvable) {
  Fill();
  const std::string page = Report({});
  const size_t first = page.find("invisible in this design");
  ASSERT_NE(first, std::string::npos);
  EXPECT_LT(first, page.find("<section>"));
}

TEST_F(ReportTest, HasEveryTableAndFetchesNothing) {
  Fill();
  const std::string page = Report({});
  for (const char* part :
       {"Arms", "Control: is a known loss recovered?", "Bytes three ways", "Links", "Runs",
        "Resolved specs", "Step time, measured against predicted",
        "The plan, hashed before the first run", "s8", "default-pair"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  for (const char* fetch : {"<script ", "<link", " src=", "@import", "url(", "fetch(", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(fetch)));
  }
}

TEST_F(ReportTest, WritesCsvBesideIt) {
  Fill();
  Report({});
  for (const char* file :
       {"tables/steps.csv", "tables/runs.csv", "tables/crossings.csv", "1-smoke/arms.csv",
        "1-smoke/calibration.json", "2-shaped/step_times.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/report/" + file)) << file;
  }
  EXPECT_THAT(Slurp(folder_ + "/report/1-smoke/arms.csv"),
              HasSubstr("s8,arm,int4-b64-h64,int8-b64,8,14,3,off,"));
}

// One column of arms.csv by its name, for the row of this arm and evaluation.
std::string Cell(const std::string& csv, const std::string& column, const std::string& arm,
                 const std::string& evaluation) {
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::stringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = split(line);
  const auto at = std::find(header.begin(), header.end(), column) - header.begin();
  const auto of = std::find(header.begin(), header.end(), "evaluation") - header.begin();
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = split(line);
    if (cells[0] == arm && cells[static_cast<size_t>(of)] == evaluation) {
      return static_cast<size_t>(at) < cells.size() ? cells[static_cast<size_t>(at)] : "";
    }
  }
  return "no such row";
}

TEST_F(ReportTest, BoundsAndChangesHaveColumnsOfTheirOwn) {
  {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    WriteSyntheticCampaign(record, {.q = 0.995,
                                    .more_arms = R"([[arm]]
name = "lr"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
train.lr = 2e-3
)",
                                    .extra_nat = {{"s8", 0.6}, {"lr", 0.05}}});
  }
  const std::string python = Python();
  const std::string page = Report({.python = python, .out = ""});
  const std::string csv = Slurp(folder_ + "/report/1-smoke/arms.csv");
  EXPECT_EQ(Cell(csv, "bound", "s8", "off"), "<=");
  EXPECT_EQ(Cell(csv, "eta_low", "s8", "off"), "");
  EXPECT_EQ(Cell(csv, "eta_high", "s8", "off"), "");
  EXPECT_EQ(Cell(csv, "bound", "s4", "off"), "");
  EXPECT_NE(Cell(csv, "eta_low", "s4", "off"), "");
  EXPECT_EQ(Cell(csv, "q", "lr", "off"), "");
  EXPECT_NE(Cell(csv, "eta", "lr", "off"), "");
  EXPECT_EQ(Cell(csv, "verdict", "lr", "off"), "no q");
  EXPECT_EQ(Cell(csv, "changes", "lr", "off"), "train.lr 0.003 > 0.002");
  EXPECT_EQ(Cell(csv, "reference", "lr", "off"), "reference@1");
  EXPECT_THAT(page, HasSubstr("&le; 0.503"));
  EXPECT_THAT(page, HasSubstr("train.lr 0.003 &gt; 0.002"));
  if (!python.empty()) {
    EXPECT_THAT(page, Not(HasSubstr("No figures")));
  }
}

TEST_F(ReportTest, WithoutMatplotlibItSaysSoAndKeepsItsTables) {
  Fill();
  for (const std::string python : {"", "/nonexistent/python", "/bin/false"}) {
    const std::string page = Report({.python = python, .out = ""});
    EXPECT_THAT(page, HasSubstr("No figures: ")) << python;
    EXPECT_THAT(page, HasSubstr("<table>"));
    EXPECT_THAT(page, Not(HasSubstr("<figure>")));
  }
}

TEST_F(ReportTest, FiguresAreInlined) {
  const std::string python = Python();
  if (python.empty()) GTEST_SKIP() << "no Python with matplotlib";
  Fill();
  const std::string page = Report({.python = python, .out = ""});
  EXPECT_THAT(page, Not(HasSubstr("No figures")));
  size_t figures = 0;
  for (size_t at = 0;
       (at = page.find("<div class=\"scroll drawing\"><svg", at)) != std::string::npos; ++at)
    ++figures;
  // reference, residuals, depth, forest and Pareto fronts of the campaign; training and step times of
  // the others.
  EXPECT_EQ(figures, 7u);
}

TEST_F(ReportTest, UnfinishedCampaignIsReportedAsFarAsItGot) {
  {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    const int64_t e = *record.BeginExperiment(
        {.kind = ExperimentKind::kCampaign,
         .name = "young",
         .question = "is <it> & \"quoted\"?",
         .plan_text = "p",
         .facts = {{kForecastFact, "resolves <little>"}, {kAcceptedUnresolvedFact, "true"}}});
    RunRow run;
    run.experiment_id = e;
    run.arm = "s2";
    run.role = Role::kArm;
    run.stages = 2;
    const auto begun = record.BeginRun(run);
    ASSERT_TRUE(begun.ok());
    const CrossingErrorRow error{.src_rank = 1,
                                 .dst_rank = 0,
                                 .percent = 10,
                                 .first_step = 5,
                                 .last_step = 9,
                                 .samples = 12,
                                 .nmse_mean = 0.0123,
                                 .nmse_p95 = 0.04};
    ASSERT_TRUE(record.AddCrossingErrors(*begun, std::span(&error, 1)).ok());
  }
  const std::string page = Report({});
  EXPECT_THAT(page, HasSubstr("is &lt;it&gt; &amp; &quot;quoted&quot;?"));
  EXPECT_THAT(page, HasSubstr(">died</span>"));
  EXPECT_THAT(page, HasSubstr("<td>backward</td>"));
  EXPECT_THAT(page, HasSubstr("1.23e-02<br><span class=\"ci\">p95 4.0e-02, n = 12</span>"));
  EXPECT_THAT(page, HasSubstr("Begun with --accept-unresolved"));
  EXPECT_THAT(page, HasSubstr("<pre>resolves &lt;little&gt;</pre>"));
  EXPECT_THAT(page, HasSubstr("Nothing can be said yet"));
}

TEST_F(ReportTest, EmptyRecordStillGivesAPage) {
  { Record record = *Record::Open(folder_, Record::Mode::kWrite); }
  EXPECT_THAT(Report({}), HasSubstr("0 experiments"));
}

// The page says what its record is about.
TEST_F(ReportTest, EachKindOfRecordHasATitleOfItsOwn) {
  const auto title = [&] {
    const std::string page = Report({});
    const size_t at = page.find("<h1>") + 4;
    return page.substr(at, page.find("</h1>") - at);
  };
  {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    RunRow run;
    run.experiment_id = *record.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
    run.arm = "one";
    ASSERT_TRUE(record.BeginRun(run).ok());
  }
  EXPECT_EQ(title(), "How the loss fell");
  {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    WriteSyntheticShapedRuns(record, 1.04);
  }
  EXPECT_EQ(title(), "What a step takes over its links");
  {
    Record record = *Record::Open(folder_, Record::Mode::kWrite);
    WriteSyntheticCampaign(record, {});
  }
  EXPECT_EQ(title(), "What a pipeline boundary costs");
}

// Long tables turn pages; of many arms only the first have their whole spec, the others what differs.
TEST_F(ReportTest, APageOfAThousandArmsStaysSmall) {
  constexpr int kFew = 21, kMany = 1000;
  int arms = 0;
  const auto page_with = [&](int wanted) {
    {
      Record record = *Record::Open(folder_, Record::Mode::kWrite);
      if (arms == 0) WriteSyntheticShapedRuns(record, 1.04);
      RunRow run = record.Runs(1)->front();
      for (; arms < wanted; ++arms) {
        run.arm = "arm-" + std::to_string(arms);
        run.spec_toml.replace(run.spec_toml.find("seed = "), 8,
                              "seed = " + std::to_string(arms % 10));
        EXPECT_TRUE(record.FinishRun(*record.BeginRun(run), RunStatus::kOk, "").ok());
      }
    }
    return Report({});
  };
  const size_t few = page_with(kFew).size();
  const std::string many = page_with(kMany);
  EXPECT_LT((many.size() - few) / (kMany - kFew), 2000u) << "bytes for each arm more";
  EXPECT_THAT(many, HasSubstr("983 more arms"));  // of 1000 and the 3 shaped ones, 20 are whole
  EXPECT_THAT(many, HasSubstr("const PAGE = 50;"));
}

TEST(Html, EscapesAndQuotes) {
  EXPECT_EQ(HtmlEscape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
  EXPECT_EQ(Csv({{"a", "b,c"}, {"d\"e", "f\ng"}}), "a,\"b,c\"\n\"d\"\"e\",\"f\ng\"\n");
}

}  // namespace
}  // namespace longhaul
