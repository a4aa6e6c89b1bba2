#include "experiments/report/listing.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "absl/time/time.h"
#include "experiments/estimates/table.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

// What the table of steps says of each run of the record, in one pass over it.
struct StepsOfRun {
  int64_t steps = 0;
  std::optional<double> tokens_per_s, last_loss_nat;
};

constexpr char kStepsQuery[] =
    "WITH by_step AS ("
    "  SELECT s.run_id AS run_id, s.step AS step,"
    // Where groups come and go a step is done that one group has done.
    "    MAX(r.spec_toml LIKE '%on_group_loss = \"continue\"%' OR r.spec_toml LIKE '[launch]%')"
    "      AS elastic,"
    // Of a launched program every rank may be the one that tells.
    "    SUM(CASE WHEN s.stage = r.stages - 1 OR r.spec_toml LIKE '[launch]%' THEN s.tokens ELSE 0"
    "      END) AS tokens,"
    "    SUM(s.stage = r.stages - 1 OR r.spec_toml LIKE '[launch]%') AS last_stages,"
    "    r.groups AS groups,"
    "    MAX(s.wall_s) AS wall_s,"
    // A loss that is not finite is kept as a text, which AVG would take for 0.
    "    CASE WHEN SUM(typeof(s.loss_nat) = 'text') > 0 THEN 'nan' ELSE AVG(s.loss_nat) END"
    "      AS loss_nat"
    "  FROM steps s JOIN runs r ON r.id = s.run_id GROUP BY s.run_id, s.step) "
    "SELECT run_id, COUNT(*), SUM(tokens), SUM(wall_s), loss_nat, MAX(step) "
    "FROM by_step WHERE last_stages = groups OR (elastic AND last_stages > 0) GROUP BY run_id";

absl::StatusOr<std::map<int64_t, StepsOfRun>> StepsByRun(const Record& record) {
  const auto rows = record.Rows(kStepsQuery);
  if (!rows.ok()) return rows.status();
  std::map<int64_t, StepsOfRun> by_run;
  for (size_t i = 1; i < rows->size(); ++i) {
    const std::vector<std::string>& row = (*rows)[i];
    StepsOfRun& steps = by_run[std::atoll(row[0].c_str())];
    steps.steps = std::atoll(row[1].c_str());
    const double wall_s = std::atof(row[3].c_str());
    if (wall_s > 0) steps.tokens_per_s = std::atof(row[2].c_str()) / wall_s;
    if (!row[4].empty()) steps.last_loss_nat = std::atof(row[4].c_str());
  }
  return by_run;
}

// From the keys that every version has had, so that one it does not know costs nothing.
std::optional<int64_t> StepsPlanned(const RunRow& run) {
  const absl::StatusOr<TomlValue> spec = ParseToml(run.spec_toml, "record");
  if (!spec.ok()) return std::nullopt;
  if (const auto steps = FindAs<int64_t>(*spec, "train.steps")) return *steps;
  const int64_t *rows = FindAs<int64_t>(*spec, "train.batch_rows"),
                *context = FindAs<int64_t>(*spec, "model.context");
  if (!rows || !context || *rows <= 0 || *context <= 0 || run.groups <= 0) return std::nullopt;
  return run.train_tokens / (*rows * *context * run.groups);
}

// Arms times seeds of the plan that was written down before the first run.
int64_t PlannedRuns(const ExperimentRow& row) {
  // Its arms hold whole specs, together more than a parser of specs takes; names in it are quoted,
  // so a line of its own is a header.
  constexpr char kArm[] = "\n[[arm]]\n";
  const size_t first_arm = row.plan_text.find(kArm);
  const absl::StatusOr<TomlValue> plan = ParseToml(row.plan_text.substr(0, first_arm), "plan");
  if (!plan.ok()) return 0;
  int64_t arms = 0;
  for (size_t at = first_arm; at != std::string::npos; at = row.plan_text.find(kArm, at + 1))
    ++arms;
  const auto* seeds = FindAs<TomlValue::Array>(*plan, "plan.seeds");
  return seeds == nullptr ? 0 : arms * static_cast<int64_t>(seeds->size());
}

absl::StatusOr<ListedRun> ListRun(const Record& record, const RunRow& row,
                                  const std::map<int64_t, StepsOfRun>& steps) {
  ListedRun out{.row = row};
  out.steps_planned = StepsPlanned(row);
  if (const auto found = steps.find(row.id); found != steps.end()) {
    out.steps_done = found->second.steps;
    out.tokens_per_s = found->second.tokens_per_s;
    out.train_loss_nat = found->second.last_loss_nat;
  }
  if (row.facts.contains(kSimulatedClockFact)) {
    const absl::StatusOr<std::vector<SimulatedRow>> times = record.Simulated(row.id);
    if (!times.ok()) return times.status();
    for (const SimulatedRow& t : *times) {
      out.simulated_s = std::max(out.simulated_s.value_or(0), t.simulated_s);
    }
  }
  absl::StatusOr<std::vector<CodecSwitchRow>> switches = record.CodecSwitches(row.id);
  if (!switches.ok()) return switches.status();
  out.codec_switches = *std::move(switches);
  absl::StatusOr<std::vector<EvaluationRow>> evaluations = record.Evaluations(row.id);
  if (!evaluations.ok()) return evaluations.status();
  for (const EvaluationRow& e : *evaluations) {  // in the order of steps
    const bool newer = !out.held_out || e.step > out.held_out->step;
    if (newer || e.codec == EvalCodec::kOff) out.held_out = e;
  }
  return out;
}

