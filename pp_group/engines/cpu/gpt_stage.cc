#include "pp_group/engines/cpu/gpt_stage.h"

#include <algorithm>

#include "pp_group/engines/cpu/gpt_activations.h"

namespace longhaul {
namespace {

at::Tensor NewTensor(at::IntArrayRef sizes) { return at::empty(sizes, at::kFloat); }

AttentionShape ShapeOf(const ModelSpec& spec, int64_t rows) {
  return {static_cast<size_t>(rows), static_cast<size_t>(spec.context),
          static_cast<size_t>(spec.heads), static_cast<size_t>(spec.width / spec.heads)};
}

}  // namespace

GptActivations::GptActivations(const ModelSpec& spec, const StageLayout& layout, int64_t num_rows)
    : rows(num_rows), tokens(num_rows * spec.context), shape(ShapeOf(spec, num_rows)) {
  const int64_t n = tokens, d = spec.width;
  for (int64_t b = 0; b < layout.num_blocks; ++b) {
    blocks.push_back({.norm1 = Matrix(NewTensor({n, d})),
                      .qkv = Matrix(NewTensor({n, 3 * d})),
                      .attention = Matrix(NewTensor({n, d})),
                      .residual = NewTensor({n, d}),
                      .norm2 = Matrix(NewTensor({n, d})),
                      .slope = Matrix(NewTensor({n, 4 * d})),
                      .hidden = Matrix(NewTensor({n, 4 * d})),
                      .log_sum = NewTensor({rows, spec.heads, spec.context}),
                      .statistics = NewTensor({4, n})});
    if (b > 0) streams.push_back(NewTensor({n, d}));
  }
  if (layout.first()) input = NewTensor({n, d});
  if (layout.last()) {
    final_norm = Matrix(NewTensor({n, d}));
    final_statistics = NewTensor({2, n});
    final_output = NewTensor({n, d});
    final_gradient = NewTensor({n, d});
  }
}

CpuGptStage::Workspace::Workspace(const AttentionShape& of, int64_t n) : shape(of), tokens(n) {
  const auto width = static_cast<int64_t>(of.heads * of.head_width);
  wide = Matrix(NewTensor({n, 4 * width}));
  triple = Matrix(NewTensor({n, 3 * width}));
  narrow = NewTensor({n, width});
  residual = NewTensor({n, width});
  residual_matrix = Matrix(residual);
  for (Matrix& gradient : flow) gradient = Matrix(NewTensor({n, width}));
  scratch = NewTensor({std::max(static_cast<int64_t>(of.scratch_elements()), 2 * width)});
}

CpuGptStage::CpuGptStage(const ModelSpec& spec, int stage, int stages, uint64_t seed,
                         std::span<const int64_t> cuts)
    : spec_(spec),
      shape_{spec.context, spec.width, spec.vocab},
      layout_(LayoutOf(spec, stage, stages, cuts)) {
  parameters_ = at::zeros({layout_.flat_elements}, at::kFloat);
  gradients_ = at::zeros({layout_.flat_elements}, at::kFloat);
  InitializeParameters(layout_, seed, parameters_.data_ptr<float>());
  const size_t before = layout_.first() ? 2 : 0;
  constexpr size_t kSlotsPerBlock = 8;
  for (int64_t b = 0; b < layout_.num_blocks; ++b) {
    const ParameterSlot* slots = &layout_.slots[before + kSlotsPerBlock * b];
    auto value = [&](int i) { return parameters_.data_ptr<float>() + slots[i].offset; };
    auto grad = [&](int i) { return gradients_.data_ptr<float>() + slots[i].offset; };
    blocks_.push_back({.norm1_weight = value(0),
                       .norm1_bias = value(1),
                       .norm2_weight = value(4),
                       .norm2_bias = value(5),
                       .norm1_weight_grad = grad(0),
                       .norm1_bias_grad = grad(1),
                       .norm2_weight_grad = grad(4),
                       .norm2_bias_grad = grad(5),
                       .qkv = Matrix(Parameter(slots[2])),
                       .out = Matrix(Parameter(slots[3])),
                       .up = Matrix(Parameter(slots[6])),
                       .down = Matrix(Parameter(slots[7])),
                       .qkv_grad = Gradient(slots[2]),
                       .out_grad = Gradient(slots[3]),
                       .up_grad = Gradient(slots[6]),
                       .down_grad = Gradient(slots[7])});
  }
}

CpuGptStage::~CpuGptStage() = default;

at::Tensor CpuGptStage::Parameter(const ParameterSlot& slot) const {
  return parameters_.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
}
at::Tensor CpuGptStage::Gradient(const ParameterSlot& slot) const {
  return gradients_.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
}

void CpuGptStage::ZeroGradients() { gradients_.zero_(); }

std::unique_ptr<Activations> CpuGptStage::NewActivations(int64_t rows) const {
  return std::make_unique<GptActivations>(spec_, layout_, rows);
}

CpuGptStage::Workspace& CpuGptStage::WorkspaceFor(int64_t tokens) {
  for (const auto& workspace : workspaces_) {
    if (workspace->tokens == tokens && workspace->thread == std::this_thread::get_id()) {
      return *workspace;
    }
  }
  thread_local std::vector<std::weak_ptr<Workspace>> of_thread;
  std::erase_if(of_thread, [](const auto& one) { return one.expired(); });
  const AttentionShape shape = ShapeOf(spec_, 1);
  std::shared_ptr<Workspace> found;
  for (const auto& one : of_thread) {
    if (const auto there = one.lock(); there->Fits(shape, tokens)) found = there;
  }
  if (found == nullptr) {
    found = std::make_shared<Workspace>(shape, tokens);
    of_thread.push_back(found);
  }
  workspaces_.push_back(found);
  return *found;
}

const Matrix& CpuGptStage::LogitsFor(int64_t tokens) {
  for (const auto& logits : logits_) {
    if (logits->tensor.size(0) == tokens) return *logits;
  }
  logits_.push_back(std::make_unique<Matrix>(NewTensor({tokens, spec_.vocab})));
  return *logits_.back();
}

}  // namespace longhaul
