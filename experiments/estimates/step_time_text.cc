// What a run's step time says, in words: the end of `run`.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/table.h"

namespace longhaul {
namespace {

// "0.1234 s [0.1229, 0.1240] (median of 48 steady steps)"
std::string MeasuredText(const StepTime& t) {
  if (t.measured_steps == 0) {
    return "too few steps (the first tenth and those with an outer synchronisation do not count)";
  }
  std::string text = fmt::format("measured {:.4f} s", t.measured_s.value);
  if (const auto& i = t.measured_s.interval)
    text += fmt::format(" [{:.4f}, {:.4f}]", i->low, i->high);
  text += fmt::format(" (median of {} steady step{}{}{}), CU {:.0f} %", t.measured_steps,
                      t.measured_steps == 1 ? "" : "s",
                      t.meets_every_step ? ", in each of which the groups meet" : "",
                      t.measured_s.interval ? ", 95 %" : ": too few steps for an interval",
                      100 * t.compute_utilisation.value);
  if (const auto& i = t.compute_utilisation.interval) {
    text += fmt::format(" [{:.0f}, {:.0f}]", 100 * i->low, 100 * i->high);
  }
  return text;
}

std::string PredictionText(const StepTime& t) {
  if (t.measured_steps == 0) return "";
  if (!t.p2_s) return t.note.empty() ? "\n  no prediction: one process, no links" : "";
  std::string text = fmt::format("\n  predicted by events (P2) {:.4f} s: ln(measured/P2) = {:+.3f}",
                                 *t.p2_s, t.residual.value);
  if (const auto& i = t.residual.interval)
    text += fmt::format(" [{:+.3f}, {:+.3f}]", i->low, i->high);
  return text + fmt::format(
                    ", {}\n  predicted by serial slots (P1) {:.4f} s and by one wire a "
                    "receiver (P3) {:.4f} s, for comparison",
                    JudgeResidual(t).text, *t.p1_s, *t.p3_s);
}

// Who counted on a path stands over the column; in one process nothing did.
std::string BytesTable(const std::vector<CrossingRow>& crossings, const std::string& emulator) {
  const bool links = emulator != "none";
  Table table{.columns =
                  ColumnsOf("ranks | direction | codec | tensors | bits/element | payload B | "
                            "sent B")};
  if (links) {
    const std::string counter = emulator == "netem" ? "kernel's netem" : emulator + " emulator";
    table.AddColumns(ColumnsOf(
        fmt::format("predicted on wire B | counted by {} B | counted by receiver's net0 B | "
                    "counted/predicted",
                    counter)));
  }
  for (const CrossingRow& c : crossings) {
    table.Add({fmt::format("{} > {}", c.src_rank, c.dst_rank), ToString(c.direction), c.codec,
               c.tensors, Cell(BitsPerElement(c), "{:.3f}"), c.payload_bytes, c.message_bytes});
    if (!links) continue;
    table.rows.back().insert(table.rows.back().end(),
                             {c.predicted_wire_bytes, c.kernel_tx_bytes, c.kernel_rx_bytes,
                              Cell(PercentOverPrediction(c), "{:+.2f} %")});
  }
  return GridText(table);
}

// A row for each direction and codec; bytes are sums, and of the counts the worst pair is shown.
std::string BytesSummary(const std::vector<CrossingRow>& crossings, const std::string& emulator) {
  constexpr size_t kMostRows = 8;
  std::map<std::pair<Direction, std::string>, std::pair<CrossingRow, std::optional<double>>> sums;
  for (const CrossingRow& c : crossings) {
    auto& [sum, worst] = sums.try_emplace({c.direction, c.codec}).first->second;
    sum.tensors += c.tensors;
    sum.elements += c.elements;
    sum.payload_bytes += c.payload_bytes;
    sum.message_bytes += c.message_bytes;
    const std::optional<double> over = PercentOverPrediction(c);
    if (over && (!worst || std::abs(*over) > std::abs(*worst))) worst = over;
  }
  Table table{.columns = ColumnsOf("direction | codec | tensors | bits/element | sent MB")};
  const bool links = emulator != "none";
  if (links) table.AddColumns(ColumnsOf("counted/predicted, worst"));
  for (const auto& [of, found] : sums) {
    if (table.rows.size() == kMostRows) break;
    const CrossingRow& sum = found.first;
    table.Add({ToString(of.first), of.second, sum.tensors, Cell(BitsPerElement(sum), "{:.3f}"),
               Cell(static_cast<double>(sum.message_bytes) / 1e6, "{:.3f}")});
    if (links) table.rows.back().push_back(Cell(found.second, "{:+.2f} %"));
  }
  std::string text = GridText(table);
  if (sums.size() > kMostRows) {
    text += fmt::format("and {} codecs more (--verbose)\n", sums.size() - kMostRows);
  }
  return text;
}

}  // namespace

std::optional<double> BitsPerElement(const CrossingRow& c) {
  if (c.elements == 0) return std::nullopt;
  return 8 * static_cast<double>(c.payload_bytes) / static_cast<double>(c.elements);
}

std::optional<double> PercentOverPrediction(const CrossingRow& c) {
  if (!c.predicted_wire_bytes || !c.kernel_tx_bytes || *c.predicted_wire_bytes <= 0) {
    return std::nullopt;
  }
  return 100 *
         (static_cast<double>(*c.kernel_tx_bytes) / static_cast<double>(*c.predicted_wire_bytes) -
          1);
}

ResidualVerdict JudgeResidual(const Measured& residual, const std::string& note) {
  const auto none = [](std::string why) {
    return ResidualVerdict{Residual::kNotJudged, "no verdict: " + std::move(why)};
  };
  if (!note.empty()) return none(note);
  if (!residual.interval) return none("too few values for an interval");
  const double low = residual.interval->low, high = residual.interval->high;
  if (-kAcceptedResidual < low && high < kAcceptedResidual) {
    return {Residual::kWithin, fmt::format("within {:.2f}", kAcceptedResidual)};
  }
  if (high < -kAcceptedResidual || low > kAcceptedResidual) {
    return {Residual::kBeyond, fmt::format("beyond {:.2f}", kAcceptedResidual)};
  }
  return none(fmt::format("the interval reaches to both sides of {:.2f}", kAcceptedResidual));
}

ResidualVerdict JudgeResidual(const StepTime& t) {
  if (!t.p2_s) return {};
  return JudgeResidual(t.residual, t.note);
}

absl::StatusOr<std::string> StepTimeSummary(const Record& record, int64_t run, const RunSpec& spec,
                                            Detail detail) {
  absl::StatusOr<RunRow> row = record.Run(run);
  if (!row.ok()) return row.status();
  absl::StatusOr<StepTime> t = AnalyseStepTime(record, *row, spec);
  if (!t.ok()) return t.status();
  std::string text = "\nstep time: " + MeasuredText(*t) + PredictionText(*t);
  if (spec.injected()) text += "\n  compute was injected: step times alone, nothing was trained";
  const absl::StatusOr<std::vector<SimulatedRow>> simulated = record.Simulated(run);
  if (!simulated.ok()) return simulated.status();
  if (!simulated->empty()) {  // in the order of steps
    double ended_s = 0;
    for (const SimulatedRow& row : *simulated) ended_s = std::max(ended_s, row.simulated_s);
    const int64_t steps = simulated->back().step;
    text += fmt::format(
        "\nsimulated clock: {} steps would have taken {:.6f} s, {:.6f} s a step "
        "(simulated, no evidence of real time)",
        steps, ended_s, ended_s / static_cast<double>(steps));
  }
  if (t->outer_measured_s) {
    text += fmt::format("\nouter step: measured {:.4f} s (mean of {}: {:.4f} to {:.4f})",
                        *t->outer_measured_s, t->outer_steps, t->outer_least_s, t->outer_most_s);
    if (t->outer_predicted_s) {
      text += fmt::format(", predicted {:.4f} s (its largest message on an idle link)",
                          *t->outer_predicted_s);
    }
  }
  if (!t->note.empty() && !t->p2_s) text += "\n  " + t->note;  // else it is in the verdict
  absl::StatusOr<std::vector<CrossingRow>> crossings = record.Crossings(run);
  if (!crossings.ok()) return crossings.status();
  if (crossings->empty()) return text + "\n";
  return text + "\n\n" +
         (detail == Detail::kAll ? BytesTable(*crossings, row->emulator)
                                 : BytesSummary(*crossings, row->emulator));
}

}  // namespace longhaul
