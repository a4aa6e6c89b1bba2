// What each arm changes and sends, and what each boundary's codec lost over the training.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/report/html.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

constexpr int64_t kPercents[] = {0, 10, 50, 100};

// One direction of a boundary of an arm, at one part of the training, over its seeds and groups.
struct Pooled {
  double sum = 0, p95 = 0;
  int64_t samples = 0, runs = 0;
  void Add(const CrossingErrorRow& row) {
    sum += row.nmse_mean * static_cast<double>(row.samples);
    p95 += row.nmse_p95;
    samples += row.samples;
    ++runs;
  }
  std::string Text() const {
    if (samples == 0) return "-";
    return fmt::format("{:.2e} (p95 {:.1e}, n = {})", sum / static_cast<double>(samples),
                       p95 / static_cast<double>(runs), samples);
  }
};

using Boundary = std::pair<int64_t, bool>;  // its number; backward

absl::StatusOr<std::map<Boundary, std::map<int64_t, Pooled>>> ErrorsOf(const Record& record,
                                                                       const ArmResult& arm) {
  std::map<Boundary, std::map<int64_t, Pooled>> errors;
  for (const Outcome& o : arm.outcomes) {
    const auto rows = record.CrossingErrors(o.run.id);
    if (!rows.ok()) return rows.status();
    for (const CrossingErrorRow& row : *rows) {
      const Boundary boundary{std::min(row.src_rank, row.dst_rank) % arm.stages,
                              row.dst_rank < row.src_rank};
      errors[boundary][row.percent].Add(row);
    }
  }
  return errors;
}

}  // namespace

absl::StatusOr<std::string> ErrorsPart(const Record& record, const CampaignAnalysis& a) {
  Table table{.columns =
                  ColumnsOf("arm | boundary | direction | first steps | 10 % | 50 % | last steps")};
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm) continue;
    const auto errors = ErrorsOf(record, arm);
    if (!errors.ok()) return errors.status();
    for (const auto& [boundary, by_percent] : *errors) {
      std::vector<Cell> row = {arm.arm, boundary.first, boundary.second ? "backward" : "forward"};
      for (const int64_t percent : kPercents) {
        const auto found = by_percent.find(percent);
        row.emplace_back(found == by_percent.end() ? "-" : found->second.Text());
      }
      table.Add(std::move(row));
    }
  }
  if (table.rows.empty()) return std::string();
  return "<h3>What boundaries lose over the training</h3><p class=\"note\">NMSE of sampled frames "
         "of a twentieth of the steps each: the first, those around 10 and 50 %, the last. Mean "
         "over samples; p95 of each run, mean over runs; n samples in all. Boundary b sits between "
         "stages b and b + 1.</p>" +
         HtmlDetails(fmt::format("{} crossings", table.rows.size()), HtmlGrid(table));
}

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