absl::StatusOr<ListedExperiment> List(const Record& record, const ExperimentRow& row,
                                      const std::map<int64_t, StepsOfRun>& steps) {
  ListedExperiment out{.row = row};
  absl::StatusOr<std::vector<RunRow>> runs = record.Runs(row.id);
  if (!runs.ok()) return runs.status();
  for (const RunRow& run : *runs) {
    absl::StatusOr<ListedRun> listed = ListRun(record, run, steps);
    if (!listed.ok()) return listed.status();
    out.runs.push_back(*std::move(listed));
  }
  if (row.kind == ExperimentKind::kCampaign) out.planned = PlannedRuns(row);
  absl::StatusOr<std::set<std::pair<std::string, int64_t>>> ended = record.Finished(row.id);
  if (!ended.ok()) return ended.status();
  out.ended = static_cast<int64_t>(ended->size());
  absl::StatusOr<std::vector<EstimateRow>> estimates = record.Estimates(row.id);
  if (!estimates.ok()) return estimates.status();
  out.estimates = *std::move(estimates);
  return out;
}

ListedRecord ListFolder(const std::string& folder) {
  ListedRecord out{.folder = folder, .error = "", .experiments = {}};
  const absl::StatusOr<Record> record = Record::Open(folder, Record::Mode::kRead);
  if (!record.ok()) {
    out.error = std::string(record.status().message());
    if (absl::IsFailedPrecondition(record.status())) {
      out.error += "; the longhaul that wrote it can read it";
    }
    return out;
  }
  absl::StatusOr<ListedRecord> listed = ListRecord(*record);
  if (listed.ok()) return *std::move(listed);
  out.error = std::string(listed.status().message());
  return out;
}

}  // namespace

std::string ListedExperiment::state() const {
  const bool running = std::any_of(runs.begin(), runs.end(), [](const ListedRun& r) {
    return r.row.status == RunStatus::kRunning;
  });
  if (running) return "running";
  if (row.kind == ExperimentKind::kCampaign) {
    return planned > 0 && ended >= planned ? "complete" : "incomplete";
  }
  const bool open = std::any_of(runs.begin(), runs.end(), [](const ListedRun& r) {
    return r.row.status == RunStatus::kDied || r.row.status == RunStatus::kInterrupted;
  });
  return open || runs.empty() ? "incomplete" : "complete";
}

absl::StatusOr<ListedExperiment> ListExperiment(const Record& record, const ExperimentRow& row) {
  const auto steps = StepsByRun(record);
  if (!steps.ok()) return steps.status();
  return List(record, row, *steps);
}

absl::StatusOr<ListedRecord> ListRecord(const Record& record) {
  ListedRecord out{.folder = record.folder(), .error = "", .experiments = {}};
  const auto steps = StepsByRun(record);
  if (!steps.ok()) return steps.status();
  absl::StatusOr<std::vector<ExperimentRow>> rows = record.Experiments();
  if (!rows.ok()) return rows.status();
  for (const ExperimentRow& row : *rows) {
    absl::StatusOr<ListedExperiment> experiment = List(record, row, *steps);
    if (!experiment.ok()) return experiment.status();
    out.experiments.push_back(*std::move(experiment));
  }
  return out;
}

absl::StatusOr<std::vector<ListedRecord>> ListRecordsBelow(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr int kLevels = 3;
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    return absl::NotFoundError(
        fmt::format("list '{}': a file; a record is named by its folder", folder));
  }
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format(
        "list '{}': no such folder; `longhaul run` and `longhaul measure` write records into "
        "results/NAME, or where --results says",
        folder));
  }
  if (fs::exists(folder + "/" + kRecordFile, error)) return std::vector{ListFolder(folder)};
  std::vector<std::string> found;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  if (error) {
    return absl::PermissionDeniedError(fmt::format("list '{}': {}", folder, error.message()));
  }
  for (const fs::recursive_directory_iterator end; at != end; at.increment(error)) {
    if (at.depth() >= kLevels) at.disable_recursion_pending();
    if (at->path().filename() == kRecordFile) found.push_back(at->path().parent_path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<ListedRecord> records;
  for (const std::string& one : found) records.push_back(ListFolder(one));
  return records;
}

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
  const std::string ranks = FactOf(run.facts, kRanksFact);
  if (run.spec_toml.starts_with("[launch]") && !ranks.empty()) return ranks + " ranks";
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
