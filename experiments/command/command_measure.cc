// `measure`: a campaign or a grid of step times, or a published campaign computed anew from its losses.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/command/campaign_estimates.h"
#include "experiments/command/command.h"
#include "experiments/command/measure_progress.h"
#include "experiments/command/output.h"
#include "experiments/command/untrained_prices.h"
#include "experiments/estimates/training_advice.h"
#include "experiments/run/gpu_sharing.h"
#include "experiments/run/gpu_spread.h"
#include "experiments/run/preflight.h"
#include "experiments/run/rate_rule.h"
#include "experiments/run/run_pool.h"
#include "experiments/run/run_recorder.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec_paths.h"
#include "experiments/spec/timing_grid.h"
#include "experiments/train/attention_kernel.h"
#include "experiments/train/coded_on.h"
#include "experiments/train/sample_visits.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/spec_files.h"
#include "experiments/train/whole_tensors.h"

namespace longhaul {
namespace {

struct MeasureArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string results;
  int jobs = 0;
  bool list = false;
  std::optional<int64_t> run;
  std::string records, from_losses, gpus;
  bool accept_unresolved = false;
  OutputOptions output;
};

// What a record keeps of a campaign.
using Facts = std::map<std::string, std::string>;
ExperimentRow CampaignRow(const CampaignSpec& campaign, const Facts& frozen, Facts facts) {
  return {.kind = ExperimentKind::kCampaign,
          .name = campaign.name,
          .question = campaign.question,
          .plan_text = PlanText(campaign, frozen),
          .d0_tokens = campaign.d0_tokens,
          .facts = std::move(facts)};
}

absl::Status IsOfThePlan(const LossTable& losses, const CampaignSpec& campaign) {
  std::set<std::pair<std::string, int64_t>> planned;
  for (const PlannedRun& run : campaign.runs) {
    planned.emplace(run.arm, run.spec.seed);
    const LossRow* loss = losses.Find(run.arm, run.spec.seed);
    if (loss == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: no row of arm '{}', seed {}, which the plan has", losses.path, run.arm,
                      run.spec.seed));
    }
    const RunRow plan = NewRunRow(run.spec, 0, run.arm);
    const std::string codecs = fmt::format("{} / {}", plan.forward_codec, plan.backward_codec);
    if (loss->codecs == codecs && loss->stages == plan.stages &&
        loss->train_tokens == plan.train_tokens) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}:{}: arm '{}' has {} stages, {}, {} tokens; in the plan {} stages, {}, {} tokens",
        losses.path, loss->line, run.arm, loss->stages, loss->codecs, loss->train_tokens,
        plan.stages, codecs, plan.train_tokens));
  }
  for (const LossRow& row : losses.rows) {
    if (planned.contains({row.arm, row.seed})) continue;
    return absl::InvalidArgumentError(fmt::format("{}:{}: the plan has no arm '{}' at seed {}",
                                                  losses.path, row.line, row.arm, row.seed));
  }
  return absl::OkStatus();
}

absl::Status AddRun(Record& record, int64_t experiment, const PlannedRun& planned,
                    const LossTable& losses) {
  const LossRow& loss = *losses.Find(planned.arm, planned.spec.seed);  // IsOfThePlan
  RunRow row = NewRunRow(planned.spec, experiment, planned.arm);
  row.role = planned.role;
  row.budget_fraction = planned.budget_fraction;
  row.git_revision = row.host = row.kernel = row.torch_version = row.cpu = row.isa = "";
  row.facts[kLossesFact] = losses.sha256;
  if (loss.untrained_price) {
    row.facts[kUntrainedPriceFact] = fmt::format("{}", *loss.untrained_price);
  }
  ASSIGN_OR_RETURN(const int64_t run, record.BeginRun(row));
  std::vector<std::pair<EvalCodec, double>> evaluations = {{EvalCodec::kOff, loss.off}};
  if (loss.on) evaluations.emplace_back(EvalCodec::kOn, *loss.on);
  for (const auto& [codec, nat] : evaluations) {
    RETURN_IF_ERROR(
        record.Add(run, std::vector<EvaluationRow>{{Steps(planned.spec), codec, nat, 0, 0}}));
  }
  return record.FinishRun(run, RunStatus::kOk, "losses read from a file; nothing was trained");
}

