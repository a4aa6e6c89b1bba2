// `NAME+ef`: encodes x + e and keeps e <- x + e - decode(frame), so what one frame loses the next
// ones carry. With decay beta: e <- beta e first (`+ef95` is beta = 0.95).
//
// The wire is the inner codec's, with flag "sender used EF"; decoding needs no state. `inner` must
// be stateless. The state holds the residual, fp32 (4 n bytes, saved); encoding takes 8 n bytes of
// scratch memory per thread (scratch.h). Encode without a state, or with one of another shape, is
// InvalidArgument.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/families/selection.h"
#include "compressors/frame/frame.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/scratch.h"
#include "compressors/states/accumulators.h"

namespace longhaul {
namespace {

constexpr size_t kCachedElements = 2048;  // that stay in the nearest cache

// Calls visit(at, count) for the pieces of n elements, on the threads that share a tensor.
template <typename Visit>
void ForPieces(size_t n, Visit visit) {
  const Slices slices((n + kCachedElements - 1) / kCachedElements, kWorthAThread / kCachedElements);
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const size_t end = std::min(slices.last(slice) * kCachedElements, n);
    for (size_t at = slices.first(slice) * kCachedElements; at < end; at += kCachedElements) {
      visit(at, std::min(kCachedElements, end - at));
    }
  });
}

class ErrorFeedbackCodec final : public CatalogCodec {
 public:
  ErrorFeedbackCodec(std::shared_ptr<const Codec> inner, std::string_view name, float decay,
                     Isa isa)
      : CatalogCodec(name, inner->id(), isa),
        inner_(std::move(inner)),
        sparse_(dynamic_cast<const ResidualEncoder*>(inner_.get())),
        decay_(decay) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return inner_->MaxFrameBytes(shape, DType::kF32);  // x + e is fp32
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Accumulators>(shape, name_, 1);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    return inner_->Decode(frame, nullptr, x);
  }

 private:
  void AddResidual(ConstTensor x, const float* e, float* sum) const;

  const std::shared_ptr<const Codec> inner_;
  const ResidualEncoder* const sparse_;  // of inner_; null: it is dense
  const float decay_;
};

// sum = x + decay * e.
void ErrorFeedbackCodec::AddResidual(ConstTensor x, const float* e, float* sum) const {
  const WideReader reader(x, kernels_);
  ForPieces(x.shape.elements(), [&](size_t at, size_t c) {
    float buffer[kCachedElements];
    kernels_.sum_scaled(reader.Peek(at, c, buffer), decay_, e + at, c, sum + at);
  });
}

absl::StatusOr<size_t> ErrorFeedbackCodec::Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                                  std::span<std::byte> frame) const {
  ASSIGN_OR_RETURN(Accumulators* const residual, AccumulatorsOf(state, name_, x.shape));
  float* e = residual->tensor(0);
  if (sparse_ != nullptr) {
    const absl::StatusOr<size_t> bytes = sparse_->EncodeResidual(x, decay_, e, seed, frame);
    if (bytes.ok()) AddFrameFlags(kFlagErrorFeedback, frame.first(*bytes));
    return bytes;
  }
  const size_t n = x.shape.elements();
  float* sum = Scratch<float, ScratchUse::kSum>(n).data();
  AddResidual(x, e, sum);

  const absl::StatusOr<size_t> bytes =
      inner_->Encode({sum, DType::kF32, x.shape}, seed, nullptr, frame);
  if (!bytes.ok()) return bytes;
  float* decoded = Scratch<float, ScratchUse::kDecoded>(n).data();
  if (absl::Status s =
          inner_->Decode(frame.first(*bytes), nullptr, {decoded, DType::kF32, x.shape});
      !s.ok()) {
    return absl::InternalError(
        fmt::format("{}: own frame does not decode: {}", name_, std::string(s.message())));
  }
  ForPieces(n, [&](size_t at, size_t c) {
    kernels_.sum_scaled(sum + at, -1.0f, decoded + at, c, e + at);
  });
  AddFrameFlags(kFlagErrorFeedback, frame.first(*bytes));
  return bytes;
}

}  // namespace

std::shared_ptr<const Codec> NewErrorFeedbackCodec(std::shared_ptr<const Codec> inner,
                                                   std::string_view name, float decay, Isa isa) {
  return std::make_shared<ErrorFeedbackCodec>(std::move(inner), name, decay, isa);
}

}  // namespace longhaul
