#include "experiments/estimates/price_law.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

constexpr double kSame = 1e-3;  // logarithms nearer than this do not tell an exponent

double MeanPlace(std::span<const double> places) {
  return std::accumulate(places.begin(), places.end(), 0.0) / static_cast<double>(places.size());
}

bool Differs(std::span<const PricePoint> points,
             const std::function<double(const PricePoint&)>& of) {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(),
                          [&](const PricePoint& x, const PricePoint& y) { return of(x) < of(y); });
  return of(*high) - of(*low) > kSame;
}

double Centre(std::span<const PricePoint> points,
              const std::function<double(const PricePoint&)>& ln) {
  double sum = 0;
  for (const PricePoint& p : points) sum += ln(p);
  return std::exp(sum / static_cast<double>(points.size()));
}

double LnSize(const PricePoint& p) { return std::log(p.parameters); }
double LnRatio(const PricePoint& p) { return std::log(p.tokens / p.parameters); }
double LnEps(const PricePoint& p) { return std::log(p.eps); }

// Squares over the seeds of one cell as the jackknife has them.
double JackknifeVariance(std::span<const double> without) {
  const double n = static_cast<double>(without.size());
  return (n - 1) / n * (n - 1) * Variance(without);
}

absl::Status CheckPoints(std::span<const PricePoint> points) {
  std::vector<size_t> seeds;
  for (const PricePoint& p : points) {
    if (!(p.parameters > 0) || !(p.tokens > 0) || p.places.empty() ||
        !std::all_of(p.places.begin(), p.places.end(),
                     [](double place) { return place > 0 && place < 1; })) {
      return absl::InvalidArgumentError(
          fmt::format("a point of the law has {} parameters, {} tokens and {} cuts; want more than "
                      "0 of each, and each cut between 0 and 1 of the way",
                      p.parameters, p.tokens, p.places.size()));
    }
    if (p.cell >= seeds.size()) seeds.resize(p.cell + 1);
    if (p.without.size() < 2) {
      return absl::FailedPreconditionError("a cell of the law has one seed; it takes two or more");
    }
    if (seeds[p.cell] != 0 && seeds[p.cell] != p.without.size()) {
      return absl::FailedPreconditionError("arms of one cell have different seeds");
    }
    seeds[p.cell] = p.without.size();
  }
  return absl::OkStatus();
}

// One fit to `x`, each divided by its `sigma`.
absl::StatusOr<std::vector<double>> Solve(const PriceLaw& law, std::span<const PricePoint> points,
                                          std::span<const double> x, std::span<const double> sigma,
                                          std::vector<double> start) {
  SeedRows rows{{std::vector<double>(x.begin(), x.end())}, /*seed_effects=*/false};
  for (size_t i = 0; i < x.size(); ++i) rows.y[0][i] /= sigma[i];
  const PointModel model = [&](std::span<const double> theta) {
    std::vector<double> m;
    for (size_t i = 0; i < points.size(); ++i) {
      const PricePoint& p = points[i];
      m.push_back(law.At(theta, {p.parameters, p.tokens, p.eps, p.places}) / sigma[i]);
    }
    return m;
  };
  const absl::StatusOr<SeedRegression> fit = FitOverSeeds(rows, model, std::move(start));
  if (!fit.ok()) return fit.status();
  return fit->theta;
}

// The terms that these points can tell, and their centres; nothing is fitted yet.
PriceLaw LawOfTerms(std::span<const PricePoint> points) {
  PriceLaw law;
  law.terms = {PriceTerm::kLnA};
  law.centre_parameters = Centre(points, LnSize);
  law.centre_ratio = Centre(points, LnRatio);
  if (std::all_of(points.begin(), points.end(), [](const PricePoint& p) { return p.eps > 0; }) &&
      Differs(points, LnEps)) {
    law.terms.push_back(PriceTerm::kEps);
    law.centre_eps = Centre(points, LnEps);
  }
  if (Differs(points, LnSize)) law.terms.push_back(PriceTerm::kSize);
  if (Differs(points, LnRatio)) law.terms.push_back(PriceTerm::kTokens);
  if (Differs(points, [](const PricePoint& p) { return MeanPlace(p.places); })) {
    law.terms.push_back(PriceTerm::kTilt);
  }
  return law;
}

