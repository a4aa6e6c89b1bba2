#include "compressors/numbers/hadamard.h"

#include <cmath>

namespace longhaul {
namespace {

template <class T>
void Butterflies(std::span<T> x) {
  for (size_t h = 1; h < x.size(); h *= 2) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (i & h) continue;
      const T a = x[i], b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
}

}  // namespace

void HadamardSums(std::span<int32_t> x) { Butterflies(x); }

void Hadamard(std::span<float> x) {
  Butterflies(x);
  // IEEE division and square root: the same float everywhere (0.125 for n = 64).
  const float norm = 1.0f / std::sqrt(static_cast<float>(x.size()));
  for (float& v : x) v *= norm;
}

}  // namespace longhaul
