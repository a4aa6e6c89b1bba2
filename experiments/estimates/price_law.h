#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"

namespace longhaul {

// How the price of crossings depends on size, tokens and the codec's error, from several campaigns
// (cells), each of one model and one length:
//
//   x = A eps^p N^a (D/N)^b sum over cuts of 1 + tilt (l/L - 1/2)
//
// x: -ln eta, or Delta in nat. N parameters, D tokens, eps the mean NMSE of the arm's boundary
// tensors, l/L the place of a cut. With x = -ln eta, a = 0 is token transfer; with x = Delta, loss
// transfer.

// An arm of a cell. What belongs to one seed is known by what is left without it.
struct PricePoint {
  size_t cell = 0;                   // points of one cell share their seeds
  double parameters = 0;             // N
  double tokens = 0;                 // D
  double eps = 0;                    // 0: not recorded
  std::vector<double> places = {};   // l/L of every cut, in (0, 1)
  double value = 0;                  // x, over all seeds of the cell
  std::vector<double> without = {};  // x without each of them
  double own_error = 0;              // of x: a standard error that is not the seeds'
};

enum class PriceTerm { kLnA, kEps, kSize, kTokens, kTilt };
std::string_view ToString(PriceTerm term);

// A point of the law to be predicted.
struct PricePlace {
  double parameters = 0, tokens = 0, eps = 0;
  std::vector<double> places = {};
};

// Least squares of x, each point weighted by its cell's seeds. A term is fitted where the points tell
// it: p where they have eps and it differs, a where N does, b where D/N does, tilt
// where the mean place of an arm's cuts does. The others are 0.
struct PriceLaw {
  std::vector<PriceTerm> terms;
  std::vector<double> theta;  // of each term; lnA at the centre below
  double centre_parameters = 0, centre_ratio = 0, centre_eps = 0;  // geometric means
  // theta without each seed of each cell, and with each point's own error added to it.
  std::vector<std::vector<std::vector<double>>> without;  // [cell][seed]
  std::vector<std::vector<double>> moved;                 // [point]
  std::vector<double> z;  // [point]: (measured - fitted) / the point's own standard error
  // Do the points lie on the law? The sum of z^2 over the degrees of freedom that the terms leave, and
  // how often chance alone makes it as large: by F with the degrees of the cell with the fewest seeds.
  size_t freedom = 0;  // 0: as many terms as points, nothing is tried
  double misfit = 0, p_misfit = 1;

  // The points do not lie on it: it foretells nothing, and no exponent of it is a law.
  bool Refused() const { return p_misfit < kRefused; }
  static constexpr double kRefused = 0.001;

  bool Has(PriceTerm term) const;
  double At(std::span<const double> theta, const PricePlace& place) const;
};

// FailedPrecondition: no point, fewer points than terms, a cell with one seed or with arms of
// different seeds, a mean price that is not above 0, or no convergence. InvalidArgument: N, D or a
// place out of its range.
absl::StatusOr<PriceLaw> FitPriceLaw(std::span<const PricePoint> points);

// f of the fit with its interval: the jackknife over the seeds of every cell, cells being
// independent; t with Satterthwaite's degrees of freedom, and in quadrature the points' own errors. Of
// a refused law it is wider by the root of its misfit, with t of `freedom`: how far the points are
// from the law is the only measure of how far it is from others.
Measured OfLaw(const PriceLaw& law, const std::function<double(std::span<const double>)>& f,
               double level = 0.95);
Measured TermOf(const PriceLaw& law, PriceTerm term, double level = 0.95);
// x at a place that was not measured: where the law is, not where a campaign of so many seeds
// would find it.
Measured PriceAt(const PriceLaw& law, const PricePlace& place, double level = 0.95);

}  // namespace longhaul
