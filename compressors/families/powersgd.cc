// `powersgd-r{r}` (arXiv 1905.13727), 1 <= r <= 64: M = x + e is sent as P (orthonormal columns)
// and Q = M^T P, fp32; decodes to P Q^T, and e keeps what that lacks. Q warm-starts the next call,
// so the factors follow M over the rounds. low_rank.h says how a tensor becomes a matrix.
//
// Payload: P, r columns of `rows` f32; Q, r columns of `cols` f32. param0 = r, param1 = cols. A
// tensor that factors would not halve is sent as fp32 with both zero. 32 r (rows + cols) / (rows
// cols) bits per element. State: 4 (n + r cols) bytes; scratch: 8 n bytes and the factors.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/families/low_rank.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/states/accumulators.h"

namespace longhaul {
namespace {

class PowerSgdCodec final : public CatalogCodec {
 public:
  PowerSgdCodec(std::string_view name, uint32_t rank, Isa isa)
      : CatalogCodec(name, kPowerSgdId, isa), most_(rank) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    const LowRankView view(shape);
    const size_t rank = RankOf(view);
    return kFrameHeaderBytes + 4 * (rank == 0 ? view.elements : rank * (view.rows + view.cols));
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Accumulators>(shape, name_, 1, most_ * LowRankView(shape).cols);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  // 0: dense.
  size_t RankOf(const LowRankView& view) const {
    return LowRankFor(view, most_) == most_ ? most_ : 0;
  }

  const size_t most_;
};

absl::StatusOr<size_t> PowerSgdCodec::Encode(ConstTensor x, uint64_t, CodecState* state,
                                             std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  ASSIGN_OR_RETURN(Accumulators* const own, AccumulatorsOf(state, name_, x.shape));
  const LowRankView view(x.shape);
  const size_t n = view.elements, rank = RankOf(view);
  float* e = own->tensor(0);
  const std::span<float> sum = Scratch<float, ScratchUse::kSum>(n);
  bool finite = true;
  if (!AddResidual(kernels_, x, e, sum.data(), finite)) return NotFiniteError(name_);
  if (!finite) return RangeError(name_, "a sum with the residual");

  const std::span<float> factors =
      Scratch<float, ScratchUse::kWork>(rank * (view.rows + view.cols));
  const std::span<float> p = factors.first(rank * view.rows), q = factors.subspan(p.size());
  if (rank == 0) {
    std::memcpy(frame.data() + kFrameHeaderBytes, sum.data(), 4 * n);
  } else {
    const float scale = LowRankScale(kernels_, sum);
    std::memcpy(q.data(), own->extra().data(), 4 * q.size());
    WarmStart(kernels_, q, view.cols);
    Project(kernels_, view, sum.data(), scale, q, p);
    Orthogonalize(kernels_, p, view.rows);
    ProjectBack(kernels_, view, sum.data(), scale, p, q);
    for (float& value : q) value = scale == 0 ? 0.0f : value / scale;
    std::memcpy(frame.data() + kFrameHeaderBytes, factors.data(), 4 * factors.size());
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagErrorFeedback,
             .param0 = static_cast<uint32_t>(rank),
             .param1 = static_cast<uint32_t>(rank == 0 ? 0 : view.cols),
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  const std::span<float> decoded = Scratch<float, ScratchUse::kDecoded>(n);
  if (!Decode(frame.first(bytes), nullptr, {decoded.data(), DType::kF32, x.shape}).ok()) {
    return RangeError(name_, "a factor");
  }
  for (size_t i = 0; i < n; ++i) e[i] = sum[i] - decoded[i];
  if (rank == 0) return bytes;
  // Only the directions matter for the next call. Decoding has used no factors of this thread's.
  const float scale = LowRankScale(kernels_, sum);
  for (float& value : q) value *= scale;
  WarmStart(kernels_, q, view.cols);
  std::memcpy(own->extra().data(), q.data(), 4 * q.size());
  return bytes;
}

absl::Status PowerSgdCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenFrame(name_, id_, frame, x.shape));
  const LowRankView view(x.shape);
  const size_t rank = RankOf(view);
  if (header.param0 != rank) {
    return absl::InvalidArgumentError(
        fmt::format("{}: frame of rank {}, this tensor has {}", name_, header.param0, rank));
  }
  if (header.param1 != (rank == 0 ? 0 : view.cols) || header.block != 0 ||
      frame.size() != MaxFrameBytes(x.shape, header.dtype)) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const std::byte* payload = frame.data() + kFrameHeaderBytes;
  if (rank == 0) {
    return ReadDense(kernels_, payload, x) ? absl::OkStatus() : Corrupt("NaN or Inf in it");
  }
  const std::span<float> factors =
      Scratch<float, ScratchUse::kKept>(rank * (view.rows + view.cols));
  std::memcpy(factors.data(), payload, 4 * factors.size());
  if (kernels_.abs_max(factors.data(), factors.size()) >= kInfBits ||
      !Reconstruct(kernels_, view, factors.first(rank * view.rows),
                   factors.subspan(rank * view.rows), x)) {
    return Corrupt("a factor or their product is Inf or NaN");
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewPowerSgdCodec(std::string_view name, uint32_t rank, Isa isa) {
  return std::make_shared<PowerSgdCodec>(name, rank, isa);
}

}  // namespace longhaul
