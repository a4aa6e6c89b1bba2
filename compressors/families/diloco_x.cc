// `diloco-x` (DiLoCoX, arXiv 2506.21263): the factors of powersgd.cc with P and Q as int4-b64, error
// feedback, and a rank that follows the tensor: r = ceil(mean over 8 rounds of exp(entropy of the
// normalised column energies of Q)), between 1 and the largest rank up to 16 whose factors are less
// than half of the tensor. All columns are followed, the r strongest are sent.
//
// Payload: u64 bytes of P's frame; the frame of P^T [r, rows]; the frame of Q^T [r, cols], both
// int4-b64. param0 = r, param1 = cols. A tensor that factors would not halve is sent as fp32 with
// both zero. 4.25 r (rows + cols) / (rows cols) bits per element. State: 4 (n + 16 cols + 9) bytes.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/status_macros.h"
#include "compressors/families/block_codec.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/families/low_rank.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/states/accumulators.h"

namespace longhaul {
namespace {

constexpr size_t kMostColumns = 16;
constexpr size_t kWindow = 8;  // rounds that the rank is averaged over
constexpr uint16_t kInt4Id = 0x30;

// exp of the entropy of the columns' shares of the energy: how many of them matter.
double EffectiveRank(std::span<const double> energies) {
  const double total = std::accumulate(energies.begin(), energies.end(), 0.0);
  double entropy = 0;
  for (double energy : energies) {
    if (energy > 0) entropy -= energy / total * std::log(energy / total);
  }
  return std::exp(entropy);
}

// The rounds seen, and their effective ranks by round modulo kWindow.
class RankHistory {
 public:
  explicit RankHistory(std::span<const float> saved) { std::copy_n(saved.data(), 9, values_); }
  // Adds a round; the rank to send.
  size_t Next(double effective, size_t most) {
    // A state that was loaded may hold any number.
    const bool sane = values_[0] >= 0 && values_[0] < 2 * kWindow;
    const size_t seen = sane ? static_cast<size_t>(values_[0]) : 0;
    values_[1 + seen % kWindow] = static_cast<float>(effective);
    values_[0] = static_cast<float>(seen + 1 < 2 * kWindow ? seen + 1 : kWindow);
    const size_t held = std::min(seen + 1, kWindow);
    const double mean =
        std::accumulate(values_ + 1, values_ + 1 + held, 0.0) / static_cast<double>(held);
    const double rank = std::clamp(std::ceil(mean - 1e-3), 1.0, static_cast<double>(most));
    return static_cast<size_t>(rank);
  }
  void Save(std::span<float> out) const { std::copy_n(values_, 9, out.data()); }

 private:
  float values_[1 + kWindow];
};

class DilocoXCodec final : public CatalogCodec {
 public:
  DilocoXCodec(std::string_view name, uint16_t id, Isa isa)
      : CatalogCodec(name, id, isa), int4_(NewIntBlockCodec<4>("int4-b64", kInt4Id, isa)) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    const LowRankView view(shape);
    const size_t rank = LowRankFor(view, kMostColumns);
    return rank == 0 ? kFrameHeaderBytes + 4 * view.elements : FrameBytes(view, rank);
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Accumulators>(shape, name_, 1,
                                          kMostColumns * LowRankView(shape).cols + 1 + kWindow);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  size_t Int4Bytes(size_t rank, size_t cols) const {
    return int4_->MaxFrameBytes({rank, cols}, DType::kF32);
  }
  size_t FrameBytes(const LowRankView& v, size_t rank) const {
    return kFrameHeaderBytes + 8 + AlignUp8(Int4Bytes(rank, v.rows)) + Int4Bytes(rank, v.cols);
  }
  absl::StatusOr<size_t> WriteFactors(const LowRankView& view, size_t rank,
                                      std::span<const float> p, std::span<const float> q,
                                      std::span<std::byte> frame) const;

