#pragma once

// Element-wise kernels and reductions; see vec.h for how this is compiled.

#include "pp_group/kernels/kernels.h"
#include "pp_group/kernels/vec.h"

namespace longhaul {
namespace {

constexpr float kNormEps = 1e-5f;

// Sum of f(x[i]) over a row; lanes of a partial vector count only if `zero` makes f vanish there.
template <typename F>
LONGHAUL_INLINE float RowSum(size_t width, F f) {
  Vec sum = Splat(0);
  size_t i = 0;
  for (; i + kVec <= width; i += kVec) sum += f(i, kVec);
  if (i < width) {
    Vec last = f(i, width - i);
    for (size_t lane = width - i; lane < kVec; ++lane) last[lane] = 0;
    sum += last;
  }
  return Sum(sum);
}

LONGHAUL_INLINE Vec LoadUpTo(const float* p, size_t count) {
  return count == kVec ? Load(p) : LoadPart(p, count, 0);
}
LONGHAUL_INLINE void StoreUpTo(float* p, size_t count, Vec v) {
  if (count == kVec) {
    Store(p, v);
  } else {
    StorePart(p, count, v);
  }
}

void LayerNorm(const float* x, const float* weight, const float* bias, size_t n, size_t width,
               float* y, float* mean, float* rstd) {
  const float inverse = 1.0f / static_cast<float>(width);
  for (size_t row = 0; row < n; ++row, x += width, y += width) {
    const float mu =
        RowSum(width, [&](size_t i, size_t k) { return LoadUpTo(x + i, k); }) * inverse;
    const float variance = RowSum(width,
                                  [&](size_t i, size_t k) {
                                    const Vec centred = LoadUpTo(x + i, k) - Splat(mu);
                                    return centred * centred;
                                  }) *
                           inverse;
    const float r = 1.0f / __builtin_sqrtf(variance + kNormEps);
    mean[row] = mu;
    rstd[row] = r;
    auto step = [&](size_t i, size_t k) {
      const Vec normal = (LoadUpTo(x + i, k) - Splat(mu)) * Splat(r);
      StoreUpTo(y + i, k, normal * LoadUpTo(weight + i, k) + LoadUpTo(bias + i, k));
    };
    ForEachVec(
        width, [&](size_t i) { step(i, kVec); }, step);
  }
}

void LayerNormBackward(const float* dy, const float* x, const float* weight, const float* mean,
                       const float* rstd, const float* skip, size_t n, size_t width, float* dx,
                       float* dweight, float* dbias, float* partial) {
  float* sum_weight = partial;
  float* sum_bias = partial + width;
  std::memset(partial, 0, 2 * width * sizeof(float));
  const float inverse = 1.0f / static_cast<float>(width);
  for (size_t row = 0; row < n; ++row, dy += width, x += width, skip += width, dx += width) {
    const Vec mu = Splat(mean[row]), r = Splat(rstd[row]);
    Vec sum = Splat(0), sum_normal = Splat(0);
    auto reduce = [&](size_t i, size_t k) {
      const Vec d = LoadUpTo(dy + i, k);
      const Vec normal = (LoadUpTo(x + i, k) - mu) * r;
      const Vec g = d * LoadUpTo(weight + i, k);  // lanes beyond k are zero
      sum += g;
      sum_normal += g * normal;
      StoreUpTo(sum_weight + i, k, LoadUpTo(sum_weight + i, k) + d * normal);
      StoreUpTo(sum_bias + i, k, LoadUpTo(sum_bias + i, k) + d);
    };
    ForEachVec(
        width, [&](size_t i) { reduce(i, kVec); }, reduce);
    const Vec a = Splat(Sum(sum) * inverse), b = Splat(Sum(sum_normal) * inverse);
    auto apply = [&](size_t i, size_t k) {
      const Vec normal = (LoadUpTo(x + i, k) - mu) * r;
      const Vec g = LoadUpTo(dy + i, k) * LoadUpTo(weight + i, k);
      StoreUpTo(dx + i, k, LoadUpTo(skip + i, k) + (g - a - normal * b) * r);
    };
    ForEachVec(
        width, [&](size_t i) { apply(i, kVec); }, apply);
  }
  for (size_t i = 0; i < width; ++i) {
    dweight[i] += sum_weight[i];
    dbias[i] += sum_bias[i];
  }
}

void Gelu(float* u, size_t count, float* h) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  auto step = [&](size_t i, size_t k) {
    const Vec x = LoadUpTo(u + i, k);
    const Vec square = x * x;
    const Vec cubic = Splat(0.044715f) * square + Splat(1.0f);
    const Vec inner = Splat(-kTwoSqrtTwoOverPi) * x * cubic;
    const Vec e = Exp(inner);
    const Vec sigmoid = Splat(1.0f) / (Splat(1.0f) + e);
    const Vec slope = Splat(kTwoSqrtTwoOverPi) * (Splat(3 * 0.044715f) * square + Splat(1.0f));
    StoreUpTo(h + i, k, x * sigmoid);
    // e sigmoid is 1 - sigmoid without the cancellation.
    StoreUpTo(u + i, k, sigmoid + x * slope * (e * sigmoid) * sigmoid);
  };
  ForEachVec(
      count, [&](size_t i) { step(i, kVec); }, step);
}

void Multiply(const float* x, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] *= x[i];
}

