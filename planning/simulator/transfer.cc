#include "planning/simulator/transfer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/status/status.h"
#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

constexpr double kTokensPerParameter = 25.6;

// The entry evaluated without the codec ("off": what was learned) comes before the other; of several,
// as with another learning rate beside the campaign's own, the first.
const ActivationEntry* Find(const Calibration& c, const std::string& codec,
                            std::string_view direction) {
  const ActivationEntry* found = nullptr;
  for (const ActivationEntry& entry : c.activation) {
    if (entry.bound || entry.codec != codec || entry.direction != direction) continue;
    const bool off = entry.evaluation == "off";
    if (found == nullptr || (off && found->evaluation != "off")) found = &entry;
  }
  return found;
}

double NatAt(const std::vector<AtStages>& rows, int64_t stages, double z) {
  const auto distance = [stages](const AtStages& row) { return std::abs(row.stages - stages); };
  const AtStages& nearest = *std::min_element(
      rows.begin(), rows.end(),
      [&](const AtStages& a, const AtStages& b) { return distance(a) < distance(b); });
  const double delta = AtLinear(nearest.number, z);
  if (nearest.stages == stages || nearest.stages < 2) return delta;
  return delta * static_cast<double>(stages - 1) / static_cast<double>(nearest.stages - 1);
}

const RatioEntry* NearRatio(const Calibration& c, double ratio) {
  const RatioEntry* best = nullptr;
  const auto apart = [ratio](const RatioEntry& e) { return std::abs(std::log(e.ratio / ratio)); };
  for (const RatioEntry& entry : c.eta_c) {
    if (!(entry.ratio > 0) || apart(entry) > std::log(kSameRatio)) continue;
    if (best == nullptr || apart(entry) < apart(*best)) best = &entry;
  }
  return best;
}

// The cell of DiLoCo at the scenario's own number of replicas and, nearly, its H.
const ReplicaEntry* NearTotal(const Calibration& c, const Outcome& shape) {
  const ReplicaEntry* best = nullptr;
  const auto apart = [&shape](const ReplicaEntry& e) {
    return std::abs(std::log(static_cast<double>(e.inner_steps) / shape.effective_steps));
  };
  for (const ReplicaEntry& cell : c.totals) {
    if (cell.replicas != shape.replicas || apart(cell) > std::log(kSameInnerSteps)) continue;
    if (best == nullptr || apart(cell) < apart(*best)) best = &cell;
  }
  return best;
}

}  // namespace

std::string_view PartName(Part part) {
  switch (part) {
    case Part::kQuality:
      return "q";
    case Part::kRatio:
      return "byte ratio";
    case Part::kRest:
      break;
  }
  return "all else";
}

double AtLog(const Measured& m, double z) {
  const double end = z < 0 ? m.low : m.high;
  return m.value * std::exp(std::log(end / m.value) * std::abs(z) / CalibrationPlan::kEnd);
}

double AtLinear(const Measured& m, double z) {
  const double end = z < 0 ? m.low : m.high;
  return m.value + (end - m.value) * std::abs(z) / CalibrationPlan::kEnd;
}

absl::StatusOr<CalibrationPlan> CalibrationPlan::Make(Calibration calibration,
                                                      const CalibrationChoice& choice) {
  CalibrationPlan plan;
  std::set<std::string> codecs;
  for (const ActivationEntry& entry : calibration.activation) {
    if (!entry.bound && entry.direction == "both") codecs.insert(entry.codec);
  }
  if (!choice.codec.empty() && !codecs.contains(choice.codec)) {
    return absl::InvalidArgumentError(fmt::format(
        "the calibration measures no codec '{}' in both directions; it has: {}", choice.codec,
        codecs.empty() ? "none" : fmt::format("{}", fmt::join(codecs, ", "))));
  }
  if (choice.codec.empty() && codecs.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("the calibration measures {} codecs; name one with --codec: {}", codecs.size(),
                    fmt::join(codecs, ", ")));
  }
  if (!codecs.empty()) {
    const std::string& codec = choice.codec.empty() ? *codecs.begin() : choice.codec;
    plan.activation_ = *Find(calibration, codec, "both");
  }
  plan.extrapolate_ = choice.extrapolate && calibration.alpha;
  plan.calibration_ = std::move(calibration);
  plan.NameSources();
  return plan;
}

