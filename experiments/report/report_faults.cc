// What runs went through: groups that came and went, with the loss and the faults on it, and
// boundaries that changed codecs.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

constexpr double kWidth = 720, kHeight = 220, kLeft = 48, kBottom = 28;

// Mean loss over the groups that were there, by step.
std::map<int64_t, double> LossByStep(const std::vector<StepRow>& steps) {
  std::map<int64_t, std::pair<double, int>> sums;
  for (const StepRow& s : steps) {
    if (!s.loss_nat || !std::isfinite(*s.loss_nat)) continue;
    sums[s.step].first += *s.loss_nat;
    ++sums[s.step].second;
  }
  std::map<int64_t, double> mean;
  for (const auto& [step, sum] : sums) mean[step] = sum.first / sum.second;
  return mean;
}

// The curve, a line where a fault struck, and a band over rounds that were not everybody's.
std::string LossSvg(const std::map<int64_t, double>& loss, const std::vector<RoundRow>& rounds,
                    const std::vector<FaultRow>& faults) {
  if (loss.size() < 2) return "";
  const auto [low, high] = std::minmax_element(
      loss.begin(), loss.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const double least = low->second, span = std::max(1e-9, high->second - least);
  const auto steps = static_cast<double>(loss.rbegin()->first);
  const auto x = [&](int64_t step) {
    return kLeft + (kWidth - kLeft - 8) * static_cast<double>(step) / steps;
  };
  const auto y = [&](double value) {
    return 8 + (kHeight - kBottom - 16) * (1 - (value - least) / span);
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" role=\"img\" aria-label=\"loss and faults\">",
      kWidth, kHeight);
  int64_t begin = 0;
  for (const RoundRow& round : rounds) {
    if (!round.lost.empty() || !round.left_out.empty()) {
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"8\" width=\"{:.1f}\" height=\"{}\" fill=\"#e8b4a0\" "
          "opacity=\"0.4\"/>",
          x(begin), x(round.last_step) - x(begin), kHeight - kBottom - 8);
    }
    begin = round.last_step;
  }
  for (const FaultRow& fault : faults) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"8\" y2=\"{1}\" stroke=\"#b03a2e\">"
        "<title>step {2}: {3}, {4}</title></line>",
        x(fault.step), kHeight - kBottom, fault.step, HtmlEscape(fault.what),
        HtmlEscape(fault.place));
  }
  std::string points;
  for (const auto& [step, value] : loss) points += fmt::format("{:.1f},{:.1f} ", x(step), y(value));
  svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#22577a\"/>", points);
  svg += fmt::format(
      "<text x=\"2\" y=\"16\" font-size=\"11\">{:.2f}</text>"
      "<text x=\"2\" y=\"{}\" font-size=\"11\">{:.2f}</text>"
      "<text x=\"{}\" y=\"{}\" font-size=\"11\">step {}</text></svg>",
      high->second, kHeight - kBottom, least, kWidth - 90, kHeight - 8, steps);
  return svg;
}

std::string FaultTable(const std::vector<FaultRow>& faults) {
  Table table{.columns =
                  ColumnsOf("step | fault | where | tokens lost | back at step | after s | said")};
  for (const FaultRow& f : faults) {
    table.Add({f.step, f.what, f.place, f.lost_tokens, f.recovered_step,
               Cell(f.recovery_s, "{:.1f}"), f.said});
  }
  return HtmlGrid(table);
}

std::string RoundTable(const std::vector<RoundRow>& rounds) {
  Table table{.columns = ColumnsOf("round | after step | members | left out | lost | joined | "
                                   "exchanges | waited s")};
  for (const RoundRow& r : rounds) {
    table.Add({r.round, r.last_step, r.members, r.left_out, r.lost, r.joiners, r.attempts,
               Cell(r.waited_s, "{:.2f}")});
  }
  return HtmlGrid(table);
}

}  // namespace

absl::StatusOr<std::string> FaultsPart(const Record& record, const ReportedExperiment& e) {
  constexpr size_t kMostRuns = 12;
  std::string out;
  size_t shown = 0;
  for (const RunRow& run : e.runs) {
    const auto rounds = record.Rounds(run.id);
    const auto faults = record.Faults(run.id);
    if (!rounds.ok()) return rounds.status();
    if (!faults.ok()) return faults.status();
    if ((rounds->empty() && faults->empty()) || ++shown > kMostRuns) continue;
    const auto steps = record.Steps(run.id);
    if (!steps.ok()) return steps.status();
    out += fmt::format("<h4>Run {}, arm {}, seed {}: {} faults</h4>", run.id, HtmlEscape(run.arm),
                       run.seed, faults->size());
    out += LossSvg(LossByStep(*steps), *rounds, *faults);
    if (!faults->empty()) out += FaultTable(*faults);
    out += HtmlDetails(fmt::format("{} rounds", rounds->size()), RoundTable(*rounds));
  }
  if (out.empty()) return out;
  if (shown > kMostRuns) {
    out += fmt::format("<p class=\"note\">{} more runs have faults or rounds of their own.</p>",
                       shown - kMostRuns);
  }
  return "<h3>Faults and rounds</h3><p class=\"note\">Training loss, mean over the groups that "
         "were "
         "there; a line where a fault struck, a band where a group was lost or left out of the "
         "outer step.</p>" +
         out;
}

namespace {

constexpr size_t kMostSwitches = 200;  // of a run; the record has all

std::string SwitchTable(const std::vector<CodecSwitchRow>& switches) {
  Table table{.columns = ColumnsOf("from step | group | boundary | direction | from | to | cause")};
  for (const CodecSwitchRow& s : switches) {
    if (table.rows.size() == kMostSwitches) break;
    table.Add({s.step, s.group_index, s.boundary, ToString(s.direction), s.from_codec, s.to_codec,
               s.cause});
  }
  return HtmlGrid(table);
}

}  // namespace

absl::StatusOr<std::string> SwitchesPart(const Record& record, const ReportedExperiment& e) {
  std::string out;
  for (const RunRow& run : e.runs) {
    const auto switches = record.CodecSwitches(run.id);
    if (!switches.ok()) return switches.status();
    if (switches->empty()) continue;
    out += HtmlDetails(
        fmt::format(
            "Run {}, arm {}, seed {}: {} changes{}", run.id, HtmlEscape(run.arm), run.seed,
            switches->size(),
            switches->size() > kMostSwitches ? fmt::format(", the first {}", kMostSwitches) : ""),
        SwitchTable(*switches));
  }
  if (out.empty()) return out;
  return "<h3>Codecs that changed</h3><p class=\"note\">Each sender decides for itself before a "
         "step's first micro-batch crosses, by the boundaries' warm-up or policy. Before the first "
         "step every boundary has none.</p>" +
         out;
}

}  // namespace longhaul
