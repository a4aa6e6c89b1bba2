#include "pp_group/kernels/kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "compressors/numbers/noise.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

std::vector<float> Random(size_t count, uint64_t key, float scale = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = scale * (2 * NoiseUniform(key, NoisePurpose::kSampling, i) - 1);
  }
  return values;
}

// A copy in double precision.
at::Tensor Double(const std::vector<float>& values, at::IntArrayRef sizes) {
  return at::tensor(at::ArrayRef<float>(values)).to(at::kDouble).view(sizes);
}

void ExpectClose(const std::vector<float>& ours, const at::Tensor& reference, double tolerance) {
  const at::Tensor a = Double(ours, {-1}), b = reference.detach().to(at::kDouble).reshape({-1});
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance * (b.abs().max().item<double>() + 1e-30));
}

std::vector<const Kernels*> Sets() {
  std::vector<const Kernels*> sets = {&PlainKernels()};
  if (Avx2Kernels() != nullptr) sets.push_back(Avx2Kernels());
  return sets;
}

class EverySet : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

TEST_P(EverySet, GeluAndItsSlopeAreTorchs) {
  std::vector<float> u = Random(1003, 1, 8), h(u.size());
  at::Tensor x = Double(u, {-1}).requires_grad_();
  const at::Tensor y = at::gelu(x, "tanh");
  y.sum().backward();
  k().gelu(u.data(), u.size(), h.data());
  ExpectClose(h, y, 1e-6);
  ExpectClose(u, x.grad(), 1e-6);
}

TEST_P(EverySet, GeluOfTheExtremesIsFiniteAndOfNanIsNan) {
  std::vector<float> u = {-1e4f, -50, 50, 1e4f, std::nanf("")}, h(u.size());
  k().gelu(u.data(), u.size(), h.data());
  EXPECT_NEAR(h[0], 0, 1e-30);
  EXPECT_NEAR(h[1], 0, 1e-30);
  EXPECT_EQ(h[2], 50);
  EXPECT_EQ(h[3], 1e4f);
  EXPECT_TRUE(std::isnan(h[4]));
  EXPECT_NEAR(u[3], 1, 1e-6);
}

TEST_P(EverySet, CrossEntropyAndItsGradientAreTorchs) {
  for (size_t vocab : {1u, 2u, 37u, 256u}) {
    const size_t n = 5;
    std::vector<float> logits = Random(n * vocab, vocab, 20);
    std::vector<int64_t> targets(n);
    for (size_t i = 0; i < n; ++i) targets[i] = static_cast<int64_t>(i * 31 % vocab);
    at::Tensor x = Double(logits, {static_cast<int64_t>(n), -1}).requires_grad_();
    const at::Tensor loss = at::cross_entropy_loss(x, at::tensor(targets), {}, at::Reduction::None);
    (loss.sum() * 0.25).backward();
    std::vector<double> ours(n);
    k().cross_entropy(logits.data(), targets.data(), n, vocab, 0.25f, ours.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(ours[i], loss[static_cast<int64_t>(i)].item<double>(), 2e-6) << vocab;
    }
    EXPECT_LE((Double(logits, {-1}) - x.grad().reshape({-1})).abs().max().item<double>(), 1e-6);
  }
}

TEST_P(EverySet, CrossEntropyOfNanIsNan) {
  std::vector<float> logits = Random(20, 1);
  logits[7] = std::nanf("");
  const std::vector<int64_t> targets = {3};
  double loss = 0;
  k().cross_entropy(logits.data(), targets.data(), 1, 20, 1, &loss);
  EXPECT_TRUE(std::isnan(loss));
}

TEST_P(EverySet, LayerNormAndItsGradientsAreTorchs) {
  for (int64_t width : {1, 3, 8, 33, 64}) {
    const int64_t n = 7;
    const auto x = Random(n * width, 1, 3), dy = Random(n * width, 2), skip = Random(n * width, 3);
    const auto weight = Random(width, 4), bias = Random(width, 5);
    at::Tensor tx = Double(x, {n, width}).requires_grad_();
    at::Tensor tw = Double(weight, {-1}).requires_grad_();
    at::Tensor tb = Double(bias, {-1}).requires_grad_();
    const at::Tensor ty = at::layer_norm(tx, {width}, tw, tb);
    ty.backward(Double(dy, {n, width}));
    std::vector<float> y(n * width), mean(n), rstd(n), dx(n * width), partial(2 * width);
    std::vector<float> dw(width, 0.5f), db(width, 0.5f);
    k().layer_norm(x.data(), weight.data(), bias.data(), n, width, y.data(), mean.data(),
                   rstd.data());
    k().layer_norm_backward(dy.data(), x.data(), weight.data(), mean.data(), rstd.data(),
                            skip.data(), n, width, dx.data(), dw.data(), db.data(), partial.data());
    ExpectClose(y, ty, 3e-6);
    ExpectClose(dx, tx.grad() + Double(skip, {n, width}), 1e-5);
    ExpectClose(dw, tw.grad() + 0.5, 1e-5);  // added to what was there
    ExpectClose(db, tb.grad() + 0.5, 1e-5);
  }
}

