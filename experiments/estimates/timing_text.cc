// What a timing grid found: for people, and as rows for programs.
#include <cstdlib>

#include <fmt/format.h>

#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/timing_findings.h"

namespace longhaul {
namespace {

std::string Text(const Measured& m, const char* format) {
  std::string text = fmt::format(fmt::runtime(format), m.value);
  if (m.interval) {
    text += " [" + fmt::format(fmt::runtime(format), m.interval->low) + ", " +
            fmt::format(fmt::runtime(format), m.interval->high) + "]";
  }
  return text;
}

// Nine digits, as the files of all versions have.
double Nine(double x) { return std::strtod(fmt::format("{:.9g}", x).c_str(), nullptr); }

Cell Timed(const Measured& m, const char* format) {
  Measured nine{Nine(m.value)};
  if (m.interval) nine.interval = Interval{Nine(m.interval->low), Nine(m.interval->high), 0.95, ""};
  return Cell::Shown(Text(m, format), nine);
}
Cell Timed(const std::optional<double>& x, std::string shown = "-") {
  return x ? Cell::Shown(std::move(shown), Nine(*x)) : Cell::None();
}
Cell OrNone(const std::string& words) { return words.empty() ? Cell::None() : Cell(words); }

Cell ResidualCell(const ResidualVerdict& v) {
  Cell cell = OrNone(v.text);
  if (v.residual == Residual::kNotJudged) cell.text = "no verdict";
  cell.tone = v.residual == Residual::kWithin   ? Tone::kGood
              : v.residual == Residual::kBeyond ? Tone::kBad
                                                : Tone::kOpen;
  return cell;
}

Cell GainCell(const TimingCell& c) {
  if (!c.gain) return Cell::None();
  const std::string_view verdict = GainVerdict(c);
  return Cell::Badge(verdict, verdict == "pays"    ? Tone::kGood
                              : verdict == "costs" ? Tone::kBad
                                                   : Tone::kOpen);
}

std::vector<Cell> Row(const TimingCell& c, size_t columns) {
  std::vector<Cell> row = {
      c.profile,  c.codecs,
      c.schedule, Cell::Shown(fmt::format("{} x {}", c.groups, c.stages), c.stages),
      c.groups,   c.repeats,
      c.invalid};
  if (c.repeats == 0) {
    const std::string why = fmt::format("{} invalid", c.invalid);
    row.push_back(Cell::None(c.invalid > 0 ? why : "not run"));
    if (c.invalid == 0) row.back().tone = Tone::kOpen;
    row.resize(columns, Cell::None());
    return row;
  }
  const double whole = c.step_s.value;
  const auto share = [&](double part) {
    return Timed(part, fmt::format("{:.0f}", 100 * part / whole));
  };
  const auto times = [&](double s) { return Timed(s, fmt::format("{:.2f}", s / whole)); };
  row.insert(
      row.end(),
      {Timed(c.step_s, "{:.4f}"), fmt::format("{:.4f}", c.p2_s), Timed(c.residual, "{:+.3f}"),
       ResidualCell(c.verdict), times(c.p1_s), Timed(c.p2_s), times(c.p3_s), share(c.compute_s),
       share(c.bubble_s), share(c.coding_s), share(c.wire_s), share(c.rest_s),
       c.gain ? Timed(*c.gain, "{:.2f}") : Cell::None(), GainCell(c), Timed(c.outer_s),
       Timed(c.outer_predicted_s), OrNone(c.note), OrNone(c.verdict.text)});
  return row;
}

}  // namespace

Table TimingTable(const TimingFindings& findings) {
  Table table{
      .title = "On which links which codec pays",
      .columns = ColumnsOf("links:links | codecs:codecs | schedule:schedule | "
                           "groups x stages:stages | -:groups | n:repeats | -:invalid | "
                           "step, s:step_s,step_low_s,step_high_s | P2, s | "
                           "ln(step / P2):residual,residual_low,residual_high |  | P1/step:p1_s | "
                           "-:p2_s | P3/step:p3_s | compute %:compute_s | bubble %:bubble_s | "
                           "coding %:coding_s | links %:wire_s | rest %:rest_s | "
                           "step without codecs / step:gain,gain_low,gain_high | :verdict | "
                           "-:outer_s | -:outer_predicted_s | -:note | -:residual_verdict"),
      .rows = {},
      .notes = {
          "Means over n repeats, t intervals at 95 %. Shares of a step, mean worker: compute; "
          "bubble, what the schedule alone makes stages wait; coding and links, what P2 adds "
          "with the measured times of encoding and decoding and with the links; rest, what "
          "P2 does not explain."}};
  for (const TimingCell& c : findings.cells) table.Add(Row(c, table.columns.size()));
  if (findings.undisturbed > 0) {
    table.notes.push_back(fmt::format("median of ln(step / P2) over {} cells: {}",
                                      findings.undisturbed,
                                      Text(findings.median_residual, "{:+.3f}")));
  }
  if (findings.within + findings.beyond + findings.not_judged > 0) {
    table.notes.push_back(fmt::format(
        "ln(step / P2) with its interval: {} cells within {:.2f}, {} beyond, {} without a verdict",
        findings.within, kAcceptedResidual, findings.beyond, findings.not_judged));
  }
  for (const TimingCell& c : findings.cells) {
    if (c.verdict.residual != Residual::kNotJudged || c.verdict.text.empty()) continue;
    table.notes.push_back(fmt::format("{}, {}, {}, {} x {}: {}", c.profile, c.codecs, c.schedule,
                                      c.groups, c.stages, c.verdict.text));
  }
  return table;
}

}  // namespace longhaul
