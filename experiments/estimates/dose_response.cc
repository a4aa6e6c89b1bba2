#include "experiments/estimates/dose_response.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

struct DoseRows {
  std::vector<int64_t> seeds;
  SeedRows rows;
};

DoseRows Balanced(std::span<const DosePoint> points) {
  DoseRows out;
  out.rows.seed_effects = false;  // differences have none
  for (const auto& [seed, first] : points.front().delta_by_seed) {
    std::vector<double> row;
    for (const DosePoint& point : points) {
      const auto delta = point.delta_by_seed.find(seed);
      if (delta != point.delta_by_seed.end()) row.push_back(delta->second);
    }
    if (row.size() != points.size()) continue;
    out.seeds.push_back(seed);
    out.rows.y.push_back(std::move(row));
  }
  return out;
}

// Does any arm lack a direction, or mix them otherwise than another?
bool DirectionsDiffer(std::span<const DosePoint> points) {
  constexpr double kSame = 0.1;  // of the share
  double least = 1, most = 0;
  for (const DosePoint& point : points) {
    const double share = point.forward / point.total();
    least = std::min(least, share);
    most = std::max(most, share);
  }
  return most - least > kSame;
}

double Power(double eps, std::span<const double> theta) {
  return theta[0] * std::pow(eps, theta[1]);
}

void FitExponent(std::span<const DosePoint> points, const SeedRows& rows, double level,
                 DoseFit& out) {
  // Doses in units of the largest: k and p are then hardly correlated.
  const auto model = [&](std::span<const double> theta) {
    std::vector<double> m;
    for (const DosePoint& point : points) m.push_back(Power(point.total() / out.largest, theta));
    return m;
  };
  const auto fit = FitOverSeeds(rows, model, {out.kappa->value * out.largest, 1});
  if (!fit.ok()) {
    out.note = "no exponent: " + std::string(fit.status().message());
    return;
  }
  out.exponent = fit->Parameter(1, level);
}

}  // namespace

DoseFit FitDose(std::span<const DosePoint> points, double level) {
  DoseFit out;
  if (points.empty()) {
    out.note = "no arm with a recorded error";
    return out;
  }
  const DoseRows balanced = Balanced(points);
  for (const DosePoint& point : points) {
    out.arms.push_back(point.arm);
    out.largest = std::max(out.largest, point.total());
    out.smallest = out.smallest == 0 ? point.total() : std::min(out.smallest, point.total());
  }
  out.seeds = static_cast<int64_t>(balanced.seeds.size());
  const auto together = [&](std::span<const double> theta) {
    std::vector<double> m;
    for (const DosePoint& point : points) m.push_back(theta[0] * point.total());
    return m;
  };
  const auto kappa = FitOverSeeds(balanced.rows, together, {0});
  if (!kappa.ok()) {
    out.note = std::string(kappa.status().message());
    return out;
  }
  out.kappa = kappa->Parameter(0, level);
  for (size_t j = 0; j < balanced.seeds.size(); ++j) {
    out.kappa_by_seed.emplace_back(balanced.seeds[j], kappa->theta[0] + kappa->influence[0][j]);
  }
  if (points.size() >= 2 && DirectionsDiffer(points)) {
    const auto apart = [&](std::span<const double> theta) {
      std::vector<double> m;
      for (const DosePoint& p : points) m.push_back(theta[0] * p.forward + theta[1] * p.backward);
      return m;
    };
    const double start = kappa->theta[0];
    if (const auto both = FitOverSeeds(balanced.rows, apart, {start, start}); both.ok()) {
      out.forward = both->Parameter(0, level);
      out.backward = both->Parameter(1, level);
    }
  }
  if (out.largest > out.smallest) {
    FitExponent(points, balanced.rows, level, out);
  } else {
    out.note = "no exponent: one dose";
  }
  return out;
}

std::optional<Measured> KappaRatio(const DoseFit& codec, const DoseFit& noise, double level) {
  const std::map<int64_t, double> other(noise.kappa_by_seed.begin(), noise.kappa_by_seed.end());
  std::vector<double> y, x;
  for (const auto& [seed, kappa] : codec.kappa_by_seed) {
    const auto partner = other.find(seed);
    if (partner == other.end()) continue;
    y.push_back(kappa);
    x.push_back(partner->second);
  }
  if (x.empty() || Mean(x) == 0) return std::nullopt;
  Measured ratio = RatioOfMeans(y, x, level);
  if (x.size() >= 2 && !ratio.interval) return std::nullopt;
  return ratio;
}

}  // namespace longhaul
