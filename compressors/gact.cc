#include "compressors/gact.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/codec_frame.h"
#include "compressors/loop_kernels.h"
#include "compressors/noise.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kGroup = 256;
constexpr int kBits = 4;
constexpr float kTop = 15;

struct GactLayout {
  explicit GactLayout(Shape shape)
      : groups(shape.rows * ((shape.cols + kGroup - 1) / kGroup)),
        scales_at(kFrameHeaderBytes + AlignUp8(4 * groups)),
        codes_at(scales_at + AlignUp8(4 * groups)),
        frame_bytes(codes_at + shape.rows * (shape.cols / kGroup * PackedBytes(kGroup, kBits) +
                                             PackedBytes(shape.cols % kGroup, kBits))) {}
  size_t groups, scales_at, codes_at, frame_bytes;
};

// (max - z) / 15; rounded down where decoding the top code would overflow; Inf when the range does.
float ScaleOf(float z, float max) {
  const float s = (max - z) / kTop;
  if (!(s >= 0x1p-126f)) return 0;
  return std::isfinite(s) && !std::isfinite(z + kTop * s) ? std::nextafter(s, 0.0f) : s;
}

class GactCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override { return GactLayout(shape).frame_bytes; }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;
};

absl::StatusOr<size_t> GactCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                         std::span<std::byte> frame) const {
  const GactLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  std::memset(frame.data() + layout.scales_at - 8, 0, 8);
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  std::byte* zero_at = frame.data() + kFrameHeaderBytes;
  std::byte* scale_at = frame.data() + layout.scales_at;
  std::byte* out = frame.data() + layout.codes_at;
  float values[kGroup], u[kGroup + 4];
  uint8_t q[kGroup];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kGroup, zero_at += 4, scale_at += 4) {
      const size_t c = std::min(kGroup, x.shape.cols - at), first = r * x.shape.cols + at;
      const float* group = reader.View(first, c, values);
      if (group == nullptr) return NotFiniteError(name_);
      float z, max;
      loops.range(group, c, &z, &max);
      z += 0.0f;  // +0 for -0, which compare alike
      const float s = ScaleOf(z, max);
      if (!std::isfinite(s)) return RangeError(name_, "max - min of a group");
      std::memcpy(zero_at, &z, 4);
      std::memcpy(scale_at, &s, 4);
      const size_t skip = first % 4;  // noise is drawn in whole groups of four
      loops.uniform(seed, static_cast<uint32_t>(NoisePurpose::kRounding), first - skip, c + skip,
                    u);
      loops.noisy_codes(group, u + skip, c, z, s == 0 ? 0.0f : 1.0f / s, s == 0 ? 0.0f : kTop, q);
      PackBits({q, c}, kBits, {out, PackedBytes(c, kBits)});
      out += PackedBytes(c, kBits);
    }
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagStochastic,
             .block = kGroup,
             .param0 = kBits,
             .shape = x.shape,
             .seed = seed,
             .payload_bytes = layout.frame_bytes - kFrameHeaderBytes},
            frame.first(layout.frame_bytes));
  return layout.frame_bytes;
}

absl::Status GactCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape, kFlagStochastic);
  if (!header.ok()) return header.status();
  const GactLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header->block != kGroup || header->param0 != kBits) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const NarrowWriter writer(x, isa_);
  const std::byte* zero_at = frame.data() + kFrameHeaderBytes;
  const std::byte* scale_at = frame.data() + layout.scales_at;
  const std::byte* in = frame.data() + layout.codes_at;
  float values[kGroup];
  uint8_t q[kGroup];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kGroup, zero_at += 4, scale_at += 4) {
      const size_t c = std::min(kGroup, x.shape.cols - at);
      float z, s;
      std::memcpy(&z, zero_at, 4);
      std::memcpy(&s, scale_at, 4);
      if (!std::isfinite(z) || !std::isfinite(s)) return Corrupt("a scale is Inf or NaN");
      UnpackBits({in, PackedBytes(c, kBits)}, kBits, {q, c});
      float* target = writer.Target(r * x.shape.cols + at, values);
      LoopKernelsOf(isa_).affine_values(q, c, z, s, target);
      writer.Done(target, r * x.shape.cols + at, c);
      in += PackedBytes(c, kBits);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewGactCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GactCodec>(name, id, isa);
}

}  // namespace longhaul
