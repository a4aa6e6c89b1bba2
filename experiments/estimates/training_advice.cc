#include "experiments/estimates/training_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "experiments/estimates/interval.h"
#include "experiments/record/record_rows.h"
#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

std::optional<double> UnigramOf(const RunRow& run) {
  double nat = 0;
  if (!absl::SimpleAtod(FactOf(run.facts, kUnigramFact), &nat)) return std::nullopt;
  return nat;
}

// The line, or none: `name` is "arm 'x'" or "this run".
void Judge(const std::string& name, const std::vector<double>& off, const std::vector<double>& on,
           double unigram_nat, std::vector<std::string>& lines) {
  if (off.empty() && on.empty()) return;
  const bool with = off.empty() || (!on.empty() && Mean(on) < Mean(off));
  const Measured loss = MeanWithInterval(with ? on : off, 0.95);
  const double high = loss.interval ? loss.interval->high : loss.value;
  if (std::max(high, loss.value + kUnigramMarginNat) < unigram_nat) return;
  const std::string interval =
      loss.interval ? fmt::format(" [{:.3f}, {:.3f}]", loss.interval->low, loss.interval->high)
                    : "";
  lines.push_back(fmt::format(
      "note: {} learnt no more than byte frequencies: it ends at {:.3f}{} nat (codec {}), and the "
      "unigram entropy of the held-out tokens is {:.3f}; it says nothing of codecs",
      name, loss.value, interval, with ? "on" : "off", unigram_nat));
}

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

std::vector<std::string> LearntNothing(const CampaignAnalysis& analysis) {
  std::vector<std::string> lines;
  for (const ArmResult& arm : analysis.arms) {
    std::vector<double> off, on;
    std::optional<double> unigram;
    for (const Outcome& o : arm.outcomes) {
      if (const auto nat = UnigramOf(o.run)) unigram = nat;
      if (o.loss_off) off.push_back(*o.loss_off);
      if (o.loss_on) on.push_back(*o.loss_on);
    }
    if (unigram) Judge(fmt::format("arm '{}'", arm.arm), off, on, *unigram, lines);
  }
  return lines;
}

std::vector<std::string> LearntNothing(const RunRow& run,
                                       const std::vector<EvaluationRow>& evaluations) {
  std::vector<std::string> lines;
  std::vector<double> off, on;  // in the order of steps: the last one stays
  for (const EvaluationRow& e : evaluations) {
    std::vector<double>& loss = e.codec == EvalCodec::kOff ? off : on;
    loss.clear();
    if (std::isfinite(e.loss_nat)) loss = {e.loss_nat};
  }
  if (const auto nat = UnigramOf(run)) Judge("this run", off, on, *nat, lines);
  return lines;
}

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
    const std::string seen = FactOf(run.facts, kHeldOutInTrainingFact);
    if (!seen.empty() && !seen.starts_with("0 ")) {
      add(fmt::format(
          "note: {} held-out windows are in the training text: the held-out loss is lower than "
          "that of unseen text",
          seen));
    }
    const std::string epochs = FactOf(run.facts, kEpochsFact);
    if (epochs.empty() || std::strtod(epochs.c_str(), nullptr) <= 1) continue;
    add(fmt::format(
        "note: {} epochs: {} training tokens pass the training text more than once, and what a "
        "repeated token teaches is less than what a new one does",
        epochs, run.train_tokens));
  }
  return lines;
}

}  // namespace longhaul
