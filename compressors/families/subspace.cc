#include "compressors/families/subspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/families/catalog_codec.h"
#include "compressors/families/low_rank.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr uint64_t kEmbeddingsAt = uint64_t{1} << 60;  // behind every draw for U
constexpr int kAttempts = 64;

// Row j of U^T; 0 when the draw depends on the rows before it.
bool DrawRow(const Kernels& kernels, uint64_t seed, size_t cols, size_t j, int attempt,
             float* basis) {
  NoiseStream words(seed, NoisePurpose::kFixedMatrix,
                    (j * kAttempts + static_cast<size_t>(attempt)) * cols);
  float* row = basis + j * cols;
  const auto norm = static_cast<float>(1 / std::sqrt(static_cast<double>(cols)));
  for (size_t c = 0; c < cols; ++c) row[c] = (words.Next() >> 31) != 0 ? norm : -norm;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < j; ++i) {
      const float* other = basis + i * cols;
      kernels.add_scaled(other, cols, -static_cast<float>(LongDot(kernels, other, row, cols)), row);
    }
  }
  const double left = std::sqrt(LongDot(kernels, row, row, cols));
  const bool good = left > 1e-3;
  const float inverse = good ? static_cast<float>(1 / left) : 0.0f;
  for (size_t c = 0; c < cols; ++c) row[c] *= inverse;
  return good;
}

class SubspaceCodec final : public CatalogCodec {
 public:
  SubspaceCodec(std::string_view name, uint32_t k, Isa isa)
      : CatalogCodec(name, kSubspaceId, isa), k_(k) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return CoordsAt(shape) + 2 * k_ * shape.rows;
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<SubspaceState>(shape);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  static size_t CoordsAt(Shape shape) { return kFrameHeaderBytes + AlignUp8(2 * shape.rows); }
  absl::Status CheckRank(Shape shape) const;
  bool EncodeRow(const float* x, const float* embedding, std::span<const float> basis,
                 std::byte* coords) const;

  const size_t k_;
};

absl::Status SubspaceCodec::CheckRank(Shape shape) const {
  if (k_ <= shape.cols && k_ * shape.cols <= kMaxSubspaceBasis) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: shape {} has {} columns, at least k and at most {} are possible", name_,
                  ToString(shape), shape.cols, kMaxSubspaceBasis / k_));
}

// embedding: [cols], or null. False when the row is not in the subspace.
bool SubspaceCodec::EncodeRow(const float* x, const float* embedding, std::span<const float> basis,
                              std::byte* coords) const {
  const size_t cols = basis.size() / k_;
  const std::span<float> y = Scratch<float, ScratchUse::kWork>(2 * cols).first(cols);
  const std::span<float> whole = Scratch<float, ScratchUse::kWork>(2 * cols).last(cols);
  for (size_t c = 0; c < cols; ++c) y[c] = embedding == nullptr ? x[c] : x[c] - embedding[c];
  const float scale = LowRankScale(kernels_, y);
  for (size_t c = 0; c < cols; ++c) {
    y[c] *= scale;
    whole[c] = x[c] * scale;
  }
  const double energy = LongDot(kernels_, whole.data(), whole.data(), cols);
  std::copy(y.begin(), y.end(), whole.begin());  // now what the coordinates leave
  for (size_t j = 0; j < k_; ++j) {
    const float* u = basis.data() + j * cols;
    const auto coordinate = static_cast<float>(LongDot(kernels_, y.data(), u, cols));
    kernels_.add_scaled(u, cols, -coordinate, whole.data());
    const uint16_t wire = F32ToBf16Clamped(scale == 0 ? 0.0f : coordinate / scale);
    std::memcpy(coords + 2 * j, &wire, 2);
  }
  const double left = LongDot(kernels_, whole.data(), whole.data(), cols);
  return scale == 0 || left < 1e-4 * energy;
}

