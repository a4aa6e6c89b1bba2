// Payload of all three: the elements in order, nothing else.
#include "compressors/families/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compressors/frame/codec_frame.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/streaming.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

class CastCodec final : public Codec {
 public:
  // wire: nothing = the source's dtype.
  CastCodec(std::string_view name, uint16_t id, Isa isa, std::optional<DType> wire)
      : name_(name), id_(id), isa_(isa), wire_(wire) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }

  size_t MaxFrameBytes(Shape shape, DType dtype) const override {
    return kFrameHeaderBytes + shape.elements() * BytesPerElement(wire_.value_or(dtype));
  }

  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override {
    const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
    if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
    const DType wire = wire_.value_or(x.dtype);
    Sums sums;
    if (!ConvertAll(x.dtype, static_cast<const std::byte*>(x.values), wire,
                    frame.data() + kFrameHeaderBytes, x.shape.elements(), Payload::kOut, sums)) {
      return NotFiniteError(name_);
    }
    const FrameHeader header = {.codec = id_,
                                .dtype = x.dtype,
                                .shape = x.shape,
                                .payload_bytes = bytes - kFrameHeaderBytes};
    SealFrame(header, frame.first(bytes), sums.Join(frame.first(bytes)));
    return bytes;
  }

  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    const absl::StatusOr<FrameHeader> header = OpenUnsummedFrame(name_, id_, frame, x.shape);
    if (!header.ok()) return header.status();
    if (frame.size() != MaxFrameBytes(x.shape, header->dtype)) {
      return absl::DataLossError(
          fmt::format("{}: {} bytes for shape {}", name_, frame.size(), ToString(x.shape)));
    }
    Sums sums;
    ConvertAll(wire_.value_or(header->dtype), frame.data() + kFrameHeaderBytes, x.dtype,
               static_cast<std::byte*>(x.values), x.shape.elements(), Payload::kIn, sums);
    return CheckPayloadCrc(frame, sums.Join(frame));
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
    const ConvertFn convert = Converter(isa_, from, to);
    const LoopKernels& loops = LoopKernelsOf(isa_);
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
        if (stream) loops.stream(staged, c * out_bytes, out + at * out_bytes);
      }
      if (stream) FinishStreaming();
      sums.part(0, slice) = running.part();
      return found;
    });
    return !infinite;
  }

  // Of the input, in the nearest cache between two steps; the output has twice as many at most.
  static constexpr size_t kPageBytes = 4096;

  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const std::optional<DType> wire_;
};

}  // namespace

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
