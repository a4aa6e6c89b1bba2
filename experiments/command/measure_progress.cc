#include "experiments/command/measure_progress.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/run/branches.h"
#include "experiments/run/machine_limits.h"
#include "experiments/run/preflight.h"
#include "experiments/run/run_place.h"
#include "experiments/run/run_view.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// One line, rewritten in place on a terminal, and some ten lines elsewhere: how much is done and, once
// there is a pace, how long the rest will take at it.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {
    pace_.Observe(MonotonicClock().Now(), 0);
  }
  void Show(const CampaignProgress& p);

 private:
  std::FILE* const out_;
  const bool terminal_;
  Pace pace_;
  absl::Duration last_ = -absl::InfiniteDuration();
  int64_t next_tokens_ = 0;  // of which a line is due where there is no terminal
  bool ended_ = false;
};

void ProgressLine::Show(const CampaignProgress& p) {
  const absl::Duration now = MonotonicClock().Now();
  const bool last = p.done == p.runs;
  if (last ? std::exchange(ended_, true)
           : now - last_ < (terminal_ ? absl::Seconds(1) : absl::Seconds(15))) {
    return;
  }
  if (!terminal_ && !last && p.tokens_done < next_tokens_) return;
  next_tokens_ = p.tokens_done + (p.tokens + 9) / 10;
  last_ = now;
  pace_.Observe(now, static_cast<double>(p.tokens_done));
  std::string text =
      fmt::format("  runs {}/{} done, {} running{}; {:.2f} of {:.2f} M tokens", p.done, p.runs,
                  p.running, p.elsewhere > 0 ? fmt::format(" here, {} elsewhere", p.elsewhere) : "",
                  p.tokens_done / 1e6, p.tokens / 1e6);
  if (const auto pace = pace_.per_second()) {
    text += fmt::format(", {:.0f} tokens/s", *pace);
    const absl::Duration left = *pace_.Left(static_cast<double>(p.tokens));
    if (!last) text += fmt::format(", about {} left", RoughTime(left));
  }
  if (terminal_) text = fmt::format("\r{:<90}", text);
  fmt::print(out_, "{}{}", text, terminal_ && !last ? "" : "\n");
  std::fflush(out_);
}

// Other processes that are at work on this campaign.
absl::Status SayWhoElse(const Record& record, int64_t experiment, std::FILE* out) {
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, record.Runs(experiment));
  std::map<std::pair<std::string, int64_t>, int> others;  // runs by host and process
  for (const RunRow& run : runs) {
    if (run.status == RunStatus::kRunning) ++others[{run.host, run.pid}];
  }
  for (const auto& [who, count] : others) {
    fmt::print(out,
               "process {} on {} is at work on this campaign, on {} of its runs just now; this one "
               "trains what it leaves\n",
               who.second, who.first, count);
  }
  return absl::OkStatus();
}

// A run of one process writes a checkpoint when it is asked to stop, also where its plan has none;
// what is trained is the plan's either way.
RunSpec WithCheckpoints(RunSpec spec) {
  if (spec.program) return spec;
  if (spec.checkpoint.every_steps == 0 && spec.net.transport == "loopback") {
    spec.checkpoint.every_steps = Steps(spec);
  }
  return spec;
}

}  // namespace

PoolLimits LimitsOf(int jobs) {
  if (jobs > 0) return {.jobs = jobs, .cores = std::numeric_limits<int64_t>::max()};
  return {.jobs = std::numeric_limits<int>::max(), .cores = CoresAllowed()};
}

absl::Status TrainTheRest(Record& record, int64_t experiment, const std::vector<PlannedRun>& runs,
                          const PoolLimits& limits, std::FILE* out) {
  ASSIGN_OR_RETURN(const auto finished, record.Finished(experiment));
  std::vector<PlannedRun> todo;
  for (const PlannedRun& run : runs) {
    if (!finished.contains({run.arm, run.seed})) todo.push_back(run);
  }
  const bool by_cores = limits.cores < std::numeric_limits<int64_t>::max();
  fmt::print(out, "{} runs, {} done before; {}\n", runs.size(), runs.size() - todo.size(),
             by_cores ? fmt::format("as many at a time as {} cores hold", limits.cores)
                      : fmt::format("{} at a time", limits.jobs));
  const Branches branches(record.folder(), todo);
  if (branches.count() > 0) {
    fmt::print(out, "{} runs branch off longer ones: {:.2f} M tokens are trained once\n",
               branches.count(), static_cast<double>(branches.SharedTokens()) / 1e6);
  }
  RETURN_IF_ERROR(SayWhoElse(record, experiment, out));
  std::fflush(out);
  CancelSignal cancel;
  ProgressLine line(out);
  return RunAll(record, experiment, todo, limits, cancel,
                [&](const CampaignProgress& p) { line.Show(p); });
}