  const std::shared_ptr<const Codec> int4_;
};

// The payload's bytes.
absl::StatusOr<size_t> DilocoXCodec::WriteFactors(const LowRankView& view, size_t rank,
                                                  std::span<const float> p,
                                                  std::span<const float> q,
                                                  std::span<std::byte> frame) const {
  const size_t p_at = kFrameHeaderBytes + 8, q_at = p_at + AlignUp8(Int4Bytes(rank, view.rows));
  const auto p_bytes =
      int4_->Encode({p.data(), DType::kF32, {rank, view.rows}}, 0, nullptr, frame.subspan(p_at));
  if (!p_bytes.ok()) return RangeError(name_, "a factor");
  const auto q_bytes =
      int4_->Encode({q.data(), DType::kF32, {rank, view.cols}}, 0, nullptr, frame.subspan(q_at));
  if (!q_bytes.ok()) return RangeError(name_, "a factor");
  const uint64_t length = *p_bytes;
  std::memcpy(frame.data() + kFrameHeaderBytes, &length, 8);
  std::memset(frame.data() + p_at + *p_bytes, 0, q_at - p_at - *p_bytes);
  return q_at + *q_bytes - kFrameHeaderBytes;
}

namespace {

// x of n elements as P Q^T: columns of P and Q, and both again, the largest energy first.
struct Factors {
  Factors(std::span<float> work, const LowRankView& view, size_t columns)
      : p(work.first(columns * view.rows)),
        q(work.subspan(p.size(), columns * view.cols)),
        sorted_q(work.subspan(p.size() + q.size(), q.size())),
        sorted_p(work.last(p.size())) {}
  std::span<float> p, q, sorted_q, sorted_p;
};

// One step of power iteration from the Q of the call before; answers the rank. scale: what `sum` is
// multiplied with meanwhile, 0 for zeros.
size_t Factorize(const Kernels& kernels, const LowRankView& view, std::span<const float> sum,
                 float scale, const Factors& f, RankHistory& history) {
  const size_t most = f.p.size() / view.rows;
  WarmStart(kernels, f.q, view.cols);
  Project(kernels, view, sum.data(), scale, f.q, f.p);
  Orthogonalize(kernels, f.p, view.rows);
  ProjectBack(kernels, view, sum.data(), scale, f.p, f.q);
  double energy[kMostColumns];
  size_t order[kMostColumns];
  for (size_t j = 0; j < most; ++j) {
    const float* column = f.q.data() + j * view.cols;
    energy[j] = LongDot(kernels, column, column, view.cols);
    order[j] = j;
  }
  // std::stable_sort would allocate.
  std::sort(order, order + most, [&](size_t a, size_t b) {
    return energy[a] != energy[b] ? energy[a] > energy[b] : a < b;
  });
  for (size_t j = 0; j < most; ++j) {
    std::copy_n(f.p.data() + order[j] * view.rows, view.rows, f.sorted_p.data() + j * view.rows);
    const float* column = f.q.data() + order[j] * view.cols;
    float* to = f.sorted_q.data() + j * view.cols;
    for (size_t k = 0; k < view.cols; ++k) to[k] = scale == 0 ? 0.0f : column[k] / scale;
  }
  return history.Next(EffectiveRank({energy, most}), most);
}

}  // namespace

absl::StatusOr<size_t> DilocoXCodec::Encode(ConstTensor x, uint64_t, CodecState* state,
                                            std::span<std::byte> frame) const {
  const size_t room = MaxFrameBytes(x.shape, x.dtype);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), room));
  ASSIGN_OR_RETURN(Accumulators* const own, AccumulatorsOf(state, name_, x.shape));
  const LowRankView view(x.shape);
  const size_t n = view.elements, most = LowRankFor(view, kMostColumns);
  float* e = own->tensor(0);
  const std::span<float> sum = Scratch<float, ScratchUse::kSum>(n);
  bool finite = true;
  if (!AddResidual(kernels_, x, e, sum.data(), finite)) return NotFiniteError(name_);
  if (!finite) return RangeError(name_, "a sum with the residual");

  const std::span<float> work =
      Scratch<float, ScratchUse::kWork>(most * (view.rows + 2 * view.cols) + most * view.rows);
  const Factors factors(work, view, most);
  RankHistory history(own->extra().last(1 + kWindow));
  size_t rank = 0, payload = 4 * n;
  if (most == 0) {
    std::memcpy(frame.data() + kFrameHeaderBytes, sum.data(), payload);
  } else {
    const float scale = LowRankScale(kernels_, sum);
    std::memcpy(factors.q.data(), own->extra().data(), 4 * factors.q.size());
    rank = Factorize(kernels_, view, sum, scale, factors, history);
    const auto written = WriteFactors(view, rank, factors.sorted_p, factors.sorted_q, frame);
    if (!written.ok()) return written;
    payload = *written;
    for (float& value : factors.sorted_q) value *= scale;
    WarmStart(kernels_, factors.sorted_q,
              view.cols);  // only the directions matter for the next call
  }
  const size_t bytes = kFrameHeaderBytes + payload;
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagErrorFeedback,
             .param0 = static_cast<uint32_t>(rank),
             .param1 = static_cast<uint32_t>(rank == 0 ? 0 : view.cols),
             .shape = x.shape,
             .payload_bytes = payload},
            frame.first(bytes));
  const std::span<float> decoded = Scratch<float, ScratchUse::kDecoded>(n);
  if (!Decode(frame.first(bytes), nullptr, {decoded.data(), DType::kF32, x.shape}).ok()) {
    return RangeError(name_, "a factor");
  }
  for (size_t i = 0; i < n; ++i) e[i] = sum[i] - decoded[i];
  if (most > 0) {
    std::memcpy(own->extra().data(), factors.sorted_q.data(), 4 * factors.sorted_q.size());
    history.Save(own->extra().last(1 + kWindow));
  }
  return bytes;
}

