// Payload of all three: the elements in order, nothing else.
#include "compressors/families/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/frame/frame_pieces.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

// Pieces of so many elements.
class CastPieces final : public FramePieces {
 public:
  CastPieces(std::string_view name, const Kernels& kernels, DType from, DType wire,
             FrameHeader header)
      : name_(name), kernels_(kernels), from_(from), wire_(wire), header_(header) {}

  size_t frame_bytes() const override { return kFrameHeaderBytes + Begin(count()); }
  size_t count() const override { return (elements() + kElements - 1) / kElements; }
  Parts PartsOf(size_t piece) const override {
    const FramePart none = {frame_bytes(), frame_bytes()};
    return {{{kFrameHeaderBytes + Begin(piece), kFrameHeaderBytes + Begin(piece + 1)}, none, none}};
  }
  FrameHeader header() const override { return header_; }
  absl::Status Encode(size_t piece, ConstTensor x, std::byte* frame) const override {
    const auto* in = static_cast<const std::byte*>(x.values);
    const bool finite = Convert(from_, in + piece * kElements * BytesPerElement(from_), wire_,
                                frame + PartsOf(piece)[0].begin, piece);
    return finite ? absl::OkStatus() : NotFiniteError(name_);
  }
  absl::Status Decode(size_t piece, const std::byte* frame, Tensor x) const override {
    auto* out = static_cast<std::byte*>(x.values);
    Convert(wire_, frame + PartsOf(piece)[0].begin, x.dtype,
            out + piece * kElements * BytesPerElement(x.dtype), piece);
    return absl::OkStatus();
  }
  absl::Status CheckHeader(std::span<const std::byte> frame) const override {
    ASSIGN_OR_RETURN(const auto header,
                     OpenUnsummedFrame(name_, header_.codec, frame, header_.shape));
    if (header.dtype == header_.dtype) return absl::OkStatus();
    return absl::DataLossError(fmt::format("{}: a source of another dtype", name_));
  }

 private:
  size_t elements() const { return header_.shape.elements(); }
  size_t Begin(size_t piece) const {
    return std::min(elements(), piece * kElements) * BytesPerElement(wire_);
  }
  bool Convert(DType from, const std::byte* in, DType to, std::byte* out, size_t piece) const {
    const size_t n = std::min(kElements, elements() - piece * kElements);
    const ConvertFn convert = kernels_.Converter(from, to);
    return !FirstAnswer(Slices(n, kWorthAThread), [&](size_t slice) {
      const Slices slices(n, kWorthAThread);
      const size_t first = slices.first(slice);
      return !convert(in + first * BytesPerElement(from), slices.last(slice) - first,
                      out + first * BytesPerElement(to));
    });
  }

  const std::string_view name_;
  const Kernels& kernels_;
  const DType from_, wire_;
  const FrameHeader header_;
};

class CastCodec final : public FixedLengthCodec {
 public:
  // wire: nothing = the source's dtype.
  CastCodec(std::string_view name, uint16_t id, Isa isa, std::optional<DType> wire)
      : FixedLengthCodec(name, id, isa, {}), wire_(wire) {}

  std::optional<DType> wire() const { return wire_; }
  size_t MaxFrameBytes(Shape shape, DType dtype) const override {
    return kFrameHeaderBytes + shape.elements() * BytesPerElement(wire_.value_or(dtype));
  }

  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override {
    const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
    RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
    const DType wire = wire_.value_or(x.dtype);
    Sums sums;
    if (!ConvertAll(x.dtype, static_cast<const std::byte*>(x.values), wire,
                    frame.data() + kFrameHeaderBytes, x.shape.elements(), Payload::kOut, sums)) {
      return NotFiniteError(name_);
    }
    SealFrame(HeaderFor(x, 0), frame.first(bytes), sums.Combine(frame.first(bytes)));
    return bytes;
  }

  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    ASSIGN_OR_RETURN(const FrameHeader header, OpenUnsummed(frame, x.shape));
    Sums sums;
    ConvertAll(wire_.value_or(header.dtype), frame.data() + kFrameHeaderBytes, x.dtype,
               static_cast<std::byte*>(x.values), x.shape.elements(), Payload::kIn, sums);
    return CheckPayloadCrc(frame, sums.Combine(frame));
  }

  std::unique_ptr<FramePieces> Pieces(Shape shape, DType dtype) const override {
    return std::make_unique<CastPieces>(name_, kernels_, dtype, wire_.value_or(dtype),
                                        HeaderFor({nullptr, dtype, shape}, 0));
  }

 private:
  using Sums = SlicedSums<1>;
  enum class Payload { kIn, kOut };  // which side is the frame's

  // On all threads of the pool; answers whether all of `in` was finite.
  bool ConvertAll(DType from, const std::byte* in, DType to, std::byte* out, size_t n,
                  Payload payload, Sums& sums) const {
    const size_t in_bytes = BytesPerElement(from), out_bytes = BytesPerElement(to);
    const size_t wire_bytes = payload == Payload::kIn ? in_bytes : out_bytes;
    const bool sum = n * wire_bytes >= kSumInPieces, stream = n * out_bytes >= kStreamedBytes;
    const size_t piece = kPageBytes / in_bytes;
    const ConvertFn convert = kernels_.Converter(from, to);
    const Slices slices(n, kWorthAThread);
    const bool infinite = FirstAnswer(slices, [&](size_t slice) {
      bool found = false;
      RunningSum running(kFrameHeaderBytes + slices.first(slice) * wire_bytes);
      alignas(64) std::byte staged[2 * kPageBytes];
      for (size_t at = slices.first(slice); at < slices.last(slice); at += piece) {
        const size_t c = std::min(piece, slices.last(slice) - at);
        const std::byte* read = in + at * in_bytes;
        std::byte* written = stream ? staged : out + at * out_bytes;
        if (!convert(read, c, written)) found = true;
        if (sum) running.Add({payload == Payload::kIn ? read : written, c * wire_bytes});
        if (stream) kernels_.stream(staged, c * out_bytes, out + at * out_bytes);
      }
      if (stream) FinishStreaming();
      sums.part(0, slice) = running.part();
      return found;
    });
    return !infinite;
  }

  // Of the input, in the nearest cache between two steps; the output has twice as many at most.
  static constexpr size_t kPageBytes = 4096;

  const std::optional<DType> wire_;
};

}  // namespace

std::optional<CastForm> CastFormOf(const Codec& codec) {
  const auto* cast = dynamic_cast<const CastCodec*>(&codec);
  return cast == nullptr ? std::nullopt : std::optional(CastForm{cast->wire()});
}

std::shared_ptr<const Codec> NewIdentityCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<CastCodec>(name, id, isa, std::nullopt);
}
std::shared_ptr<const Codec> NewBf16Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<CastCodec>(name, id, isa, DType::kBF16);
}
std::shared_ptr<const Codec> NewFp16Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<CastCodec>(name, id, isa, DType::kF16);
}

}  // namespace longhaul
