#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"

namespace longhaul {

// A piecewise cubic through points that keeps their order: where they fall, so does it (PCHIP:
// Fritsch and Butland's weighted harmonic mean of the secants, three-point ends). Two points give a
// line. Outside of the points it goes on along its end's tangent, or, where that is level, along
// the line from end to end.
struct MonotoneCubic {
  std::vector<double> x, y, tangent;  // x rises

  // Two points or more.
  static MonotoneCubic Through(std::vector<double> x, std::vector<double> y);

  double At(double x) const;
  double TangentAt(double x) const;
  // The first x at which a curve that falls has come down to `y`. Where the points fall it is the
  // only one.
  double Inverse(double y) const;

 private:
  // The line outside: before the first point, or behind the last.
  double OuterTangent(bool behind) const;
};

// Loss against tokens of the uncompressed reference: a monotone cubic on ln D through the mean
// losses over seeds, which assumes no form of the curve. docs/estimates.md has what it is worth.

struct ReferenceRun {
  int64_t seed;
  double budget;    // D / D0
  double loss_nat;  // final, held out
};

// A budget between the first and the last, found again from the loss of its runs and a curve
// without it.
struct PseudoControl {
  double budget;
  Measured error;  // ln(found / budget), t over seeds
};

struct ReferenceCurve {
  MonotoneCubic mean;                  // ln(D/D0) -> nat
  std::vector<int64_t> seeds = {};     // that have every budget: the curve's
  std::vector<MonotoneCubic> without;  // each seed, in the order of `seeds`; empty for one seed
  std::vector<double> budgets = {};    // D/D0, rising
  double smallest_budget = 1;
  double slope_nat = 0;     // -dL/dlnD at D0
  double slope_se_nat = 0;  // over seeds; 0 for one seed
  double sigma_nat = 0;     // spread of the final loss between seeds, pooled over budgets
  std::map<int64_t, double> d0_loss_by_seed = {};  // the reference of all arms that name none
  std::vector<PseudoControl> pseudo_controls = {};
  // Half the rms of the pseudo-controls' errors beyond what their seeds' noise explains: without its
  // budget a gap is twice as wide, and the error of an interpolation grows at least as the gap does.
  // Of ln eta, midway between two budgets; 0 at a budget.
  double own_error = 0;
  // That every pseudo-control is found but for noise: the smallest p of their t tests, by Holm.
  // nullopt: none, or one seed.
  std::optional<double> lack_of_fit_p = std::nullopt;

  double LossAt(double budget) const;
  // Which mean loss of the curve an arm has that is `delta` nat above the D0 runs, as ln(D/D0).
  double LnBudget(double delta_nat) const { return mean.Inverse(mean.At(0) + delta_nat); }
  // The same by the curve without seed j, whose own D0 loss goes with it.
  double LnBudgetWithout(size_t j, double delta_nat) const {
    return without[j].Inverse(without[j].At(0) + delta_nat);
  }
};

// What the curve's own error is and whence it is known, as a sentence.
std::string CurveErrorText(const ReferenceCurve& curve);

// FailedPrecondition: no seed has the D0 run and another budget, or the mean loss does not fall from
// one budget to the next; both are named.
absl::StatusOr<ReferenceCurve> FitReference(std::span<const ReferenceRun> runs);

// The standard error (ln eta) that the curve itself adds to sum_t weight_t (ln budget to_t - ln
// budget from_t): between two neighbouring budgets its error is one number, from gap to gap they are
// independent. Behind the last budget it grows with the distance.
struct CurveTerm {
  double weight, from, to;
};
double CurveError(const ReferenceCurve& curve, std::span<const CurveTerm> terms);

}  // namespace longhaul
