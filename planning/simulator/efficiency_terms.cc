#include "planning/simulator/efficiency_terms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace longhaul::simulator {
namespace {

constexpr double kIrreducible = 1.8172;
constexpr double kModel = 482.01;
constexpr double kModelPower = 0.3478;
constexpr double kData = 2085.43;
constexpr double kDataPower = 0.3658;

// A value per case at one compression ratio.
struct Anchor {
  double ratio;
  double value[3];  // optimistic, expected, conservative
};

constexpr Anchor kGradientGovernance[] = {
    {1, {1, 1, 1}}, {4, {1, 1, 0.99}}, {16, {1, 0.98, 0.95}}, {100, {0.99, 0.95, 0.90}}};
constexpr Anchor kGradientDocumentation[] = {{1, {1, 1, 1}},
                                             {4, {1, 1, 0.99}},
                                             {16, {1, 0.99, 0.95}},
                                             {100, {1, 0.98, 0.90}},
                                             {500, {0.99, 0.95, 0.75}}};
constexpr Anchor kGradientPlain[] = {
    {1, {1, 1, 1}},         {4, {1, 1, 0.99}},         {16, {1, 0.99, 0.95}},
    {100, {1, 0.98, 0.90}}, {150, {0.99, 0.96, 0.85}}, {500, {0.99, 0.95, 0.75}}};
constexpr Anchor kGradientFeedback[] = {{1, {1, 1, 1}},         {4, {1, 1, 0.99}},
                                        {16, {1, 1, 0.97}},     {100, {1, 0.99, 0.93}},
                                        {150, {1, 0.99, 0.91}}, {500, {0.99, 0.96, 0.80}}};

// The note calls 10x "high risk" and gives no number: its 4x is held, with a warning.
constexpr Anchor kActivationNote[] = {{1, {1, 1, 1}}, {2, {1, 1, 1}}, {4, {0.995, 0.995, 0.995}}};
constexpr Anchor kActivationFirst[] = {
    {1, {1, 1, 1}}, {2, {1, 1, 0.995}}, {4, {1, 0.995, 0.98}}, {10, {0.995, 0.98, 0.95}}};
constexpr Anchor kActivationLatest[] = {
    {1, {1, 1, 1}}, {2, {1, 1, 0.99}}, {4, {1, 0.995, 0.96}}, {10, {0.995, 0.98, 0.90}}};
constexpr double kDocumented4 = 0.995 * 0.98;
constexpr double kDocumented10 = 0.995 * 0.98 * 0.95;
constexpr Anchor kActivationDocumentation[] = {{1, {1, 1, 1}},
                                               {2, {0.995, 0.995, 0.995}},
                                               {4, {kDocumented4, kDocumented4, kDocumented4}},
                                               {10, {kDocumented10, kDocumented10, kDocumented10}}};

std::span<const Anchor> AnchorsOf(GradientTable table) {
  switch (table) {
    case GradientTable::kGovernance:
      return kGradientGovernance;
    case GradientTable::kDocumentation:
      return kGradientDocumentation;
    case GradientTable::kWithoutErrorFeedback:
      return kGradientPlain;
    case GradientTable::kErrorFeedback:
      break;
  }
  return kGradientFeedback;
}

std::span<const Anchor> AnchorsOf(ActivationTable table) {
  switch (table) {
    case ActivationTable::kNote:
      return kActivationNote;
    case ActivationTable::kFirstPipeline:
      return kActivationFirst;
    case ActivationTable::kLatest:
      return kActivationLatest;
    case ActivationTable::kDocumentation:
      break;
  }
  return kActivationDocumentation;
}

double Interpolate(std::span<const Anchor> anchors, Case column, double ratio) {
  const int c = static_cast<int>(column);
  if (ratio <= anchors.front().ratio) return anchors.front().value[c];
  for (size_t i = 1; i < anchors.size(); ++i) {
    const Anchor &before = anchors[i - 1], &after = anchors[i];
    if (ratio == after.ratio) return after.value[c];
    if (ratio > after.ratio) continue;
    const double share = std::log10(ratio / before.ratio) / std::log10(after.ratio / before.ratio);
    return before.value[c] + share * (after.value[c] - before.value[c]);
  }
  return anchors.back().value[c];
}

// ln eta at a listed S as it stands, on a straight line between two of them (S = 1 has 0), nothing
// deeper than all of them.
std::optional<double> BetweenDepths(const std::vector<Factors::AtDepth>& depths, int64_t stages) {
  Factors::AtDepth below{1, 0};
  const Factors::AtDepth* above = nullptr;
  for (const Factors::AtDepth& depth : depths) {
    if (depth.stages == stages) return depth.ln_eta;
    if (depth.stages < stages && depth.stages > below.stages) below = depth;
    if (depth.stages > stages && (above == nullptr || depth.stages < above->stages)) above = &depth;
  }
  if (above == nullptr) return std::nullopt;
  const double share = static_cast<double>(stages - below.stages) /
                       static_cast<double>(above->stages - below.stages);
  return below.ln_eta + share * (above->ln_eta - below.ln_eta);
}

}  // namespace