absl::Status DilocoXCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenFrame(name_, id_, frame, x.shape));
  const LowRankView view(x.shape);
  const size_t most = LowRankFor(view, kMostColumns), rank = header.param0;
  if (rank > most || (rank == 0) != (most == 0) || header.param1 != (rank == 0 ? 0 : view.cols) ||
      header.block != 0) {
    return Corrupt(fmt::format("rank {} does not fit the shape", rank));
  }
  const std::span<const std::byte> payload = frame.subspan(kFrameHeaderBytes);
  if (rank == 0) {
    if (payload.size() != 4 * view.elements) return Corrupt("bytes do not fit the shape");
    return ReadDense(kernels_, payload.data(), x) ? absl::OkStatus() : Corrupt("NaN or Inf in it");
  }
  uint64_t p_bytes = 0;
  if (frame.size() == FrameBytes(view, rank)) std::memcpy(&p_bytes, payload.data(), 8);
  if (p_bytes != Int4Bytes(rank, view.rows)) return Corrupt("bytes do not fit the shape");
  // Room for any rank: it changes between rounds, and nothing is allocated after the first.
  const std::span<float> factors =
      Scratch<float, ScratchUse::kKept>(kMostColumns * (view.rows + view.cols));
  const std::span<float> p = factors.first(rank * view.rows),
                         q = factors.subspan(p.size(), rank * view.cols);
  absl::Status inner = int4_->Decode(payload.subspan(8, p_bytes), nullptr,
                                     {p.data(), DType::kF32, {rank, view.rows}});
  if (inner.ok()) {
    inner = int4_->Decode(payload.subspan(8 + AlignUp8(p_bytes)), nullptr,
                          {q.data(), DType::kF32, {rank, view.cols}});
  }
  if (!inner.ok()) return Corrupt(std::string(inner.message()));
  if (!Reconstruct(kernels_, view, p, q, x)) {
    return Corrupt("the product of its factors is Inf or NaN");
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewDilocoXCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<DilocoXCodec>(name, id, isa);
}

}  // namespace longhaul
