#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace longhaul {

// Loss against tokens as it was measured, and between the points by a natural cubic spline on ln D:
// the truth of synthetic campaigns. It is none of the curves that the program fits.
class MeasuredTruth {
 public:
  MeasuredTruth(std::vector<double> tokens, std::vector<double> losses, double d0)
      : y_(std::move(losses)) {
    for (const double t : tokens) x_.push_back(std::log(t / d0));
    const size_t n = x_.size();
    std::vector<double> diagonal(n, 1.0), right(n, 0.0), above(n, 0.0);
    bend_.assign(n, 0.0);
    for (size_t i = 1; i + 1 < n; ++i) {
      const double before = x_[i] - x_[i - 1], behind = x_[i + 1] - x_[i];
      const double share = i == 1 ? 0 : before / diagonal[i - 1];
      diagonal[i] = 2 * (before + behind) - share * above[i - 1];
      above[i] = behind;
      right[i] =
          6 * ((y_[i + 1] - y_[i]) / behind - (y_[i] - y_[i - 1]) / before) - share * right[i - 1];
    }
    for (size_t i = n - 2; i > 0; --i) {
      bend_[i] = (right[i] - above[i] * bend_[i + 1]) / diagonal[i];
    }
  }

  double Loss(double budget) const {
    const double at = std::log(budget);
    const auto above = std::upper_bound(x_.begin() + 1, x_.end() - 1, at);
    const size_t i = static_cast<size_t>(above - x_.begin()) - 1;
    const double h = x_[i + 1] - x_[i], a = x_[i + 1] - at, b = at - x_[i];
    return (bend_[i] * a * a * a + bend_[i + 1] * b * b * b) / (6 * h) +
           (y_[i] / h - bend_[i] * h / 6) * a + (y_[i + 1] / h - bend_[i + 1] * h / 6) * b;
  }

 private:
  std::vector<double> x_, y_, bend_;
};

// Means of five seeds, docs/results/activation-small, position-rate and diloco-local: 0.12 M
// parameters. The slope falls from 0.7 to 0.3 nat per e-fold and rises again.
inline MeasuredTruth SmallModel() {
  return {{139264, 174080, 200704, 255000, 280576, 322500, 399360, 440320, 510000, 550912, 641024,
           800768, 880640},
          {3.3661, 3.2125, 3.1248, 3.0018, 2.9614, 2.9079, 2.8362, 2.8064, 2.7658, 2.7446, 2.6987,
           2.6256, 2.5921},
          399360};
}

// Means of 20 seeds, docs/results/demo-design: 0.44 M parameters, slopes 0.28, 0.26, 0.27, 0.29.
inline MeasuredTruth DemoModel() {
  return {{200704, 260096, 319488, 360448, 399360, 440320},
          {2.8485, 2.7752, 2.7222, 2.6909, 2.6624, 2.6341},
          399360};
}

}  // namespace longhaul
