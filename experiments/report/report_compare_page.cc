// A comparison of two records as text, CSV and a page.
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/record/whole_file.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "experiments/report/report_compare.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

constexpr double kChance = 0.05;  // of 95 % intervals of nothing

Measured AsMeasured(const EstimateRow& row) {
  Measured out{.value = row.value.value_or(0)};
  if (!row.value_bound().empty()) out.bound = Bound::kUpper;
  if (!row.low_bound().empty()) out.bound = Bound::kLowEnd;
  if (row.low && row.high) {
    out.interval = Interval{*row.low, *row.high, row.level.value_or(0.95), row.method};
  }
  return out;
}

Cell SideCell(const std::optional<EstimateRow>& row) {
  return row && row->value ? Cell(AsMeasured(*row)) : Cell::None();
}
Cell BoundOf(const std::optional<EstimateRow>& row) { return row ? row->value_bound() : ""; }
Cell LowBoundOf(const std::optional<EstimateRow>& row) { return row ? row->low_bound() : ""; }

std::string VerdictText(const ComparedEstimate& e) {
  if (!e.difference || !e.difference->interval) return "";
  return e.Apart() ? "apart" : "not told apart";
}

std::string NameOf(const ComparedEstimate& e) {
  std::string name = e.arm.empty() ? "campaign" : e.arm;
  if (!e.evaluation.empty()) name += ", codec " + e.evaluation;
  return name + ", " + e.quantity;
}

struct Tally {
  int64_t with_interval = 0, apart = 0;
};
Tally Count(const ComparedExperiment& e) {
  Tally tally;
  for (const ComparedEstimate& x : e.estimates) {
    if (!x.difference || !x.difference->interval) continue;
    ++tally.with_interval;
    tally.apart += x.Apart() ? 1 : 0;
  }
  return tally;
}

std::string TallyText(const ComparedExperiment& e) {
  const Tally tally = Count(e);
  if (tally.with_interval == 0) return "No estimate has an interval on both sides.";
  return fmt::format(
      "{} of {} differences are apart at 95 %; about {:.0f} would be by chance alone (they are not "
      "independent of each other: eta, ln eta and q of one arm are one finding).",
      tally.apart, tally.with_interval, kChance * static_cast<double>(tally.with_interval));
}

std::string RunsText(const ComparedExperiment& e) {
  if (e.runs == 0) return "no final loss of the same arm and seed on both sides";
  if (e.identical == e.runs) {
    return fmt::format("all {} final losses of the same arm and seed are the same bits", e.runs);
  }
  return fmt::format(
      "{} of {} final losses of the same arm and seed are the same bits; the others "
      "are up to {:.2g} nat apart",
      e.identical, e.runs, e.widest_nat);
}

std::string ArmsText(const ComparedExperiment& e) {
  return fmt::format("{} arms in both, {} only in A, {} only in B", e.arms, e.arms_of_a - e.arms,
                     e.arms_of_b - e.arms);
}

std::string SettingText(const ComparedSetting& s, const ComparedExperiment& e) {
  if (s.arms.empty()) return s.text;
  const bool all = static_cast<int64_t>(s.arms.size()) == e.arms;
  return fmt::format("{} ({})", s.text,
                     all ? "every arm" : fmt::format("{}", fmt::join(s.arms, ", ")));
}

std::string PlanText(const ComparedExperiment& e) {
  return e.same_plan ? "the same plan" : "different plans";
}

std::string ExperimentText(const ComparedExperiment& e) {
  std::string text =
      fmt::format("{}{}: {}; {}; {}.\n", e.a, e.a == e.b ? "" : " (A), " + e.b + " (B)",
                  PlanText(e), ArmsText(e), RunsText(e));
  for (const ComparedSetting& s : e.settings) text += "  differs: " + SettingText(s, e) + "\n";
  for (const ComparedSetting& s : e.machines) text += "  made with other " + s.text + "\n";
  for (const ComparedEstimate& x : e.estimates) {
    const bool headline = x.quantity == "eta" || x.quantity == "q" || x.quantity == "step time";
    if (!x.Apart() && !(headline && x.difference && x.evaluation != "on")) continue;
    text += fmt::format("  {}: A {}, B {}, B - A {}  {}\n", NameOf(x), SideCell(x.a).text,
                        SideCell(x.b).text, WithInterval(*x.difference, 4), VerdictText(x));
  }
  return text + "  " + TallyText(e) + "\n";
}

