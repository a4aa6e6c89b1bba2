#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"

namespace longhaul {

// Token-equivalent efficiency from final held-out losses. Everything is paired by seed. Letters: D0
// token budget, s slope of the reference curve (nat per e-fold of tokens), K crossings, eta token
// efficiency, q = eta^(1/K). docs/estimates.md has the formulas.

constexpr double kLocalBelow = 0.1;  // |ln eta|: the local form errs by beta/2 of that, under 2 %
constexpr double kBeta = 0.35;  // exponent of the reference curve; 0.2 and 0.5 are the systematic
constexpr double kBetaLow = 0.2, kBetaHigh = 0.5;
constexpr double kAssumedQ = 0.995;           // what planning assumes per crossing
constexpr double kEquivalenceMargin = 0.002;  // on ln eta, per crossing

struct ReferenceRun {
  int64_t seed;
  double budget;    // D / D0
  double loss_nat;  // final, held out
};

// L = E + b (D/D0)^-beta by least squares. A seed counts if it has the D0 run and one more budget.
struct ReferenceCurve {
  double beta = kBeta;
  double floor_nat = 0;                                  // E
  double slope_nat = 0;                                  // s = beta b
  double slope_se_nat = 0;                               // over seeds; 0 for one seed
  double slope_at_beta_low = 0, slope_at_beta_high = 0;  // the systematic part
  double sigma_nat = 0;  // spread of the final loss between seeds, pooled over budgets
  double smallest_budget = 1;
  std::vector<double> budgets = {};
  std::map<int64_t, double> slope_by_seed = {};
  std::map<int64_t, double> d0_loss_by_seed = {};  // the reference of all arms that name none
  // The exponent with its interval where it was fitted; nullopt: beta is kBeta, assumed.
  std::optional<Measured> fitted_beta = std::nullopt;
  double LossAt(double budget) const;
  // Whether ln eta at delta = r s takes the curve's inverse. A fitted exponent may be large, and
  // the local form errs by half of it.
  bool Exact(double r) const { return fitted_beta.has_value() || std::abs(r) >= kLocalBelow; }
};
// FailedPrecondition: no seed with a D0 run and another budget, or a slope that is not above 0.
absl::StatusOr<ReferenceCurve> FitReference(std::span<const ReferenceRun> runs,
                                            double beta = kBeta);

// With an exponent fitted to the mean losses, where at least five budgets span a factor of 2.5 and
// at least three seeds have all of them; else, and where no exponent from 0.05 to 3 fits best, as
// FitReference. What a seed moves the exponent by is in its slope, so that intervals know of it.
constexpr double kFreeBetaSpan = 2.5;
constexpr size_t kFreeBetaBudgets = 5, kFreeBetaSeeds = 3;
absl::StatusOr<ReferenceCurve> FitReferenceFreely(std::span<const ReferenceRun> runs);

// Final loss by seed.
using LossBySeed = std::map<int64_t, double>;

enum class Verdict {
  kBelow,         // the interval lies below 0.995
  kAbove,         // the interval lies above 0.995
  kNotResolved,   // it holds 0.995
  kNoInterval,    // one seed, or no finite interval
  kDiverged,      // some run diverged or failed: no mean over survivors
  kNoConclusion,  // the campaign's controls failed: its instrument is in doubt
  kNoQ,           // the arm changes more than stages and boundary codecs, or crosses nothing
};
std::string_view ToString(Verdict verdict);

// One arm against the reference, or the joint estimate of several arms.
struct Efficiency {
  int64_t crossings = 0;  // K; 0: no q
  int64_t seeds = 0;      // paired with the reference
  std::vector<std::pair<int64_t, double>> delta_by_seed = {};
  double sd_delta_nat = 0;
  Measured delta_nat = {};  // loss(arm) - loss(its reference at D0)
  // Where the smallest budget cuts them, ln eta, eta and q are bounds: see Bound. Once the value
  // itself lies below it, what is left to say is "at most the interval's high end".
  Measured ln_eta = {};
  Measured eta = {};
  std::optional<Measured> q = std::nullopt;
  bool exact = false;  // |ln eta| >= 0.1: the curve was inverted, else the local form
  Measured eta_at_beta_low = {}, eta_at_beta_high = {};  // the systematic part; no interval
  bool IsBound() const { return ln_eta.bound == Bound::kUpper; }
  // "No loss": the 90 % interval of ln eta lies inside +-0.002 K. nullopt: no interval.
  std::optional<bool> equivalent = std::nullopt;
};

// An arm against `reference`: the curve's own D0 runs, or the runs of an arm that has every change
// of this one but the codecs. For the latter the curve's slope is taken for that of the changed
// reference: the change is assumed to move the curve up or down and not to tilt it at D0. Seeds
// without a partner are left out. crossings = 0: the arm has no q. FailedPrecondition: no seed has
// a partner.
absl::StatusOr<Efficiency> EstimateArm(const ReferenceCurve& curve, const LossBySeed& reference,
                                       const LossBySeed& arm, int64_t crossings,
                                       double level = 0.95);

// Arms of one codec pair at several depths, fitted together: loss = u_seed + s m(K), model M1
// (-ln eta = a K), the reference at K = 0. Returns a = -ln q per crossing with its interval.
// FailedPrecondition: no seed has all arms, all K are equal to 0, or the fit puts the deepest arm
// below the smallest budget. Where only the interval's low end does, q is cut there (kLowEnd).
struct DepthPoint {
  int64_t crossings;
  LossBySeed loss_by_seed;
};
struct JointEstimate {
  Measured a;  // -ln q
  Measured q;
  int64_t seeds = 0;
  std::vector<double> influence = {};  // what each seed, in order, moves a by; sums to 0
};
absl::StatusOr<JointEstimate> EstimateJoint(const ReferenceCurve& curve,
                                            const LossBySeed& reference,
                                            std::span<const DepthPoint> arms, double level = 0.95);

// x where nothing below `floor` may be said: the value becomes an upper bound, or the interval's
// low end is cut.
Measured CutBelow(double floor, Measured x);

// q against the planner's 0.995.
Verdict AgainstAssumed(const Measured& q);

}  // namespace longhaul
