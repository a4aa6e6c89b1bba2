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
#include "experiments/estimates/reference_curve.h"

namespace longhaul {

// Final loss by seed.
using LossBySeed = std::map<int64_t, double>;

// An arm and what it is compared with: the curve's own D0 runs, or the runs of an arm that has
// every change of this one but the codecs.
struct ArmPair {
  LossBySeed reference, arm;
};

// ln eta of several arms over the same seeds. Both ends of a pair are read off the curve, at their
// mean losses above the D0 runs of the same seeds: an arm far from D0 is judged by the slope there.
// What one seed says is its jackknife pseudo-value, n theta - (n - 1) theta without the seed, with
// its share in the curve; any sum or fit of ln eta is made of these, and their spread over seeds is
// its error.
struct LnEtaRows {
  std::vector<int64_t> seeds;
  std::vector<double> value;                // [pair]; the mean of its pseudo-values
  std::vector<std::vector<double>> pseudo;  // [pair][seed]
  std::vector<double> from, to;             // [pair] ln(D/D0) of the reference and of the arm
};

// FailedPrecondition: no seed of the curve has every run, or a reference lies below the smallest
// budget.
absl::StatusOr<LnEtaRows> LnEtaBySeed(const ReferenceCurve& curve, std::span<const ArmPair> pairs);

// sum_i weights[i] ln eta_i with its interval: t(n - 1) over the seeds, and in quadrature the
// curve's own error. No interval for one seed.
Measured SumOfLnEta(const ReferenceCurve& curve, const LnEtaRows& rows,
                    std::span<const double> weights, double level);

// `x`, an interval over seeds, with a further normal standard error in quadrature.
Measured Widened(Measured x, double standard_error);

// Sums of ln eta over arms with one interval: a factor such as eta(M,H)/eta(M,1) (weights 1, -1),
// an interaction such as ln eta_both - ln eta_forward - ln eta_backward (1, -1, -1).
struct EtaTerm {
  double weight;
  LossBySeed reference, arm;
};
struct EtaContrast {
  Measured ln;  // t over the seeds that every term has, and the curve's own error
  int64_t seeds = 0;
};
// What the terms share, the seed's luck and its part in the curve, enters once: seeds are carried
// through the whole sum. FailedPrecondition: no seed has every run, or a term lies below the
// smallest reference budget.
absl::StatusOr<EtaContrast> EstimateContrast(const ReferenceCurve& curve,
                                             std::span<const EtaTerm> terms, double level = 0.95);

// Token-equivalent efficiency from final held-out losses. Everything is paired by seed. Letters: D0
// token budget, K crossings, eta token efficiency, q = eta^(1/K). docs/estimates.md has the formulas.

constexpr double kAssumedQ = 0.995;           // what planning assumes per crossing
constexpr double kEquivalenceMargin = 0.002;  // on ln eta, per crossing

enum class Verdict {
  kBelow,         // both directions compressed: the interval lies below 0.995
  kAbove,         // the interval lies above 0.995
  kBelowOneWay,   // one direction compressed: the interval lies below 0.990, what 0.995 twice gives
  kAboveOneWay,   // it lies above 0.990
  kNotResolved,   // it contains the assumed value
  kNoInterval,    // one seed, or no finite interval
  kDiverged,      // some run diverged: no mean over survivors
  kIncomplete,    // some run failed or has no held-out loss: no mean over those that have one
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
  bool IsBound() const { return ln_eta.bound == Bound::kUpper; }
  // "No loss": the 90 % interval of ln eta lies inside +-0.002 K. nullopt: no interval.
  std::optional<bool> equivalent = std::nullopt;
};

// An arm against `reference`: the curve's own D0 runs, or the runs of an arm that has every change
// of this one but the codecs; each at its own place on the curve. Seeds without a partner are left
// out. crossings = 0: the arm has no q. FailedPrecondition as LnEtaBySeed.
absl::StatusOr<Efficiency> EstimateArm(const ReferenceCurve& curve, const LossBySeed& reference,
                                       const LossBySeed& arm, int64_t crossings,
                                       double level = 0.95);

// What is left where EstimateArm fails because the reference has no place on the curve: the mean of
// arm less reference, nat, over the seeds that both have. nullopt: none has both.
std::optional<Measured> DeltaWithoutEta(const LossBySeed& reference, const LossBySeed& arm,
                                        double level = 0.95);

// Arms of one codec pair at several depths, fitted together by least squares: -ln eta = u + a K
// (model M1), the reference at K = 0; u is the luck of its runs, which all arms share. Returns a =
// -ln q per crossing with its interval. FailedPrecondition: no seed has all arms, all K are equal to
// 0, or the fit puts the deepest arm below the smallest budget. Where only the interval's low end
// does, q is cut there (kLowEnd).
struct DepthPoint {
  int64_t crossings;
  LossBySeed loss_by_seed;
};
struct JointEstimate {
  Measured a;  // -ln q
  Measured q;
  int64_t seeds = 0;
  std::vector<double> influence = {};    // what each seed, in order, moves a by; sums to 0
  std::vector<CurveTerm> on_curve = {};  // a as a sum of distances on the reference curve
};
absl::StatusOr<JointEstimate> EstimateJoint(const ReferenceCurve& curve,
                                            const LossBySeed& reference,
                                            std::span<const DepthPoint> arms, double level = 0.95);

// x where nothing below `floor` may be said: the value becomes an upper bound, or the interval's
// low end is cut.
Measured CutBelow(double floor, Measured x);

// What planning assumes for one of the crossings that an arm has: 0.995 with both directions
// compressed; with one, the crossing is all that a boundary has, for which 0.995^2 = 0.990 is assumed.
double AssumedQ(int64_t directions);
// q against that.
Verdict AgainstAssumed(const Measured& q, int64_t directions);

}  // namespace longhaul
