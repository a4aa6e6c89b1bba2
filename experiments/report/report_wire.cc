// What each arm changes and what it sends, beside its q.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/report/html.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

Cell NmseCell(const ArmOnTheWire::Direction& d) {
  if (!d.nmse_mean) return Cell::None();
  return fmt::format("{:.2e}{}", *d.nmse_mean,
                     d.nmse_max ? fmt::format(" (at most {:.1e})", *d.nmse_max) : std::string());
}

}  // namespace

absl::StatusOr<std::string> WirePart(const Record& record, const CampaignAnalysis& a) {
  const auto arms = ArmsOnTheWire(record, a);
  if (!arms.ok()) return arms.status();
  if (arms->empty()) return std::string();
  Table table{.columns = ColumnsOf("arm | changes | bits/element,\nforward | "
                                   "bits/element,\nbackward | NMSE,\nforward | NMSE,\nbackward | "
                                   "q,\ncodec off")};
  const auto bits = [](const ArmOnTheWire::Direction& d) {
    return d.bits_per_element > 0 ? Cell(d.bits_per_element, "{:.3f}") : Cell::None();
  };
  for (const ArmOnTheWire& wire : *arms) {
    const ArmResult& arm = *FindArm(a, wire.arm);
    table.Add({wire.arm,
               wire.changes.empty() ? "nothing" : fmt::format("{}", fmt::join(wire.changes, "; ")),
               bits(wire.forward), bits(wire.backward), NmseCell(wire.forward),
               NmseCell(wire.backward), arm.off ? Cell(arm.off->q, 4) : Cell::None()});
  }
  return "<h3>What each arm changes, and what it sends</h3><p class=\"note\">Against the "
         "uncompressed run at D0, seed and length aside. Bits per element are counted from payload "
         "bytes, scales and headers included; NMSE is |x - decoded|&sup2; / |x|&sup2; on the run's "
         "own tensors, mean over samples, seeds and boundaries, and the largest.</p>" +
         HtmlGrid(table);
}

}  // namespace longhaul
