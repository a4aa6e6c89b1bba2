#include "experiments/command/measure_progress.h"

#include <unistd.h>

#include <limits>
#include <map>

#include <fmt/format.h>

#include "experiments/run/core_needs.h"
#include "experiments/run/pace.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// One line, rewritten in place on a terminal: how much is done and, once there is a pace, how long
// the rest will take at it.
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
};

void ProgressLine::Show(const CampaignProgress& p) {
  const absl::Duration now = MonotonicClock().Now();
  const bool last = p.done == p.runs;
  if (now - last_ < (terminal_ ? absl::Seconds(1) : absl::Seconds(15)) && !last) return;
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
  fmt::print(out_, "{}{:<90}{}", terminal_ ? "\r" : "", text, terminal_ && !last ? "" : "\n");
  std::fflush(out_);
}

// Other processes that are at work on this campaign.
absl::Status SayWhoElse(const Record& record, int64_t experiment, std::FILE* out) {
  absl::StatusOr<std::vector<RunRow>> runs = record.Runs(experiment);
  if (!runs.ok()) return runs.status();
  std::map<std::pair<std::string, int64_t>, int> others;  // runs by host and process
  for (const RunRow& run : *runs) {
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

}  // namespace

PoolLimits LimitsOf(int jobs) {
  if (jobs > 0) return {.jobs = jobs, .cores = std::numeric_limits<int64_t>::max()};
  return {.jobs = std::numeric_limits<int>::max(), .cores = CoresAllowed()};
}

absl::Status TrainTheRest(Record& record, int64_t experiment, const std::vector<PlannedRun>& runs,
                          const PoolLimits& limits, std::FILE* out) {
  const auto finished = record.Finished(experiment);
  if (!finished.ok()) return finished.status();
  std::vector<PlannedRun> todo;
  for (const PlannedRun& run : runs) {
    if (!finished->contains({run.arm, run.seed})) todo.push_back(run);
  }
  const bool by_cores = limits.cores < std::numeric_limits<int64_t>::max();
  fmt::print(out, "{} runs, {} done before; {}\n", runs.size(), runs.size() - todo.size(),
             by_cores ? fmt::format("as many at a time as {} cores hold", limits.cores)
                      : fmt::format("{} at a time", limits.jobs));
  if (absl::Status s = SayWhoElse(record, experiment, out); !s.ok()) return s;
  std::fflush(out);
  CancelSignal cancel;
  ProgressLine line(out);
  return RunAll(record, experiment, todo, limits, cancel,
                [&](const CampaignProgress& p) { line.Show(p); });
}

}  // namespace longhaul
