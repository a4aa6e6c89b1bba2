#include "experiments/price/price_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/numbers/noise.h"
#include "pp_group/c10d_status.h"
#include "pp_group/models/model.h"

namespace longhaul {
namespace {

// Of a stage that has it.
const ParameterSlot& SlotOf(const StageLayout& layout, const std::string& name) {
  return *std::find_if(layout.slots.begin(), layout.slots.end(),
                       [&](const ParameterSlot& slot) { return slot.name == name; });
}

at::Tensor View(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.begin, range.end - range.begin);
}

absl::Status FillStage(const ModelWeights& weights, Stage& stage) {
  const at::Tensor& parameters = stage.parameters();
  at::Tensor host = parameters.is_cpu() ? parameters : at::empty(parameters.sizes(), at::kFloat);
  RETURN_IF_ERROR(weights.Fill(stage.layout(), host.data_ptr<float>()));
  if (!parameters.is_cpu()) parameters.copy_(host);
  return absl::OkStatus();
}

// As codecs take it: f32, on the host.
at::Tensor OnHost(const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); }

std::span<const float> Values(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<size_t>(x.numel())};
}

}  // namespace

// One row on its way.
struct PriceModel::Pass {
  std::vector<int64_t> tokens, targets;
  uint64_t seed;
  PriceCodecs* codecs;
  const PriceWatch& watch;
  std::span<double> losses = {};

  // What the receiver has of x.
  absl::Status Cross(const PricedCrossing& crossing, bool backward, bool exact, at::Tensor& x) {
    const at::Tensor sent = OnHost(x);
    const at::Tensor received = at::empty_like(sent);
    const Shape shape = {static_cast<uint64_t>(x.size(0)), static_cast<uint64_t>(x.size(1))};
    const uint64_t key =
        FoldSeed({seed, static_cast<uint64_t>(crossing.block), backward ? 1ULL : 0ULL});
    const absl::StatusOr<BoundaryCount> count =
        codecs->Cross(crossing.codec, key, shape, Values(sent),
                      {received.data_ptr<float>(), static_cast<size_t>(received.numel())});
    if (!count.ok()) {
      const bool first = exact && !backward;  // exact so far: nothing but the model made it
      return absl::OutOfRangeError(
          absl::StrCat("before block ", crossing.block, ", ",
                       first ? "where nothing was compressed yet: the weights hold NaN or Inf, or "
                               "overflow float32: "
                             : "",
                       std::string(count.status().message())));
    }
    if (watch.crossed) watch.crossed(crossing, backward, exact, *count);
    x = received.to(x.options());
    return absl::OkStatus();
  }
  void Worked(const PassWork& work) const {
    if (watch.worked) watch.worked(work);
  }
};

PriceModel::~PriceModel() = default;

absl::StatusOr<std::unique_ptr<PriceModel>> PriceModel::Load(const RunSpec& spec,
                                                             const ModelWeights& weights) {
  const ModelSpec model = spec.model;
  const auto stages = static_cast<int>(model.blocks);
  if (stages < 2) {
    return absl::InvalidArgumentError(
        "the model has one block: no boundary can lie within it; want two or more");
  }
  const ComputeSpec compute = spec.train;
  RETURN_IF_ERROR(CheckModel(model, compute));
  std::unique_ptr<PriceModel> made(new PriceModel);
  made->engine_ = EngineOf(model, compute).value_or("");
  absl::Status filled;
  RETURN_IF_ERROR(StatusFromTorch("load the model", [&] {
    for (int s = 0; s < stages && filled.ok(); ++s) {
      auto stage = NewStage(model, {.stage = s, .stages = stages, .seed = 0, .compute = compute});
      filled = stage.ok() ? FillStage(weights, **stage) : stage.status();
      if (!filled.ok()) return;
      made->stages_.push_back(*std::move(stage));
    }
  }));
  if (!filled.ok()) return filled;
  const Stage& first = *made->stages_.front();
  for (const auto& stage : made->stages_) stage->ParametersChanged();
  const int64_t block = LayoutOf(model, 0, stages).parameter_elements -
                        SlotOf(first.layout(), "embedding.token").elements();
  made->head_in_blocks_ = static_cast<double>(model.vocab * model.width) /
                          static_cast<double>(std::max<int64_t>(1, block));
  made->forward_only_.resize(made->stages_.size());
  made->kept_.resize(made->stages_.size());
  return made;
}

// x: what enters the node's block, compressed; of the root empty.
absl::Status PriceModel::Walk(const PassNode& node, at::Tensor x, Pass& pass) {
  const bool root = !x.defined();
  auto child = node.children.begin();
  for (int64_t b = root ? 0 : node.crossing.block; b < blocks(); ++b) {
    for (; child != node.children.end() && child->crossing.block == b; ++child) {
      at::Tensor received = x;
      RETURN_IF_ERROR(pass.Cross(child->crossing, /*backward=*/false, root, received));
      RETURN_IF_ERROR(Walk(*child, received, pass));
    }
    if (!node.arm && child == node.children.end()) return absl::OkStatus();
    Stage& stage = *stages_[static_cast<size_t>(b)];
    auto& kept = forward_only_[static_cast<size_t>(b)];
    if (!kept) kept = stage.NewForwardActivations(/*rows=*/1);
    const at::Tensor y = at::empty({static_cast<int64_t>(pass.tokens.size()), stage.shape().width},
                                   stage.boundary());
    stage.Forward(pass.tokens, x, y, kept.get());
    pass.Worked({.blocks = 1});
    x = y;
  }
  std::vector<double> losses(pass.tokens.size());
  stages_.back()->Loss(pass.targets, /*grad_scale=*/0, forward_only_.back().get(), losses);
  stages_.back()->FinishLosses();
  const double mean =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  if (!std::isfinite(mean)) {
    return absl::OutOfRangeError(absl::StrCat(
        "the loss of a row is ", mean, ": weights or activations are out of float32's range"));
  }
  pass.losses[*node.arm] = mean;
  pass.Worked({.heads = 1});
  return absl::OkStatus();
}

