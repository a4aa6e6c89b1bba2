#include "experiments/report/result_json.h"

#include <cmath>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/table_json.h"
#include "experiments/estimates/training_advice.h"
#include "experiments/record/file_contents.h"

namespace longhaul {
namespace {

using nlohmann::ordered_json;

constexpr char kRunSchema[] = "longhaul.run/1";
constexpr char kMeasureSchema[] = "longhaul.measure/1";

std::string Dump(const ordered_json& document) {
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

template <typename T>
ordered_json Maybe(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

ordered_json MaybeText(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json ToJson(const EvaluationRow& e) {
  return {{"step", e.step},
          {"codec", ToString(e.codec)},
          {"loss_nat", e.loss_nat},
          {"standard_error_nat", e.standard_error_nat},
          {"tokens", e.tokens}};
}

// What the files held that a run's or an experiment's facts name.
ordered_json ToJson(const std::map<std::string, std::string>& facts) {
  ordered_json files = ordered_json::array();
  for (const FileContent& file : ReadContents(FactOf(facts, kNamedFilesFact))) {
    files.push_back({{"key", file.key},
                     {"value", file.value},
                     {"sha256", file.sha256},
                     {"bytes", file.bytes},
                     {"files", file.files}});
  }
  return files;
}

ordered_json ToJson(const ListedRun& run) {
  const RunRow& r = run.row;
  // A launched program's ranks are no stages or groups that anybody knows of.
  const bool known = !r.spec_toml.starts_with("[launch]");
  return {{"run", r.id},
          {"arm", r.arm},
          {"role", ToString(r.role)},
          {"seed", r.seed},
          {"status", ToString(r.status)},
          {"reason", MaybeText(r.reason)},
          {"steps_done", run.steps_done},
          {"steps_planned", Maybe(run.steps_planned)},
          {"train_tokens", r.train_tokens},
          {"budget_fraction", r.budget_fraction},
          {"stages", known ? ordered_json(r.stages) : ordered_json(nullptr)},
          {"groups", known ? ordered_json(r.groups) : ordered_json(nullptr)},
          {"forward_codec", r.forward_codec},
          {"backward_codec", r.backward_codec},
          {"profile", r.profile},
          {"emulator", r.emulator},
          {"held_out", run.held_out ? ToJson(*run.held_out) : ordered_json(nullptr)},
          {"train_loss_nat", Maybe(run.train_loss_nat)},
          {"tokens_per_s", Maybe(run.tokens_per_s)},
          {"simulated_s", Maybe(run.simulated_s)},
          {"begun_utc", r.begun_utc},
          {"finished_utc", MaybeText(r.finished_utc)},
          {"host", r.host},
          {"cpu", r.cpu},
          {"isa", r.isa},
          {"torch_version", r.torch_version},
          {"git_revision", r.git_revision},
          {"named_files", ToJson(r.facts)}};
}

ordered_json ToJson(const CodecSwitchRow& s) {
  return {{"step", s.step},         {"group", s.group_index},
          {"boundary", s.boundary}, {"direction", ToString(s.direction)},
          {"from", s.from_codec},   {"to", s.to_codec},
          {"cause", s.cause}};
}

ordered_json ToJson(const EstimateRow& x) {
  return {{"arm", x.arm},
          {"evaluation", x.evaluation},
          {"quantity", x.quantity},
          {"unit", x.unit},
          {"value", Maybe(x.value)},
          {"low", Maybe(x.low)},
          {"high", Maybe(x.high)},
          {"level", Maybe(x.level)},
          {"method", x.method},
          {"bound", MaybeText(std::string(x.value_bound()))},
          {"low_bound", MaybeText(std::string(x.low_bound()))},
          {"seeds", x.seeds},
          {"note", x.note}};
}

ordered_json ToJson(const ListedExperiment& e) {
  ordered_json runs = ordered_json::array(), estimates = ordered_json::array();
  for (const ListedRun& run : e.runs) runs.push_back(ToJson(run));
  for (const EstimateRow& x : e.estimates) estimates.push_back(ToJson(x));
  const auto fact = [&](const char* key) { return FactOf(e.row.facts, key); };
  return {{"experiment", e.row.id},
          {"kind", e.row.kind == ExperimentKind::kCampaign ? "campaign" : "run"},
          {"name", e.row.name},
          {"question", e.row.question},
          {"state", e.state()},
          {"runs_planned", e.planned},
          {"runs_ended", e.ended},
          {"d0_tokens", Maybe(e.row.d0_tokens)},
          {"plan_sha256", MaybeText(e.row.plan_text.empty() ? "" : e.row.plan_sha256)},
          {"named_files", ToJson(e.row.facts)},
          {"forecast", MaybeText(fact(kForecastFact))},
          {"accepted_unresolved", fact(kAcceptedUnresolvedFact) == "true"},
          {"begun_utc", e.row.begun_utc},
          {"runs", std::move(runs)},
          {"estimates", std::move(estimates)}};
}

ordered_json ToJson(const CrossingRow& c) {
  return {{"src_rank", c.src_rank},
          {"dst_rank", c.dst_rank},
          {"direction", ToString(c.direction)},
          {"codec", c.codec},
          {"tensors", c.tensors},
          {"elements", c.elements},
          {"payload_bytes", c.payload_bytes},
          {"message_bytes", c.message_bytes},
          {"predicted_wire_bytes", Maybe(c.predicted_wire_bytes)},
          {"kernel_tx_bytes", Maybe(c.kernel_tx_bytes)},
          {"kernel_rx_bytes", Maybe(c.kernel_rx_bytes)},
          {"nmse_mean", Maybe(c.nmse_mean)},
          {"nmse_max", Maybe(c.nmse_max)}};
}

ordered_json ToJson(const LinkRow& l) {
  return {{"phase", l.phase == LinkPhase::kBefore ? "before" : "after"},
          {"src_node", l.src_node},
          {"dst_node", l.dst_node},
          {"nominal_rate_bit_per_s", Maybe(l.nominal_rate_bit_per_s)},
          {"nominal_rtt_s", l.nominal_rtt_s},
          {"rtt_median_s", Maybe(l.rtt_median_s)},
          {"nominal_goodput_bit_per_s", Maybe(l.nominal_goodput_bit_per_s)},
          {"goodput_bit_per_s", Maybe(l.goodput_bit_per_s)},
          {"ok", l.ok},
          {"why", MaybeText(l.why)}};
}

// What the run's figures are worth stands in "note"; null: too few steps, or a spec of another
// version.
ordered_json StepTimeJson(const Record& record, const RunRow& run) {
  const auto any = [](std::string_view) { return absl::OkStatus(); };
  const absl::StatusOr<TomlValue> tree = ParseToml(run.spec_toml, "record");
  if (!tree.ok()) return nullptr;
  const auto spec = ReadRunSpec(*tree, {.codec = any, .profile = any, .schedule = any});
  if (!spec.ok()) return nullptr;
  const absl::StatusOr<StepTime> t = AnalyseStepTime(record, run, *spec);
  if (!t.ok() || t->measured_steps == 0) return nullptr;
  return {{"steady_steps", t->measured_steps},
          {"measured_s", ToJson(t->measured_s)},
          {"compute_utilisation", ToJson(t->compute_utilisation)},
          {"p2_s", Maybe(t->p2_s)},
          {"p1_s", Maybe(t->p1_s)},
          {"p3_s", Maybe(t->p3_s)},
          {"ln_measured_over_p2", t->p2_s ? ToJson(t->residual) : ordered_json(nullptr)},
          {"verdict", MaybeText(JudgeResidual(*t).text)},
          {"outer_measured_s", Maybe(t->outer_measured_s)},
          {"outer_predicted_s", Maybe(t->outer_predicted_s)},
          {"note", MaybeText(t->note)}};
}

template <typename Row>
ordered_json List(const absl::StatusOr<std::vector<Row>>& rows) {
  ordered_json out = ordered_json::array();
  if (!rows.ok()) return out;
  for (const Row& row : *rows) out.push_back(ToJson(row));
  return out;
}

ordered_json Start(const std::string& schema, const absl::Status& outcome) {
  return {{"schema", schema}, {"error", MaybeText(std::string(outcome.message()))}};
}

absl::StatusOr<ListedExperiment> FindExperiment(const Record& record, int64_t id) {
  const auto rows = record.Experiments();
  if (!rows.ok()) return rows.status();
  for (const ExperimentRow& row : *rows) {
    if (row.id == id) return ListExperiment(record, row);
  }
  return absl::NotFoundError(record.folder() + " has no such experiment");
}

}  // namespace

std::string ListJson(std::span<const ListedRecord> records) {
  ordered_json document = {{"schema", "longhaul.list/1"}, {"records", ordered_json::array()}};
  for (const ListedRecord& record : records) {
    ordered_json experiments = ordered_json::array();
    for (const ListedExperiment& e : record.experiments) experiments.push_back(ToJson(e));
    document["records"].push_back({{"folder", record.folder},
                                   {"error", MaybeText(record.error)},
                                   {"experiments", std::move(experiments)}});
  }
  return Dump(document);
}

std::string RunJson(const Record& record, int64_t run, const absl::Status& outcome) {
  const absl::StatusOr<RunRow> row = record.Run(run);
  if (!row.ok()) return ErrorJson(kRunSchema, outcome.ok() ? row.status() : outcome);
  const auto experiment = FindExperiment(record, row->experiment_id);
  if (!experiment.ok()) return ErrorJson(kRunSchema, outcome.ok() ? experiment.status() : outcome);
  ordered_json document = Start(kRunSchema, outcome);
  document["folder"] = record.folder();
  document["experiment"] = experiment->row.id;
  for (const ListedRun& listed : experiment->runs) {
    if (listed.row.id == run) document.update(ToJson(listed));
  }
  document["notes"] = DataAdvice({&*row, 1});
  document["evaluations"] = List(record.Evaluations(run));
  document["step_time"] = StepTimeJson(record, *row);
  document["crossings"] = List(record.Crossings(run));
  document["links"] = List(record.Links(run));
  document["codec_switches"] = List(record.CodecSwitches(run));
  return Dump(document);
}

std::string CampaignJson(const Record& record, int64_t experiment, const absl::Status& outcome) {
  const auto listed = FindExperiment(record, experiment);
  if (!listed.ok()) return ErrorJson(kMeasureSchema, outcome.ok() ? listed.status() : outcome);
  ordered_json document = Start(kMeasureSchema, outcome);
  document["folder"] = record.folder();
  document.update(ToJson(*listed));
  const auto runs = record.Runs(experiment);
  document["notes"] = runs.ok() ? DataAdvice(*runs) : std::vector<std::string>();
  return Dump(document);
}

std::string TimingJson(const Record& record, int64_t experiment, const TimingFindings& findings,
                       const absl::Status& outcome) {
  const auto listed = FindExperiment(record, experiment);
  if (!listed.ok()) return ErrorJson(kMeasureSchema, outcome.ok() ? listed.status() : outcome);
  ordered_json document = Start(kMeasureSchema, outcome);
  document["folder"] = record.folder();
  document.update(ToJson(*listed));
  document["timing"] = JsonRows(TimingTable(findings));
  return Dump(document);
}

std::string ErrorJson(const std::string& schema, const absl::Status& error) {
  return Dump(Start(schema, error));
}

}  // namespace longhaul
