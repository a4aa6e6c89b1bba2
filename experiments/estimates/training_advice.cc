#include "experiments/estimates/training_advice.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace longhaul {

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
  if (spec.net.profile.empty() || spec.net.transport != "loopback" || spec.simulated_clock()) {
    return {};
  }
  return {fmt::format(
      "net.profile = \"{}\" has no effect with net.transport = \"loopback\": all ranks are in this "
      "process; --set net.transport=ucx puts them behind these links",
      spec.net.profile)};
}

std::vector<std::string> ClippingAdvice(std::span<const RunRow> runs) {
  constexpr std::string_view kFact = "_clipped_steps";
  int64_t clipped = 0, steps = 0;
  for (const RunRow& run : runs) {
    for (const auto& [key, value] : run.facts) {
      int64_t one = 0, all = 0;
      if (!key.ends_with(kFact) || std::sscanf(value.c_str(), "%ld of %ld", &one, &all) != 2) {
        continue;
      }
      clipped += one;
      steps += all;
    }
  }
  const double share = steps == 0 ? 1 : static_cast<double>(clipped) / static_cast<double>(steps);
  if (share >= kLeastClippedShare) return {};
  return {fmt::format(
      "advice: clipping acted in {} of {} steps of a stage, under {:g} %; a train.clip_norm that "
      "acts keeps single batches from moving a run",
      clipped, steps, 100 * kLeastClippedShare)};
}

std::vector<std::string> DataAdvice(std::span<const RunRow> runs) {
  std::vector<std::string> lines;
  const auto add = [&](std::string line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(std::move(line));
    }
  };
  for (const RunRow& run : runs) {
    const auto seen = run.facts.find(kHeldOutInTrainingFact);
    if (seen != run.facts.end() && !seen->second.starts_with("0 ")) {
      add(fmt::format(
          "note: {} held-out windows are in the training text: the held-out loss is lower than "
          "that of unseen text",
          seen->second));
    }
    const auto epochs = run.facts.find(kEpochsFact);
    if (epochs == run.facts.end() || std::strtod(epochs->second.c_str(), nullptr) <= 1) continue;
    add(fmt::format(
        "note: {} epochs: {} training tokens pass the training text more than once, and what a "
        "repeated token teaches is less than what a new one does",
        epochs->second, run.train_tokens));
  }
  return lines;
}

}  // namespace longhaul
