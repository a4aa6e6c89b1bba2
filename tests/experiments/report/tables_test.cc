// Every cell of every table that is written of a campaign, by value. The campaigns are synthetic,
// with noise, so that no two numbers are the same; the files in tests/golden/tables were read
// against the analysis when they were written, and the tests by name below do that for the columns.
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/table_json.h"
#include "experiments/report/html.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_data.h"
#include "experiments/report/report_sections.h"
#include "tests/experiments/estimates/analysed_campaign.h"
#include "tests/experiments/report/golden_text.h"

namespace longhaul {
namespace {

constexpr char kOtherRate[] = R"([[arm]]
name = "lr"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
train.lr = 2e-3
)";

std::string DilocoArm(const std::string& name, int groups, int inner_steps,
                      const std::string& codec) {
  return fmt::format(
      "[[arm]]\nname = \"{}\"\nouter.groups = {}\nouter.inner_steps = {}\nouter.codec = \"{}\"\n"
      "train.batch_rows = {}\nstages = 1\nforward = \"none\"\nbackward = \"none\"\n",
      name, groups, inner_steps, codec, 16 / groups);
}

class TablesTest : public AnalysedCampaign {
 protected:
  // Losses that add up, depths that bend, a bound (deep), a control.
  CampaignAnalysis Crossings() {
    return Analysed({.q = 0.991,
                     .noise_nat = 0.003,
                     .seeds = 5,
                     .more_arms = std::string(kDirectionArms) + kOtherRate,
                     .extra_nat = {{"lr", 0.05}, {"s8", 0.04}}});
  }
  CampaignAnalysis Diloco() {
    return Analysed(
        {.noise_nat = 0.002,
         .seeds = 4,
         .more_arms = DilocoArm("d11", 1, 1, "none") + DilocoArm("d110", 1, 10, "none") +
                      DilocoArm("d130", 1, 30, "none") + DilocoArm("d21", 2, 1, "none") +
                      DilocoArm("d210", 2, 10, "none") + DilocoArm("d230", 2, 30, "none") +
                      DilocoArm("d41", 4, 1, "none") + DilocoArm("d410", 4, 10, "none") +
                      DilocoArm("d210-int8", 2, 10, "int8-b64"),
         .extra_nat = {{"d11", 0.002},
                       {"d110", 0.007},
                       {"d130", 0.013},
                       {"d21", 0.004},
                       {"d210", 0.019},
                       {"d230", 0.033},
                       {"d41", 0.009},
                       {"d410", 0.041},
                       {"d210-int8", 0.026}}});
  }
};

std::string Rows(const std::vector<EstimateRow>& rows) {
  std::string text;
  for (const EstimateRow& r : rows) {
    const auto number = [](const std::optional<double>& x) {
      return x ? fmt::format("{:.9g}", *x) : std::string("-");
    };
    text +=
        fmt::format("{} | {} | {} | {} | {} | {} | {} | {} | {}\n", r.arm, r.evaluation, r.quantity,
                    r.unit, number(r.value), number(r.low), number(r.high), r.seeds, r.note);
  }
  return text;
}

using NamedRows = std::vector<std::map<std::string, std::string>>;
NamedRows ByName(const CsvRows& rows) {
  NamedRows out;
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(), rows[0].size());
    out.emplace_back();
    for (size_t c = 0; c < rows[0].size(); ++c) out.back()[rows[0][c]] = rows[i][c];
  }
  return out;
}

void ExpectCell(const std::map<std::string, std::string>& row, const std::string& column,
                double value) {
  ASSERT_TRUE(row.contains(column)) << column;
  EXPECT_NEAR(std::atof(row.at(column).c_str()), value, 1e-9 + 1e-9 * std::abs(value)) << column;
}

void ExpectCells(const std::map<std::string, std::string>& row, const std::string& name,
                 const std::string& unit, const Measured& x) {
  ExpectCell(row, name + unit, x.value);
  ASSERT_TRUE(x.interval);
  ExpectCell(row, name + "_low" + unit, x.interval->low);
  ExpectCell(row, name + "_high" + unit, x.interval->high);
}

TEST_F(TablesTest, ColumnsOfArmsAreWhatTheyAreCalled) {
  const CampaignAnalysis a = Crossings();
  int seen = 0;
  for (const auto& row : ByName(ArmsCsv(a))) {
    const ArmResult& arm = *FindArm(a, row.at("arm"));
    const std::optional<Efficiency>& e = row.at("evaluation") == "on" ? arm.on : arm.off;
    ASSERT_TRUE(e) << arm.arm;
    EXPECT_EQ(row.at("stages"), fmt::format("{}", arm.stages));
    EXPECT_EQ(row.at("crossings"), fmt::format("{}", arm.crossings));
    EXPECT_EQ(row.at("forward"), arm.forward_codec);
    EXPECT_EQ(row.at("backward"), arm.backward_codec);
    EXPECT_EQ(row.at("reference"), arm.reference);
    EXPECT_EQ(row.at("seeds"), "5");
    if (arm.arm == "control@1") continue;
    ExpectCell(row, "delta_nat", e->delta_nat.value);
    ExpectCell(row, "delta_low", e->delta_nat.interval->low);
    ExpectCell(row, "delta_high", e->delta_nat.interval->high);
    ExpectCells(row, "ln_eta", "", e->ln_eta);
    ExpectCells(row, "eta", "", e->eta);
    if (e->q) ExpectCells(row, "q", "", *e->q);
    ++seen;
  }
  EXPECT_GE(seen, 16);
}