Table EstimatesTable(std::span<const ComparedExperiment> experiments) {
  Table table{.columns = ColumnsOf("-:experiment | arm:arm | codec:evaluation | "
                                   "quantity:quantity | unit:unit | A:a,a_low,a_high | "
                                   "-:a_bound | -:a_low_bound | B:b,b_low,b_high | -:b_bound | "
                                   "-:b_low_bound | "
                                   "B - A:difference,difference_low,difference_high |  | "
                                   "-:verdict | -:note")};
  for (const ComparedExperiment& e : experiments) {
    for (const ComparedEstimate& x : e.estimates) {
      const std::string verdict = VerdictText(x);
      table.Add({e.a, x.arm, x.evaluation, x.quantity, x.unit, SideCell(x.a), BoundOf(x.a),
                 LowBoundOf(x.a), SideCell(x.b), BoundOf(x.b), LowBoundOf(x.b), x.difference,
                 verdict.empty() ? Cell(x.note)
                                 : Cell::Badge(verdict, x.Apart() ? Tone::kBad : Tone::kPlain),
                 verdict, x.note});
    }
  }
  return table;
}

std::string ExperimentHtml(const ComparedExperiment& e) {
  std::string out = fmt::format("<section><h2>{}</h2>\n<p class=\"conditions\">{}; {}; {}.</p>\n",
                                HtmlEscape(e.a == e.b ? e.a : e.a + " (A), " + e.b + " (B)"),
                                PlanText(e), ArmsText(e), RunsText(e));
  for (const auto& [side, line] : {std::pair("A", &e.first_lines_a), {"B", &e.first_lines_b}}) {
    if (!line->empty())
      out += fmt::format("<p class=\"note\">{}: {}</p>\n", side, HtmlEscape(*line));
  }
  for (const auto& [title, list] : {std::pair("Settings that differ, A &gt; B", &e.settings),
                                    {"Made with other, A &gt; B", &e.machines}}) {
    if (list->empty()) continue;
    out += fmt::format("<h3>{}</h3><ul>", title);
    for (const ComparedSetting& s : *list) out += "<li>" + HtmlEscape(SettingText(s, e)) + "</li>";
    out += "</ul>\n";
  }
  out +=
      "<h3>Estimates</h3><p class=\"note\">" + HtmlEscape(TallyText(e)) +
      " The difference's interval takes the two sides for independent; where they share seeds it "
      "is wider than it need be.</p>" +
      HtmlGrid(EstimatesTable({&e, 1}));
  return out + "</section>\n";
}

}  // namespace

std::string ComparisonText(const RecordComparison& c) {
  std::string text = fmt::format("A: {}\nB: {}\n", c.a, c.b);
  for (const ComparedExperiment& e : c.experiments) text += ExperimentText(e);
  for (const auto& [side, names] : {std::pair("A", &c.only_a), {"B", &c.only_b}}) {
    if (!names->empty()) text += fmt::format("only in {}: {}\n", side, fmt::join(*names, ", "));
  }
  return text;
}

CsvRows CompareCsv(const RecordComparison& c) { return CsvRowsOf(EstimatesTable(c.experiments)); }

absl::StatusOr<std::string> WriteComparison(const RecordComparison& c, const std::string& python,
                                            const std::string& out) {
  if (absl::Status s = MakeReportFolder(out); !s.ok()) return s;
  if (absl::Status s = WriteWholeFile(out + "/compare.csv", Csv(CompareCsv(c))); !s.ok()) return s;
  // A figure of an earlier comparison must not pass for one of these records.
  std::error_code ignored;
  std::filesystem::remove(out + "/compare.svg", ignored);
  std::string body = fmt::format(
      "<header><h1>Two records beside each other</h1>\n<p>A: {}<br>B: {}</p></header>\n",
      HtmlEscape(c.a), HtmlEscape(c.b));
  const absl::Status drawn = python.empty()
                                 ? absl::FailedPreconditionError("no Python interpreter was given")
                                 : DrawPlots(python, {out}, out + "/plots.log");
  if (!drawn.ok()) {
    body += "<p class=\"note\">No figures: " + HtmlEscape(std::string(drawn.message())) +
            " (matplotlib is needed to draw).</p>\n";
  }
  Figures figures;
  if (const std::string svg = ReadSvg(out + "/compare.svg"); !svg.empty()) figures["compare"] = svg;
  body += FigureHtml(figures, "compare",
                     "&eta; of arms in both records, codec off at evaluation, 95 % intervals, and "
                     "the difference B - A.");
  for (const ComparedExperiment& e : c.experiments) body += ExperimentHtml(e);
  const std::string index = out + "/index.html";
  if (absl::Status s = WriteWholeFile(index, HtmlPage("longhaul: two records", body)); !s.ok())
    return s;
  return index;
}

}  // namespace longhaul
