#include "experiments/estimates/learnt_nothing.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "experiments/estimates/interval.h"
#include "experiments/record/unigram_fact.h"

namespace longhaul {
namespace {

std::optional<double> UnigramOf(const RunRow& run) {
  const auto fact = run.facts.find(kUnigramFact);
  double nat = 0;
  if (fact == run.facts.end() || !absl::SimpleAtod(fact->second, &nat)) return std::nullopt;
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

}  // namespace longhaul