// What its runs say of their data, and the document with --json. Returns `outcome` unless the record can't be read.
absl::Status ShowCampaign(const Record& record, int64_t experiment, const absl::Status& outcome,
                          CommandOutput& out) {
  const absl::Status shown = ShowFromRecord(out, "campaign", record, experiment, outcome);
  return outcome.ok() ? shown : outcome;
}

// A campaign whose runs are not trained but read from a losses.csv of a report: final losses by arm
// and seed. What follows, record, table and page, is as of trained runs, but for what only training
// shows (wire, step times, NMSE).
// InvalidArgument, with file and line: not such a file; an arm, a seed, codecs or a number of
// tokens that differ from the plan's; a planned run without a row, or a row without a planned run.
absl::Status MeasureFromLosses(const MeasureArguments& arguments, CommandOutput& out) {
  ASSIGN_OR_RETURN(const CampaignSpec campaign,
                   LoadCampaign(arguments.spec, arguments.sets, CatalogNames()));
  ASSIGN_OR_RETURN(const LossTable losses, ReadLossTable(arguments.from_losses));
  RETURN_IF_ERROR(IsOfThePlan(losses, campaign));
  const std::string results = arguments.results.empty()
                                  ? fmt::format("results/{}-from-losses", campaign.name)
                                  : arguments.results;
  ASSIGN_OR_RETURN(OpenedExperiment opened,
                   OpenExperiment(results, CampaignRow(campaign, {{"losses_sha256", losses.sha256}},
                                                       {{"losses_from", arguments.from_losses},
                                                        {kLossesFact, losses.sha256}})));
  auto& [record, experiment] = opened;
  ASSIGN_OR_RETURN(const std::vector<RunRow> before, record.Runs(experiment));
  if (before.empty()) {
    for (const PlannedRun& run : campaign.runs) {
      RETURN_IF_ERROR(AddRun(record, experiment, run, losses));
    }
  } else if (before.size() != campaign.runs.size()) {
    return absl::FailedPreconditionError(
        fmt::format("{}/{} holds {} of {} runs of this file: reading it was cut short; remove the "
                    "folder and read it again",
                    results, kRecordFile, before.size(), campaign.runs.size()));
  }
  fmt::print(out.progress(), "{} losses read from {}; nothing was trained\n", losses.rows.size(),
             arguments.from_losses);
  const absl::StatusOr<std::string> table = EstimateCampaign(record, experiment, out.detail());
  if (out.json()) return ShowCampaign(record, experiment, table.status(), out);
  if (!table.ok()) return table.status();
  fmt::print("\n{}\n{}", *table, RecordLine(results));
  return absl::OkStatus();
}

absl::Status CheckCells(const TimingGrid& grid) {
  for (const PlannedRun& run : grid.runs) {
    if (run.seed != 1) break;
    if (absl::Status s = Preflight(run.spec); !s.ok()) {
      return absl::Status(s.code(),
                          fmt::format("cell '{}': {}", run.arm, std::string(s.message())));
    }
  }
  return absl::OkStatus();
}