absl::Status PriceModel::PriceRow(std::span<const int64_t> ids, const PassNode& tree, uint64_t seed,
                                  PriceCodecs* codecs, const PriceWatch& watch,
                                  std::span<double> losses) {
  Pass pass{.tokens = {ids.begin(), ids.end() - 1},
            .targets = {ids.begin() + 1, ids.end()},
            .seed = seed,
            .codecs = codecs,
            .watch = watch,
            .losses = losses};
  absl::Status walked;
  const absl::Status computed =
      StatusFromTorch("evaluate a row", [&] { walked = Walk(tree, at::Tensor(), pass); });
  return computed.ok() ? walked : computed;
}

void PriceModel::JoinTied() {
  const Stage &first = *stages_.front(), &last = *stages_.back();
  const at::Tensor head = View(last.gradients(), *last.layout().tied);
  View(first.gradients(), *first.layout().tied).add_(head);
  head.zero_();
}

// Leaves the gradients in the stages.
absl::Status PriceModel::Gradient(const GradientArm& arm, Pass& pass) {
  const auto n = static_cast<int64_t>(pass.tokens.size());
  std::vector<at::Tensor> inputs(stages_.size()), outputs(stages_.size());
  auto crossing = arm.forward.begin();
  at::Tensor x;
  for (size_t b = 0; b < stages_.size(); ++b) {
    Stage& stage = *stages_[b];
    stage.ZeroGradients();
    if (!kept_[b]) kept_[b] = stage.NewActivations(/*rows=*/1);
    if (crossing != arm.forward.end() && crossing->block == static_cast<int64_t>(b)) {
      const bool exact = crossing == arm.forward.begin();
      RETURN_IF_ERROR(pass.Cross(*crossing++, /*backward=*/false, exact, x));
    }
    inputs[b] = x;
    outputs[b] = at::empty({n, stage.shape().width}, stage.boundary());
    stage.Forward(pass.tokens, inputs[b], outputs[b], kept_[b].get());
    x = outputs[b];
  }
  std::vector<double> losses(pass.tokens.size());
  stages_.back()->Loss(pass.targets, 1.0f / static_cast<float>(n), kept_.back().get(), losses);
  stages_.back()->FinishLosses();
  auto back = arm.backward.rbegin();
  at::Tensor dy;
  for (size_t b = stages_.size(); b-- > 0;) {
    const at::Tensor dx =
        b == 0 ? at::Tensor() : at::empty({n, stages_[b]->shape().width}, stages_[b]->boundary());
    stages_[b]->Backward(pass.tokens, dy, dx, kept_[b].get());
    dy = dx;
    if (back != arm.backward.rend() && back->block == static_cast<int64_t>(b)) {
      const bool exact = arm.forward.empty() && back == arm.backward.rbegin();
      RETURN_IF_ERROR(pass.Cross(*back++, /*backward=*/true, exact, dy));
    }
  }
  if (stages_.front()->layout().tied) JoinTied();
  pass.Worked({.blocks = 3 * blocks(), .heads = 3});
  return absl::OkStatus();
}

absl::Status PriceModel::GradientRow(std::span<const int64_t> ids,
                                     std::span<const GradientArm> arms, uint64_t seed,
                                     PriceCodecs* codecs, const PriceWatch& watch,
                                     std::span<GradientError> errors) {
  Pass pass{.tokens = {ids.begin(), ids.end() - 1},
            .targets = {ids.begin() + 1, ids.end()},
            .seed = seed,
            .codecs = codecs,
            .watch = watch};
  absl::Status found;
  const absl::Status computed = StatusFromTorch("gradient of a row", [&] {
    if (found = Gradient({}, pass); !found.ok()) return;
    exact_.resize(stages_.size());
    double norm = 0;  // ||g||^2
    for (size_t b = 0; b < stages_.size(); ++b) {
      const at::Tensor& gradient = stages_[b]->gradients();
      exact_[b] = exact_[b].defined() ? exact_[b].copy_(gradient) : gradient.to(at::kCPU).clone();
      for (const float g : Values(exact_[b])) norm += static_cast<double>(g) * g;
    }
    for (size_t a = 0; a < arms.size(); ++a) {
      if (found = Gradient(arms[a], pass); !found.ok()) return;
      double error = 0, dot = 0, other = 0;
      for (size_t b = 0; b < stages_.size(); ++b) {
        const at::Tensor coded = OnHost(stages_[b]->gradients());
        const std::span<const float> g = Values(exact_[b]), h = Values(coded);
        for (size_t i = 0; i < g.size(); ++i) {
          const double x = g[i], y = h[i];
          error += (y - x) * (y - x);
          dot += x * y;
          other += y * y;
        }
      }
      errors[a] = {.nmse = error / norm, .cosine = dot / std::sqrt(norm * other)};
      if (!std::isfinite(errors[a].nmse)) {
        found = absl::OutOfRangeError("the gradient of a row is zero or not finite");
        return;
      }
    }
  });
  return computed.ok() ? found : computed;
}

}  // namespace longhaul
