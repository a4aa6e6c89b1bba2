#include "compressors/error_feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "compressors/accumulators.h"
#include "compressors/convert.h"
#include "compressors/frame.h"
#include "compressors/scratch.h"
#include "compressors/selection.h"

namespace longhaul {
namespace {

class ErrorFeedbackCodec final : public Codec {
 public:
  ErrorFeedbackCodec(std::shared_ptr<const Codec> inner, std::string_view name, float decay)
      : inner_(std::move(inner)),
        sparse_(dynamic_cast<const ResidualEncoder*>(inner_.get())),
        name_(name),
        decay_(decay) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return inner_->id(); }
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
  const std::string name_;
  const float decay_;
};

// sum = x + decay * e, in pieces that stay in the nearest cache between widening and adding.
void ErrorFeedbackCodec::AddResidual(ConstTensor x, const float* e, float* sum) const {
  constexpr size_t kPiece = 2048;
  const ConvertFn widen = Converter(BestIsa(), x.dtype, DType::kF32);
  const auto* bytes = static_cast<const std::byte*>(x.values);
  const size_t n = x.shape.elements();
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t c = std::min(kPiece, n - at);
    float values[kPiece];
    widen(bytes + at * BytesPerElement(x.dtype), c, reinterpret_cast<std::byte*>(values));
    for (size_t i = 0; i < c; ++i) sum[at + i] = values[i] + decay_ * e[at + i];
  }
}

absl::StatusOr<size_t> ErrorFeedbackCodec::Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                                  std::span<std::byte> frame) const {
  const absl::StatusOr<Accumulators*> residual = AccumulatorsOf(state, name_, x.shape);
  if (!residual.ok()) return residual.status();
  float* e = (*residual)->tensor(0);
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
  for (size_t i = 0; i < n; ++i) e[i] = sum[i] - decoded[i];
  AddFrameFlags(kFlagErrorFeedback, frame.first(*bytes));
  return bytes;
}

}  // namespace

std::shared_ptr<const Codec> NewErrorFeedbackCodec(std::shared_ptr<const Codec> inner,
                                                   std::string_view name, float decay) {
  return std::make_shared<ErrorFeedbackCodec>(std::move(inner), name, decay);
}

}  // namespace longhaul
