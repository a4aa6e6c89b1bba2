// What each arm changes and what it sends, beside its q.
#include <fmt/format.h>

#include "experiments/report/html.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

std::string ChangesCell(const std::vector<std::string>& changes) {
  if (changes.empty()) return "nothing";
  std::string cell;
  for (const std::string& change : changes) {
    const size_t arrow = change.find(" -> ");
    cell += fmt::format("{}<span class=\"nb\">{} &rarr; {}</span>", cell.empty() ? "" : "<br>",
                        HtmlEscape(change.substr(0, arrow)), HtmlEscape(change.substr(arrow + 4)));
  }
  return cell;
}

std::string BitsCell(const ArmOnTheWire::Direction& d) {
  return d.bits_per_element > 0 ? fmt::format("{:.3f}", d.bits_per_element) : std::string("-");
}

std::string NmseCell(const ArmOnTheWire::Direction& d) {
  if (!d.nmse_mean) return "-";
  return fmt::format("{:.2e}{}", *d.nmse_mean,
                     d.nmse_max
                         ? fmt::format("<br><span class=\"ci\">at most {:.1e}</span>", *d.nmse_max)
                         : std::string());
}

// As the table of arms shows it.
std::string QCell(const ArmResult& arm) {
  if (!arm.off || !arm.off->q) return "-";
  return IntervalCell(*arm.off->q, 4);
}

}  // namespace

absl::StatusOr<std::string> WirePart(const Record& record, const CampaignAnalysis& a) {
  const auto arms = ArmsOnTheWire(record, a);
  if (!arms.ok()) return arms.status();
  if (arms->empty()) return std::string();
  std::vector<std::vector<std::string>> rows;
  for (const ArmOnTheWire& wire : *arms) {
    std::vector<std::string> row = {HtmlEscape(wire.arm),   ChangesCell(wire.changes),
                                    BitsCell(wire.forward), BitsCell(wire.backward),
                                    NmseCell(wire.forward), NmseCell(wire.backward)};
    for (const ArmResult& arm : a.arms) {
      if (arm.arm == wire.arm) row.push_back(QCell(arm));
    }
    rows.push_back(std::move(row));
  }
  return "<h3>What each arm changes, and what it sends</h3><p class=\"note\">Against the "
         "uncompressed run at D0, seed and length aside. Bits per element are counted from payload "
         "bytes, scales and headers included; NMSE is |x - decoded|&sup2; / |x|&sup2; on the run's "
         "own tensors, mean over samples, seeds and boundaries, and the largest.</p>" +
         HtmlTable({"arm", "changes", "bits/element,<br>forward", "bits/element,<br>backward",
                    "NMSE,<br>forward", "NMSE,<br>backward", "q,<br>codec off"},
                   rows);
}

}  // namespace longhaul
