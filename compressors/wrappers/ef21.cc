// `NAME+ef21` (EF21, arXiv 2106.05203): both ends hold g. Sends C(x - g), then g += decode on both
// ends; decodes to g. The first frame holds C(x) and fills the receiver's g. The wire is NAME's
// with the flag "first visit" or "difference" and, for a difference, the tag of g (mirror.h).
//
// `inner` must be stateless. Each end keeps 4 n bytes; encoding takes 8 n bytes of scratch memory,
// decoding 8 n and a copy of the frame. Encode without a state is InvalidArgument; Decode without
// one is good for first frames only.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/states/mirror.h"

namespace longhaul {
namespace {

class Ef21Codec final : public CatalogCodec {
 public:
  Ef21Codec(std::shared_ptr<const Codec> inner, std::string_view name, Isa isa)
      : CatalogCodec(name, inner->id(), isa), inner_(std::move(inner)) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return inner_->MaxFrameBytes(shape, DType::kF32);  // x - g is fp32
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Mirror>(Mirror::Kind::kF32, shape);
  }
  std::unique_ptr<CodecState> NewDecoderState(Shape shape) const override {
    return NewState(shape);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState* state, Tensor x) const override;

 private:
  bool Advance(const Mirror& g, bool first, std::span<float> decoded) const;

  const std::shared_ptr<const Codec> inner_;
};

// The new g, in `decoded`: what a frame says, and unless that is all of it, the old one. False when
// an element is beyond fp32.
bool Ef21Codec::Advance(const Mirror& g, bool first, std::span<float> decoded) const {
  const auto* now = reinterpret_cast<const float*>(g.values());
  if (!first) kernels_.add_scaled(now, decoded.size(), 1.0f, decoded.data());
  return kernels_.abs_max(decoded.data(), decoded.size()) < kInfBits;
}

absl::StatusOr<size_t> Ef21Codec::Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                         std::span<std::byte> frame) const {
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), 0));
  ASSIGN_OR_RETURN(const auto own, MirrorOf(state, name_, Mirror::Kind::kF32, x.shape));
  if (own == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: Encode needs a state", name_));
  }
  Mirror& g = *own;
  const size_t n = x.shape.elements();
  const std::span<float> difference = Scratch<float, ScratchUse::kSum>(n);
  if (!WideReader(x, kernels_).Read(0, n, difference.data())) return NotFiniteError(name_);
  const auto* now = reinterpret_cast<const float*>(g.values());
  if (g.filled()) kernels_.add_scaled(now, n, -1.0f, difference.data());
  if (kernels_.abs_max(difference.data(), n) >= kInfBits) return RangeError(name_, "a difference");
  const absl::StatusOr<size_t> bytes =
      inner_->Encode({difference.data(), DType::kF32, x.shape}, seed, nullptr, frame);
  if (!bytes.ok()) return bytes;
  const std::span<float> decoded = Scratch<float, ScratchUse::kDecoded>(n);
  if (absl::Status s =
          inner_->Decode(frame.first(*bytes), nullptr, {decoded.data(), DType::kF32, x.shape});
      !s.ok()) {
    return absl::InternalError(
        fmt::format("{}: own frame does not decode: {}", name_, std::string(s.message())));
  }
  if (!Advance(g, !g.filled(), decoded)) return RangeError(name_, "the state");
  if (g.filled()) {
    MarkFrame(kFlagDifference, g.Tag(), frame.first(*bytes));
  } else {
    MarkFrame(kFlagFirstVisit, 0, frame.first(*bytes));
  }
  g.Fill(decoded.data());
  return bytes;
}

absl::Status Ef21Codec::Decode(std::span<const std::byte> frame, CodecState* state,
                               Tensor x) const {
  ASSIGN_OR_RETURN(const auto own, MirrorOf(state, name_, Mirror::Kind::kF32, x.shape));
  ASSIGN_OR_RETURN(const auto header, ParseFrame(frame));
  if (header.codec != id_) {
    return absl::InvalidArgumentError(
        fmt::format("{}: frame of codec 0x{:02x}, want 0x{:02x}", name_, header.codec, id_));
  }
  RETURN_IF_ERROR(CheckMirror(name_, header.flags, header.state, own));
  // The inner codec knows no such marks.
  const std::span<std::byte> plain = Scratch<std::byte, ScratchUse::kCodes>(frame.size());
  std::memcpy(plain.data(), frame.data(), frame.size());
  MarkFrame(0, 0, plain);
  const bool first = (header.flags & kFlagFirstVisit) != 0;
  if (own == nullptr) return inner_->Decode(plain, nullptr, x);

  const size_t n = x.shape.elements();
  const std::span<float> decoded = Scratch<float, ScratchUse::kDecoded>(n);
  if (absl::Status s = inner_->Decode(plain, nullptr, {decoded.data(), DType::kF32, x.shape});
      !s.ok()) {
    return s;
  }
  if (!Advance(*own, first, decoded)) return Corrupt("the state would hold Inf or NaN");
  NarrowWriter(x, kernels_).Write(decoded.data(), 0, n);
  own->Fill(decoded.data());
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewEf21Codec(std::shared_ptr<const Codec> inner, std::string_view name,
                                          float, Isa isa) {
  return std::make_shared<Ef21Codec>(std::move(inner), name, isa);
}

}  // namespace longhaul
