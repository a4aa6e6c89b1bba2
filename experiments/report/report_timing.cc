// A timing grid: what a step took on which links, where it went, and which codecs pay.
#include <cmath>

#include <fmt/format.h>

#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

std::string Share(double part, double whole) { return fmt::format("{:.0f}", 100 * part / whole); }

Tone ToneOfGain(std::string_view verdict) {
  if (verdict == "pays") return Tone::kGood;
  return verdict == "costs" ? Tone::kBad : Tone::kOpen;
}

std::vector<std::string> GridRow(const TimingCell& c) {
  std::vector<std::string> row = {
      HtmlEscape(c.profile), HtmlEscape(c.codecs), HtmlEscape(c.schedule),
      fmt::format("{} x {}", c.groups, c.stages), fmt::format("{}", c.repeats)};
  if (c.repeats == 0) {
    row.push_back(HtmlBadge(c.invalid > 0 ? "invalid" : "not run", Tone::kOpen));
    row.resize(16);
    return row;
  }
  const double whole = c.step_s.value;
  row.push_back(IntervalCell(c.step_s, 4));
  row.push_back(fmt::format("{:.4f}", c.p2_s));
  row.push_back(IntervalCell(c.residual, 3));
  row.push_back(ResidualBadge(c.verdict));
  for (const double part : {c.compute_s, c.bubble_s, c.coding_s, c.wire_s, c.rest_s}) {
    row.push_back(Share(part, whole));
  }
  row.push_back(c.gain ? IntervalCell(*c.gain, 2) : "-");
  row.push_back(c.gain ? HtmlBadge(GainVerdict(c), ToneOfGain(GainVerdict(c))) : "");
  return row;
}

}  // namespace

std::string GridPart(const TimingFindings& findings) {
  std::vector<std::vector<std::string>> rows;
  for (const TimingCell& c : findings.cells) rows.push_back(GridRow(c));
  std::string out =
      "<h3>On which links which codec pays</h3>" +
      HtmlTable({"links", "codecs", "schedule", "groups x stages", "repeats", "step, s", "P2, s",
                 "ln(step<br>/ P2)", "", "compute, %", "bubble, %", "coding, %", "links, %",
                 "rest, %", "step without<br>codecs / step", ""},
                rows);
  out +=
      "<p class=\"note\">Means over repeats, t intervals at 95 %. Shares of a step, mean worker: "
      "compute; bubble, what the schedule alone makes stages wait; coding and links, what P2 adds "
      "with the measured times of encoding and decoding and with the links; rest, what P2 does not "
      "explain.</p>\n";
  if (findings.undisturbed > 0) {
    out += fmt::format("<p>Median of ln(step / P2) over {} cells: {}.</p>\n", findings.undisturbed,
                       IntervalCell(findings.median_residual, 3));
  }
  out += fmt::format(
      "<p>With its interval: {} cells within &plusmn;0.10, {} beyond, {} without a verdict.</p>\n",
      findings.within, findings.beyond, findings.not_judged);
  for (const TimingCell& c : findings.cells) {
    if (c.verdict.residual != Residual::kNotJudged || c.verdict.text.empty()) continue;
    out += fmt::format("<p class=\"note open\">{}, {}, {}, {} x {}: {}</p>\n",
                       HtmlEscape(c.profile), HtmlEscape(c.codecs), HtmlEscape(c.schedule),
                       c.groups, c.stages, HtmlEscape(c.verdict.text));
  }
  return out;
}

}  // namespace longhaul
