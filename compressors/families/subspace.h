#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compressors/codec.h"
#include "compressors/frame/frame.h"
#include "compressors/isa.h"

namespace longhaul {

constexpr uint16_t kSubspaceId = 0xa2;
constexpr uint32_t kMaxSubspace = 1024;                    // k
constexpr uint64_t kMaxSubspaceBasis = uint64_t{1} << 22;  // k cols
constexpr uint16_t kNoToken = 0xFFFF;                      // a row without embedding

// U^T, k orthonormal rows of `cols` elements: signs by Philox (purpose 4) under `seed`, then
// Gram-Schmidt in a fixed order; equal bits everywhere. Kept per thread for the last arguments;
// valid until this thread asks for others. 1 <= k <= cols.
std::span<const float> SubspaceBasis(uint64_t seed, size_t cols, size_t k);

// E[token], the fixed embedding: uniform with deviation 0.02, by Philox. out: [cols].
void SubspaceEmbedding(uint64_t seed, uint16_t token, std::span<float> out);

// What `subspace-k{k}` is told of the tensor it encodes. Saved: rows, cols, seed, tokens.
class SubspaceState final : public CodecState {
 public:
  explicit SubspaceState(Shape shape) : shape_(shape), tokens_(shape.rows, kNoToken) {}

  // The run's seed of U and E, and the token of each row (kNoToken: E = 0). InvalidArgument:
  // not one token per row.
  absl::Status Set(uint64_t seed, std::span<const uint16_t> tokens);

  Shape shape() const override { return shape_; }
  void Reset() override { *this = SubspaceState(shape_); }
  size_t bytes() const override { return 24 + 2 * tokens_.size(); }
  void Save(std::span<std::byte> out) const override;
  absl::Status Load(std::span<const std::byte> in) override;

  uint64_t seed() const { return seed_; }
  std::span<const uint16_t> tokens() const { return tokens_; }

 private:
  Shape shape_;
  uint64_t seed_ = 0;
  std::vector<uint16_t> tokens_;
};

// `subspace-k{k}` (Protocol Models, arXiv 2506.01260): for activations of a model whose block
// outputs lie in E[token] + span(U), and their gradients. Sends (x - E) U as bf16 and the token;
// decodes to coords U^T + E[token], terms in the order of U's columns. The model's side,
// projections that keep x in the subspace, is not here: Encode is InvalidArgument when a row's
// residual
// ||x - E - U U^T (x - E)|| is 1 % of ||x|| or more, and when k > cols or k cols > 2^22.
//
// Payload, each 8-byte aligned: tokens u16 per row; coordinates bf16, k per row. param0 = k, seed =
// that of U and E. (16 k + 16) / cols bits per element. Encode without a state: seed 0, no tokens.
std::shared_ptr<const Codec> NewSubspaceCodec(std::string_view name, uint32_t k, Isa isa);

// The largest frame of any k.
inline size_t MaxSubspaceFrameBytes(Shape shape) {
  return kFrameHeaderBytes + AlignUp8(2 * shape.rows) +
         2 * shape.rows * std::min<size_t>(kMaxSubspace, shape.cols);
}

}  // namespace longhaul