// `measure` of a file with a [timing] table: runs the grid's cells, resumable, and prints step
// times against P2, where steps go and which codecs pay.
absl::Status MeasureTiming(const MeasureArguments& arguments, CommandOutput& out) {
  ASSIGN_OR_RETURN(TomlValue root, ReadTomlFile(arguments.spec, arguments.sets));
  RETURN_IF_ERROR(CountPathsFromFile(arguments.spec, root));
  ASSIGN_OR_RETURN(TimingGrid grid, ReadTimingGrid(root, CatalogNames()));
  RETURN_IF_ERROR(PinFiles(grid.runs));
  RETURN_IF_ERROR(CheckCells(grid));
  const std::string results =
      arguments.results.empty() ? "results/" + grid.name : arguments.results;
  ASSIGN_OR_RETURN(
      OpenedExperiment opened,
      OpenExperiment(results,
                     {.kind = ExperimentKind::kRun,
                      .name = grid.name,
                      .question = grid.question,
                      .plan_text = PlanText(grid),
                      .facts = {{kNamedFilesFact, ContentsText(FilesOfPlan(grid.runs))}}}));
  auto& [record, experiment] = opened;
  PoolLimits limits = LimitsOf(arguments.jobs);
  limits.invalid_is_outcome = true;
  const absl::Status ran = TrainTheRest(record, experiment, grid.runs, limits, out.progress());
  if (absl::IsCancelled(ran)) return ran;
  // A cell whose links failed is told in its row; the others stand.
  RETURN_IF_ERROR(ShowFromRecord(out, "timing", record, experiment, ran));
  if (!out.json()) fmt::print("{}", RecordLine(results));
  return ran;
}

// The data of the campaign, by hash: what the plan freezes beside the arms.
// InvalidArgument: a run would pass the training part of its own data more than once.
absl::StatusOr<std::map<std::string, std::string>> FrozenFacts(const CampaignSpec& campaign) {
  std::map<std::tuple<std::string, std::string, int64_t>, std::shared_ptr<const Corpus>> opened;
  std::shared_ptr<const Corpus> first;
  // What a program reads is its own; its files are among those that a plan names.
  if (campaign.runs.front().spec.program) return std::map<std::string, std::string>();
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front()) break;  // the other seeds differ in nothing else
    auto& corpus = opened[{run.spec.data.source, run.spec.data.eval, run.spec.model.vocab}];
    if (corpus == nullptr) {
      ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> read, OpenCorpus(run.spec));
      corpus = std::move(read);
    }
    if (first == nullptr) first = corpus;
    if (TrainTokens(run.spec) <= corpus->train_tokens()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "arm '{}' trains {} tokens but the corpus has {}: the slope of the reference curve is "
        "only meaningful within one epoch; lower d0_tokens or name a larger corpus",
        run.arm, TrainTokens(run.spec), corpus->train_tokens()));
  }
  return std::map<std::string, std::string>{{"data_hash", first->train_hash()},
                                            {"eval_hash", first->held_out_hash()}};
}

Facts WithFiles(Facts facts, const CampaignSpec& campaign) {
  facts[kNamedFilesFact] = ContentsText(FilesOfPlan(campaign.runs));
  return facts;
}

