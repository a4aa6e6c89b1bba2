#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/estimates/training_advice.h"
#include "experiments/record/whole_file.h"
#include "experiments/run/checkpoint_folder.h"
#include "experiments/run/preflight.h"
#include "experiments/run/run_place.h"
#include "experiments/run/run_view.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/trace_steps.h"
#include "experiments/trace/trace_span.h"
#include "experiments/train/attention_kernel.h"
#include "experiments/train/coded_on.h"
#include "experiments/train/sample_visits.h"
#include "experiments/train/spec_files.h"
#include "experiments/train/whole_tensors.h"

namespace longhaul {
namespace {

std::vector<std::string> NamesOfRanks(const RunSpec& spec) {
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < spec.workers(); ++rank) {
    names.push_back(fmt::format("rank {} (group {} {} {})", rank, rank / spec.ranks(),
                                spec.schedule.chunks == 1 ? "stage" : "rank", rank % spec.ranks()));
  }
  return names;
}

// That are whole in these steps, by the step after which they begin and their fragment.
std::vector<std::pair<int64_t, int64_t>> WholeExchanges(const RunSpec& spec) {
  const OuterPlan plan = OuterPlanOf(spec);
  std::vector<std::pair<int64_t, int64_t>> whole;
  if (spec.outer.groups == 1) return whole;
  for (int64_t step = spec.trace->first; step <= spec.trace->last; ++step) {
    if (plan.gradients()) whole.emplace_back(step, 0);
    if (!plan.exchanges()) continue;
    for (const OuterExchange& e : plan.BegunAfter(step)) {
      if (e.applied <= spec.trace->last) whole.emplace_back(e.begun, e.fragment);
    }
  }
  return whole;
}

// Writes what a run with spec.trace reported. Returns what to say of it: where it is, and how much of
// the exchanges in it was exposed. FailedPrecondition: some rank did not come to the end of the last
// step that was asked for; nothing is written then.
absl::StatusOr<std::string> WriteTrace(const std::string& path, const Trace& trace,
                                       const RunSpec& spec) {
  const TraceSteps steps = *spec.trace;
  if (trace.RanksThatEnded(steps.last) < spec.workers()) {
    return absl::FailedPreconditionError(fmt::format(
        "no trace in {}: not all ranks came to the end of step {} in this run", path, steps.last));
  }
  const std::vector<TraceSpan> spans = trace.Spans();
  const auto whole = WholeExchanges(spec);
  const std::optional<ExposedTime> exposed =
      ExposedTimeOf(spans, whole, static_cast<int>(spec.ranks()));
  const std::string of_exchanges =
      exposed ? TextOf(*exposed) : std::string("no exchange between groups is whole in it");
  const std::string text =
      ChromeTrace(spans, NamesOfRanks(spec),
                  {{"clock", spec.simulated_clock() ? "simulated" : "CLOCK_MONOTONIC"},
                   {"steps", fmt::format("{} to {}", steps.first, steps.last)},
                   {"exchanges", of_exchanges}});
  RETURN_IF_ERROR(WriteWholeFile(path, text));
  return fmt::format("trace of steps {} to {}: {} ({} spans); {}", steps.first, steps.last, path,
                     spans.size(), of_exchanges);
}

struct RunArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string results;
  std::string arm;
  std::string capture;
  std::string from;
  std::string clock;
  std::string trace, trace_steps;
  bool resume = false;
  OutputOptions output;
};

void Say(std::FILE* out, const std::string& line) {
  std::fputs((line + "\n").c_str(), out);
  std::fflush(out);
}

// The failure with what to do about it at its end.
absl::Status WithAdvice(const absl::Status& outcome, const RunPlace& place, const RunSpec& spec) {
  if (outcome.ok()) return outcome;
  return absl::Status(outcome.code(),
                      std::string(outcome.message()) + HowToResume(place, spec, outcome));
}

// Of a run that `--resume` finds ended: OK when it ended ok.
absl::Status FinishedBefore(const RunPlace& place) {
  if (place.status == RunStatus::kOk) return absl::OkStatus();
  return absl::FailedPreconditionError(place.notices.back());
}