void CrossEntropy(float* logits, const int64_t* targets, size_t n, size_t vocab, float grad_scale,
                  double* loss) {
  for (size_t row = 0; row < n; ++row, logits += vocab) {
    Vec top = Splat(logits[0]);
    auto maximum = [&](size_t i, size_t k) {
      top = Max(top, k == kVec ? Load(logits + i) : LoadPart(logits + i, k, logits[0]));
    };
    ForEachVec(
        vocab, [&](size_t i) { maximum(i, kVec); }, maximum);
    const float highest = Max(top);
    const float target_logit = logits[targets[row]];
    const float sum = RowSum(vocab, [&](size_t i, size_t k) {
      const Vec e = Exp(LoadUpTo(logits + i, k) - Splat(highest));
      StoreUpTo(logits + i, k, e);
      return e;
    });
    loss[row] = __builtin_log(static_cast<double>(sum)) + static_cast<double>(highest) -
                static_cast<double>(target_logit);
    const float scale = grad_scale / sum;
    for (size_t i = 0; i < vocab; ++i) logits[i] *= scale;
    logits[targets[row]] -= grad_scale;
  }
}

double SumOfSquares(const float* x, size_t count) {
  double total = 0;
  // Float lanes over runs of 256, doubles across the runs.
  for (size_t begin = 0; begin < count; begin += 256) {
    const size_t width = count - begin < 256 ? count - begin : 256;
    total += static_cast<double>(RowSum(width, [&](size_t i, size_t k) {
      const Vec v = LoadUpTo(x + begin + i, k);
      return v * v;
    }));
  }
  return total;
}

void AdamW(const AdamWStep& step, const float* grad, size_t count, float* theta, float* m,
           float* v) {
  const float keep = 1.0f - step.decay;
  const float rest1 = 1.0f - step.beta1, rest2 = 1.0f - step.beta2;
  for (size_t i = 0; i < count; ++i) {
    const float g = grad[i] * step.grad_scale;
    const float mean = step.beta1 * m[i] + rest1 * g;
    const float square = step.beta2 * v[i] + rest2 * g * g;
    m[i] = mean;
    v[i] = square;
    const float denominator = __builtin_sqrtf(square) / step.sqrt_correction2 + step.eps;
    theta[i] = theta[i] * keep - step.step_size * (mean / denominator);
  }
}

void Nesterov(const float* delta, size_t count, float lr, float mu, float* momentum,
              float* theta_start, float* theta) {
  for (size_t i = 0; i < count; ++i) {
    const float buffer = mu * momentum[i] + delta[i];
    momentum[i] = buffer;
    theta_start[i] -= lr * (delta[i] + mu * buffer);
    theta[i] = theta_start[i];
  }
}

}  // namespace
}  // namespace longhaul
