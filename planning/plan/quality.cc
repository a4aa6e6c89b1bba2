#include "planning/plan/quality.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/reference_curve.h"
#include "experiments/estimates/seed_regression.h"
#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/transfer.h"

namespace longhaul::plan {
namespace {

using simulator::ActivationEntry;
using simulator::Calibration;
using simulator::CalibrationPlan;
using simulator::ReplicaEntry;

constexpr char kNone[] = "none / none";
constexpr double kSameSize = 1.01;

// The planning model crosses a boundary both ways; one way is worth half of its crossings.
void ReadAsBoth(Calibration& calibration, const std::string& pair) {
  for (ActivationEntry& entry : calibration.activation) {
    if (entry.codec != pair || entry.direction == "both") continue;
    entry.direction = "both";
    for (double* q : {&entry.q.value, &entry.q.low, &entry.q.high}) *q = std::sqrt(*q);
  }
}

std::optional<EtaFactor::Extrapolated> Depth(const ActivationEntry& entry, int64_t stages) {
  int64_t below = 1, above = 0;
  for (const simulator::AtStages& row : entry.ln_eta) {
    if (row.stages == stages) return std::nullopt;
    if (row.stages < stages) below = std::max(below, row.stages);
    if (row.stages > stages) above = above == 0 ? row.stages : std::min(above, row.stages);
  }
  return EtaFactor::Extrapolated{
      Beyond::kStages, above > 0
                           ? fmt::format("S = {} lies between {} and {}", stages, below, above)
                           : fmt::format("S = {}; the deepest measured is {}", stages, below)};
}

// Straight over ln H through two points with independent errors.
LnFactor OnLine(const ReplicaEntry& a, const ReplicaEntry& b, double inner_steps) {
  const double of_a = std::log(static_cast<double>(a.inner_steps)),
               of_b = std::log(static_cast<double>(b.inner_steps));
  const double share = (std::log(inner_steps) - of_a) / (of_b - of_a);
  const auto at = [&](double x, double y) { return (1 - share) * x + share * y; };
  const double value = at(std::log(a.eta.value), std::log(b.eta.value));
  const auto half = [&](double end_a, double end_b) {
    return std::hypot((1 - share) * (std::log(end_a) - std::log(a.eta.value)),
                      share * (std::log(end_b) - std::log(b.eta.value)));
  };
  return {value, value - half(a.eta.low, b.eta.low), value + half(a.eta.high, b.eta.high)};
}

LnFactor Ln(const simulator::Measured& m) {
  return {std::log(m.value), std::log(m.low), std::log(m.high)};
}

}  // namespace

std::string_view ToString(Beyond beyond) {
  switch (beyond) {
    case Beyond::kStages:
      return "S";
    case Beyond::kBits:
      return "bits";
    case Beyond::kInnerSteps:
      return "H";
    case Beyond::kGroups:
      return "G";
    case Beyond::kSize:
      break;
  }
  return "size";
}

std::optional<EtaFactor> Quality::Measured(const std::string& pair, int64_t stages) const {
  for (Calibration calibration : calibrations_) {
    ReadAsBoth(calibration, pair);
    const double parameters = calibration.parameters;
    const auto plan = CalibrationPlan::Make(std::move(calibration), {.codec = pair});
    if (!plan.ok()) continue;
    const std::optional<CalibrationPlan> alone = plan->Only(simulator::Part::kQuality);
    if (!alone) continue;
    const auto at = [&](double z) {
      const std::vector<double> deviates(alone->sources(), z);
      // Tokens are transferred: the scenario's own size does not matter.
      const auto s = alone->Apply({}, simulator::Transfer::kTokens, deviates);
      return std::log(simulator::EtaAct(s, stages));
    };
    const double ends[] = {at(-CalibrationPlan::kEnd), at(CalibrationPlan::kEnd)};
    EtaFactor out{.name = fmt::format("eta({}, S = {})", pair, stages),
                  .ln = {at(0), std::min(ends[0], ends[1]), std::max(ends[0], ends[1])}};
    out.parameters = parameters;
    if (auto beyond = Depth(*alone->activation(), stages)) out.beyond.push_back(*beyond);
    return out;
  }
  return std::nullopt;
}

std::optional<EtaFactor> Quality::Activations(
    const std::string& pair, int64_t stages,
    const std::function<std::optional<BothWays>(const std::string&)>& bytes) const {
  const EtaFactor lossless{.name = fmt::format("eta({})", kNone), .ln = {}};
  if (pair == kNone || stages == 1) return lossless;
  if (std::optional<EtaFactor> measured = Measured(pair, stages)) return measured;
  const std::optional<BothWays> own = bytes(pair);
  if (!own) return std::nullopt;
  const auto no_more = [](const BothWays& a, const BothWays& b) {
    return a.there <= b.there && a.back <= b.back;
  };
  std::optional<EtaFactor> worse;
  EtaFactor better = lossless;
  std::string fewer, more = kNone;
  for (const Calibration& calibration : calibrations_) {
    for (const ActivationEntry& entry : calibration.activation) {
      const std::optional<BothWays> of = bytes(entry.codec);
      const std::optional<EtaFactor> eta = of ? Measured(entry.codec, stages) : std::nullopt;
      if (!eta) continue;
      if (no_more(*of, *own) && (!worse || eta->ln.value > worse->ln.value)) {
        worse = eta;
        fewer = entry.codec;
      }
      if (no_more(*own, *of) && eta->ln.value < better.ln.value) {
        better = *eta;
        more = entry.codec;
      }
    }
  }
  if (!worse) return std::nullopt;
  return EtaFactor{
      .name = fmt::format("eta({}, S = {})", pair, stages),
      .ln = {(worse->ln.value + better.ln.value) / 2, std::min(worse->ln.low, better.ln.low),
             std::max(worse->ln.high, better.ln.high)},
      .beyond = {{Beyond::kBits, fmt::format("'{}' was not measured; by bytes it lies between '{}' "
                                             "and '{}'",
                                             pair, fewer, more)}},
      .parameters = worse->parameters};
}

std::optional<EtaFactor> Quality::Rounds(int64_t groups, int64_t inner_steps) const {
  for (const Calibration& calibration : calibrations_) {
    std::map<int64_t, ReplicaEntry> by_h;
    std::optional<int64_t> nearest;
    const auto apart = [groups](int64_t m) {
      return std::abs(std::log(static_cast<double>(m) / static_cast<double>(groups)));
    };
    for (const ReplicaEntry& cell : calibration.totals) {
      // One group has nobody to differ from: its cells say nothing of several.
      if ((cell.replicas == 1) != (groups == 1)) continue;
      if (!nearest || apart(cell.replicas) < apart(*nearest)) nearest = cell.replicas;
    }
    for (const ReplicaEntry& cell : calibration.totals) {
      if (nearest && cell.replicas == *nearest) by_h.emplace(cell.inner_steps, cell);
    }
    if (by_h.empty()) continue;
    EtaFactor out{.name = fmt::format("eta(diloco, G = {}, H = {})", groups, inner_steps),
                  .ln = {},
                  .of = EtaFactor::Of::kRounds,
                  .parameters = calibration.parameters};
    if (*nearest != groups) {
      out.beyond.push_back(
          {Beyond::kGroups, fmt::format("G = {}; the nearest measured is {}", groups, *nearest)});
    }
    if (const auto own = by_h.find(inner_steps); own != by_h.end()) {
      out.ln = Ln(own->second.eta);
      return out;
    }
    if (by_h.size() == 1) {
      out.ln = Ln(by_h.begin()->second.eta);
      out.beyond.push_back({Beyond::kInnerSteps, fmt::format("H = {}; only {} was measured",
                                                             inner_steps, by_h.begin()->first)});
      return out;
    }
    auto above = by_h.lower_bound(inner_steps);
    const bool outside = above == by_h.begin() || above == by_h.end();
    if (above == by_h.begin()) ++above;
    if (above == by_h.end()) --above;
    const auto below = std::prev(above);
    out.ln = OnLine(below->second, above->second, static_cast<double>(inner_steps));
    out.beyond.push_back(
        {Beyond::kInnerSteps, fmt::format("H = {} lies {} {} and {}", inner_steps,
                                          outside ? "outside of the line through" : "between",
                                          below->first, above->first)});
    return out;
  }
  return std::nullopt;
}

std::optional<EtaFactor> Quality::OuterCodec(const std::string& codec) const {
  const std::string name = fmt::format("eta(outer {})", codec);
  EtaFactor out{.name = name, .ln = {}, .of = EtaFactor::Of::kOuterCodec};
  if (codec == "none") return out;
  for (const Calibration& calibration : calibrations_) {
    for (const simulator::RatioEntry& entry : calibration.eta_c) {
      if (entry.codec != codec) continue;
      out.ln = Ln(entry.eta);
      out.parameters = calibration.parameters;
      return out;
    }
  }
  return std::nullopt;
}

std::optional<EtaFactor> Quality::Outer(const std::string& algorithm, const std::string& codec,
                                        int64_t groups, int64_t inner_steps) const {
  const auto apart = [](int64_t a, int64_t b) {
    return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
  };
  for (const Calibration& calibration : calibrations_) {
    const simulator::ReplicaEntry* nearest = nullptr;
    const auto key = [&](const simulator::ReplicaEntry& at) {
      return std::pair(apart(at.replicas, groups), apart(at.inner_steps, inner_steps));
    };
    for (const simulator::OuterEntry& entry : calibration.outer) {
      if (entry.algorithm != algorithm || entry.codec != codec) continue;
      if (nearest == nullptr || key(entry.at) < key(*nearest)) nearest = &entry.at;
    }
    if (nearest == nullptr) continue;
    EtaFactor out{.name = fmt::format("eta({} with {}, G = {}, H = {})", algorithm, codec, groups,
                                      inner_steps),
                  .ln = Ln(nearest->eta),
                  .of = EtaFactor::Of::kRounds,
                  .parameters = calibration.parameters};
    if (nearest->replicas != groups) {
      out.beyond.push_back({Beyond::kGroups, fmt::format("G = {}; the nearest measured is {}",
                                                         groups, nearest->replicas)});
    }
    if (nearest->inner_steps != inner_steps) {
      out.beyond.push_back({Beyond::kInnerSteps, fmt::format("H = {}; the nearest measured is {}",
                                                             inner_steps, nearest->inner_steps)});
    }
    return out;
  }
  return std::nullopt;
}

std::optional<EtaFactor::Extrapolated> Quality::Size(double parameters,
                                                     const std::vector<EtaFactor>& factors) const {
  std::vector<double> sizes;
  if (!calibrations_.empty()) sizes.push_back(calibrations_.front().parameters);
  for (const EtaFactor& f : factors) sizes.push_back(f.parameters);
  double apart = 1, measured = parameters;
  for (const double size : sizes) {
    const double times = size > 0 ? parameters / size : 1;
    if (std::abs(std::log(times)) <= std::abs(std::log(apart))) continue;
    apart = times;
    measured = size;
  }
  if (std::max(apart, 1 / apart) < kSameSize) return std::nullopt;
  return EtaFactor::Extrapolated{
      Beyond::kSize,
      fmt::format("{:.3g} parameters; measured at {:.3g}: x {:.3g}", parameters, measured, apart)};
}

absl::StatusOr<LnFactor> LnTokensToLoss(const LossFile& losses, double target_nat) {
  std::vector<ReferenceRun> runs;
  double d0_tokens = 0;
  for (const auto& [key, row] : losses.rows) {
    if (row.role != "reference") continue;
    runs.push_back({key.second, row.budget, row.off});
    if (row.budget == 1) d0_tokens = static_cast<double>(row.train_tokens);
  }
  const absl::StatusOr<ReferenceCurve> curve = FitReference(runs);
  if (!curve.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", losses.path, std::string(curve.status().message())));
  }
  const double floor = curve->LossAt(curve->budgets.back()),
               top = curve->LossAt(curve->budgets.front());
  if (target_nat < floor || target_nat > top) {
    return absl::OutOfRangeError(fmt::format(
        "target_loss_nat = {:g} lies {} of {}: its reference ends at {:.4f} nat with {:.3g} tokens "
        "and at {:.4f} with {:.3g}; want a loss between",
        target_nat, target_nat < floor ? "below the curve's floor" : "above the curve", losses.path,
        top, curve->budgets.front() * d0_tokens, floor, curve->budgets.back() * d0_tokens));
  }
  const double found = curve->mean.Inverse(target_nat);
  std::vector<double> moves;
  const auto n = static_cast<double>(curve->without.size());
  for (const MonotoneCubic& without : curve->without) {
    moves.push_back((n - 1) * (found - without.Inverse(target_nat)));
  }
  const CurveTerm place{.weight = 1, .from = 0, .to = found};
  const longhaul::Measured ln =
      Widened(FromInfluence(found, moves, 0.95), CurveError(*curve, std::span(&place, 1)));
  const double shift = std::log(d0_tokens);
  if (!ln.interval) return LnFactor{found + shift, found + shift, found + shift};
  return LnFactor{found + shift, ln.interval->low + shift, ln.interval->high + shift};
}

}  // namespace longhaul::plan