// What stands at the end: the summary, one line with --quiet, a document with --json. Returns
// `outcome` unless what was recorded can't be read.
absl::Status ShowResult(const Record& record, int64_t run, const absl::Status& outcome,
                        CommandOutput& out) {
  if (!outcome.ok() && !out.json()) return outcome;
  const absl::Status shown = ShowFromRecord(out, "run", record, run, outcome);
  if (!outcome.ok() || !shown.ok()) return outcome.ok() ? shown : outcome;
  if (!out.json() && !out.quiet()) fmt::print("{}", RecordLine(record.folder()));
  return absl::OkStatus();
}

// Files of another run are not mixed with those of this one.
absl::Status CheckCapture(const RunSpec& spec, bool resume) {
  const std::string& folder = spec.boundary.capture;
  std::error_code error;
  if (folder.empty() || resume || !std::filesystem::exists(folder, error)) return absl::OkStatus();
  if (std::filesystem::is_empty(folder, error) && !error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("capture to {}: {}; name a new folder", folder,
                  error ? error.message() : std::string("it is not empty")));
}

// The spec names the other run's folder itself, whatever was given. A run that is resumed has begun
// with it already, and the folder may be gone.
absl::Status PlaceFrom(RunSpec& spec, bool resume) {
  if (spec.checkpoint.from.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> folder = FindCheckpoints(spec.checkpoint.from);
  if (!folder.ok() && !resume) return folder.status();
  const std::string given =
      std::filesystem::absolute(spec.checkpoint.from).lexically_normal().string();
  spec.checkpoint.from = folder.ok() ? *folder : given;
  return absl::OkStatus();
}

absl::Status AskForTrace(const RunArguments& arguments, RunSpec* spec) {
  if (arguments.trace.empty()) {
    if (arguments.trace_steps.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--trace-steps: of which --trace FILE?");
  }
  ASSIGN_OR_RETURN(const TraceSteps steps, ParseTraceSteps(arguments.trace_steps, *spec));
  spec->trace = steps;
  const absl::Status writable = CheckWritable(arguments.trace);
  if (writable.ok()) return writable;
  return absl::Status(writable.code(), fmt::format("--trace: {}", std::string(writable.message())));
}

RunSpec ToBegin(RunSpec spec, bool resume) {
  if (resume) spec.checkpoint.from.clear();
  return spec;
}

// The spec with what the command line says beside --set.
absl::StatusOr<RunSpec> SpecOf(const RunArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.capture.empty()) {  // the lab and its workers may stand elsewhere
    const std::string folder = std::filesystem::absolute(arguments.capture).lexically_normal();
    sets.push_back("boundary.capture=" + TomlQuote(folder));
  }
  if (!arguments.from.empty()) sets.push_back("checkpoint.from=" + TomlQuote(arguments.from));
  if (!arguments.clock.empty()) {
    sets.push_back("net.clock=" + TomlQuote(arguments.clock));
    sets.push_back("net.transport=loopback");
  }
  return LoadRunSpec(arguments.spec, sets, CatalogNames(), IdleKeys::kRefused);
}

// Before anything is written; completes the spec by what it finds.
absl::Status CheckAll(const RunArguments& arguments, const std::string& arm, RunSpec& spec) {
  RETURN_IF_ERROR(CheckArmName(arguments.arm.empty() ? arguments.spec : "--arm", arm));
  RETURN_IF_ERROR(PlaceFrom(spec, arguments.resume));
  RETURN_IF_ERROR(CheckCapture(spec, arguments.resume));
  RETURN_IF_ERROR(AskForTrace(arguments, &spec));
  // Files first: what else reads them says what is wrong without the key that names them.
  if (absl::Status s = PinFiles(spec, arguments.resume ? kFilesOfResumed : kAllFiles); !s.ok()) {
    return s;
  }
  return Preflight(ToBegin(spec, arguments.resume));
}

// Trains, records and shows one run that has its place in the record.
absl::Status Train(const RunArguments& arguments, const RunSpec& spec, Record& record,
                   const RunPlace& place, CancelSignal& cancel, CommandOutput& out) {
  const bool all = out.detail() == Detail::kAll;
  if (all) Say(out.progress(), ToToml(spec));
  Say(out.progress(), fmt::format("run {} of {}/{}", place.run, record.folder(), kRecordFile));
  for (const std::string& line : place.notices) Say(out.progress(), line);
  for (const std::string& line : LinkAdvice(spec)) Say(out.progress(), line);
  for (const std::string& line : WholeTensorAdvice(spec)) Say(out.progress(), line);
  for (const std::string& line : CodedOnAdvice(spec)) Say(out.progress(), line);
  for (const std::string& line : AttentionAdvice(spec)) Say(out.progress(), line);
  if (!spec.injected()) {
    for (const std::string& line : WarmUpAdvice(spec)) Say(out.progress(), line);
    for (const std::string& line : SampleAdvice(spec)) Say(out.progress(), line);
  }
  RunRecorder recorder(record, place.run, spec);
  RunView view(spec, out.progress(), MonotonicClock(),
               all ? RunView::Detail::kAll : RunView::Detail::kScreen);
  const std::string checkpoints = place.checkpoints ? place.checkpoints->path() : "";
  Trace trace;
  const absl::Status outcome = FollowRun(spec, checkpoints, cancel, recorder, view, &trace);
  const absl::Status shown = ShowResult(record, place.run, WithAdvice(outcome, place, spec), out);
  if (!spec.trace) return shown;
  const absl::StatusOr<std::string> written = WriteTrace(arguments.trace, trace, spec);
  if (written.ok()) Say(out.json() ? stderr : stdout, *written);
  if (!written.ok() && shown.ok()) return written.status();
  if (!written.ok()) Say(out.warnings(), std::string(written.status().message()));
  return shown;
}

absl::Status RunAndRecord(const RunArguments& arguments, CommandOutput& out) {
  ASSIGN_OR_RETURN(RunSpec spec, SpecOf(arguments));
  const std::string name = std::filesystem::path(arguments.spec).stem();
  const std::string arm = arguments.arm.empty() ? name : arguments.arm;
  RETURN_IF_ERROR(CheckAll(arguments, arm, spec));
  const std::string results = arguments.results.empty() ? "results/" + name : arguments.results;
  ASSIGN_OR_RETURN(OpenedExperiment opened,
                   OpenExperiment(results, {.kind = ExperimentKind::kRun, .name = name}));
  auto& [record, experiment] = opened;
  CancelSignal cancel;
  ASSIGN_OR_RETURN(RunPlace place,
                   ClaimRun(record, NewRunRow(spec, experiment, arm), spec, arguments.resume));
  if (!place.finished) return Train(arguments, spec, record, place, cancel, out);
  Say(out.progress(), place.notices.back());
  return ShowResult(record, place.run, FinishedBefore(place), out);
}

}  // namespace

void AddRunCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run", "Train one configuration and record its losses, bytes and step times");
  command->group("Measure");
  command->footer(
      "Examples:\n"
      "  longhaul run experiments/specs/shaped.toml\n"
      "  longhaul run first.toml --set boundary.forward=minmax3-b64 --arm three-bits");
  command->add_option("spec", arguments->spec, kSpecHelp)->required();
  command->add_option("--set", arguments->sets, kSetHelp)->take_all();
  command->add_option("--results", arguments->results,
                      "Folder of the record [default: results/NAME of the spec]");
  command->add_option("--arm", arguments->arm,
                      "Name of this configuration in the record [default: the spec's]");
  command->add_option(
      "--capture", arguments->capture,
      "Write the boundary tensors of four steps into a new or empty folder (safetensors)");
  command->add_option(
      "--trace", arguments->trace,
      "Write a timeline of every rank and link, for ui.perfetto.dev; print how much of an "
      "exchange between groups was exposed");
  command->add_option("--trace-steps", arguments->trace_steps,
                      "Steps of the trace [default: around the first exchange]");
  command->add_option(
      "--from", arguments->from,
      "Start from the newest checkpoint of another run of the same model and data: its "
      "folder of checkpoints or of its record");
  command->add_option(
      "--clock", arguments->clock,
      "With 'simulated': train in this process, and compute when each step would have ended "
      "on the links of net.profile and the machine of [compute]");
  command->add_flag("--resume", arguments->resume,
                    "Resume from the last checkpoint of the same arm and resolved spec");
  AddOutputOptions(*command, arguments->output);
  command->callback([arguments, exit_status] {
    CommandOutput out(arguments->output);
    *exit_status = out.Finish("longhaul.run/1", RunAndRecord(*arguments, out));
  });
}

}  // namespace longhaul
