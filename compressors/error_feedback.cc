#include "compressors/error_feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compressors/codec_frame.h"
#include "compressors/convert.h"
#include "compressors/scratch.h"

namespace longhaul {
namespace {

class Residual final : public CodecState {
 public:
  Residual(Shape shape, std::string codec)
      : codec_(std::move(codec)), shape_(shape), values(shape.elements()) {}

  Shape shape() const override { return shape_; }
  void Reset() override { std::fill(values.begin(), values.end(), 0.0f); }

  // rows, cols, then the residual.
  size_t bytes() const override { return 16 + 4 * values.size(); }
  void Save(std::span<std::byte> out) const override {
    const uint64_t key[2] = {shape_.rows, shape_.cols};
    std::memcpy(out.data(), key, 16);
    std::memcpy(out.data() + 16, values.data(), 4 * values.size());
  }
  absl::Status Load(std::span<const std::byte> in) override {
    if (in.size() != bytes()) {
      return absl::DataLossError(
          fmt::format("{}: saved state of {} bytes, want {}", codec_, in.size(), bytes()));
    }
    uint64_t key[2];
    std::memcpy(key, in.data(), 16);
    if (key[0] != shape_.rows || key[1] != shape_.cols) {
      return absl::DataLossError(fmt::format("{}: saved state of shape [{}, {}], want {}", codec_,
                                             key[0], key[1], ToString(shape_)));
    }
    const std::byte* saved = in.data() + 16;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(LoadElement(saved, DType::kF32, i))) {
        return absl::DataLossError(fmt::format("{}: saved state holds NaN or Inf", codec_));
      }
    }
    std::memcpy(values.data(), saved, 4 * values.size());
    return absl::OkStatus();
  }

  const std::string& codec() const { return codec_; }

 private:
  const std::string codec_;
  const Shape shape_;

 public:
  std::vector<float> values;  // e, [n]
};

class ErrorFeedbackCodec final : public Codec {
 public:
  ErrorFeedbackCodec(std::shared_ptr<const Codec> inner, std::string_view name, float decay)
      : inner_(std::move(inner)), name_(name), decay_(decay) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return inner_->id(); }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return inner_->MaxFrameBytes(shape, DType::kF32);  // x + e is fp32
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Residual>(shape, name_);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    return inner_->Decode(frame, nullptr, x);
  }

 private:
  void AddResidual(ConstTensor x, const float* e, float* sum) const;

  const std::shared_ptr<const Codec> inner_;
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
  auto* residual = dynamic_cast<Residual*>(state);
  if (residual == nullptr || residual->codec() != name_ || !(residual->shape() == x.shape)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: needs its own state for shape {}, got {}", name_, ToString(x.shape),
        residual == nullptr ? "none" : residual->codec() + " " + ToString(residual->shape())));
  }
  const size_t n = x.shape.elements();
  float* sum = Scratch<float, ScratchUse::kSum>(n).data();
  AddResidual(x, residual->values.data(), sum);

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
  float* e = residual->values.data();
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
