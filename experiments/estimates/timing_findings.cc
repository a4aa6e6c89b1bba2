#include "experiments/estimates/timing_findings.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/record/file_contents.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/timing_grid.h"

namespace longhaul {
namespace {

constexpr double kTimingLevel = 0.95;

struct Runs {  // of one cell
  TimingCell cell;
  std::map<int64_t, StepTime> by_seed;
};

double MeanOf(const Runs& runs, double (*field)(const StepTime&)) {
  double sum = 0;
  for (const auto& [seed, time] : runs.by_seed) sum += field(time);
  return sum / static_cast<double>(runs.by_seed.size());
}

void Summarise(Runs& runs) {
  TimingCell& c = runs.cell;
  c.repeats = static_cast<int64_t>(runs.by_seed.size());
  if (c.repeats == 0) return;
  std::vector<double> steps, residuals;
  for (const auto& [seed, time] : runs.by_seed) {
    steps.push_back(time.measured_s.value);
    residuals.push_back(std::log(time.measured_s.value / *time.p2_s));
    if (!time.note.empty()) c.note = time.note;
  }
  c.step_s = MeanWithInterval(steps, kTimingLevel);
  c.residual = MeanWithInterval(residuals, kTimingLevel);
  c.p1_s = MeanOf(runs, [](const StepTime& t) { return *t.p1_s; });
  c.p2_s = MeanOf(runs, [](const StepTime& t) { return *t.p2_s; });
  c.p3_s = MeanOf(runs, [](const StepTime& t) { return *t.p3_s; });
  c.compute_s = MeanOf(runs, [](const StepTime& t) { return t.compute_s; });
  c.bubble_s = MeanOf(runs, [](const StepTime& t) { return t.alone_s - t.compute_s; });
  c.coding_s = MeanOf(runs, [](const StepTime& t) { return t.coded_s - t.alone_s; });
  c.wire_s = MeanOf(runs, [](const StepTime& t) { return *t.p2_s - t.coded_s; });
  c.rest_s = MeanOf(runs, [](const StepTime& t) { return t.measured_s.value - *t.p2_s; });
  const StepTime& last = runs.by_seed.rbegin()->second;
  if (!last.outer_measured_s) return;
  c.outer_s = MeanOf(runs, [](const StepTime& t) { return t.outer_measured_s.value_or(0); });
  c.outer_predicted_s =
      MeanOf(runs, [](const StepTime& t) { return t.outer_predicted_s.value_or(0); });
}

// Repeats of one number ran beside one another, as seeds do: they are paired.
void Compare(const Runs& without, Runs& with) {
  std::vector<double> base, steps;
  for (const auto& [seed, time] : with.by_seed) {
    const auto found = without.by_seed.find(seed);
    if (found == without.by_seed.end()) continue;
    base.push_back(found->second.measured_s.value);
    steps.push_back(time.measured_s.value);
  }
  if (!base.empty()) with.cell.gain = RatioOfMeans(base, steps, kTimingLevel);
  with.cell.gain_disturbed = !without.cell.note.empty() || !with.cell.note.empty();
}

absl::StatusOr<std::vector<Runs>> ReadRuns(const Record& record, int64_t experiment) {
  const auto any = [](std::string_view) { return absl::OkStatus(); };
  const absl::StatusOr<std::vector<RunRow>> rows = record.Runs(experiment);
  if (!rows.ok()) return rows.status();
  if (const std::string mixed = MixedContents(*rows); !mixed.empty()) {
    return absl::FailedPreconditionError(record.folder() + "/" + kRecordFile +
                                         ": runs of other files are not mixed: " + mixed);
  }
  std::vector<Runs> cells;
  std::map<std::string, size_t> by_arm;
  for (const RunRow& row : *rows) {
    const auto [at, added] = by_arm.emplace(row.arm, cells.size());
    if (added) cells.emplace_back();
    Runs& runs = cells[at->second];
    absl::StatusOr<TomlValue> tree = ParseToml(row.spec_toml, "run " + std::to_string(row.id));
    if (!tree.ok()) return tree.status();
    const absl::StatusOr<RunSpec> spec = ReadRunSpec(*tree, {any, any, any});
    if (!spec.ok()) return spec.status();
    runs.cell.profile = row.profile;
    runs.cell.codecs = PairName(row.forward_codec, row.backward_codec);
    runs.cell.schedule = spec->schedule.kind;
    runs.cell.stages = row.stages;
    runs.cell.groups = row.groups;
    if (row.status == RunStatus::kInvalid || row.status == RunStatus::kFailed) ++runs.cell.invalid;
    if (row.status != RunStatus::kOk) continue;
    absl::StatusOr<StepTime> time = AnalyseStepTime(record, row, *spec);
    if (!time.ok()) return time.status();
    if (time->measured_steps > 0 && time->p2_s) runs.by_seed[row.seed] = *std::move(time);
  }
  return cells;
}

}  // namespace

absl::StatusOr<TimingFindings> AnalyseTiming(const Record& record, int64_t experiment) {
  absl::StatusOr<std::vector<Runs>> cells = ReadRuns(record, experiment);
  if (!cells.ok()) return cells.status();
  const auto links = [](const TimingCell& c) {
    return std::tuple(c.profile, c.schedule, c.stages, c.groups);
  };
  TimingFindings out;
  std::vector<double> residuals;
  for (Runs& runs : *cells) Summarise(runs);
  for (Runs& runs : *cells) {
    for (const Runs& other : *cells) {
      const bool pair = runs.cell.codecs != "none" && other.cell.codecs == "none" &&
                        links(other.cell) == links(runs.cell);
      if (pair) Compare(other, runs);
    }
    if (runs.cell.repeats > 0) {
      runs.cell.verdict = JudgeResidual(runs.cell.residual, runs.cell.note);
      const Residual verdict = runs.cell.verdict.residual;
      out.within += verdict == Residual::kWithin ? 1 : 0;
      out.beyond += verdict == Residual::kBeyond ? 1 : 0;
      out.not_judged += verdict == Residual::kNotJudged ? 1 : 0;
      if (runs.cell.note.empty()) residuals.push_back(runs.cell.residual.value);
    }
    out.cells.push_back(runs.cell);
  }
  out.undisturbed = static_cast<int64_t>(residuals.size());
  if (!residuals.empty()) out.median_residual = MedianOfIndependent(std::move(residuals));
  return out;
}

std::string_view GainVerdict(const TimingCell& cell) {
  if (cell.gain_disturbed) return "no verdict: timing disturbed";
  if (!cell.gain || !cell.gain->interval) return "no difference shown";
  if (cell.gain->interval->low > 1) return "pays";
  return cell.gain->interval->high < 1 ? "costs" : "no difference shown";
}

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
