#include "pp_group/optimizer/inner_optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/kernels/kernels.h"
#include "pp_group/optimizer/adamw.h"
#include "pp_group/optimizer/muon.h"
#include "pp_group/optimizer/nadam.h"
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
constexpr Entry kOptimizers[] = {{"adamw", New<AdamW>},        {"muon", New<Muon>},
                                 {"nadam", New<NAdam>},        {"onebit-adam", New<OneBitAdam>},
                                 {"plain-sgd", New<PlainSgd>}, {"sgd", New<Sgd>},
                                 {"sign-sgd", New<SignSgd>}};

}  // namespace

double LearningRate(const AdamWSpec& spec, int64_t step, int64_t steps) {
  const int64_t warmup = spec.warmup_steps.value_or(0), decay = DecaySteps(spec, steps);
  if (step < warmup) {
    return spec.lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const bool decays = decay > 0;
  const int64_t begin = decays ? steps - decay : warmup;
  const int64_t length = std::max<int64_t>(1, steps - begin);
  const double progress =
      std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
  const double share = decays ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return spec.lr * (spec.min_lr_fraction + (1 - spec.min_lr_fraction) * share);
}

namespace {

// [2 C] f64 where the gradients are, for C clip groups: what is shared, then what is spread.
at::Tensor SquaresOf(const Stage& stage) {
  const at::Tensor& gradients = stage.gradients();
  const auto squares = [&gradients](int64_t begin, int64_t end) {
    const at::Tensor part = gradients.narrow(0, begin, end - begin);
    if (!gradients.is_cpu()) return part.square().sum(at::kDouble);
    const double sum = BestKernels().sum_of_squares(part.const_data_ptr<float>(), end - begin);
    return at::scalar_tensor(sum, at::kDouble);
  };
  const auto add = [](at::Tensor* sum, const at::Tensor& more) {
    *sum = sum->defined() ? *sum + more : more;
  };
  const at::Tensor none = at::zeros({}, gradients.options().dtype(at::kDouble));
  std::vector<at::Tensor> own, spread;
  const std::vector<FlatRange> shared = SharedRanges(stage.layout());
  for (const ClipGroup& group : stage.layout().clip_groups) {
    at::Tensor own_sum, spread_sum;
    int64_t at = group.begin;
    for (const FlatRange& range : shared) {
      const int64_t begin = std::max(range.begin, group.begin),
                    end = std::min(range.end, group.end);
      if (begin >= end) continue;
      if (at < begin) add(&spread_sum, squares(at, begin));
      add(&own_sum, squares(begin, end));
      at = end;
    }
    if (at < group.end) add(&spread_sum, squares(at, group.end));
    own.push_back(own_sum.defined() ? own_sum : none);
    spread.push_back(spread_sum.defined() ? spread_sum : none);
  }
  own.insert(own.end(), spread.begin(), spread.end());
  return at::stack(own);
}

}  // namespace

std::vector<ClipSquares> ClipSquaresOf(std::span<const Stage* const> stages) {
  std::vector<at::Tensor> each;
  for (const Stage* stage : stages) each.push_back(SquaresOf(*stage));
  const at::Tensor all = at::cat(each).cpu();
  const double* at = all.const_data_ptr<double>();
  std::vector<ClipSquares> squares;
  for (const at::Tensor& x : each) {
    const int64_t groups = x.numel() / 2;
    squares.push_back({.shared = {at, at + groups}, .spread = {at + groups, at + 2 * groups}});
    at += 2 * groups;
  }
  return squares;
}

ClipSquares ClipSquaresOf(const Stage& stage) {
  const Stage* const one = &stage;
  return ClipSquaresOf(std::span(&one, 1)).front();
}

std::vector<double> GradientNorms(const ClipSquares& squares, const std::vector<double>& spread) {
  std::vector<double> norms = squares.shared;
  for (size_t i = 0; i < norms.size(); ++i) {
    norms[i] = std::sqrt(norms[i] + (spread.empty() ? 0 : spread[i]));
  }
  return norms;
}

std::vector<double> GradientNorms(const Stage& stage, const std::vector<double>& spread) {
  return GradientNorms(ClipSquaresOf(stage), spread);
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
  UpdateAll(scales, stage);
  return static_cast<int>(
      std::count_if(scales.begin(), scales.end(), [](float scale) { return scale != 1.0f; }));
}

void InnerOptimizer::UpdateAll(const std::vector<float>& scales, Stage* stage) {
  for (const ParameterSlot& slot : stage->layout().slots) {
    if (shared_ && stage->layout().IsCopy(slot)) continue;
    Update(slot, scales[static_cast<size_t>(slot.clip_group)], stage);
  }
}

void InnerOptimizer::LieIn(const at::Tensor& first, const at::Tensor& second) {
  m_ = first;
  v_ = second;
  shared_ = true;
}

void InnerOptimizer::ForgetMoments() {
  m_.zero_();
  v_.zero_();
}

absl::StatusOr<std::unique_ptr<InnerOptimizer>> NewInnerOptimizer(const AdamWSpec& spec,
                                                                  const Stage& stage) {
  std::string known;
  const std::string name = spec.optimizer.empty() ? "adamw" : spec.optimizer;
  for (const Entry& entry : kOptimizers) {
    if (entry.name == name) return entry.make(spec, stage);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return absl::NotFoundError(
      absl::StrCat("inner optimizer '", spec.optimizer, "' is not known; there are ", known));
}

}  // namespace longhaul
