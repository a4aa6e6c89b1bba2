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

AdamW::AdamW(const AdamWSpec& spec, const StageLayout& layout)
    : spec_(spec),
      m_(at::zeros({layout.flat_elements}, at::kFloat)),
      v_(at::zeros({layout.flat_elements}, at::kFloat)) {}

int AdamW::Step(int64_t step, int64_t steps, Stage* stage) {
  const Kernels& kernels = BestKernels();
  const StageLayout& layout = stage->layout();
  const float* grad = stage->gradients().data_ptr<float>();
  std::vector<float> scale;
  int clipped = 0;
  for (const ClipGroup& group : layout.clip_groups) {
    const double norm =
        std::sqrt(kernels.sum_of_squares(grad + group.begin, group.end - group.begin));
    // A NaN norm fails the comparison and leaves NaN gradients as they are: the loss reports it.
    clipped += norm > spec_.clip_norm;
    scale.push_back(norm > spec_.clip_norm ? static_cast<float>(spec_.clip_norm / norm) : 1.0f);
  }
  const double t = static_cast<double>(step + 1);
  const double lr = LearningRate(spec_, step, steps);
  for (const ParameterSlot& slot : layout.slots) {
    const AdamWStep update{
        .grad_scale = scale[slot.clip_group],
        .beta1 = static_cast<float>(spec_.beta1),
        .beta2 = static_cast<float>(spec_.beta2),
        .eps = static_cast<float>(spec_.eps),
        .step_size = static_cast<float>(lr / (1 - std::pow(spec_.beta1, t))),
        .sqrt_correction2 = static_cast<float>(std::sqrt(1 - std::pow(spec_.beta2, t))),
        .decay = slot.decays ? static_cast<float>(lr * spec_.weight_decay) : 0.0f};
    kernels.adamw(update, grad + slot.offset, slot.elements(),
                  stage->parameters().data_ptr<float>() + slot.offset,
                  m_.data_ptr<float>() + slot.offset, v_.data_ptr<float>() + slot.offset);
  }
  return clipped;
}

uint64_t HashOf(const at::Tensor& x) {
  constexpr uint64_t kPrime = 0x9E3779B185EBCA87u;
  const auto* bytes = static_cast<const unsigned char*>(x.const_data_ptr());
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