TEST_F(TablesTest, ColumnsOfJointAreWhatTheyAreCalled) {
  const CampaignAnalysis a = Crossings();
  const NamedRows rows = ByName(JointCsv(a));
  size_t at = 0;
  for (const Family& family : a.families) {
    for (const auto* joint : {&family.off, &family.on}) {
      if (!*joint) continue;
      ASSERT_LT(at, rows.size());
      ExpectCells(rows[at], "q", "", (*joint)->q);
      EXPECT_EQ(rows[at].at("evaluation"), joint == &family.off ? "off" : "on");
      EXPECT_EQ(rows[at++].at("codecs"), family.codecs);
    }
  }
  EXPECT_EQ(at, rows.size());
}

TEST_F(TablesTest, OfCrossings) {
  const CampaignAnalysis a = Crossings();
  ExpectGolden("crossings_table.txt", CampaignTable(a));
  ExpectGolden("crossings_estimates.txt", Rows(ToEstimates(a)));
}

TEST_F(TablesTest, CsvOfCrossings) {
  const CampaignAnalysis a = Crossings();
  ExpectGolden("arms.csv", Csv(ArmsCsv(a)));
  ExpectGolden("joint.csv", Csv(JointCsv(a)));
  ExpectGolden("curve.csv", Csv(CurveCsv(a)));
  ExpectGolden("losses.csv", Csv(LossesCsv(a)));
  ExpectGolden("residuals.csv", Csv(ResidualsCsv(a)));
  CsvRows depth = DepthCsv(a);  // the ends of each curve and its middle are enough
  CsvRows some;
  for (size_t i = 0; i < depth.size(); ++i) {
    if (i % 17 == 0) some.push_back(depth[i]);
  }
  ExpectGolden("depth_models.csv", Csv(some));
}

TEST_F(TablesTest, CalibrationOfCrossings) {
  ExpectGolden("calibration.json", CalibrationJson(Crossings()));
}

TEST_F(TablesTest, PageOfCrossings) {
  const CampaignAnalysis a = Crossings();
  const auto wire = WirePart(*record_, a), errors = ErrorsPart(*record_, a);
  ASSERT_TRUE(wire.ok() && errors.ok());
  ExpectGolden("crossings_page.html", CampaignPart(a, *wire, {}) + *errors);
}

TEST_F(TablesTest, OfDiloco) {
  const CampaignAnalysis a = Diloco();
  ExpectGolden("diloco_table.txt", CampaignTable(a));
  ExpectGolden("diloco_estimates.txt", Rows(ToEstimates(a)));
  ExpectGolden("diloco.csv", Csv(DilocoCsv(a)));
  ExpectGolden("diloco_calibration.json", CalibrationJson(a));
  ExpectGolden("diloco_page.html", CampaignPart(a, "", {}));
}

// Two cells with all values different, one with codecs and an outer step.
TimingFindings Timing() {
  int next = 100;
  const auto number = [&] { return static_cast<double>(++next) / 64; };
  const auto measured = [&] {
    const double value = number(), low = value - number() / 8, high = value + number() / 8;
    return Measured{value, Interval{low, high, 0.95, "t"}};
  };
  TimingFindings out;
  for (const char* codecs : {"none / none", "int4-b64-h64 / int8-b64"}) {
    TimingCell cell;
    cell.profile = "transatlantic";
    cell.codecs = codecs;
    cell.schedule = "1f1b";
    cell.stages = 4 + static_cast<int64_t>(out.cells.size());
    cell.groups = 2 + 5 * static_cast<int64_t>(out.cells.size());
    cell.repeats = 3 + static_cast<int64_t>(out.cells.size());
    cell.step_s = measured();
    cell.residual = measured();
    for (double* x : {&cell.p1_s, &cell.p2_s, &cell.p3_s, &cell.compute_s, &cell.bubble_s,
                      &cell.coding_s, &cell.wire_s, &cell.rest_s}) {
      *x = number();
    }
    if (!out.cells.empty()) {
      cell.gain = measured();
      cell.outer_s = number();
      cell.outer_predicted_s = number();
      cell.note = "timing disturbed: for the test";
      cell.invalid = 9;
    }
    cell.verdict = JudgeResidual(cell.residual, cell.note);
    out.cells.push_back(cell);
  }
  out.median_residual = measured();
  out.undisturbed = 1;
  out.within = 11;
  out.beyond = 12;
  out.not_judged = 13;
  return out;
}

