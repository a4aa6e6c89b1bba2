#include "compressors/ggml_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/codec_frame.h"
#include "compressors/convert.h"
#include "compressors/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kBlock = 32;

size_t BlockBytes(int bits, size_t c) { return 2 + (bits == 8 ? c : (c + 1) / 2); }

// Round half away from zero, |x| < 2^31, exact (no libm).
int RoundAway(float x) {
  const int whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

// 1/d as ggml has it, and 0 where that would be Inf: its fp16 scale is 0 there.
float Inverse(float d) {
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  return std::isinf(inverse) ? 0.0f : inverse;
}

// x: [c] -> one block; the signed element of largest magnitude is m.
void EncodeQ8(const float* x, size_t c, float m, std::byte* out) {
  const float d = std::fabs(m) / 127;
  const float inverse = Inverse(d);
  const uint16_t wire = F32ToF16Clamped(d);
  std::memcpy(out, &wire, 2);
  for (size_t i = 0; i < c; ++i) out[2 + i] = static_cast<std::byte>(RoundAway(x[i] * inverse));
}

void EncodeQ4(const float* x, size_t c, float m, std::byte* out) {
  const float d = m / -8;
  const float inverse = Inverse(d);
  const uint16_t wire = F32ToF16Clamped(d);
  std::memcpy(out, &wire, 2);
  const size_t half = (c + 1) / 2;
  const auto code = [&](size_t i) -> unsigned {
    if (i >= c) return 0;
    return static_cast<unsigned>(std::min(15, static_cast<int>(x[i] * inverse + 8.5f)));
  };
  for (size_t j = 0; j < half; ++j) {
    out[2 + j] = static_cast<std::byte>(code(j) | code(j + half) << 4);
  }
}

// One block -> x: [c]; false when its scale is Inf or NaN.
bool DecodeBlock(int bits, const std::byte* in, size_t c, float* x) {
  uint16_t wire;
  std::memcpy(&wire, in, 2);
  if ((wire & 0x7C00) == 0x7C00) return false;
  const float d = F16ToF32(wire);
  const size_t half = (c + 1) / 2;
  for (size_t i = 0; i < c; ++i) {
    int q;
    if (bits == 8) {
      q = static_cast<int8_t>(in[2 + i]);
    } else {
      const auto byte = static_cast<unsigned>(in[2 + i % half]);
      q = static_cast<int>(i < half ? byte & 15 : byte >> 4) - 8;
    }
    x[i] = static_cast<float>(q) * d;
  }
  return true;
}

class GgmlCodec final : public Codec {
 public:
  GgmlCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : name_(name), id_(id), isa_(isa), bits_(bits) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const size_t tail = shape.cols % kBlock;
    return kFrameHeaderBytes + shape.rows * (shape.cols / kBlock * BlockBytes(bits_, kBlock) +
                                             (tail == 0 ? 0 : BlockBytes(bits_, tail)));
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const int bits_;
};

absl::StatusOr<size_t> GgmlCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const ConvertFn widen = Converter(isa_, x.dtype, DType::kF32);
  const auto* in = static_cast<const std::byte*>(x.values);
  std::byte* out = frame.data() + kFrameHeaderBytes;
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kBlock) {
      const size_t c = std::min(kBlock, x.shape.cols - at);
      float values[kBlock];
      if (!widen(in, c, reinterpret_cast<std::byte*>(values))) return NotFiniteError(name_);
      float m = 0;
      for (size_t i = 0; i < c; ++i) m = std::fabs(values[i]) > std::fabs(m) ? values[i] : m;
      if (std::fabs(m) / (bits_ == 8 ? 127 : 8) >= 65520.0f) {
        return absl::InvalidArgumentError(fmt::format("{}: a scale is beyond fp16", name_));
      }
      (bits_ == 8 ? EncodeQ8 : EncodeQ4)(values, c, m, out);
      in += c * BytesPerElement(x.dtype);
      out += BlockBytes(bits_, c);
    }
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagFp16Scales,
             .block = kBlock,
             .param0 = static_cast<uint32_t>(bits_),
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status GgmlCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape, kFlagFp16Scales);
  if (!header.ok()) return header.status();
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header->block != kBlock ||
      header->param0 != static_cast<uint32_t>(bits_) || (header->flags & kFlagFp16Scales) == 0) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header->block, ToString(x.shape)));
  }
  const ConvertFn narrow = Converter(isa_, DType::kF32, x.dtype);
  const std::byte* in = frame.data() + kFrameHeaderBytes;
  auto* out = static_cast<std::byte*>(x.values);
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kBlock) {
      const size_t c = std::min(kBlock, x.shape.cols - at);
      float values[kBlock];
      if (!DecodeBlock(bits_, in, c, values)) {
        return absl::DataLossError(fmt::format("{}: a scale is Inf or NaN", name_));
      }
      narrow(reinterpret_cast<const std::byte*>(values), c, out);
      in += BlockBytes(bits_, c);
      out += c * BytesPerElement(x.dtype);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewQ8Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 8);
}
std::shared_ptr<const Codec> NewQ4Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 4);
}

}  // namespace longhaul
