// Payload of all three: the elements in order, nothing else.
#include "compressors/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compressors/codec_frame.h"
#include "compressors/codec_threads.h"
#include "compressors/convert.h"

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
    if (!ConvertAll(x.dtype, static_cast<const std::byte*>(x.values), wire_.value_or(x.dtype),
                    frame.data() + kFrameHeaderBytes, x.shape.elements())) {
      return NotFiniteError(name_);
    }
    SealFrame({.codec = id_,
               .dtype = x.dtype,
               .shape = x.shape,
               .payload_bytes = bytes - kFrameHeaderBytes},
              frame.first(bytes));
    return bytes;
  }

  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    const absl::StatusOr<FrameHeader> header = OpenFrame(name_, id_, frame, x.shape);
    if (!header.ok()) return header.status();
    if (frame.size() != MaxFrameBytes(x.shape, header->dtype)) {
      return absl::DataLossError(
          fmt::format("{}: {} bytes for shape {}", name_, frame.size(), ToString(x.shape)));
    }
    ConvertAll(wire_.value_or(header->dtype), frame.data() + kFrameHeaderBytes, x.dtype,
               static_cast<std::byte*>(x.values), x.shape.elements());
    return absl::OkStatus();
  }

 private:
  // On all threads of the pool; answers whether all of `in` was finite.
  bool ConvertAll(DType from, const std::byte* in, DType to, std::byte* out, size_t n) const {
    const ConvertFn convert = Converter(isa_, from, to);
    const Slices slices(n, size_t{64} << 10);
    bool infinite[Slices::kMost] = {};
    CodecThreads::Process().Run(slices.count(), [&](size_t i) {
      const size_t at = slices.first(i);
      infinite[i] = !convert(in + at * BytesPerElement(from), slices.last(i) - at,
                             out + at * BytesPerElement(to));
    });
    return std::find(std::begin(infinite), std::end(infinite), true) == std::end(infinite);
  }

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
