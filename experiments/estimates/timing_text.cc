// What a timing grid found: for people, and as rows for programs.
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

constexpr size_t kGridColumns = 18;

std::string Percent(double part, double whole) { return fmt::format("{:.0f}", 100 * part / whole); }

std::vector<std::string> GridRow(const TimingCell& c) {
  std::vector<std::string> row = {c.profile, c.codecs, c.schedule,
                                  fmt::format("{} x {}", c.groups, c.stages),
                                  fmt::format("{}", c.repeats)};
  if (c.repeats == 0) {
    row.push_back(c.invalid > 0 ? fmt::format("{} invalid", c.invalid) : "not run");
    row.resize(kGridColumns, "-");
    return row;
  }
  const double whole = c.step_s.value;
  const bool judged = c.verdict.residual != Residual::kNotJudged;
  row.insert(row.end(),
             {Text(c.step_s, "{:.4f}"), fmt::format("{:.4f}", c.p2_s), Text(c.residual, "{:+.3f}"),
              judged ? c.verdict.text : "no verdict", fmt::format("{:.2f}", c.p1_s / whole),
              fmt::format("{:.2f}", c.p3_s / whole)});
  for (const double part : {c.compute_s, c.bubble_s, c.coding_s, c.wire_s, c.rest_s}) {
    row.push_back(Percent(part, whole));
  }
  row.push_back(c.gain ? Text(*c.gain, "{:.2f}") : "-");
  row.push_back(c.gain ? std::string(GainVerdict(c)) : "-");
  return row;
}

std::string Cell(const std::optional<double>& x) { return x ? fmt::format("{:.9g}", *x) : ""; }

void AddMeasured(const Measured& m, std::vector<std::string>& row) {
  row.push_back(Cell(m.value));
  row.push_back(m.interval ? Cell(m.interval->low) : "");
  row.push_back(m.interval ? Cell(m.interval->high) : "");
}

}  // namespace

ReportTable TimingTable(const TimingFindings& findings) {
  ReportTable table{
      .title = "On which links which codec pays",
      .header = {"links", "codecs", "schedule", "groups x stages", "n", "step, s", "P2, s",
                 "ln(step / P2)", "", "P1/step", "P3/step", "compute %", "bubble %", "coding %",
                 "links %", "rest %", "step without codecs / step", ""},
      .rows = {},
      .notes = {
          "Means over n repeats, t intervals at 95 %. Shares of a step, mean worker: compute; "
          "bubble, what the schedule alone makes stages wait; coding and links, what P2 adds "
          "with the measured times of encoding and decoding and with the links; rest, what "
          "P2 does not explain."}};
  for (const TimingCell& c : findings.cells) table.rows.push_back(GridRow(c));
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

std::vector<std::vector<std::string>> TimingRows(const TimingFindings& findings) {
  std::vector<std::vector<std::string>> rows = {{"links",
                                                 "codecs",
                                                 "schedule",
                                                 "stages",
                                                 "groups",
                                                 "repeats",
                                                 "invalid",
                                                 "step_s",
                                                 "step_low_s",
                                                 "step_high_s",
                                                 "residual",
                                                 "residual_low",
                                                 "residual_high",
                                                 "p1_s",
                                                 "p2_s",
                                                 "p3_s",
                                                 "compute_s",
                                                 "bubble_s",
                                                 "coding_s",
                                                 "wire_s",
                                                 "rest_s",
                                                 "gain",
                                                 "gain_low",
                                                 "gain_high",
                                                 "verdict",
                                                 "outer_s",
                                                 "outer_predicted_s",
                                                 "note",
                                                 "residual_verdict"}};
  for (const TimingCell& c : findings.cells) {
    std::vector<std::string> row = {c.profile,
                                    c.codecs,
                                    c.schedule,
                                    fmt::format("{}", c.stages),
                                    fmt::format("{}", c.groups),
                                    fmt::format("{}", c.repeats),
                                    fmt::format("{}", c.invalid)};
    if (c.repeats == 0) {
      row.resize(rows[0].size());
      rows.push_back(std::move(row));
      continue;
    }
    AddMeasured(c.step_s, row);
    AddMeasured(c.residual, row);
    for (const double x :
         {c.p1_s, c.p2_s, c.p3_s, c.compute_s, c.bubble_s, c.coding_s, c.wire_s, c.rest_s}) {
      row.push_back(Cell(x));
    }
    if (c.gain) {
      AddMeasured(*c.gain, row);
    } else {
      row.resize(row.size() + 3);
    }
    row.push_back(c.gain ? std::string(GainVerdict(c)) : "");
    row.push_back(Cell(c.outer_s));
    row.push_back(Cell(c.outer_predicted_s));
    row.push_back(c.note);
    row.push_back(c.verdict.text);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace longhaul
