#include "experiments/command/measure_progress.h"

#include <unistd.h>

#include <limits>

#include <fmt/format.h>

#include "experiments/run/core_needs.h"
#include "plugin/core/clock.h"

namespace longhaul {

PoolLimits LimitsOf(int jobs) {
  if (jobs > 0) return {.jobs = jobs, .cores = std::numeric_limits<int64_t>::max()};
  return {.jobs = std::numeric_limits<int>::max(), .cores = CoresAllowed()};
}

ProgressLine::ProgressLine(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {
  pace_.See(MonotonicClock().Now(), 0);
}

void ProgressLine::Show(const CampaignProgress& p) {
  const absl::Duration now = MonotonicClock().Now();
  const bool last = p.done == p.runs;
  if (now - last_ < (terminal_ ? absl::Seconds(1) : absl::Seconds(15)) && !last) return;
  last_ = now;
  pace_.See(now, static_cast<double>(p.tokens_done));
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

}  // namespace longhaul
