// The parts that every experiment has: step times, bytes, links, runs, specs.
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/training_advice.h"
#include "experiments/report/html.h"
#include "experiments/report/listing.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

constexpr size_t kMostNotes = 10;       // more are folded away
constexpr size_t kMostWholeSpecs = 20;  // of the arms after those, what differs from the first

std::string StepTimesPart(const std::vector<StepTime>& times) {
  const std::string out = HtmlGrid(StepTimesTable(times));
  std::string notes;
  size_t count = 0;
  for (const StepTime& t : times) {
    const ResidualVerdict verdict = JudgeResidual(t);
    const bool open = verdict.residual == Residual::kNotJudged && !verdict.text.empty();
    if (!open && t.note.empty()) continue;
    notes += fmt::format("<p class=\"note open\">Run {}: {}</p>\n", t.run,
                         HtmlEscape(open ? verdict.text : t.note));
    ++count;
  }
  if (count <= kMostNotes) return out + notes;
  return out + HtmlDetails(fmt::format("{} runs without a verdict, and why", count), notes);
}

std::string OuterPart(const std::vector<StepTime>& times) {
  Table table{
      .columns = ColumnsOf(
          "run | arm | links | outer steps | measured, s | shortest to longest, s | predicted, s")};
  for (const StepTime& t : times) {
    if (!t.outer_measured_s || !t.p2_s) continue;
    table.Add({t.run,
               t.arm,
               t.profile,
               t.outer_steps,
               {t.outer_measured_s, "{:.4f}"},
               fmt::format("{:.4f} to {:.4f}", t.outer_least_s, t.outer_most_s),
               {t.outer_predicted_s, "{:.4f}"}});
  }
  if (table.rows.empty()) return "";
  return "<h3>Outer synchronisation</h3><p class=\"note\">Mean over outer steps and workers; "
         "predicted: the largest message on an idle link, 8 &kappa; b / R + RTT/2.</p>" +
         HtmlGrid(table);
}

Cell Megabytes(const std::optional<int64_t>& bytes) {
  return bytes ? Cell(static_cast<double>(*bytes) / 1e6, "{:.3f}") : Cell::None();
}

// Predicted, sent, counted: the kernel's count against the prediction in per cent.
absl::StatusOr<std::string> BytesTable(const Record& record, const ReportedExperiment& e) {
  Table table{.columns =
                  ColumnsOf("run | arm | ranks | direction | codec | tensors | bits/element | "
                            "NMSE | payload | sent | predicted | counted | "
                            "counted\nto predicted")};
  std::string one_sided;
  for (const RunRow& run : e.runs) {
    if (run.profile == "loopback") continue;
    if (const std::string paths = FactOf(run.facts, kOneSidedPathsFact); !paths.empty()) {
      one_sided += fmt::format(" Run {}: paths judged for bytes that lack, not for more, {}.",
                               run.id, HtmlEscape(paths));
    }
    absl::StatusOr<std::vector<CrossingRow>> crossings = record.Crossings(run.id);
    if (!crossings.ok()) return crossings.status();
    for (const CrossingRow& c : *crossings) {
      table.Add({run.id,
                 run.arm,
                 fmt::format("{} -> {}", c.src_rank, c.dst_rank),
                 ToString(c.direction),
                 c.codec,
                 c.tensors,
                 {BitsPerElement(c), "{:.3f}"},
                 {c.nmse_mean, "{:.2e}"},
                 Megabytes(c.payload_bytes),
                 Megabytes(c.message_bytes),
                 Megabytes(c.predicted_wire_bytes),
                 Megabytes(c.kernel_tx_bytes),
                 {PercentOverPrediction(c), "{:+.2f} %"}});
    }
  }
  if (table.rows.empty()) return std::string();
  return "<h3>Bytes three ways</h3><p class=\"note\">In MB. Predicted before the run: frame size x "
         "1514/1448, acknowledgements included. Sent: handed to the transport. Counted: the path's "
         "own counter while training, Ethernet headers included; crossings of one path share it." +
         one_sided + "</p>" + HtmlGrid(table);
}

