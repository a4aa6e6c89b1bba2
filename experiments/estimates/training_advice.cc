#include "experiments/estimates/training_advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

// What the clock of simulated links draws.
std::vector<std::string> ClockAdvice(const RunSpec& spec) {
  std::vector<std::string> advice;
  const auto links = MeshNamed(spec.net.profile, static_cast<int>(spec.workers()));
  if (links.ok() && std::any_of(links->paths.begin(), links->paths.end(),
                                [](const PathSpec& path) { return MeanLoss(path) > 0; })) {
    advice.push_back(fmt::format(
        "net.profile = \"{}\" loses packets: which, the simulated clock draws from seed = {}; other "
        "seeds have other times (docs/step-times.md)",
        spec.net.profile, spec.seed));
  }
  return advice;
}

}  // namespace

std::vector<std::string> WarmUpAdvice(const RunSpec& spec) {
  const int64_t steps = Steps(spec);
  const double share =
      static_cast<double>(spec.train.warmup_steps.value_or(0)) / static_cast<double>(steps);
  if (share >= kLeastWarmUpShare) return {};
  return {fmt::format(
      "advice: train.warmup_steps = {} of {} steps is under {:g} %; a short warm-up makes seeds "
      "differ more and intervals wider",
      spec.train.warmup_steps.value_or(0), steps, 100 * kLeastWarmUpShare)};
}

std::vector<std::string> LinkAdvice(const RunSpec& spec) {
  if (spec.simulated_clock()) return ClockAdvice(spec);
  if (spec.net.profile.empty() || spec.net.transport != "loopback") return {};
  return {fmt::format(
      "net.profile = \"{}\" has no effect with net.transport = \"loopback\": all ranks are in this "
      "process; --set net.transport=ucx puts them behind these links",
      spec.net.profile)};
}

}  // namespace longhaul
