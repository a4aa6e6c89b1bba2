// Codecs that changed while runs trained.
#include <fmt/format.h>

#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

constexpr size_t kMostSwitches = 200;  // of a run; the record has all

std::string SwitchTable(const std::vector<CodecSwitchRow>& switches) {
  std::vector<std::vector<std::string>> rows;
  for (const CodecSwitchRow& s : switches) {
    if (rows.size() == kMostSwitches) break;
    rows.push_back({fmt::format("{}", s.step), fmt::format("{}", s.group_index),
                    fmt::format("{}", s.boundary), std::string(ToString(s.direction)),
                    HtmlEscape(s.from_codec), HtmlEscape(s.to_codec), HtmlEscape(s.cause)});
  }
  return HtmlTable({"from step", "group", "boundary", "direction", "from", "to", "cause"}, rows);
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
