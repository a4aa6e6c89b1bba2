#include "pp_group/engines/aten/stage.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>

#include "pp_group/engines/aten/device.h"

namespace longhaul {
namespace {

at::Tensor InitialValues(const StageLayout& layout, uint64_t seed) {
  at::Tensor flat = at::zeros({layout.flat_elements}, at::kFloat);
  InitializeParameters(layout, seed, flat.data_ptr<float>());
  return flat;
}

}  // namespace

AtenParameters::AtenParameters(const StageLayout& layout, const at::Tensor& initial,
                               const at::Tensor& flat, at::Device device, at::ScalarType dtype)
    : layout_(layout),
      master_(flat.defined() ? flat.copy_(initial) : initial.to(device)),
      gradient_(at::zeros_like(master_)) {
  shadow_ = dtype == at::kFloat ? master_ : master_.to(dtype);
  if (!layout.tied || !layout.first() || !layout.last()) return;
  head_gradient_ = at::zeros({layout.tied->end - layout.tied->begin}, master_.options());
}

AtenParameter AtenParameters::FindTiedHead(const std::string& name) {
  AtenParameter head = Find(name);
  if (!head_gradient_.defined()) return head;
  head.gradient = head_gradient_.narrow(0, 0, head.gradient.numel()).view(head.gradient.sizes());
  return head;
}

AtenParameter AtenParameters::Find(const std::string& name) {
  for (const ParameterSlot& slot : layout_.slots) {
    if (slot.name != name) continue;
    const auto view = [&](const at::Tensor& flat) {
      const at::Tensor part = flat.narrow(0, slot.offset, slot.elements());
      return slot.decays ? part.view({slot.rows, slot.cols}) : part;
    };
    AtenParameter parameter{view(slot.decays ? shadow_ : master_).detach(), view(gradient_),
                            &later_};
    if (!slot.decays) {
      parameter.value.requires_grad_();
      parameter.value.mutable_grad() = parameter.gradient;
    }
    return parameter;
  }
  TORCH_CHECK(false, "no parameter ", name, " in stage ", layout_.stage);
}

void AtenParameters::RefreshShadow() {
  if (!shadow_.is_same(master_)) shadow_.copy_(master_);
}

// One micro-batch, block by block: the graph of a block ends at its input, a leaf, so that blocks
// can be computed again and their memory goes as the backward pass passes them.
struct AtenStage::Kept : Activations {
  explicit Kept(bool with_graphs) : graphs(with_graphs) {}
  const bool graphs;                        // false: no backward pass follows
  std::vector<at::Tensor> inputs, outputs;  // by block; no outputs where they are recomputed
  at::Tensor tokens;                        // of the first stage
  at::Tensor last;                          // output of the last block
  at::Tensor gradient;                      // of `last`, by Loss
  std::vector<WeightGradient> later;        // between BackwardInput and BackwardWeight
};

AtenStage::AtenStage(const ModelSpec& spec, const StageOptions& options, NewModel new_model)
    : layout_(LayoutOf(spec, options.stage, options.stages, options.cuts)),
      shape_{spec.context, spec.width, spec.vocab},
      compute_(options.compute),
      parameters_(layout_, InitialValues(layout_, options.seed), options.flat,
                  DeviceOf(options.compute), DtypeOf(options.compute)),
      model_(new_model(spec, options, layout_, &parameters_)) {}

void AtenStage::ZeroGradients() {
  gradients().zero_();
  if (const at::Tensor& head = parameters_.head_gradient(); head.defined()) head.zero_();
}

std::unique_ptr<Activations> AtenStage::NewActivations(int64_t) const {
  return std::make_unique<Kept>(/*with_graphs=*/true);
}

std::unique_ptr<Activations> AtenStage::NewForwardActivations(int64_t) const {
  return std::make_unique<Kept>(/*with_graphs=*/false);
}

// Of a GPU without waiting: torch keeps page-locked memory until the copies out of it are done.
at::Tensor AtenStage::Uploaded(std::span<const int64_t> ids) const {
  const at::Device device = parameters_.options().device();
  at::Tensor host = at::empty({static_cast<int64_t>(ids.size())},
                              at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  std::copy(ids.begin(), ids.end(), host.data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

void AtenStage::BeginStep(std::span<const int64_t> ids) {
  step_ids_ = ids;
  // The CPU reads them where they are.
  step_ids_on_device_ = parameters_.options().device().is_cpu()
                            ? at::from_blob(const_cast<int64_t*>(ids.data()),
                                            {static_cast<int64_t>(ids.size())}, at::kLong)
                            : Uploaded(ids);
}

at::Tensor AtenStage::OnDevice(std::span<const int64_t> ids) const {
  const std::less_equal<const int64_t*> before;
  const bool is_of_step = before(step_ids_.data(), ids.data()) &&
                          before(ids.data() + ids.size(), step_ids_.data() + step_ids_.size());
  if (!is_of_step) return Uploaded(ids);
  return step_ids_on_device_.narrow(0, ids.data() - step_ids_.data(),
                                    static_cast<int64_t>(ids.size()));
}

void AtenStage::Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
                        Activations* activations) {
  Kept* const kept = static_cast<Kept*>(activations);
  kept->inputs.clear();
  kept->outputs.clear();
  const AutogradScope scope(/*records=*/kept->graphs && !compute_.recompute);
  if (layout_.first()) kept->tokens = OnDevice(tokens);
  at::Tensor flowing = layout_.first() ? model_->Embed(kept->tokens) : x;
  for (int64_t b = 0; b < layout_.num_blocks; ++b) {
    const at::Tensor input = kept->graphs ? flowing.detach().requires_grad_() : flowing;
    const at::Tensor output = model_->Block(b, input);
    if (kept->graphs) kept->inputs.push_back(input);
    if (kept->graphs && !compute_.recompute) kept->outputs.push_back(output);
    flowing = output.detach();
  }
  if (layout_.last()) {
    kept->last = flowing;
  } else {
    y.detach().copy_(flowing);
  }
}

void AtenStage::Loss(std::span<const int64_t> targets, float grad_scale, Activations* activations,
                     std::span<double> losses) {
  Kept* const kept = static_cast<Kept*>(activations);
  const AutogradScope scope(/*records=*/grad_scale != 0);
  const at::Tensor ids = OnDevice(targets);
  const int64_t rows = kept->last.size(0), at_once = compute_.HeadRows(rows, shape_.vocab);
  std::vector<at::Tensor> each, gradients;
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows - begin);
    at::Tensor input = kept->last.narrow(0, begin, count).detach();
    if (grad_scale != 0) input.requires_grad_();
    each.push_back(at::cross_entropy_loss(model_->Logits(input).to(at::kFloat),
                                          ids.narrow(0, begin, count), {}, at::Reduction::None));
    if (grad_scale == 0) continue;
    at::Tensor& part = each.back();
    gradients.push_back(BackwardThrough(part, at::full_like(part.detach(), grad_scale), input));
    part = part.detach();  // the part's logits go
  }
  const auto whole = [](const std::vector<at::Tensor>& parts) {
    return parts.size() == 1 ? parts.front() : at::cat(parts);
  };
  if (grad_scale != 0) kept->gradient = whole(gradients);
  kept->last.reset();
  Report(whole(each).detach().to(at::kDouble), losses);
}

void AtenStage::Report(const at::Tensor& each, std::span<double> losses) {
  if (each.is_cpu()) {
    std::copy_n(each.const_data_ptr<double>(), losses.size(), losses.begin());
    return;
  }
  const at::Tensor host =
      at::empty(each.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  host.copy_(each, /*non_blocking=*/true);
  on_their_way_.push_back({host, losses});
}

void AtenStage::FinishLosses() {
  if (on_their_way_.empty()) return;
  WaitForDevice(parameters_.options().device());
  for (const auto& [host, losses] : std::exchange(on_their_way_, {})) {
    std::copy_n(host.const_data_ptr<double>(), losses.size(), losses.begin());
  }
}

void AtenStage::BackwardBlocks(const at::Tensor& dy, const at::Tensor& dx, Kept* kept) {
  const AutogradScope scope(/*records=*/true);
  at::Tensor flowing = layout_.last() ? std::exchange(kept->gradient, {}) : dy.detach();
  while (!kept->inputs.empty()) {
    const auto b = static_cast<int64_t>(kept->inputs.size()) - 1;
    const at::Tensor input = std::move(kept->inputs.back());
    kept->inputs.pop_back();
    at::Tensor output;
    if (compute_.recompute) {
      output = model_->Block(b, input);
    } else {
      output = std::move(kept->outputs.back());
      kept->outputs.pop_back();
    }
    flowing = BackwardThrough(output, flowing, input);
  }
  const AutogradScope no_graph(/*records=*/false);
  if (layout_.first()) {
    model_->EmbedBackward(std::exchange(kept->tokens, {}), flowing);
  } else {
    dx.detach().copy_(flowing);
  }
}

void AtenStage::BackwardInput(std::span<const int64_t>, const at::Tensor& dy, const at::Tensor& dx,
                              Activations* activations) {
  Kept* const kept = static_cast<Kept*>(activations);
  parameters_.PutOff(&kept->later);
  BackwardBlocks(dy, dx, kept);
  parameters_.PutOff(nullptr);
}

void AtenStage::BackwardWeight(Activations* activations) {
  Kept* const kept = static_cast<Kept*>(activations);
  for (const WeightGradient& work : kept->later) AddWeightGradient(work);
  kept->later.clear();
}

void AtenStage::Backward(std::span<const int64_t>, const at::Tensor& dy, const at::Tensor& dx,
                         Activations* activations) {
  BackwardBlocks(dy, dx, static_cast<Kept*>(activations));
}

}  // namespace longhaul
