// A published campaign computed anew: its losses are in a file, its runs are gone.
#include "experiments/command/measure_losses.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/loss_file.h"
#include "experiments/report/result_json.h"
#include "experiments/run/run_recorder.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

absl::Status IsOfThePlan(const LossFile& losses, const CampaignSpec& campaign) {
  std::set<LossFile::ArmAndSeed> planned;
  for (const PlannedRun& run : campaign.runs) {
    const LossFile::ArmAndSeed key(run.arm, run.spec.seed);
    planned.insert(key);
    const auto row = losses.rows.find(key);
    if (row == losses.rows.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: no row of arm '{}', seed {}, which the plan has", losses.path, key.first,
                      key.second));
    }
    const RunRow plan = NewRunRow(run.spec, 0, run.arm);
    const std::string codecs = fmt::format("{} / {}", plan.forward_codec, plan.backward_codec);
    const LossFile::Row& loss = row->second;
    if (loss.codecs == codecs && loss.stages == plan.stages &&
        loss.train_tokens == plan.train_tokens) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}:{}: arm '{}' has {} stages, {}, {} tokens; in the plan {} stages, {}, {} tokens",
        losses.path, loss.line, key.first, loss.stages, loss.codecs, loss.train_tokens, plan.stages,
        codecs, plan.train_tokens));
  }
  for (const auto& [key, row] : losses.rows) {
    if (planned.contains(key)) continue;
    return absl::InvalidArgumentError(fmt::format("{}:{}: the plan has no arm '{}' at seed {}",
                                                  losses.path, row.line, key.first, key.second));
  }
  return absl::OkStatus();
}

absl::Status AddRun(Record& record, int64_t experiment, const PlannedRun& planned,
                    const LossFile& losses) {
  const LossFile::Row& loss = losses.rows.at({planned.arm, planned.spec.seed});
  RunRow row = NewRunRow(planned.spec, experiment, planned.arm);
  row.role = planned.role;
  row.budget_fraction = planned.budget_fraction;
  row.git_revision = row.host = row.kernel = row.torch_version = row.cpu = row.isa = "";
  row.facts[kLossesFact] = losses.sha256;
  const absl::StatusOr<int64_t> run = record.BeginRun(row);
  if (!run.ok()) return run.status();
  std::vector<std::pair<EvalCodec, double>> evaluations = {{EvalCodec::kOff, loss.off}};
  if (loss.on) evaluations.emplace_back(EvalCodec::kOn, *loss.on);
  for (const auto& [codec, nat] : evaluations) {
    const EvaluationRow evaluation{Steps(planned.spec), codec, nat, 0, 0};
    if (absl::Status s = record.AddEvaluation(*run, evaluation); !s.ok()) return s;
  }
  return record.FinishRun(*run, RunStatus::kOk, "losses read from a file; nothing was trained");
}

}  // namespace

absl::Status MeasureFromLosses(const LossesArguments& arguments, CommandOutput& out) {
  const absl::StatusOr<CampaignSpec> campaign =
      LoadCampaign(arguments.spec, arguments.sets, CatalogNames());
  if (!campaign.ok()) return campaign.status();
  const absl::StatusOr<LossFile> losses = ReadLossFile(arguments.losses);
  if (!losses.ok()) return losses.status();
  if (absl::Status s = IsOfThePlan(*losses, *campaign); !s.ok()) return s;
  const std::string results = arguments.results.empty()
                                  ? fmt::format("results/{}-from-losses", campaign->name)
                                  : arguments.results;
  absl::StatusOr<Record> record = Record::Open(results, Record::Mode::kWrite);
  if (!record.ok()) return record.status();
  const absl::StatusOr<int64_t> experiment = record->BeginExperiment(
      {.kind = ExperimentKind::kCampaign,
       .name = campaign->name,
       .question = campaign->question,
       .plan_text = PlanText(*campaign, {{"losses_sha256", losses->sha256}}),
       .d0_tokens = campaign->d0_tokens,
       .facts = {{"losses_from", arguments.losses}, {kLossesFact, losses->sha256}}});
  if (!experiment.ok()) return experiment.status();
  const absl::StatusOr<std::vector<RunRow>> before = record->Runs(*experiment);
  if (!before.ok()) return before.status();
  if (before->empty()) {
    for (const PlannedRun& run : campaign->runs) {
      if (absl::Status s = AddRun(*record, *experiment, run, *losses); !s.ok()) return s;
    }
  } else if (before->size() != campaign->runs.size()) {
    return absl::FailedPreconditionError(
        fmt::format("{}/{} holds {} of {} runs of this file: reading it was cut short; remove the "
                    "folder and read it again",
                    results, kRecordFile, before->size(), campaign->runs.size()));
  }
  fmt::print(out.progress(), "{} losses read from {}; nothing was trained\n", losses->rows.size(),
             arguments.losses);
  const absl::StatusOr<std::string> table = AnalyseCampaign(*record, *experiment);
  if (out.json()) out.Document(CampaignJson(*record, *experiment, table.status()));
  if (out.json() || !table.ok()) return table.status();
  fmt::print("\n{}\nrecord: {}/{}   report: longhaul report {}\n", *table, results, kRecordFile,
             results);
  return absl::OkStatus();
}

}  // namespace longhaul