// Fits the law anew without each seed of each cell.
absl::Status LeaveSeedsOut(std::span<const PricePoint> points, const std::vector<double>& x,
                           const std::vector<double>& sigma, size_t cells, PriceLaw& law) {
  law.without.resize(cells);
  for (size_t c = 0; c < cells; ++c) {
    size_t seeds = 0;
    for (const PricePoint& p : points) {
      if (p.cell == c) seeds = p.without.size();
    }
    for (size_t j = 0; j < seeds; ++j) {
      std::vector<double> left = x;
      for (size_t i = 0; i < points.size(); ++i) {
        if (points[i].cell == c) left[i] = points[i].without[j];
      }
      absl::StatusOr<std::vector<double>> theta = Solve(law, points, left, sigma, law.theta);
      if (!theta.ok()) return theta.status();
      law.without[c].push_back(*std::move(theta));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ToString(PriceTerm term) {
  switch (term) {
    case PriceTerm::kLnA:
      return "ln A";
    case PriceTerm::kEps:
      return "p, of eps";
    case PriceTerm::kSize:
      return "exponent in N";
    case PriceTerm::kTokens:
      return "exponent in D/N";
    case PriceTerm::kTilt:
      return "tilt over l/L";
  }
  return "";
}

bool PriceLaw::Has(PriceTerm term) const {
  return std::find(terms.begin(), terms.end(), term) != terms.end();
}

double PriceLaw::At(std::span<const double> parameters, const PricePlace& place) const {
  double ln = 0, tilt = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    switch (terms[i]) {
      case PriceTerm::kLnA:
        ln += parameters[i];
        break;
      case PriceTerm::kEps:
        ln += parameters[i] * std::log(place.eps / centre_eps);
        break;
      case PriceTerm::kSize:
        ln += parameters[i] * std::log(place.parameters / centre_parameters);
        break;
      case PriceTerm::kTokens:
        ln += parameters[i] * std::log(place.tokens / place.parameters / centre_ratio);
        break;
      case PriceTerm::kTilt:
        tilt = parameters[i];
        break;
    }
  }
  double cuts = 0;
  for (const double l : place.places) cuts += 1 + tilt * (l - 0.5);
  return std::exp(ln) * cuts;
}

absl::StatusOr<PriceLaw> FitPriceLaw(std::span<const PricePoint> points) {
  if (points.empty()) return absl::FailedPreconditionError("the law has no point");
  if (absl::Status s = CheckPoints(points); !s.ok()) return s;
  PriceLaw law = LawOfTerms(points);
  if (points.size() < law.terms.size()) {
    return absl::FailedPreconditionError(
        fmt::format("{} points do not tell {} terms", points.size(), law.terms.size()));
  }

  // Every seed of every arm counts once. Weights from the points' own variances would be those of a
  // handful of seeds, and hold the truth too seldom.
  std::vector<double> x, sigma, error;
  double price = 0;
  size_t cells = 0;
  for (const PricePoint& p : points) {
    x.push_back(p.value);
    sigma.push_back(1 / std::sqrt(static_cast<double>(p.without.size())));
    error.push_back(std::sqrt(JackknifeVariance(p.without) + p.own_error * p.own_error));
    price += p.value / static_cast<double>(p.places.size() * points.size());
    cells = std::max(cells, p.cell + 1);
  }
  if (!(price > 0)) {
    return absl::FailedPreconditionError("the mean price of a cut is not above 0: no law of it");
  }
  std::vector<double> start(law.terms.size(), 0.0);
  start[0] = std::log(price);
  if (law.Has(PriceTerm::kEps)) start[1] = 1;
  absl::StatusOr<std::vector<double>> theta = Solve(law, points, x, sigma, start);
  if (!theta.ok()) return theta.status();
  law.theta = *theta;

  if (absl::Status s = LeaveSeedsOut(points, x, sigma, cells, law); !s.ok()) return s;
  for (size_t i = 0; i < points.size(); ++i) {
    const PricePoint& p = points[i];
    const double off = p.value - law.At(law.theta, {p.parameters, p.tokens, p.eps, p.places});
    law.z.push_back(error[i] > 0 ? off / error[i] : 0);
    std::vector<double> moved = x;
    moved[i] += p.own_error;
    theta = Solve(law, points, moved, sigma, law.theta);
    if (!theta.ok()) return theta.status();
    law.moved.push_back(*std::move(theta));
  }
  law.freedom = points.size() - law.terms.size();
  if (law.freedom == 0) return law;
  size_t fewest = points[0].without.size();
  for (const PricePoint& p : points) fewest = std::min(fewest, p.without.size());
  for (const double z : law.z) law.misfit += z * z / static_cast<double>(law.freedom);
  law.p_misfit =
      FTail(law.misfit, static_cast<double>(law.freedom), static_cast<double>(fewest - 1));
  return law;
}

Measured OfLaw(const PriceLaw& law, const std::function<double(std::span<const double>)>& f,
               double level) {
  Measured out{f(law.theta)};
  double variance = 0, satterthwaite = 0;
  for (const auto& cell : law.without) {
    std::vector<double> left;
    for (const std::vector<double>& theta : cell) left.push_back(f(theta));
    if (left.empty()) continue;
    const double v = JackknifeVariance(left);
    variance += v;
    satterthwaite += v * v / static_cast<double>(left.size() - 1);
  }
  double own = 0;
  for (const std::vector<double>& theta : law.moved) own += std::pow(f(theta) - out.value, 2);
  const double t = satterthwaite > 0
                       ? TQuantile((1 + level) / 2, variance * variance / satterthwaite)
                       : NormalQuantile((1 + level) / 2);
  if (law.Refused()) {
    const double wide = TQuantile((1 + level) / 2, static_cast<double>(law.freedom)) *
                        std::sqrt(law.misfit * (variance + own));
    out.interval = Interval{out.value - wide, out.value + wide, level, "jackknife, t, misfit"};
    return out;
  }
  const double half =
      std::hypot(t * std::sqrt(variance), NormalQuantile((1 + level) / 2) * std::sqrt(own));
  out.interval = Interval{out.value - half, out.value + half, level, "jackknife, t"};
  return out;
}

Measured TermOf(const PriceLaw& law, PriceTerm term, double level) {
  const auto found = std::find(law.terms.begin(), law.terms.end(), term);
  if (found == law.terms.end()) return {};
  const auto index = static_cast<size_t>(found - law.terms.begin());
  return OfLaw(
      law, [index](std::span<const double> theta) { return theta[index]; }, level);
}

Measured PriceAt(const PriceLaw& law, const PricePlace& place, double level) {
  return OfLaw(
      law, [&](std::span<const double> theta) { return law.At(theta, place); }, level);
}

}  // namespace longhaul
