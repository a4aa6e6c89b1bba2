#include "compressors/wrappers/saturate.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kSaturatePiece = 2048;

float LargestOf(DType dtype) {
  return dtype == DType::kF32    ? std::numeric_limits<float>::max()
         : dtype == DType::kBF16 ? Bf16ToF32(0x7F7F)
                                 : 65504.0f;
}

// How many elements are NaN or Inf, and the largest |x| of the others.
struct Census {
  uint64_t bad = 0;
  float top = 0;
};

class SaturatingCodec final : public CatalogCodec {
 public:
  SaturatingCodec(std::shared_ptr<const Codec> inner, std::string_view name, Isa isa)
      : CatalogCodec(name, inner->id(), isa), inner_(std::move(inner)) {}

  size_t MaxFrameBytes(Shape shape, DType dtype) const override {
    // What is replaced is sent from fp32.
    return std::max(inner_->MaxFrameBytes(shape, dtype), inner_->MaxFrameBytes(shape, DType::kF32));
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return inner_->NewState(shape);
  }
  std::unique_ptr<CodecState> NewDecoderState(Shape shape) const override {
    return inner_->NewDecoderState(shape);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState* state,
                      Tensor x) const override {
    return inner_->Decode(frame, state, x);
  }
  // A rotated or widened block may decode to a little more than the largest number.
  bool DecodesFinite(std::span<const std::byte> frame, Shape shape) const {
    const auto decoded = Scratch<float, ScratchUse::kSaturated>(shape.elements());
    return inner_->Decode(frame, nullptr, {decoded.data(), DType::kF32, shape}).ok() &&
           kernels_.abs_max(decoded.data(), decoded.size()) < kInfBits;
  }

  uint64_t replaced() const { return replaced_.load(std::memory_order_relaxed); }

 private:
  Census Count(ConstTensor x) const;
  ConstTensor Replaced(ConstTensor x, float top) const;

  const std::shared_ptr<const Codec> inner_;
  mutable std::atomic<uint64_t> replaced_ = 0;
};

Census SaturatingCodec::Count(ConstTensor x) const {
  const WideReader reader(x, kernels_);
  Census census;
  uint32_t top = 0;
  float values[kSaturatePiece];
  for (size_t at = 0; at < x.shape.elements(); at += kSaturatePiece) {
    const size_t c = std::min(kSaturatePiece, x.shape.elements() - at);
    if (reader.Read(at, c, values)) {
      top = std::max(top, kernels_.abs_max(values, c));
      continue;
    }
    for (size_t i = 0; i < c; ++i) {
      const uint32_t abs = BitsOf(values[i]) & kAbsMask;
      census.bad += abs >= kInfBits;
      if (abs < kInfBits) top = std::max(top, abs);
    }
  }
  census.top = FromBits(top);
  return census;
}

// x with its NaN and Inf replaced, in this thread's memory. `top` is a number of x's dtype.
ConstTensor SaturatingCodec::Replaced(ConstTensor x, float top) const {
  const size_t n = x.shape.elements();
  const auto copy = Scratch<std::byte, ScratchUse::kSaturated>(n * BytesPerElement(x.dtype));
  const WideReader reader(x, kernels_);
  const NarrowWriter writer({copy.data(), x.dtype, x.shape}, kernels_);
  float values[kSaturatePiece];
  for (size_t at = 0; at < n; at += kSaturatePiece) {
    const size_t c = std::min(kSaturatePiece, n - at);
    reader.Read(at, c, values);
    for (size_t i = 0; i < c; ++i) {
      const uint32_t abs = BitsOf(values[i]) & kAbsMask;
      if (abs > kInfBits) values[i] = 0;
      if (abs == kInfBits) values[i] = values[i] > 0 ? top : -top;
    }
    writer.Write(values, at, c);
  }
  return {copy.data(), x.dtype, x.shape};
}

absl::StatusOr<size_t> SaturatingCodec::Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                               std::span<std::byte> frame) const {
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), 0));
  const absl::StatusOr<size_t> plain = inner_->Encode(x, seed, state, frame);
  if (plain.ok() || !absl::IsInvalidArgument(plain.status())) return plain;
  // Refused: because of NaN or Inf, or for another reason, which is then the answer.
  if (frame.size() < MaxFrameBytes(x.shape, x.dtype)) return plain;
  const Census census = Count(x);
  if (census.bad == 0) return plain;
  absl::StatusOr<size_t> bytes = plain;
  if (state == nullptr) {
    bytes = inner_->Encode(Replaced(x, LargestOf(x.dtype)), seed, state, frame);
    if (bytes.ok() && !DecodesFinite(frame.first(*bytes), x.shape)) bytes = plain;
  }
  if (!bytes.ok()) bytes = inner_->Encode(Replaced(x, census.top), seed, state, frame);
  if (!bytes.ok()) return bytes;
  AddFrameFlags(kFlagSaturated, frame.first(*bytes));
  replaced_.fetch_add(census.bad, std::memory_order_relaxed);
  return bytes;
}

}  // namespace

std::shared_ptr<const Codec> NewSaturatingCodec(std::shared_ptr<const Codec> inner,
                                                std::string_view name, float, Isa isa) {
  return std::make_shared<SaturatingCodec>(std::move(inner), name, isa);
}

uint64_t SaturatedElements(const Codec& codec) {
  const auto* saturating = dynamic_cast<const SaturatingCodec*>(&codec);
  return saturating == nullptr ? 0 : saturating->replaced();
}

}  // namespace longhaul