TEST_P(EverySet, AttentionAndItsGradientAreTorchs) {
  for (const auto& [context, heads, head_width] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 2, 5}, {16, 2, 16}, {37, 3, 11}, {70, 1, 40}}) {
    const AttentionShape shape{2, static_cast<size_t>(context), static_cast<size_t>(heads),
                               static_cast<size_t>(head_width)};
    const int64_t width = heads * head_width;
    const auto qkv = Random(2 * context * 3 * width, 7, 2), dout = Random(2 * context * width, 8);
    at::Tensor x = Double(qkv, {2, context, 3, heads, head_width}).requires_grad_();
    const auto part = [&](int64_t i) { return x.select(2, i).transpose(1, 2); };
    const at::Tensor y =
        at::scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true).transpose(1, 2);
    y.backward(Double(dout, {2, context, heads, head_width}));
    std::vector<float> out(dout.size()), log_sum(2 * heads * context), dqkv(qkv.size());
    std::vector<float> scratch(shape.scratch_elements(), std::nanf(""));  // must not be read
    k().attention(shape, qkv.data(), out.data(), log_sum.data(), scratch.data());
    ExpectClose(out, y, 2e-6);
    std::fill(scratch.begin(), scratch.end(), std::nanf(""));
    k().attention_backward(shape, qkv.data(), out.data(), log_sum.data(), dout.data(), dqkv.data(),
                           scratch.data());
    ExpectClose(dqkv, x.grad(), 1e-5);
  }
}

TEST_P(EverySet, SumOfSquaresCountsEveryElementOnce) {
  for (size_t count : {0u, 1u, 7u, 8u, 255u, 256u, 257u, 1000u}) {
    const std::vector<float> ones(count, 2.0f);
    EXPECT_EQ(k().sum_of_squares(ones.data(), count), 4.0 * static_cast<double>(count));
  }
}

// In binary fractions, which no order of rounding changes; 19: whole vectors and a rest.
TEST_P(EverySet, NesterovsStepIsTheOneByHandInEveryElement) {
  constexpr size_t kCount = 19;
  std::vector<float> delta(kCount), momentum(kCount), start(kCount, 100), theta(kCount, -1);
  for (size_t i = 0; i < kCount; ++i) delta[i] = static_cast<float>(i), momentum[i] = 8;
  k().nesterov(delta.data(), kCount, 0.5f, 0.25f, momentum.data(), start.data(), theta.data());
  for (size_t i = 0; i < kCount; ++i) {
    const auto moved = static_cast<double>(i);
    EXPECT_EQ(momentum[i], 2 + moved);
    EXPECT_EQ(start[i], 100 - (moved + (2 + moved) / 4) / 2);
    EXPECT_EQ(theta[i], start[i]);
  }
}

TEST_P(EverySet, AdamWsUpdateIsTheOneByHandInEveryElement) {
  constexpr size_t kCount = 19;
  std::vector<float> gradient(kCount), theta(kCount, 64), m(kCount, 1), v(kCount);
  for (size_t i = 0; i < kCount; ++i) gradient[i] = static_cast<float>(i), v[i] = i * i * 0.25f;
  const AdamWStep step{.grad_scale = 0.5f,
                       .beta1 = 0.25f,
                       .beta2 = 0.75f,
                       .eps = 2,
                       .step_size = 4,
                       .sqrt_correction2 = 0.5f,
                       .decay = 0.125f};
  k().adamw(step, gradient.data(), kCount, theta.data(), m.data(), v.data());
  for (size_t i = 0; i < kCount; ++i) {  // of g = i / 2: v stays g squared, so that its root is g
    const double g = static_cast<double>(i) / 2, mean = 0.25 + 0.75 * g;
    EXPECT_EQ(m[i], mean);
    EXPECT_EQ(v[i], g * g);
    EXPECT_FLOAT_EQ(theta[i], 56 - 4 * mean / (g / 0.5 + 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EverySet, testing::ValuesIn(Sets()),
                         [](auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace longhaul
