#include "pp_group/gpt_layout.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr int64_t kParametersPerBlock = 8;
constexpr double kInitialScale = 0.02;  // GPT-2's

void AddBlock(const GptSpec& spec, int64_t block, LayoutBuilder* builder) {
  const int64_t d = spec.width;
  const int64_t index = 2 + block * kParametersPerBlock;
  // The two matrices that write into the residual stream start smaller, as in GPT-2.
  const double residual_scale = kInitialScale / std::sqrt(2.0 * static_cast<double>(spec.blocks));
  const std::string name = absl::StrCat("block", block, ".");
  builder->BeginClipGroup();
  builder->Vector(name + "norm1.weight", index + 0, d, 1);
  builder->Vector(name + "norm1.bias", index + 1, d, 0);
  builder->Matrix(name + "attention.qkv", index + 2, 3 * d, d, kInitialScale);
  builder->Matrix(name + "attention.out", index + 3, d, d, residual_scale);
  builder->Vector(name + "norm2.weight", index + 4, d, 1);
  builder->Vector(name + "norm2.bias", index + 5, d, 0);
  builder->Matrix(name + "mlp.up", index + 6, 4 * d, d, kInitialScale);
  builder->Matrix(name + "mlp.down", index + 7, d, 4 * d, residual_scale);
}

}  // namespace

StageLayout LayoutOf(const GptSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  StageLayout layout = EmptyLayout(spec.blocks, stage, stages, cuts);
  LayoutBuilder builder(&layout);
  if (layout.first()) {
    builder.BeginClipGroup();
    builder.Matrix("embedding.token", 0, spec.vocab, spec.width, kInitialScale);
    builder.Matrix("embedding.position", 1, spec.context, spec.width, kInitialScale);
  }
  for (int64_t b = 0; b < layout.num_blocks; ++b) AddBlock(spec, layout.first_block + b, &builder);
  if (layout.last()) {
    const int64_t index = 2 + spec.blocks * kParametersPerBlock;
    builder.BeginClipGroup();
    builder.Vector("norm.weight", index + 0, spec.width, 1);
    builder.Vector("norm.bias", index + 1, spec.width, 0);
    builder.Matrix("head", index + 2, spec.vocab, spec.width, kInitialScale);
  }
  return layout;
}

int64_t ParameterCount(const GptSpec& spec) { return LayoutOf(spec, 0, 1).parameter_elements; }

}  // namespace longhaul
