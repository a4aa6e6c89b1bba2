#include "pp_group/gpt_layout.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr int64_t kParametersPerBlock = 8;
constexpr double kInitialScale = 0.02;  // GPT-2's

class LayoutBuilder {
 public:
  explicit LayoutBuilder(StageLayout* layout) : layout_(layout) {}

  void BeginClipGroup() { layout_->clip_groups.push_back({end_, end_}); }

  void Matrix(const std::string& name, int64_t global_index, int64_t rows, int64_t cols,
              double scale) {
    Add({name, global_index, rows, cols, end_, scale, 0, /*decays=*/true, 0});
  }
  void Vector(const std::string& name, int64_t global_index, int64_t cols, double value) {
    Add({name, global_index, 1, cols, end_, 0, value, /*decays=*/false, 0});
  }

 private:
  void Add(ParameterSlot slot) {
    slot.clip_group = static_cast<int>(layout_->clip_groups.size()) - 1;
    constexpr int64_t kAlign = StageLayout::kAlignment;
    end_ += (slot.elements() + kAlign - 1) / kAlign * kAlign;
    layout_->clip_groups.back().end = end_;
    layout_->flat_elements = end_;
    layout_->parameter_elements += slot.elements();
    layout_->slots.push_back(std::move(slot));
  }

  StageLayout* layout_;
  int64_t end_ = 0;
};

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

// The block with which a stage begins; that of stage S is where the last one ends.
int64_t FirstBlock(const GptSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  if (cuts.empty()) return spec.blocks / stages * stage;
  if (stage == 0) return 0;
  return stage == stages ? spec.blocks : cuts[static_cast<size_t>(stage - 1)];
}

}  // namespace

StageLayout LayoutOf(const GptSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  const int64_t first = FirstBlock(spec, stage, stages, cuts);
  StageLayout layout{.stage = stage,
                     .stages = stages,
                     .first_block = first,
                     .num_blocks = FirstBlock(spec, stage + 1, stages, cuts) - first,
                     .slots = {},
                     .clip_groups = {},
                     .flat_elements = 0,
                     .parameter_elements = 0};
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

void InitializeParameters(const StageLayout& layout, uint64_t seed, float* flat) {
  for (const ParameterSlot& slot : layout.slots) {
    float* out = flat + slot.offset;
    const uint64_t key = FoldSeed({seed, static_cast<uint64_t>(slot.global_index)});
    for (int64_t i = 0; i < slot.elements(); ++i) {
      if (slot.initial_scale == 0) {
        out[i] = static_cast<float>(slot.initial_value);
        continue;
      }
      // Box-Muller on two words; 1 - u keeps the logarithm finite.
      const uint64_t word = 2 * static_cast<uint64_t>(i);
      const double u = 1.0 - NoiseUniform(key, NoisePurpose::kSampling, word);
      const double angle =
          2 * std::numbers::pi * NoiseUniform(key, NoisePurpose::kSampling, word + 1);
      out[i] =
          static_cast<float>(slot.initial_scale * std::sqrt(-2 * std::log(u)) * std::cos(angle));
    }
  }
}

}  // namespace longhaul
