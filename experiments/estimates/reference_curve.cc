#include "experiments/estimates/reference_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

// Between two points, t from 0 to 1; h their distance, m the tangents.
struct Piece {
  double y0, y1, m0, m1, h;
  double At(double t) const {
    const double u = 1 - t;
    return u * u * (1 + 2 * t) * y0 + t * t * (1 + 2 * u) * y1 + h * t * u * (u * m0 - t * m1);
  }
  double TangentAt(double t) const {
    const double u = 1 - t;
    return 6 * t * u * (y1 - y0) / h + u * (u - 2 * t) * m0 + t * (t - 2 * u) * m1;
  }
};

Piece PieceOf(const MonotoneCubic& curve, size_t i) {
  return {curve.y[i], curve.y[i + 1], curve.tangent[i], curve.tangent[i + 1],
          curve.x[i + 1] - curve.x[i]};
}

// The end's tangent of the parabola through three points, kept from turning the curve round.
double EndTangent(double h0, double h1, double secant0, double secant1) {
  const double m = ((2 * h0 + h1) * secant0 - h0 * secant1) / (h0 + h1);
  if (m * secant0 <= 0) return 0;
  if (secant0 * secant1 <= 0 && std::abs(m) > 3 * std::abs(secant0)) return 3 * secant0;
  return m;
}

constexpr double kSameBudget = 1e-9;
constexpr double kCurveLevel = 0.95;

using LossRows = std::vector<std::vector<double>>;  // [seed][budget]

// Spread between seeds at one budget, pooled over the budgets.
double PooledSigma(const LossRows& losses) {
  double squares = 0;
  const size_t budgets = losses.front().size();
  for (size_t b = 0; b < budgets; ++b) {
    std::vector<double> at_budget;
    for (const std::vector<double>& row : losses) at_budget.push_back(row[b]);
    squares += Variance(at_budget);
  }
  return std::sqrt(squares / static_cast<double>(budgets));
}

// Over all rows but `skip`; losses.size(): over all.
std::vector<double> MeanLosses(const LossRows& losses, size_t skip) {
  std::vector<double> mean(losses.front().size(), 0.0);
  const double n = static_cast<double>(losses.size() - (skip < losses.size() ? 1 : 0));
  for (size_t j = 0; j < losses.size(); ++j) {
    for (size_t b = 0; j != skip && b < mean.size(); ++b) mean[b] += losses[j][b] / n;
  }
  return mean;
}

std::vector<double> Without(std::vector<double> x, size_t at) {
  x.erase(x.begin() + static_cast<std::ptrdiff_t>(at));
  return x;
}

// Budget b found again, in ln D, by the curve without it.
double FoundAgain(const std::vector<double>& x, const std::vector<double>& mean, size_t b) {
  return MonotoneCubic::Through(Without(x, b), Without(mean, b)).Inverse(mean[b]) - x[b];
}

// theta_-j of every seed -> what each seed moves theta by, on the scale of FromInfluence.
std::vector<double> JackknifeMoves(const std::vector<double>& left_out) {
  std::vector<double> moves;
  const double mean = Mean(left_out), n = static_cast<double>(left_out.size());
  for (const double value : left_out) moves.push_back((n - 1) * (mean - value));
  return moves;
}

void FindPseudoControls(const std::vector<double>& x, ReferenceCurve& curve) {
  double squares = 0;
  std::vector<double> p_values;
  for (size_t b = 1; b + 1 < x.size(); ++b) {
    const double error = FoundAgain(x, curve.mean.y, b);
    std::vector<double> left_out;
    for (const MonotoneCubic& without : curve.without) {
      left_out.push_back(FoundAgain(x, without.y, b));
    }
    const std::vector<double> moves = JackknifeMoves(left_out);
    curve.pseudo_controls.push_back({curve.budgets[b], FromInfluence(error, moves, kCurveLevel)});
    squares += error * error;
    if (moves.size() < 2) continue;
    squares -= Variance(moves) / static_cast<double>(moves.size());
    std::vector<double> around = moves;
    for (double& move : around) move += error;
    p_values.push_back(PairedP(around));
  }
  if (curve.pseudo_controls.empty()) return;
  curve.own_error =
      std::sqrt(std::max(0.0, squares / static_cast<double>(curve.pseudo_controls.size()))) / 2;
  if (p_values.empty()) return;
  const std::vector<double> adjusted = HolmAdjusted(p_values);
  curve.lack_of_fit_p = *std::min_element(adjusted.begin(), adjusted.end());
}

