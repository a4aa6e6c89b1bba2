#include "pp_group/subspace.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// No parameter has it.
constexpr int64_t kBasisIndex = int64_t{1} << 40;

// The embeddings of the model's first stage, without its blocks.
StageLayout EmbeddingsOf(const ModelSpec& model) {
  StageLayout layout = LayoutOf(model, 0, static_cast<int>(model.blocks));
  std::erase_if(layout.slots,
                [](const ParameterSlot& slot) { return slot.stream != StreamVectors::kRows; });
  layout.flat_elements = layout.slots.back().offset + layout.slots.back().elements();
  return layout;
}

at::Tensor Drawn(const StageLayout& layout, uint64_t seed) {
  const at::Tensor flat = at::zeros({layout.flat_elements}, at::kFloat);
  InitializeParameters(layout, seed, flat.data_ptr<float>());
  return flat;
}

at::Tensor MatrixOf(const at::Tensor& flat, const ParameterSlot& slot) {
  return flat.narrow(0, slot.offset, slot.elements()).view({slot.rows, slot.cols});
}

// Makes the rows of a [k, D] orthonormal; in double precision twice over, so that float32 cannot
// tell the result from an exact one.
void Orthonormalize(at::Tensor& a) {
  for (int64_t i = 0; i < a.size(0); ++i) {
    at::Tensor row = a[i];
    for (int pass = 0; pass < 2 && i > 0; ++pass) {
      const at::Tensor before = a.narrow(0, 0, i);
      row.sub_(at::mv(before.t(), at::mv(before, row)));
    }
    row.div_(row.norm());
  }
}

}  // namespace

Subspace::Subspace(const ModelSpec& model, uint64_t seed, int64_t rank) {
  StageLayout drawn = EmptyLayout(1, 0, 1, {});
  LayoutBuilder builder(&drawn);
  builder.BeginClipGroup();
  builder.Matrix("subspace", kBasisIndex, rank, model.width, 1);
  at::Tensor rows = MatrixOf(Drawn(drawn, seed), drawn.slots[0]).to(at::kDouble);
  Orthonormalize(rows);
  basis_transposed_ = rows.to(at::kFloat);
  basis_ = basis_transposed_.t().contiguous();
  const StageLayout embeddings = EmbeddingsOf(model);
  const at::Tensor flat = Drawn(embeddings, seed);
  token_ = MatrixOf(flat, embeddings.slots[0]);
  if (embeddings.slots.size() > 1) position_ = MatrixOf(flat, embeddings.slots[1]);
}

at::Tensor Subspace::InitialEmbeddings(std::span<const int64_t> tokens) const {
  const at::Tensor ids = at::from_blob(const_cast<int64_t*>(tokens.data()),
                                       {static_cast<int64_t>(tokens.size())}, at::kLong);
  const at::Tensor rows = at::embedding(token_, ids);
  if (!position_.defined()) return rows;
  return (rows.view({-1, position_.size(0), position_.size(1)}) + position_).view(rows.sizes());
}

void Subspace::ToCoordinates(const at::Tensor& x, std::span<const int64_t> tokens,
                             const at::Tensor& coordinates) const {
  at::Tensor out = coordinates;
  at::mm_out(out, tokens.empty() ? x : x - InitialEmbeddings(tokens), basis_);
}

void Subspace::FromCoordinates(const at::Tensor& coordinates, std::span<const int64_t> tokens,
                               const at::Tensor& x) const {
  at::Tensor out = x;
  if (tokens.empty()) {
    at::mm_out(out, coordinates, basis_transposed_);
  } else {
    at::addmm_out(out, InitialEmbeddings(tokens), coordinates, basis_transposed_);
  }
}

void Subspace::ProjectGradients(const Stage& stage) const {
  for (const ParameterSlot& slot : stage.layout().slots) {
    if (slot.stream == StreamVectors::kNone) continue;
    at::Tensor g = MatrixOf(stage.gradients(), slot);
    g.copy_(slot.stream == StreamVectors::kRows ? at::mm(at::mm(g, basis_), basis_transposed_)
                                                : at::mm(basis_, at::mm(basis_transposed_, g)));
  }
}

void Subspace::ProjectParameters(Stage* stage) const {
  for (const ParameterSlot& slot : stage->layout().slots) {
    if (slot.stream == StreamVectors::kNone) continue;
    at::Tensor w = MatrixOf(stage->parameters(), slot);
    if (slot.stream == StreamVectors::kColumns) {
      w.copy_(at::mm(basis_, at::mm(basis_transposed_, w)));
    } else {
      const at::Tensor& initial = &slot == stage->layout().slots.data() ? token_ : position_;
      w.copy_(at::addmm(initial, at::mm(w - initial, basis_), basis_transposed_));
    }
  }
}

int64_t SubspaceElements(const ModelSpec& model, int64_t rank) {
  int64_t elements = 2 * rank * model.width;
  for (const ParameterSlot& slot : EmbeddingsOf(model).slots) elements += slot.elements();
  return elements;
}

}  // namespace longhaul