double Loss(double parameters, double tokens) {
  return kIrreducible + kModel * std::pow(parameters, -kModelPower) +
         kData * std::pow(tokens, -kDataPower);
}

double LossSlope(double, double tokens) {
  return -kDataPower * kData * std::pow(tokens, -kDataPower);
}

// Newton on ln(L - 1.8172) over ln C: a sum of two falling exponentials of nearly one power is
// nearly a line there, so a few rounds reach the last bits.
double ComputeOfLoss(double loss, double tokens_per_parameter, double least, double most) {
  if (loss <= kIrreducible) return most;
  const double want = std::log(loss - kIrreducible);
  const double low = std::log(least), high = std::log(most);
  // Both terms as k exp(-p x/2) over x = ln C.
  const double model = kModel * std::pow(6 * tokens_per_parameter, kModelPower / 2);
  const double data = kData * std::pow(tokens_per_parameter / 6, -kDataPower / 2);
  double x = 0.5 * (low + high);
  for (int round = 0; round < 50; ++round) {
    const double of_model = model * std::exp(-0.5 * kModelPower * x);
    const double of_data = data * std::exp(-0.5 * kDataPower * x);
    const double sum = of_model + of_data;
    const double slope = -0.5 * (kModelPower * of_model + kDataPower * of_data) / sum;
    const double step = (want - std::log(sum)) / slope;
    x += step;
    if (std::abs(step) < 1e-13 * std::abs(x)) break;
  }
  return std::exp(std::clamp(x, low, high));
}

double Chi(double m, double parameters, double tokens, double raw, double tokens_per_parameter) {
  if (!(raw > 0) || !(tokens > 0)) return 1;
  const double reached =
      ComputeOfLoss(m * Loss(parameters, tokens), tokens_per_parameter, 1e10, 10 * raw);
  return std::min(1.0, reached / raw);
}

double Alpha(double parameters) { return 0.08 / (1 + std::log10(parameters / 1e9) / 5); }

double EtaH(double alpha, double effective_steps, Straggler straggler) {
  const double eta = 1 - alpha * std::log10(effective_steps);
  return std::max(0.4, straggler == Straggler::kThreshold ? eta / 1.15 : eta);
}

double EtaC(GradientTable table, Case column, double ratio) {
  return Interpolate(AnchorsOf(table), column, ratio);
}
double LastGradientAnchor(GradientTable table) { return AnchorsOf(table).back().ratio; }

double QualityOfCrossing(ActivationTable table, Case column, double ratio) {
  return Interpolate(AnchorsOf(table), column, ratio);
}
double LastActivationAnchor(ActivationTable table) { return AnchorsOf(table).back().ratio; }

double EtaAct(const Scenario& s, int64_t stages) {
  const double backward = s.backward_ratio.value_or(s.activation_ratio);
  if (stages <= 1 || (s.activation_ratio <= 1 && backward <= 1)) return 1;
  if (const std::optional<double> measured = BetweenDepths(s.measured.by_stages, stages)) {
    return std::exp(std::min(0.0, *measured));  // what compression gains is noise
  }
  const double cuts = static_cast<double>(stages - 1);
  // q at one cut, both directions, fixes a: exp(-a) = q^2.
  const double power = s.measured.gamma ? std::pow(cuts, *s.measured.gamma) : cuts;
  if (s.measured.q) return std::pow(*s.measured.q, 2 * power);
  const auto q = [&s](double ratio) {
    return QualityOfCrossing(s.switches.activation_table, s.expected, ratio);
  };
  if (backward == s.activation_ratio) return std::pow(q(backward), 2 * power);
  return std::pow(q(s.activation_ratio) * q(backward), power);
}

double EtaRLinear(double parameters, int64_t replicas, double floor, double coefficient) {
  const double billions = parameters / 1e9;
  const double share = std::min(2.4, billions) / billions;
  return std::max(floor, 1 - coefficient * share * std::log2(static_cast<double>(replicas)));
}

double ReplicaLossFactor(double parameters, int64_t replicas, double inner_steps, bool with_h) {
  if (replicas <= 1 || inner_steps <= 1) return 1;
  const double beta = 1.0923 * std::pow(parameters, -0.2342);
  const double h = with_h ? std::log(inner_steps) / std::log(30.0) : 1;
  return std::pow(static_cast<double>(replicas), beta * h);
}

double StragglerFactor(Straggler straggler, double n, const Factors& measured) {
  if (n <= 1 || straggler == Straggler::kThreshold) return 1;
  const double coefficient =
      measured.straggler_coefficient.value_or(straggler == Straggler::kRelay ? 0.02 : 0.05);
  const double excess = coefficient * std::log2(n);
  return straggler == Straggler::kBackup ? 1 + 0.3 * excess : 1 + excess;
}

}  // namespace longhaul::simulator
