#include "experiments/estimates/monotone_cubic.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace longhaul
