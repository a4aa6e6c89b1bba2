#include "pp_group/optimizer/inner_optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/kernels/kernels.h"
#include "pp_group/optimizer/adamw.h"
#include "pp_group/optimizer/muon.h"
#include "pp_group/optimizer/sgd.h"

namespace longhaul {
namespace {

template <typename T>
std::unique_ptr<InnerOptimizer> New(const AdamWSpec& spec, const Stage& stage) {
  return std::make_unique<T>(spec, stage);
}

struct Entry {
  std::string_view name;
  std::unique_ptr<InnerOptimizer> (*make)(const AdamWSpec& spec, const Stage& stage);
};
constexpr Entry kOptimizers[] = {
    {"adamw", New<AdamW>},        {"muon", New<Muon>}, {"onebit-adam", New<OneBitAdam>},
    {"plain-sgd", New<PlainSgd>}, {"sgd", New<Sgd>},   {"sign-sgd", New<SignSgd>}};

}  // namespace

double LearningRate(const AdamWSpec& spec, int64_t step, int64_t steps) {
  if (step < spec.warmup_steps) {
    return spec.lr * static_cast<double>(step + 1) / static_cast<double>(spec.warmup_steps);
  }
  const bool decays = spec.decay_steps > 0;
  const int64_t begin = decays ? steps - spec.decay_steps : spec.warmup_steps;
  const int64_t length = std::max<int64_t>(1, steps - begin);
  const double progress =
      std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
  const double share = decays ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return spec.lr * (spec.min_lr_fraction + (1 - spec.min_lr_fraction) * share);
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

std::vector<double> GradientNorms(const Stage& stage, const std::vector<double>& spread) {
  std::vector<double> norms = ClipSquaresOf(stage).shared;
  for (size_t i = 0; i < norms.size(); ++i) {
    norms[i] = std::sqrt(norms[i] + (spread.empty() ? 0 : spread[i]));
  }
  return norms;
}

std::vector<float> ClipScales(double clip_norm, const std::vector<double>& norms) {
  std::vector<float> scales;
  for (const double norm : norms) {
    scales.push_back(norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1.0f);
  }
  return scales;
}

InnerOptimizer::InnerOptimizer(const AdamWSpec& spec, const Stage& stage)
    : m_(at::zeros_like(stage.parameters())), v_(at::zeros_like(stage.parameters())), spec_(spec) {}

int InnerOptimizer::Step(int64_t step, int64_t steps, Stage* stage,
                         const std::vector<double>& norms) {
  const std::vector<float> scales =
      Clips(step) ? ClipScales(spec_.clip_norm, norms) : std::vector<float>(norms.size(), 1.0f);
  BeginStep(step, LearningRate(spec_, step, steps));
  for (const ParameterSlot& slot : stage->layout().slots) {
    Update(slot, scales[static_cast<size_t>(slot.clip_group)], stage);
  }
  return static_cast<int>(
      std::count_if(scales.begin(), scales.end(), [](float scale) { return scale != 1.0f; }));
}

void InnerOptimizer::ForgetMoments() {
  m_.zero_();
  v_.zero_();
}

absl::StatusOr<std::unique_ptr<InnerOptimizer>> NewInnerOptimizer(const AdamWSpec& spec,
                                                                  const Stage& stage) {
  std::string known;
  for (const Entry& entry : kOptimizers) {
    if (entry.name == spec.optimizer) return entry.make(spec, stage);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return absl::NotFoundError(
      absl::StrCat("inner optimizer '", spec.optimizer, "' is not known; there are ", known));
}

}  // namespace longhaul
