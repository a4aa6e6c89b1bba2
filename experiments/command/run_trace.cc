#include "experiments/command/run_trace.h"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "experiments/command/output.h"
#include "experiments/spec/outer_of_spec.h"
#include "experiments/trace/chrome_trace.h"
#include "experiments/trace/exposed_time.h"

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

}  // namespace

absl::Status CheckTraceFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::UnavailableError(fmt::format("cannot write {}: it is a folder", path));
  }
  const std::string trial = path + ".trial";
  absl::Status written = WriteWholeFile(trial, "");
  std::remove(trial.c_str());
  if (written.ok()) return written;
  return absl::UnavailableError(
      fmt::format("--trace {}: {}", path, std::string(written.message())));
}

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
  if (absl::Status s = WriteWholeFile(path, text); !s.ok()) return s;
  return fmt::format("trace of steps {} to {}: {} ({} spans); {}", steps.first, steps.last, path,
                     spans.size(), of_exchanges);
}

}  // namespace longhaul
