#include "compressors/numbers/dct.h"

#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <numbers>
#include <utility>

namespace longhaul {
namespace {

// x^2 -> sum over k of (-1)^k x^2k / (2k + first)! times first!: cos for first = 0, sin(x) / x for
// first = 1. |x| <= pi / 4: the eleventh term is below 1e-20.
double Series(double squared, int first) {
  double sum = 0, term = 1;
  for (int k = 0; k < 11; ++k) {
    sum += term;
    const int last = 2 * k + first;
    term *= -squared / static_cast<double>((last + 1) * (last + 2));
  }
  return sum;
}

// cos(pi m / 2n), by the symmetries of the circle on integers.
double CosOf(size_t m, size_t n) {
  m %= 4 * n;
  if (m > 2 * n) m = 4 * n - m;
  const bool negative = m > n;
  if (negative) m = 2 * n - m;
  const double quarter = std::numbers::pi / 2 / static_cast<double>(n);
  const double near_zero = quarter * static_cast<double>(2 * m <= n ? m : n - m);
  const double value =
      2 * m <= n ? Series(near_zero * near_zero, 0) : near_zero * Series(near_zero * near_zero, 1);
  return negative ? -value : value;
}

std::unique_ptr<const DctMatrix> Make(size_t n) {
  auto made = std::make_unique<DctMatrix>();
  for (size_t i = 0; i < 64 * 64; ++i) made->forward[i] = made->inverse[i] = 0;
  for (size_t k = 0; k < n; ++k) {
    const double norm = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
    for (size_t t = 0; t < n; ++t) {
      const auto value = static_cast<float>(norm * CosOf((2 * t + 1) * k, n));
      made->forward[64 * k + t] = value;
      made->inverse[64 * t + k] = value;
    }
  }
  return made;
}

}  // namespace

const DctMatrix& DctMatrixOf(size_t n) {
  static std::array<std::once_flag, 65> once;
  static std::array<std::unique_ptr<const DctMatrix>, 65> made;
  std::call_once(once[n], [n] { made[n] = Make(n); });
  return *made[n];
}

}  // namespace longhaul