absl::StatusOr<std::string> LinksPart(const Record& record, const ReportedExperiment& e) {
  Table table{.columns = ColumnsOf("run | when | nodes | rate | goodput wanted | goodput | RTT | "
                                   "min | median | p99 | replies | queue drops | loss drops | ")};
  const auto times = [](const std::optional<double>& x, double unit) {
    return x ? Cell(*x * unit, "{:.2f}") : Cell::None();
  };
  for (const RunRow& run : e.runs) {
    absl::StatusOr<std::vector<LinkRow>> links = record.Links(run.id);
    if (!links.ok()) return links.status();
    for (const LinkRow& l : *links) {
      table.Add({run.id, l.phase == LinkPhase::kBefore ? "before" : "after",
                 fmt::format("{} -> {}", l.src_node, l.dst_node),
                 times(l.nominal_rate_bit_per_s, 1e-6), times(l.nominal_goodput_bit_per_s, 1e-6),
                 times(l.goodput_bit_per_s, 1e-6), times(l.nominal_rtt_s, 1e3),
                 times(l.rtt_min_s, 1e3), times(l.rtt_median_s, 1e3), times(l.rtt_p99_s, 1e3),
                 fmt::format("{}/{}", l.probes_received, l.probes_sent), l.queue_drops,
                 l.loss_drops,
                 l.ok ? Cell::Badge("ok", Tone::kGood) : Cell::Badge(l.why, Tone::kBad)});
    }
  }
  if (table.rows.empty()) return std::string();
  return "<h3>Links</h3>" +
         HtmlDetails(fmt::format("{} measurements, Mbit/s and ms", table.rows.size()),
                     HtmlGrid(table));
}

Tone ToneOf(RunStatus status) {
  switch (status) {
    case RunStatus::kOk:
      return Tone::kGood;
    case RunStatus::kRunning:
    case RunStatus::kInterrupted:
      return Tone::kOpen;
    default:
      return Tone::kBad;
  }
}

std::string WholeSpec(const RunRow& run) {
  std::string facts;
  for (const auto& [key, value] : run.facts) facts += fmt::format("# {} = {}\n", key, value);
  return HtmlDetails(fmt::format("{} (run {}, seed {})", run.arm, run.id, run.seed),
                     fmt::format("<pre>{}{}</pre>", HtmlEscape(run.spec_toml), HtmlEscape(facts)));
}

std::string Specs(const ReportedExperiment& e) {
  std::string out;
  std::set<std::string> shown;
  Table others{.columns = ColumnsOf("arm | run | differs in")};
  for (const RunRow& run : e.runs) {
    if (!shown.insert(run.arm).second) continue;
    if (shown.size() <= kMostWholeSpecs) {
      out += WholeSpec(run);
      continue;
    }
    const auto changes = ChangesInWords(e.runs.front().spec_toml, run.spec_toml);
    others.Add({run.arm, run.id, fmt::format("{}", fmt::join(changes, "; "))});
  }
  if (others.rows.empty()) return out;
  return out +
         fmt::format(
             "<p class=\"note\">{} more arms, by what differs from {}; their whole "
             "specs and facts are in tables/runs.csv and tables/run_facts.csv.</p>",
             others.rows.size(), HtmlEscape(e.runs.front().arm)) +
         HtmlGrid(others);
}

}  // namespace

Cell ResidualBadge(const ResidualVerdict& verdict) {
  switch (verdict.residual) {
    case Residual::kNotJudged:
      return Cell::Badge("no verdict", Tone::kOpen);
    case Residual::kWithin:
      return Cell::Badge(verdict.text, Tone::kGood);
    case Residual::kBeyond:
      break;
  }
  return Cell::Badge(verdict.text, Tone::kBad);
}

std::string FigureHtml(const Figures& figures, const std::string& name,
                       const std::string& caption) {
  const auto figure = figures.find(name);
  if (figure == figures.end()) return "";
  return fmt::format(
      "<figure><div class=\"scroll drawing\">{}</div><figcaption>{}</figcaption></figure>\n",
      figure->second, caption);
}

absl::StatusOr<std::string> TimingPart(const Record& record, const ReportedExperiment& e,
                                       const Figures& figures) {
  const bool any_link = std::any_of(e.runs.begin(), e.runs.end(),
                                    [](const RunRow& r) { return r.profile != "loopback"; });
  if (!any_link && e.campaign) return std::string();
  std::string out = e.timing ? HtmlOf(TimingTable(*e.timing)) : "";
  out += "<h3>Step time, measured against predicted</h3>" + StepTimesPart(e.step_times);
  out +=
      "<p class=\"note\">P2 is the event recursion over full-duplex links with the compute, encode "
      "and decode times of the run itself; it is confirmed within &plusmn;0.10. P1 is the "
      "planner's "
      "serial slots, P3 one wire a receiver, both for comparison. Steps with an outer "
      "synchronisation and the first tenth are "
      "left out.</p>\n";
  out += FigureHtml(figures, "step_times",
                    "Measured against predicted (P2) step time per link profile, with the "
                    "&plusmn;10 % band. One point per run; every point is labelled with its arm.");
  out += OuterPart(e.step_times);
  absl::StatusOr<std::string> bytes = BytesTable(record, e);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<std::string> links = LinksPart(record, e);
  if (!links.ok()) return links.status();
  return out + *bytes + *links;
}