TEST(TimingTables, AllOfThem) {
  const TimingFindings t = Timing();
  ExpectGolden("timing.csv", Csv(CsvRowsOf(TimingTable(t))));
  ExpectGolden("timing.txt", TextOf(TimingTable(t)));
  ExpectGolden("timing.html", HtmlOf(TimingTable(t)));
}

TEST(TimingTables, ColumnsAreWhatTheyAreCalled) {
  const TimingFindings t = Timing();
  const NamedRows rows = ByName(CsvRowsOf(TimingTable(t)));
  ASSERT_EQ(rows.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const TimingCell& c = t.cells[i];
    for (const auto& [name, value] : {std::pair<std::string, double>{"p1_s", c.p1_s},
                                      {"p2_s", c.p2_s},
                                      {"p3_s", c.p3_s},
                                      {"compute_s", c.compute_s},
                                      {"bubble_s", c.bubble_s},
                                      {"coding_s", c.coding_s},
                                      {"wire_s", c.wire_s},
                                      {"rest_s", c.rest_s},
                                      {"step_s", c.step_s.value}}) {
      ExpectCell(rows[i], name, value);
    }
  }
}

TEST(StepTimeTable, EveryCell) {
  StepTime t;
  t.run = 3;
  t.arm = "a";
  t.profile = "p";
  t.schedule = "gpipe";
  t.stages = 4;
  t.groups = 5;
  t.microbatches = 6;
  t.measured_s = {1.5, Interval{1.25, 1.75, 0.95, "t"}};
  t.measured_steps = 77;
  t.p1_s = 2.5;
  t.p2_s = 1.375;
  t.p3_s = 1.625;
  t.compute_s = 0.5;
  t.alone_s = 0.75;
  t.coded_s = 0.875;
  t.residual = {0.0625, Interval{0.03125, 0.09375, 0.95, "t"}};
  t.compute_utilisation = {0.34375, Interval{0.328125, 0.359375, 0.95, "t"}};
  t.outer_measured_s = 3.25;
  t.outer_predicted_s = 3.125;
  ExpectGolden("step_times.csv", Csv(CsvRowsOf(StepTimesTable({t}))));
}

// One table, four ways: what is for people, for programs, for both; a bound; markup that is none.
TEST(TableRenderers, ShowEachReaderItsColumns) {
  Table table{.columns =
                  ColumnsOf("arm:arm | -:note | loss:loss[] | eta:eta,low,high | for people")};
  const Measured loss{1.5, Interval{1.25, 1.75, 0.95, "t"}};
  const Measured bound{0.5, Interval{0.25, 0.5, 0.95, "t"}, Bound::kUpper};
  table.Add({"a<b>, \"c\"", "n", Cell(loss, 1), Cell(bound, 2), "x -> y"});
  table.Add({"1<i> [z]", Cell::None("why"), Cell::None(), true, Cell::Badge("<ok>", Tone::kGood)});
  EXPECT_EQ(GridText(table),
            "arm                  loss      eta  for people\n"
            "----------------------------------------------\n"
            "a<b>, \"c\"  1.5 [1.2, 1.8]  <= 0.50  x -> y\n"
            "1<i> [z]                -        1  <ok>\n");
  EXPECT_EQ(Csv(CsvRowsOf(table)),
            "arm,note,loss,loss_low,loss_high,eta,low,high\n"
            "\"a<b>, \"\"c\"\"\",n,1.5,1.25,1.75,0.5,,\n"
            "1<i> [z],,,,,1,,\n");
  const auto json = JsonRows(table);
  EXPECT_EQ(json[0]["loss"]["high"], 1.75);
  EXPECT_EQ(json[0]["eta"], 0.5);
  EXPECT_TRUE(json[0]["low"].is_null() && json[1]["note"].is_null() && json[1]["loss"].is_null());
  const std::string html = HtmlGrid(table);
  EXPECT_THAT(html, testing::HasSubstr("<td>a&lt;b&gt;, &quot;c&quot;</td>"));
  EXPECT_THAT(html, testing::HasSubstr("<td>1&lt;i&gt;<br><span class=\"ci\">[z]</span></td>"));
  EXPECT_THAT(html, testing::HasSubstr("&le; 0.50<br><span class=\"ci\">a bound</span>"));
  EXPECT_THAT(html, testing::HasSubstr("<span class=\"nb\">x &rarr; y</span>"));
  EXPECT_THAT(html, testing::HasSubstr("<span class=\"badge good\">&lt;ok&gt;</span>"));
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("note")));
}

}  // namespace
}  // namespace longhaul
