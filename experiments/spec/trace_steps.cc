#include "experiments/spec/trace_steps.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/spec/plans_of_spec.h"

namespace longhaul {
namespace {

constexpr int64_t kMostSpans = 400'000;  // about 100 MB in memory and in the file
constexpr int64_t kSpansOfAction = 8, kSpansOfPeer = 12;

TraceSteps AroundTheFirstExchange(const OuterPlan& plan, int64_t steps) {
  for (int64_t step = 1; plan.exchanges() && step <= steps; ++step) {
    const std::vector<OuterExchange> begun = plan.BegunAfter(step);
    if (begun.empty()) continue;
    return {std::max<int64_t>(1, step - 1), std::min(steps, begun.front().applied + 1)};
  }
  return {std::min<int64_t>(2, steps), std::min<int64_t>(4, steps)};
}

// The most that a step is made of: what a rank and its two ends of a link tell of an action, and of
// what each stage sends to each peer.
int64_t SpansOfStep(const PipelineProgram& program, int64_t groups) {
  int64_t actions = 0;
  for (const Program& own : program.ranks) actions += static_cast<int64_t>(own.size());
  return groups * (actions * kSpansOfAction + program.num_stages() * (groups - 1) * kSpansOfPeer);
}

}  // namespace

absl::StatusOr<TraceSteps> ParseTraceSteps(const std::string& text, const RunSpec& spec) {
  if (spec.program || spec.outer.on_group_loss == "continue") {
    return absl::InvalidArgumentError(
        fmt::format("--trace: {} not traced",
                    spec.program ? "a [program]'s steps are" : "groups that come and go are"));
  }
  const int64_t steps = Steps(spec);
  TraceSteps wanted = AroundTheFirstExchange(OuterPlanOf(spec), steps);
  if (!text.empty()) {
    const char *at = text.data(), *const end = at + text.size();
    const auto first = std::from_chars(at, end, wanted.first);
    const bool two = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
    const auto last = two ? std::from_chars(first.ptr + 1, end, wanted.last) : first;
    if (!two || last.ec != std::errc() || last.ptr != end || wanted.first < 1 ||
        wanted.last < wanted.first || wanted.last > steps) {
      return absl::InvalidArgumentError(fmt::format(
          "--trace-steps '{}': want A:B, the first and the last step of 1 to {}", text, steps));
    }
  }
  ASSIGN_OR_RETURN(const PipelineProgram program, PipelineOf(spec));
  const int64_t a_step = SpansOfStep(program, spec.outer.groups);
  if (a_step > kMostSpans / (wanted.last - wanted.first + 1)) {
    return absl::InvalidArgumentError(
        fmt::format("--trace-steps {}:{}: up to {} spans a step; a trace keeps {}: take at most {} "
                    "steps",
                    wanted.first, wanted.last, a_step, kMostSpans, kMostSpans / a_step));
  }
  return wanted;
}

}  // namespace longhaul
