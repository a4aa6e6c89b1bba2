// A listing for a terminal.
#include <fmt/format.h>

#include "absl/time/time.h"
#include "experiments/estimates/table.h"
#include "experiments/report/listing.h"

namespace longhaul {
namespace {

// "2026-03-01 12:34:56"
std::string Day(const std::string& utc) {
  if (utc.size() < 19) return "-";
  return utc.substr(0, 10) + " " + utc.substr(11, 8);
}

std::string Took(const RunRow& row) {
  absl::Time begun, finished;
  std::string ignored;
  if (!absl::ParseTime(absl::RFC3339_full, row.begun_utc, &begun, &ignored) ||
      !absl::ParseTime(absl::RFC3339_full, row.finished_utc, &finished, &ignored)) {
    return "-";
  }
  return fmt::format("{:.1f} s", absl::ToDoubleSeconds(finished - begun));
}

std::string LossCell(const ListedRun& run) {
  if (run.held_out) {
    const double error = run.held_out->standard_error_nat;  // 0: nobody told it
    return fmt::format("{:.4f}", run.held_out->loss_nat) +
           (error == 0 ? "" : fmt::format(" +-{:.4f}", error));
  }
  if (run.train_loss_nat) return fmt::format("training {:.4f}", *run.train_loss_nat);
  return "-";
}

// "1234.567890 s, 0.343 h": every microsecond, and what a person reads.
std::string SimulatedTime(double seconds) {
  return fmt::format("{:.6f} s, {:.4g} h", seconds, seconds / 3600);
}

std::string StepsCell(const ListedRun& run) {
  if (!run.steps_planned) return fmt::format("{}", run.steps_done);
  return fmt::format("{}/{}", run.steps_done, *run.steps_planned);
}

std::string RunsTable(const ListedExperiment& e) {
  Table table{.columns = ColumnsOf("run | state | arm | seed | G x S | steps | "
                                   "held-out loss, nat | tokens/s | begun (UTC) | took")};
  for (const ListedRun& run : e.runs) {
    const RunRow& r = run.row;
    table.Add({r.id, ToString(r.status), r.arm, r.seed, ShapeOf(r), StepsCell(run), LossCell(run),
               Cell(run.tokens_per_s, "{:.0f}"), Day(r.begun_utc), Took(r)});
  }
  return GridText(table);
}

// On what links and machine runs with a simulated clock would have taken how long, a line each.
std::string SimulatedLines(const ListedExperiment& e) {
  std::string text;
  for (const ListedRun& run : e.runs) {
    if (!run.simulated_s) continue;
    text += fmt::format("run {}: its {} steps would have taken {} (simulated)\n", run.row.id,
                        run.steps_done, SimulatedTime(*run.simulated_s));
  }
  return text;
}

// Of runs whose boundaries changed codecs: how often, and the last change.
std::string SwitchLines(const ListedExperiment& e) {
  std::string text;
  for (const ListedRun& run : e.runs) {
    if (run.codec_switches.empty()) continue;
    const CodecSwitchRow& last = run.codec_switches.back();
    text += fmt::format(
        "run {}: boundaries changed codecs {} times; last at step {}, group {}, "
        "boundary {} {}: {} > {} ({})\n",
        run.row.id, run.codec_switches.size(), last.step, last.group_index, last.boundary,
        ToString(last.direction), last.from_codec, last.to_codec, last.cause);
  }
  return text;
}

// Why a run did not end well, a line each.
std::string Reasons(const ListedExperiment& e) {
  std::string text;
  for (const ListedRun& run : e.runs) {
    if (run.row.reason.empty()) continue;
    text += fmt::format("run {} {}: {}\n", run.row.id, ToString(run.row.status), run.row.reason);
  }
  return text;
}

std::string EstimateLines(const ListedExperiment& e) {
  std::string text;
  for (const EstimateRow& x : e.estimates) {
    if (x.quantity != "q" || x.evaluation != "off" || !x.value) continue;
    text += fmt::format("q of {}, codec off: {}{:.4f}", x.arm, x.value_bound(), *x.value);
    if (x.low && x.high) {
      text += fmt::format(" [{}{:.4f}, {:.4f}]", x.low_bound(), *x.low, *x.high);
    } else if (!x.level) {
      text += " [no interval]";
    }
    text += x.note.empty() ? "\n" : fmt::format("  ({})\n", x.note);
  }
  return text;
}

std::string ExperimentText(const ListedExperiment& e) {
  const bool campaign = e.row.kind == ExperimentKind::kCampaign;
  std::string text = fmt::format("\n{} {} '{}': {}", campaign ? "campaign" : "experiment", e.row.id,
                                 e.row.name, e.state());
  if (campaign) text += fmt::format(", {} of {} runs ended", e.ended, e.planned);
  text += fmt::format("; begun {} UTC\n", Day(e.row.begun_utc));
  if (!e.row.question.empty()) text += fmt::format("  {}\n", e.row.question);
  if (e.runs.empty()) return text + "no run yet\n";
  return text + RunsTable(e) + SimulatedLines(e) + SwitchLines(e) + Reasons(e) + EstimateLines(e);
}

}  // namespace

std::string ShapeOf(const RunRow& run) {
  const auto ranks = run.facts.find(kRanksFact);
  if (run.spec_toml.starts_with("[launch]") && ranks != run.facts.end()) {
    return ranks->second + " ranks";
  }
  return fmt::format("{} x {}", run.groups, run.stages);
}

absl::StatusOr<std::string> RunLine(const Record& record, int64_t run) {
  const absl::StatusOr<RunRow> row = record.Run(run);
  if (!row.ok()) return row.status();
  const auto e = ListExperiment(record, {.id = row->experiment_id});
  if (!e.ok()) return e.status();
  std::string text =
      fmt::format("run {} of {}/{}: {}", run, record.folder(), kRecordFile, ToString(row->status));
  for (const ListedRun& listed : e->runs) {
    if (listed.row.id != run) continue;
    text += ", " + StepsCell(listed) + " steps";
    if (listed.held_out) text += fmt::format(", held-out loss {} nat", LossCell(listed));
    if (listed.tokens_per_s) text += fmt::format(", {:.0f} tokens/s", *listed.tokens_per_s);
    if (listed.simulated_s) {
      text += fmt::format(", {} simulated", SimulatedTime(*listed.simulated_s));
    }
  }
  return text + "\n";
}

std::string ListingText(std::span<const ListedRecord> records, const std::string& folder) {
  if (records.empty()) {
    return fmt::format("no record in '{}' or below: `longhaul run SPEC.toml` writes one\n", folder);
  }
  std::string text;
  for (const ListedRecord& record : records) {
    text += fmt::format("{}{}/{}\n", text.empty() ? "" : "\n", record.folder, kRecordFile);
    if (!record.error.empty()) {
      text += fmt::format("  cannot be read: {}\n", record.error);
      continue;
    }
    if (record.experiments.empty()) text += "nothing recorded yet\n";
    for (const ListedExperiment& e : record.experiments) text += ExperimentText(e);
  }
  return text;
}

}  // namespace longhaul