std::string RunsPart(const ReportedExperiment& e) {
  Table table{.columns = ColumnsOf("run | arm | seed | groups x stages | tokens | links | "
                                   "emulator | status | reason | begun (UTC) | host | kernel | "
                                   "torch | codecs' ISA | threads | revision")};
  int bad = 0;
  for (const RunRow& r : e.runs) {
    bad += r.status != RunStatus::kOk;
    table.Add({r.id, r.arm, r.seed, ShapeOf(r), r.train_tokens, r.profile, r.emulator,
               Cell::Badge(ToString(r.status), ToneOf(r.status)), r.reason,
               r.begun_utc.substr(0, 19), r.host, r.kernel, r.torch_version, r.isa, r.threads,
               r.git_revision});
  }
  std::string out =
      "<h3>Runs</h3>" +
      HtmlDetails(fmt::format("{} runs, {} of them not ok", e.runs.size(), bad), HtmlGrid(table));
  out += "<h3>Resolved specs</h3>" +
         HtmlDetails("one per arm; seeds differ in the seed alone", Specs(e));
  if (const std::string forecast = FactOf(e.row.facts, kForecastFact); !forecast.empty()) {
    out += "<h3>The forecast, before the first run</h3><pre>" + HtmlEscape(forecast) + "</pre>";
  }
  if (!e.row.plan_text.empty()) {
    out += "<h3>The plan, hashed before the first run</h3><p class=\"note\">SHA-256 " +
           HtmlEscape(e.row.plan_sha256) + "</p>" +
           HtmlDetails("plan", "<pre>" + HtmlEscape(e.row.plan_text) + "</pre>");
  }
  return out;
}

absl::StatusOr<std::string> ExperimentSection(const Record& record, const ReportedExperiment& e,
                                              const Figures& figures,
                                              const std::string& figures_note) {
  std::string out = fmt::format("<section><h2>{}</h2>\n<p class=\"question\">{}</p>\n",
                                HtmlEscape(e.row.name), HtmlEscape(e.row.question));
  if (FactOf(e.row.facts, kAcceptedUnresolvedFact) == "true") {
    out +=
        "<p class=\"note open\">Begun with --accept-unresolved: the forecast said that this design "
        "cannot resolve a loss of 0.5 % per crossing in its primary contrast.</p>\n";
  }
  for (const std::string& line : DataAdvice(e.runs)) {
    out += fmt::format("<p class=\"note open\">{}</p>\n", HtmlEscape(line));
  }
  if (!figures_note.empty()) {
    out += fmt::format("<p class=\"note open\">No figures: {}</p>\n", HtmlEscape(figures_note));
  }
  if (e.campaign) {
    const absl::StatusOr<std::string> wire = WirePart(record, *e.campaign);
    if (!wire.ok()) return wire.status();
    const absl::StatusOr<std::string> errors = ErrorsPart(record, *e.campaign);
    if (!errors.ok()) return errors.status();
    out += CampaignPart(*e.campaign, *wire, figures) + *errors;
  } else {
    out += FigureHtml(
        figures, "training",
        "Training loss of each arm: its last run at each seed; the band spans the seeds.");
  }
  if (HasSimulatedClock(e)) {
    out +=
        FigureHtml(figures, "simulated",
                   "Training loss over simulated hours and over bytes of messages: when the steps "
                   "would have ended on the links and the machine of the run's simulated clock. No "
                   "hour here is a real one; loss, jitter and coding times are not in it.");
  }
  out +=
      FigureHtml(figures, "pareto",
                 "Final held-out loss, codec off, over what an arm costs: the simulated clock's "
                 "hours where runs have one, bytes of all messages, planned memory of a rank. "
                 "Bars: t over seeds, 95 %; open: references. On the line are those that no other "
                 "arm beats in both; it knows no intervals.");
  absl::StatusOr<std::string> timing = TimingPart(record, e, figures);
  if (!timing.ok()) return timing.status();
  const absl::StatusOr<std::string> faults = FaultsPart(record, e);
  if (!faults.ok()) return faults.status();
  const absl::StatusOr<std::string> switches = SwitchesPart(record, e);
  if (!switches.ok()) return switches.status();
  return out + *timing + *switches + *faults + ProvenancePart(e) + RunsPart(e) + "</section>\n";
}

}  // namespace longhaul