// Prints what the design can resolve and refuses one that can't, before anything is written. The
// answer is what the record keeps of it.
absl::StatusOr<std::map<std::string, std::string>> CheckResolution(const CampaignSpec& campaign,
                                                                   const std::string& results,
                                                                   bool accept_unresolved,
                                                                   CommandOutput& out) {
  ASSIGN_OR_RETURN(const DesignForecast forecast, ForecastFor(campaign, results));
  const bool known = forecast.missing.empty();
  const bool refused = known && !forecast.primary_resolvable && !accept_unresolved;
  for (const PlannedRun& run : campaign.runs) {
    if (run.arm != kD0Reference || run.seed != campaign.seeds.front()) continue;
    if (run.spec.program) break;
    for (const std::string& line : WarmUpAdvice(run.spec)) {
      fmt::print(out.progress(), "{}\n", line);
    }
  }
  for (const PlannedRun& run : campaign.runs) {
    if (run.spec.program || run.seed != campaign.seeds.front()) break;
    for (const std::string& line : SampleAdvice(run.spec)) {
      fmt::print(out.progress(), "arm '{}': {}\n", run.arm, line);
    }
    for (const std::string& line : AttentionAdvice(run.spec)) {
      fmt::print(out.progress(), "arm '{}': {}\n", run.arm, line);
    }
    for (const std::string& line : CodedOnAdvice(run.spec)) {
      fmt::print(out.progress(), "arm '{}': {}\n", run.arm, line);
    }
    for (const std::string& line : WholeTensorAdvice(run.spec)) {
      fmt::print(out.progress(), "arm '{}': {}\n", run.arm, line);
    }
  }
  for (const std::string& line : forecast.advice) fmt::print(out.progress(), "{}\n", line);
  if (!known) {
    fmt::print(out.warnings(), "{}; the runs are trained and recorded without it\n",
               forecast.missing);
    return Facts{{kForecastFact, "none: " + forecast.missing}};
  }
  // The error below points at it.
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(forecast.text, '\n'))) {
    fmt::print(refused && out.quiet() ? stderr : out.progress(), "{}", Wrapped(line, 110, "  "));
  }
  if (!refused) {
    return std::map<std::string, std::string>{
        {kForecastFact, forecast.text},
        {kAcceptedUnresolvedFact, forecast.primary_resolvable ? "false" : "true"}};
  }
  return absl::FailedPreconditionError(
      "this design cannot resolve a loss of 0.5 % per crossing in its primary contrast (forecast "
      "above): add seeds, or say --accept-unresolved");
}

// One run, in a record of its own. The forecast is the whole campaign's, without a pilot.
absl::Status MeasureOne(const MeasureArguments& arguments, CampaignSpec& campaign,
                        CommandOutput& out) {
  RETURN_IF_ERROR(PinFiles(campaign.runs));
  ASSIGN_OR_RETURN(auto frozen, FrozenFacts(campaign));
  ASSIGN_OR_RETURN(auto facts,
                   CheckResolution(campaign, arguments.records, /*accept_unresolved=*/true, out));
  return MeasureOneRun(campaign,
                       CampaignRow(campaign, frozen, WithFiles(std::move(facts), campaign)),
                       *arguments.run, arguments.records, out);
}

absl::Status MeasureCampaign(const MeasureArguments& arguments, CommandOutput& out) {
  ASSIGN_OR_RETURN(CampaignSpec campaign,
                   LoadCampaign(arguments.spec, arguments.sets, CatalogNames()));
  if (arguments.list) return ListPlannedRuns(campaign, out);
  if (arguments.run) return MeasureOne(arguments, campaign, out);
  const std::string results =
      arguments.results.empty() ? "results/" + campaign.name : arguments.results;
  PoolLimits limits = LimitsOf(arguments.jobs);
  if (!arguments.gpus.empty()) {
    absl::StatusOr<std::vector<int>> gpus = ParseGpus(arguments.gpus);
    if (!gpus.ok()) return gpus.status();
    RETURN_IF_ERROR(CheckCanSpread(campaign.runs));
    limits.gpus = *std::move(gpus);
  }
  RETURN_IF_ERROR(PinFiles(campaign.runs));
  RETURN_IF_ERROR(Preflight(campaign, limits));
  ASSIGN_OR_RETURN(auto frozen, FrozenFacts(campaign));
  ASSIGN_OR_RETURN(auto facts,
                   CheckResolution(campaign, results, arguments.accept_unresolved, out));
  ASSIGN_OR_RETURN(OpenedExperiment opened,
                   OpenExperiment(results, CampaignRow(campaign, frozen,
                                                       WithFiles(std::move(facts), campaign))));
  auto& [record, experiment] = opened;
  std::optional<GpuSharing> sharing;  // until the last run has ended
  const auto on_gpu = [](const PlannedRun& run) { return run.spec.train.device != "cpu"; };
  if (limits.jobs > 1 && std::ranges::any_of(campaign.runs, on_gpu)) {
    sharing.emplace(GpuSharing::Start());
    limits.gpu_sharing = sharing->words();
    fmt::print(out.progress(), "runs on a GPU share it by {}\n", sharing->words());
    limits.by_rate = arguments.jobs == 0;
    if (limits.by_rate) {
      fmt::print(out.progress(),
                 "one run a GPU at first, and one more while all together train {:.0f} % faster\n",
                 100 * (RateRule::kWorth - 1));
    }
  }
  absl::Status outcome = TrainTheRest(record, experiment, campaign.runs, limits, out.progress());
  if (!outcome.ok() && !absl::IsCancelled(outcome)) {
    outcome = absl::Status(
        outcome.code(), std::string(outcome.message()) + "; the same command goes on from there");
  }
  if (outcome.ok()) outcome = PriceReferences(record, experiment, campaign, out.warnings());
  absl::StatusOr<std::string> table =
      outcome.ok() ? EstimateCampaign(record, experiment, out.detail()) : outcome;
  const absl::Status shown = ShowCampaign(record, experiment, table.status(), out);
  if (out.json() || !shown.ok()) return shown;
  fmt::print("\n{}\n{}", *table, RecordLine(results));
  return absl::OkStatus();
}

