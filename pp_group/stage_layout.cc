#include "pp_group/stage_layout.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

// The block with which a stage begins; that of stage S is where the last one ends.
int64_t FirstBlock(int64_t blocks, int stage, int stages, std::span<const int64_t> cuts) {
  if (cuts.empty()) return blocks / stages * stage;
  if (stage == 0) return 0;
  return stage == stages ? blocks : cuts[static_cast<size_t>(stage - 1)];
}

}  // namespace

StageLayout EmptyLayout(int64_t blocks, int stage, int stages, std::span<const int64_t> cuts) {
  const int64_t first = FirstBlock(blocks, stage, stages, cuts);
  return {.stage = stage,
          .stages = stages,
          .first_block = first,
          .num_blocks = FirstBlock(blocks, stage + 1, stages, cuts) - first,
          .slots = {},
          .clip_groups = {},
          .flat_elements = 0,
          .parameter_elements = 0};
}

void LayoutBuilder::BeginClipGroup() {
  layout_->clip_groups.push_back({layout_->flat_elements, layout_->flat_elements});
}

void LayoutBuilder::Matrix(const std::string& name, int64_t global_index, int64_t rows,
                           int64_t cols, double scale, StreamVectors stream) {
  MatrixRows(name, global_index, 0, rows, rows, cols, scale);
  layout_->slots.back().stream = stream;
}

void LayoutBuilder::TiedMatrix(const std::string& name, int64_t global_index, int64_t rows,
                               int64_t cols, double scale) {
  const int64_t begin = layout_->flat_elements;
  Matrix(name, global_index, rows, cols, scale);
  layout_->tied = FlatRange{begin, layout_->flat_elements};
}

void LayoutBuilder::MatrixRows(const std::string& name, int64_t global_index, int64_t first,
                               int64_t rows, int64_t whole_rows, int64_t cols, double scale) {
  Add({.name = name,
       .global_index = global_index,
       .rows = rows,
       .cols = cols,
       .offset = layout_->flat_elements,
       .initial_scale = scale,
       .initial_value = 0,
       .decays = true,
       .clip_group = 0,
       .first_row = first,
       .whole_rows = whole_rows});
}

void LayoutBuilder::Vector(const std::string& name, int64_t global_index, int64_t cols,
                           double value) {
  Add({.name = name,
       .global_index = global_index,
       .rows = 1,
       .cols = cols,
       .offset = layout_->flat_elements,
       .initial_scale = 0,
       .initial_value = value,
       .decays = false,
       .clip_group = 0,
       .first_row = 0,
       .whole_rows = 1});
}

void LayoutBuilder::Add(ParameterSlot slot) {
  slot.clip_group = static_cast<int>(layout_->clip_groups.size()) - 1;
  constexpr int64_t kAlign = StageLayout::kAlignment;
  layout_->flat_elements += (slot.elements() + kAlign - 1) / kAlign * kAlign;
  layout_->clip_groups.back().end = layout_->flat_elements;
  layout_->parameter_elements += slot.elements();
  layout_->slots.push_back(std::move(slot));
}

std::vector<FlatRange> SharedRanges(const StageLayout& layout) {
  std::vector<FlatRange> ranges;
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    const ParameterSlot& slot = layout.slots[i];
    if (slot.spread()) continue;
    const bool last = i + 1 == layout.slots.size();
    const int64_t end = last ? layout.flat_elements : layout.slots[i + 1].offset;
    if (!ranges.empty() && ranges.back().end == slot.offset) {
      ranges.back().end = end;
    } else {
      ranges.push_back({slot.offset, end});
    }
  }
  return ranges;
}

int64_t SharedElements(const StageLayout& layout) {
  int64_t elements = 0;
  for (const FlatRange& range : SharedRanges(layout)) elements += range.end - range.begin;
  return elements;
}

std::vector<FramePart> FrameParts(const StageLayout& layout) {
  const int64_t all = SharedElements(layout);
  if (!layout.tied || layout.stages == 1) return {{0, all, false, false}};
  const int64_t tied = layout.tied->end - layout.tied->begin;
  if (layout.first()) return {{0, tied, true, false}, {tied, all, false, false}};
  return {{0, all - tied, false, false}, {all - tied, all, true, true}};
}

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
      const uint64_t word = 2 * static_cast<uint64_t>(slot.first_row * slot.cols + i);
      const double u = 1.0 - NoiseUniform(key, NoisePurpose::kSampling, word);
      const double angle =
          2 * std::numbers::pi * NoiseUniform(key, NoisePurpose::kSampling, word + 1);
      out[i] =
          static_cast<float>(slot.initial_scale * std::sqrt(-2 * std::log(u)) * std::cos(angle));
    }
  }
}

}  // namespace longhaul