// The rows of the seeds that have every budget.
LossRows Balanced(std::span<const ReferenceRun> runs, ReferenceCurve& curve) {
  std::map<int64_t, std::map<double, double>> by_seed;
  std::map<double, int64_t> budgets;
  for (const ReferenceRun& run : runs) {
    by_seed[run.seed][run.budget] = run.loss_nat;
    ++budgets[run.budget];
  }
  for (const auto& [budget, count] : budgets) curve.budgets.push_back(budget);
  LossRows out;
  for (const auto& [seed, losses] : by_seed) {
    if (losses.size() != curve.budgets.size()) continue;
    curve.seeds.push_back(seed);
    out.emplace_back();
    for (const auto& [budget, loss] : losses) out.back().push_back(loss);
  }
  return out;
}

absl::Status MustFall(const std::vector<double>& budgets, const std::vector<double>& losses) {
  for (size_t b = 0; b + 1 < budgets.size(); ++b) {
    if (losses[b + 1] < losses[b]) continue;
    return absl::FailedPreconditionError(
        fmt::format("reference curve: the mean loss does not fall from {:.4g} D0 ({:.4f} nat) to "
                    "{:.4g} D0 ({:.4f} nat): more tokens did not help; the budgets are too close "
                    "or too small, or the seeds too few",
                    budgets[b], losses[b], budgets[b + 1], losses[b + 1]));
  }
  return absl::OkStatus();
}

}  // namespace

MonotoneCubic MonotoneCubic::Through(std::vector<double> x, std::vector<double> y) {
  const size_t pieces = x.size() - 1;
  std::vector<double> h(pieces), secant(pieces), m(x.size());
  for (size_t i = 0; i < pieces; ++i) {
    h[i] = x[i + 1] - x[i];
    secant[i] = (y[i + 1] - y[i]) / h[i];
  }
  for (size_t i = 1; i < pieces; ++i) {
    if (secant[i - 1] * secant[i] <= 0) continue;  // the points turn here: level
    const double before = 2 * h[i] + h[i - 1], behind = h[i] + 2 * h[i - 1];
    m[i] = (before + behind) / (before / secant[i - 1] + behind / secant[i]);
  }
  if (pieces == 1) {
    m[0] = m[1] = secant[0];
  } else {
    m[0] = EndTangent(h[0], h[1], secant[0], secant[1]);
    m[pieces] = EndTangent(h[pieces - 1], h[pieces - 2], secant[pieces - 1], secant[pieces - 2]);
  }
  return {std::move(x), std::move(y), std::move(m)};
}

double MonotoneCubic::OuterTangent(bool behind) const {
  const double own = behind ? tangent.back() : tangent.front();
  return own != 0 ? own : (y.back() - y.front()) / (x.back() - x.front());
}

double MonotoneCubic::At(double at) const {
  if (at <= x.front()) return y.front() + OuterTangent(false) * (at - x.front());
  if (at >= x.back()) return y.back() + OuterTangent(true) * (at - x.back());
  const size_t i = static_cast<size_t>(std::upper_bound(x.begin(), x.end(), at) - x.begin()) - 1;
  return PieceOf(*this, i).At((at - x[i]) / (x[i + 1] - x[i]));
}

double MonotoneCubic::TangentAt(double at) const {
  if (at < x.front() || at > x.back()) return OuterTangent(at > x.back());
  const auto above = std::upper_bound(x.begin(), x.end(), at);
  const size_t i = std::min(static_cast<size_t>(above - x.begin()), x.size() - 1) - 1;
  return PieceOf(*this, i).TangentAt((at - x[i]) / (x[i + 1] - x[i]));
}

double MonotoneCubic::Inverse(double down_to) const {
  if (down_to >= y.front()) return x.front() + (down_to - y.front()) / OuterTangent(false);
  size_t i = 0;
  while (i + 1 < y.size() && y[i + 1] > down_to) ++i;
  if (i + 1 == y.size()) return x.back() + (down_to - y.back()) / OuterTangent(true);
  // A point's own value gives back the point, to the last bit.
  if (y[i + 1] == down_to) return x[i + 1];
  const Piece piece = PieceOf(*this, i);
  double above = 0, below = 1;
  while (true) {
    const double middle = (above + below) / 2;
    if (middle == above || middle == below) return x[i] + piece.h * middle;
    (piece.At(middle) > down_to ? above : below) = middle;
  }
}