absl::Status Measure(const MeasureArguments& arguments, CommandOutput& out) {
  ASSIGN_OR_RETURN(const TomlValue file, ReadTomlFile(arguments.spec));
  if (!arguments.from_losses.empty()) return MeasureFromLosses(arguments, out);
  if (!IsTimingGrid(file)) return MeasureCampaign(arguments, out);
  if (arguments.list || arguments.run) {
    return absl::InvalidArgumentError(
        "--list and --run are of campaigns; a [timing] grid runs on one machine");
  }
  return MeasureTiming(arguments, out);
}

}  // namespace

void AddMeasureCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<MeasureArguments>();
  CLI::App* command = app.add_subcommand(
      "measure", "Run a campaign (arms x seeds) and estimate what each codec costs");
  command->group("Measure");
  command->footer(
      "Examples:\n"
      "  longhaul measure experiments/specs/smoke.toml\n"
      "  longhaul measure own.toml --set 'campaign.seeds=[1,2,3]' --accept-unresolved");
  command->add_option("spec", arguments->spec, "Campaign, a TOML file")->required();
  command->add_option("--set", arguments->sets, kSetHelp)->take_all();
  command->add_option("--results", arguments->results,
                      "Folder of the record [default: results/NAME of the campaign]");
  command
      ->add_option("-j,--jobs", arguments->jobs,
                   "Runs at a time [default: by the cores, and the threads and processes of a run]")
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--gpus", arguments->gpus,
      "Spread runs with train.device = \"cuda\" over these GPUs, such as 0-7 or 0,2");
  command->add_flag("--accept-unresolved", arguments->accept_unresolved,
                    "Run a design that cannot resolve a loss of 0.5 % per crossing");
  CLI::Option* list =
      command->add_flag("--list", arguments->list,
                        "List the runs with ID, arm, seed, tokens and cores; train nothing");
  CLI::Option* run = command->add_option(
      "--run", arguments->run,
      "Run only the run with this ID (see --list); exit with 75 if it should be "
      "started again");
  CLI::Option* records = command->add_option("--records", arguments->records,
                                             "With --run: folder that gets a record for each run");
  command
      ->add_option("--from-losses", arguments->from_losses,
                   "Compute the table from losses.csv of a report of this campaign; train nothing")
      ->check(CLI::ExistingFile)
      ->excludes(list)
      ->excludes(run);
  run->needs(records)->excludes(list);
  records->needs(run);
  AddOutputOptions(*command, arguments->output);
  command->callback([arguments, exit_status] {
    CommandOutput out(arguments->output);
    const absl::Status status = Measure(*arguments, out);
    *exit_status = out.Finish("longhaul.measure/1", status);
    if (arguments->run && absl::IsCancelled(status)) *exit_status = kExitAgain;
  });
}

}  // namespace longhaul