absl::StatusOr<size_t> SubspaceCodec::Encode(ConstTensor x, uint64_t, CodecState* state,
                                             std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  if (absl::Status s = CheckRank(x.shape); !s.ok()) return s;
  const auto* own = dynamic_cast<const SubspaceState*>(state);
  if (state != nullptr && (own == nullptr || !(own->shape() == x.shape))) {
    return absl::InvalidArgumentError(
        fmt::format("{}: needs its own state for shape {}", name_, ToString(x.shape)));
  }
  const size_t cols = x.shape.cols;
  const uint64_t seed = own == nullptr ? 0 : own->seed();
  const std::span<const float> basis = SubspaceBasis(seed, cols, k_);
  const WideReader reader(x, kernels_);
  const std::span<float> row = Scratch<float, ScratchUse::kWide>(2 * cols);
  float* const embedding = row.data() + cols;
  std::memset(frame.data() + CoordsAt(x.shape) - 8, 0, 8);
  for (size_t r = 0; r < x.shape.rows; ++r) {
    if (!reader.Read(r * cols, cols, row.data())) return NotFiniteError(name_);
    const uint16_t token = own == nullptr ? kNoToken : own->tokens()[r];
    std::memcpy(frame.data() + kFrameHeaderBytes + 2 * r, &token, 2);
    if (token != kNoToken) SubspaceEmbedding(seed, token, {embedding, cols});
    if (!EncodeRow(row.data(), token == kNoToken ? nullptr : embedding, basis,
                   frame.data() + CoordsAt(x.shape) + 2 * k_ * r)) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: row {} is not in the subspace to 1 %: the model must keep it there", name_, r));
    }
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .param0 = static_cast<uint32_t>(k_),
             .shape = x.shape,
             .seed = seed,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status SubspaceCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  if (absl::Status s = CheckRank(x.shape); !s.ok()) return s;
  if (header->param0 != k_) {
    return absl::InvalidArgumentError(fmt::format("{}: frame of k = {}", name_, header->param0));
  }
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header->block != 0 ||
      header->param1 != 0) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const size_t cols = x.shape.cols;
  const std::span<const float> basis = SubspaceBasis(header->seed, cols, k_);
  const NarrowWriter writer(x, kernels_);
  const std::span<float> row = Scratch<float, ScratchUse::kWide>(2 * cols);
  for (size_t r = 0; r < x.shape.rows; ++r) {
    uint16_t token;
    std::memcpy(&token, frame.data() + kFrameHeaderBytes + 2 * r, 2);
    std::fill_n(row.data(), cols, 0.0f);
    for (size_t j = 0; j < k_; ++j) {
      uint16_t wire;
      std::memcpy(&wire, frame.data() + CoordsAt(x.shape) + 2 * (k_ * r + j), 2);
      kernels_.add_scaled(basis.data() + j * cols, cols, Bf16ToF32(wire), row.data());
    }
    if (token != kNoToken) {
      SubspaceEmbedding(header->seed, token, row.last(cols));
      kernels_.add_scaled(row.data() + cols, cols, 1.0f, row.data());
    }
    if (kernels_.abs_max(row.data(), cols) >= kInfBits) return Corrupt("a row is not finite");
    writer.Write(row.data(), r * cols, cols);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewSubspaceCodec(std::string_view name, uint32_t k, Isa isa) {
  return std::make_shared<SubspaceCodec>(name, k, isa);
}

std::span<const float> SubspaceBasis(uint64_t seed, size_t cols, size_t k) {
  struct Kept {
    uint64_t seed = 0;
    size_t cols = 0, k = 0;
    std::vector<float> basis;
  };
  static thread_local Kept kept;
  if (kept.seed == seed && kept.cols == cols && kept.k == k) return kept.basis;
  kept.basis.assign(k * cols, 0.0f);
  const Kernels& kernels = KernelsOf(BestIsa());  // all give the same bits
  for (size_t j = 0; j < k; ++j) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (DrawRow(kernels, seed, cols, j, attempt, kept.basis.data())) break;
    }
  }
  kept.seed = seed;
  kept.cols = cols;
  kept.k = k;
  return kept.basis;
}

void SubspaceEmbedding(uint64_t seed, uint16_t token, std::span<float> out) {
  constexpr float kWidth = 0.0346410162f;  // 0.02 sqrt(3)
  NoiseStream words(seed, NoisePurpose::kFixedMatrix, kEmbeddingsAt + token * out.size());
  for (float& v : out) v = kWidth * (2 * UniformOf(words.Next()) - 1);
}

absl::Status SubspaceState::Set(uint64_t seed, std::span<const uint16_t> tokens) {
  if (tokens.size() != shape_.rows) {
    return absl::InvalidArgumentError(
        fmt::format("subspace: {} tokens for {} rows", tokens.size(), shape_.rows));
  }
  seed_ = seed;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin());
  return absl::OkStatus();
}

void SubspaceState::Save(std::span<std::byte> out) const {
  const uint64_t key[3] = {shape_.rows, shape_.cols, seed_};
  std::memcpy(out.data(), key, 24);
  std::memcpy(out.data() + 24, tokens_.data(), 2 * tokens_.size());
}

absl::Status SubspaceState::Load(std::span<const std::byte> in) {
  uint64_t key[3] = {};
  if (in.size() == bytes()) std::memcpy(key, in.data(), 24);
  if (in.size() != bytes() || key[0] != shape_.rows || key[1] != shape_.cols) {
    return absl::DataLossError(fmt::format("subspace: saved state of {} bytes, shape [{}, {}]",
                                           in.size(), key[0], key[1]));
  }
  seed_ = key[2];
  std::memcpy(tokens_.data(), in.data() + 24, 2 * tokens_.size());
  return absl::OkStatus();
}

}  // namespace longhaul
