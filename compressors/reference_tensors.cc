#include "compressors/reference_tensors.h"

#include <cmath>
#include <numbers>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

// Word i of the stream as (0, 1).
double Uniform(uint64_t seed, uint64_t i) {
  return (NoiseWord(seed, NoisePurpose::kSampling, i) + 0.5) * 0x1p-32;
}

// Normal draws by Box and Muller, two per four words.
class Normals {
 public:
  explicit Normals(uint64_t seed) : seed_(seed) {}
  double Next() {
    if (held_) {
      held_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(Uniform(seed_, 2 * at_)));
    const double angle = 2 * std::numbers::pi * Uniform(seed_, 2 * at_ + 1);
    ++at_;
    spare_ = radius * std::sin(angle);
    held_ = true;
    return radius * std::cos(angle);
  }

 private:
  const uint64_t seed_;
  uint64_t at_ = 0;
  double spare_ = 0;
  bool held_ = false;
};

}  // namespace

std::string_view DistributionName(Distribution distribution) {
  constexpr std::string_view kNames[] = {"Gaussian", "Laplace", "Student-t4", "outlier"};
  return kNames[static_cast<size_t>(distribution)];
}

std::vector<float> DrawReference(Distribution distribution, size_t n, uint64_t seed) {
  seed = FoldSeed({seed, static_cast<uint64_t>(distribution)});
  Normals normal(seed);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    double v = 0;
    if (distribution == Distribution::kLaplace) {
      const double u = Uniform(seed, i) - 0.5;
      v = std::copysign(std::log1p(-2 * std::fabs(u)), -u);
    } else {
      v = normal.Next();
    }
    if (distribution == Distribution::kStudentT4) {
      double square = 0;
      for (int j = 0; j < 4; ++j) square += std::pow(normal.Next(), 2) / 4;
      v /= std::sqrt(square);
    }
    if (distribution == Distribution::kOutlier && i % 64 == 17) v *= 60;
    x[i] = static_cast<float>(v);
  }
  return x;
}

double Nmse(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    energy += double{x[i]} * x[i];
  }
  return error == 0 ? 0 : error / energy;
}

}  // namespace longhaul