absl::Status ListPlannedRuns(const CampaignSpec& campaign, CommandOutput& out) {
  nlohmann::ordered_json document = {{"schema", "longhaul.run-list/1"},
                                     {"name", campaign.name},
                                     {"runs", nlohmann::ordered_json::array()}};
  for (size_t id = 0; id < campaign.runs.size(); ++id) {
    const PlannedRun& run = campaign.runs[id];
    const int64_t tokens = TrainTokens(run.spec), cores = CoresNeeded(run.spec);
    document["runs"].push_back(
        {{"id", id}, {"arm", run.arm}, {"seed", run.seed}, {"tokens", tokens}, {"cores", cores}});
    if (!out.json()) {
      fmt::print("{}\t{}\t{}\t{}\t{}\n", id, run.arm, run.seed, tokens, cores);
    }
  }
  if (out.json()) out.Document(document.dump(2) + "\n");
  return absl::OkStatus();
}

absl::Status MeasureOneRun(const CampaignSpec& campaign, const ExperimentRow& experiment,
                           int64_t id, const std::string& records, CommandOutput& out) {
  if (id < 0 || id >= static_cast<int64_t>(campaign.runs.size())) {
    return absl::OutOfRangeError(
        fmt::format("--run {}: the plan has runs 0 to {} (--list)", id, campaign.runs.size() - 1));
  }
  const PlannedRun& planned = campaign.runs[static_cast<size_t>(id)];
  const RunSpec spec = WithCheckpoints(planned.spec);
  RETURN_IF_ERROR(Preflight(spec));
  const std::string folder = fmt::format("{}/{:04}", records, id);
  ASSIGN_OR_RETURN(OpenedExperiment opened, OpenExperiment(folder, experiment));
  auto& [record, row] = opened;
  ASSIGN_OR_RETURN(const auto experiments, record.Experiments());
  if (experiments.size() != 1) {
    return absl::FailedPreconditionError(fmt::format(
        "{} has runs of another plan: name other --records for a plan that changed", folder));
  }
  ASSIGN_OR_RETURN(const Claim claim, record.LookUpClaim(row, planned.arm, planned.seed));
  if (claim.outcome == Claim::Outcome::kElsewhere) {
    return absl::UnavailableError(fmt::format("run {} is at work: {}", id, claim.who));
  }
  if (claim.outcome == Claim::Outcome::kFinished) {
    fmt::print(out.progress(), "run {} ('{}', seed {}) has ended before\n", id, planned.arm,
               planned.seed);
    return absl::OkStatus();
  }
  CancelSignal cancel;
  const bool resumable = spec.checkpoint.every_steps > 0;
  ASSIGN_OR_RETURN(RunPlace place, ClaimRun(record, PlannedRow(planned, row), spec, resumable));
  fmt::print(out.progress(), "run {} of {}: '{}', seed {}, in {}/{}\n", id, campaign.name,
             planned.arm, planned.seed, folder, kRecordFile);
  for (const std::string& line : place.notices) fmt::print(out.progress(), "{}\n", line);
  std::fflush(out.progress());
  RunRecorder recorder(record, place.run, planned.spec);
  RunView view(spec, out.progress(), MonotonicClock(),
               out.detail() == Detail::kAll ? RunView::Detail::kAll : RunView::Detail::kScreen);
  const absl::Status outcome =
      FollowRun(spec, place.checkpoints ? place.checkpoints->path() : "", cancel, recorder, view);
  // A loss that diverged is an outcome of the plan.
  if (absl::IsOutOfRange(outcome)) {
    fmt::print(out.progress(), "{}\n", std::string(outcome.message()));
    return absl::OkStatus();
  }
  return outcome;
}

}  // namespace longhaul
