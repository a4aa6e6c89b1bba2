// `gact4-g256` (the quantizer of GACT, arXiv 2206.11357): per group of 256 elements of a row
// z = min, s = (max - z) / 15, both fp32; q = clamp(floor((x - z) / s + u), 0, 15), u uniform in
// [0, 1) by the frame's seed and the element's number (noise.h); xhat = z + q s, whose expectation
// is x. A group whose s is below 2^-126 is the constant z; GACT's code adds 2e-6 to the range
// instead, which destroys small tensors.
//
// Payload: z [groups] f32; s [groups] f32; codes of 4 bits, 128 bytes per full group, ceil(c / 2)
// for the short group of a row. 4.25 bits per element. InvalidArgument when max - min is beyond fp32.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr size_t kGroup = 256;
constexpr int kBits = 4;
constexpr float kTop = 15;

struct GactLayout {
  explicit GactLayout(Shape shape)
      : cols(shape.cols),
        row_groups((shape.cols + kGroup - 1) / kGroup),
        row_bytes(shape.cols / kGroup * PackedBytes(kGroup, kBits) +
                  PackedBytes(shape.cols % kGroup, kBits)),
        groups(shape.rows * row_groups),
        scales_at(kFrameHeaderBytes + AlignUp8(4 * groups)),
        codes_at(scales_at + AlignUp8(4 * groups)),
        frame_bytes(codes_at + shape.rows * row_bytes) {}
  // Group g of the tensor, counted along the rows: its elements, and where its codes lie.
  size_t first(size_t g) const { return g / row_groups * cols + g % row_groups * kGroup; }
  size_t length(size_t g) const { return std::min(kGroup, cols - g % row_groups * kGroup); }
  size_t CodesOf(size_t g) const {
    return codes_at + g / row_groups * row_bytes + g % row_groups * PackedBytes(kGroup, kBits);
  }
  // How threads share the groups.
  Slices slices() const { return {groups, kWorthAThread / std::min(kGroup, cols)}; }
  size_t cols, row_groups, row_bytes, groups, scales_at, codes_at, frame_bytes;
};

// (max - z) / 15; rounded down where decoding the top code would overflow; Inf when the range does.
float ScaleOf(float z, float max) {
  const float s = (max - z) / kTop;
  if (!(s >= 0x1p-126f)) return 0;
  return std::isfinite(s) && !std::isfinite(z + kTop * s) ? std::nextafter(s, 0.0f) : s;
}

class GactCodec final : public FixedLengthCodec {
 public:
  GactCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa,
                         {.block = kGroup,
                          .param0 = kBits,
                          .flags = kFlagStochastic,
                          .range_fault = "max - min of a group is beyond fp32"}) {}
  size_t MaxFrameBytes(Shape shape, DType) const override { return GactLayout(shape).frame_bytes; }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeGroup(const GactLayout& layout, const WideReader& reader, uint64_t seed,
                         size_t g, std::byte* frame) const;
};

BlockFault GactCodec::EncodeGroup(const GactLayout& layout, const WideReader& reader, uint64_t seed,
                                  size_t g, std::byte* frame) const {
  const size_t c = layout.length(g), first = layout.first(g);
  float values[kGroup], u[kGroup + 4];
  uint8_t q[kGroup];
  const float* group = reader.View(first, c, values);
  if (group == nullptr) return BlockFault::kNotFinite;
  float z, max;
  kernels_.range(group, c, &z, &max);
  z += 0.0f;  // +0 for -0, which compare alike
  const float s = ScaleOf(z, max);
  if (!std::isfinite(s)) return BlockFault::kRange;
  std::memcpy(frame + kFrameHeaderBytes + 4 * g, &z, 4);
  std::memcpy(frame + layout.scales_at + 4 * g, &s, 4);
  const size_t skip = first % 4;  // noise is drawn in whole groups of four
  kernels_.uniform(seed, static_cast<uint32_t>(NoisePurpose::kRounding), first - skip, c + skip, u);
  kernels_.noisy_codes(group, u + skip, c, z, s == 0 ? 0.0f : 1.0f / s, s == 0 ? 0.0f : kTop, q);
  PackBits({q, c}, kBits, {frame + layout.CodesOf(g), PackedBytes(c, kBits)});
  return BlockFault::kNone;
}

absl::StatusOr<size_t> GactCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                         std::span<std::byte> frame) const {
  const GactLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, kernels_);
  std::memset(frame.data() + layout.scales_at - 8, 0, 8);
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  const Slices slices = layout.slices();
  const BlockFault fault = FirstAnswer(slices, [&](size_t slice) {
    for (size_t g = slices.first(slice); g < slices.last(slice); ++g) {
      const BlockFault found = EncodeGroup(layout, reader, seed, g, frame.data());
      if (found != BlockFault::kNone) return found;
    }
    return BlockFault::kNone;
  });
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  SealFrame(HeaderFor(x, seed), frame.first(layout.frame_bytes));
  return layout.frame_bytes;
}

absl::Status GactCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, Open(frame, x.shape));
  const GactLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header.block != kGroup || header.param0 != kBits) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const Slices slices = layout.slices();
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    float values[kGroup];
    uint8_t q[kGroup];
    for (size_t g = slices.first(slice); g < slices.last(slice); ++g) {
      const size_t c = layout.length(g), first = layout.first(g);
      float z, s;
      std::memcpy(&z, frame.data() + kFrameHeaderBytes + 4 * g, 4);
      std::memcpy(&s, frame.data() + layout.scales_at + 4 * g, 4);
      if (!std::isfinite(z) || !std::isfinite(s)) return true;
      UnpackBits({frame.data() + layout.CodesOf(g), PackedBytes(c, kBits)}, kBits, {q, c});
      float* target = writer.Target(first, values);
      kernels_.affine_values(q, c, z, s, target);
      writer.Done(target, first, c);
    }
    return false;
  });
  return bad ? Corrupt("a scale is Inf or NaN") : absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewGactCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GactCodec>(name, id, isa);
}

}  // namespace longhaul