void CalibrationPlan::NameSources() {
  names_.clear();
  if (activation_ && takes_quality_) {
    names_.push_back("activation");
    if (activation_->gamma) names_.push_back("gamma");
  }
  if (extrapolate_) names_.push_back("alpha");
  if (!calibration_.eta_c.empty()) names_.push_back("eta_c");
  if (!calibration_.totals.empty()) names_.push_back("eta_diloco");
  if (calibration_.straggler) names_.push_back("straggler");
  if (calibration_.step_time) names_.push_back("step_time");
}

std::optional<CalibrationPlan> CalibrationPlan::Only(Part part) const {
  CalibrationPlan plan = *this;
  if (part == Part::kRest) {
    plan.activation_.reset();
    plan.NameSources();
    if (plan.sources() == 0) return std::nullopt;
    return plan;
  }
  if (!activation_ || (part == Part::kRatio && !activation_->forward_ratio)) return std::nullopt;
  plan.extrapolate_ = false;
  plan.calibration_.eta_c.clear();
  plan.calibration_.totals.clear();
  plan.calibration_.straggler.reset();
  plan.calibration_.step_time.reset();
  if (part == Part::kQuality) {
    plan.activation_->forward_ratio.reset();
    plan.activation_->backward_ratio.reset();
  }
  plan.takes_quality_ = part == Part::kQuality;
  plan.NameSources();
  return plan;
}

void CalibrationPlan::Activate(Scenario& s, Transfer transfer, double z) const {
  const ActivationEntry& a = *activation_;
  if (transfer == Transfer::kTokens) {
    s.measured.q = AtLog(a.q, z);
    for (const auto* rows : {&a.ln_eta, &a.beyond}) {
      for (const AtStages& row : *rows) {
        s.measured.by_stages.push_back({row.stages, AtLinear(row.number, z)});
      }
    }
    return;
  }
  const Outcome shape = Simulate(s);
  if (shape.stages <= 1) return;
  // The better end of q is the lower end of the difference.
  const double slope = -LossSlope(shape.parameters, kTokensPerParameter * shape.parameters);
  const double delta = NatAt(a.delta_nat, shape.stages, -z);
  s.measured.by_stages = {{shape.stages, -delta / slope}};
}

Scenario CalibrationPlan::Apply(Scenario s, Transfer transfer, std::span<const double> z) const {
  size_t next = 0;
  const Calibration& c = calibration_;
  if (activation_) {
    s.measured.forward_ratio = activation_->forward_ratio;
    s.measured.backward_ratio = activation_->backward_ratio;
  }
  if (activation_ && takes_quality_) {
    Activate(s, transfer, z[next++]);
    if (activation_->gamma) {
      const double gamma = AtLinear(*activation_->gamma, z[next++]);
      if (transfer == Transfer::kTokens) s.measured.gamma = gamma;
    }
  }
  if (extrapolate_)
    s.measured.alpha_scale = AtLog(*c.alpha, z[next++]) / Alpha(c.alpha_billions * 1e9);
  if (!c.eta_c.empty()) {
    const double deviate = z[next++];
    const RatioEntry* entry = NearRatio(c, s.gradient_ratio);
    if (entry != nullptr) s.measured.eta_c = AtLog(entry->eta, deviate);
  }
  const double of_total = c.totals.empty() ? 0 : z[next++];
  if (c.straggler) s.measured.straggler_coefficient = AtLog(*c.straggler, z[next++]);
  if (c.step_time) s.measured.step_time_ratio = AtLog(*c.step_time, z[next++]);
  // Last: H follows from the other factors.
  if (const ReplicaEntry* const cell = c.totals.empty() ? nullptr : NearTotal(c, Simulate(s))) {
    s.measured.eta_h = AtLog(cell->eta, of_total);
    s.measured.eta_r = 1;
  }
  return s;
}

}  // namespace longhaul::simulator
