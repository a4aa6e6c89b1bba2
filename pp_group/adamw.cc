#include "pp_group/adamw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include <ATen/ATen.h>

#include "pp_group/kernels/kernels.h"

namespace longhaul {

double LearningRate(const AdamWSpec& spec, int64_t step, int64_t steps) {
  if (step < spec.warmup_steps) {
    return spec.lr * static_cast<double>(step + 1) / static_cast<double>(spec.warmup_steps);
  }
  const int64_t length = std::max<int64_t>(1, steps - spec.warmup_steps);
  const double progress =
      std::min(1.0, static_cast<double>(step - spec.warmup_steps) / static_cast<double>(length));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return spec.lr * (spec.min_lr_fraction + (1 - spec.min_lr_fraction) * cosine);
}

AdamW::AdamW(const AdamWSpec& spec, const Stage& stage)
    : spec_(spec), m_(at::zeros_like(stage.parameters())), v_(at::zeros_like(stage.parameters())) {}

struct AdamW::Rates {
  double step_size, sqrt_correction2, decay;
};

AdamW::Rates AdamW::RatesOf(int64_t step, int64_t steps) const {
  const double t = static_cast<double>(step + 1), lr = LearningRate(spec_, step, steps);
  return {.step_size = lr / (1 - std::pow(spec_.beta1, t)),
          .sqrt_correction2 = std::sqrt(1 - std::pow(spec_.beta2, t)),
          .decay = lr * spec_.weight_decay};
}

ClipSquares ClipSquaresOf(const Stage& stage) {
  const at::Tensor& gradients = stage.gradients();
  const auto squares = [&gradients](int64_t begin, int64_t end) {
    return gradients.is_cpu()
               ? BestKernels().sum_of_squares(gradients.data_ptr<float>() + begin, end - begin)
               : gradients.narrow(0, begin, end - begin).square().sum(at::kDouble).item<double>();
  };
  ClipSquares sums;
  const std::vector<FlatRange> shared = SharedRanges(stage.layout());
  for (const ClipGroup& group : stage.layout().clip_groups) {
    double own = 0, spread = 0;
    int64_t at = group.begin;
    for (const FlatRange& range : shared) {
      const int64_t begin = std::max(range.begin, group.begin),
                    end = std::min(range.end, group.end);
      if (begin >= end) continue;
      if (at < begin) spread += squares(at, begin);
      own += squares(begin, end);
      at = end;
    }
    if (at < group.end) spread += squares(at, group.end);
    sums.shared.push_back(own);
    sums.spread.push_back(spread);
  }
  return sums;
}

// Of each clip group; 1: it is not clipped. A NaN norm fails the comparison and leaves NaN
// gradients as they are: the loss reports it.
std::vector<float> AdamW::ClipScales(const Stage& stage, const std::vector<double>& spread) const {
  std::vector<float> scales;
  const ClipSquares squares = ClipSquaresOf(stage);
  for (size_t i = 0; i < squares.shared.size(); ++i) {
    const double norm = std::sqrt(squares.shared[i] + (spread.empty() ? 0 : spread[i]));
    scales.push_back(norm > spec_.clip_norm ? static_cast<float>(spec_.clip_norm / norm) : 1.0f);
  }
  return scales;
}

// The kernel's formula in ATen calls, for parameters that are on a device.
void StepByAten(const AdamWStep& s, const at::Tensor& gradient, const at::Tensor& parameter,
                const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor g = gradient * s.grad_scale;
  first.mul_(s.beta1).add_(g, 1 - s.beta1);
  second.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  parameter.mul_(1 - s.decay);
  parameter.addcdiv_(first, second.sqrt().div_(s.sqrt_correction2).add_(s.eps), -s.step_size);
}

int AdamW::Step(int64_t step, int64_t steps, Stage* stage, const std::vector<double>& spread) {
  const at::Tensor &parameters = stage->parameters(), &gradients = stage->gradients();
  const std::vector<float> scales = ClipScales(*stage, spread);
  const Rates rates = RatesOf(step, steps);
  for (const ParameterSlot& slot : stage->layout().slots) {
    const AdamWStep update{.grad_scale = scales[slot.clip_group],
                           .beta1 = static_cast<float>(spec_.beta1),
                           .beta2 = static_cast<float>(spec_.beta2),
                           .eps = static_cast<float>(spec_.eps),
                           .step_size = static_cast<float>(rates.step_size),
                           .sqrt_correction2 = static_cast<float>(rates.sqrt_correction2),
                           .decay = slot.decays ? static_cast<float>(rates.decay) : 0.0f};
    if (!parameters.is_cpu()) {
      const auto part = [&slot](const at::Tensor& flat) {
        return flat.narrow(0, slot.offset, slot.elements());
      };
      StepByAten(update, part(gradients), part(parameters), part(m_), part(v_));
      continue;
    }
    BestKernels().adamw(update, gradients.data_ptr<float>() + slot.offset, slot.elements(),
                        parameters.data_ptr<float>() + slot.offset,
                        m_.data_ptr<float>() + slot.offset, v_.data_ptr<float>() + slot.offset);
  }
  return static_cast<int>(
      std::count_if(scales.begin(), scales.end(), [](float scale) { return scale != 1.0f; }));
}

void AdamW::ForgetMoments() {
  m_.zero_();
  v_.zero_();
}

uint64_t HashOf(const at::Tensor& x) {
  constexpr uint64_t kPrime = 0x9E3779B185EBCA87u;
  const at::Tensor host = x.is_cpu() ? x : x.cpu();
  const auto* bytes = static_cast<const unsigned char*>(host.const_data_ptr());
  const size_t size = x.nbytes();
  std::array<uint64_t, 4> lanes{1, 2, 3, 4};
  size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes + at, sizeof words);
    for (int i = 0; i < 4; ++i) lanes[i] = std::rotl(lanes[i] ^ words[i], 29) * kPrime;
  }
  uint64_t tail = size;
  for (; at < size; ++at) tail = (tail ^ bytes[at]) * kPrime;
  for (uint64_t lane : lanes) {
    tail = (tail ^ lane) * kPrime;
    tail ^= tail >> 32;
  }
  return tail;
}

}  // namespace longhaul