std::string CurveErrorText(const ReferenceCurve& c) {
  if (c.pseudo_controls.empty()) {
    return "No budget lies between two others: nothing tells how far the curve is off.";
  }
  const auto worst = std::max_element(c.pseudo_controls.begin(), c.pseudo_controls.end(),
                                      [](const PseudoControl& a, const PseudoControl& b) {
                                        return std::abs(a.error.value) < std::abs(b.error.value);
                                      });
  return fmt::format(
      "Left out and found again, a budget of {:.3f} D0 comes out as {:.3f} D0 at the worst; beyond "
      "the seeds' noise the curve is taken to be off by {:.2f} % of eta midway between two{}.",
      worst->budget, worst->budget * std::exp(worst->error.value), 100 * c.own_error,
      c.lack_of_fit_p ? fmt::format(" (p {:.3f} for no such error, Holm)", *c.lack_of_fit_p) : "");
}

double ReferenceCurve::LossAt(double budget) const { return mean.At(std::log(budget)); }

absl::StatusOr<ReferenceCurve> FitReference(std::span<const ReferenceRun> runs) {
  ReferenceCurve curve;
  const LossRows losses = Balanced(runs, curve);
  const auto d0 = std::find_if(curve.budgets.begin(), curve.budgets.end(),
                               [](double budget) { return std::abs(budget - 1) < kSameBudget; });
  if (losses.empty() || d0 == curve.budgets.end() || curve.budgets.size() < 2) {
    return absl::FailedPreconditionError(
        "reference curve: no seed has finished the D0 run and every other budget");
  }
  *d0 = 1;
  std::vector<double> x;
  for (const double budget : curve.budgets) x.push_back(std::log(budget));
  const std::vector<double> mean = MeanLosses(losses, losses.size());
  if (absl::Status s = MustFall(curve.budgets, mean); !s.ok()) return s;
  curve.mean = MonotoneCubic::Through(x, mean);
  for (size_t j = 0; j < losses.size(); ++j) {
    curve.d0_loss_by_seed[curve.seeds[j]] =
        losses[j][static_cast<size_t>(d0 - curve.budgets.begin())];
    if (losses.size() < 2) continue;
    curve.without.push_back(MonotoneCubic::Through(x, MeanLosses(losses, j)));
  }
  curve.smallest_budget = curve.budgets.front();
  curve.slope_nat = -curve.mean.TangentAt(0);
  std::vector<double> slopes;
  for (const MonotoneCubic& without : curve.without) slopes.push_back(-without.TangentAt(0));
  const std::vector<double> moves = JackknifeMoves(slopes);
  if (!moves.empty()) {
    curve.slope_se_nat = std::sqrt(Variance(moves) / static_cast<double>(moves.size()));
  }
  curve.sigma_nat = PooledSigma(losses);
  FindPseudoControls(x, curve);
  return curve;
}

double CurveError(const ReferenceCurve& curve, std::span<const CurveTerm> terms) {
  const std::vector<double>& x = curve.mean.x;
  std::vector<double> by_gap(x.size() + 1, 0.0);
  const auto add = [&](double weight, double at) {
    if (at <= x.front()) return;  // nothing is said below
    const auto above = std::lower_bound(x.begin(), x.end(), at);
    const size_t gap = static_cast<size_t>(above - x.begin());
    if (above == x.end()) {
      by_gap[gap] += weight * (at - x.back()) / (x.back() - x[x.size() - 2]);
      return;
    }
    const double share = (at - x[gap - 1]) / (x[gap] - x[gap - 1]);
    by_gap[gap] += weight * 4 * share * (1 - share);
  };
  for (const CurveTerm& term : terms) {
    add(term.weight, term.to);
    add(-term.weight, term.from);
  }
  double squares = 0;
  for (const double sum : by_gap) squares += sum * sum;
  return curve.own_error * std::sqrt(squares);
}

}  // namespace longhaul
