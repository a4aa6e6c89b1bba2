// `dyn8-b4096` (bitsandbytes' dynamic map, as hivemind's BLOCKWISE_8BIT): per block of 4096 of a
// row s = max|x|, fp32; code = the nearest entry to x / s (the lower on ties) of a fixed map of 256
// values in [-1, 1]; xhat = map[code] s. The map: for i = 0..6, [0.1, 1] cut into 2^i equal cells,
// their midpoints times 10^(i-6), both signs; and 0 and 1. Sorted.
//
// Payload: s [blocks] f32, codes [n] u8. 8.008 bits per element. s below 2^-126 is 0, and the block
// with it.
#include "compressors/families/factories.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kMapBlock = 4096;

std::array<float, 256> MakeMap() {
  constexpr double kPower[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<float, 256> map = {0.0f, 1.0f};
  size_t at = 2;
  for (int i = 0; i < 7; ++i) {
    const int cells = 1 << i;
    for (int j = 0; j < cells; ++j) {
      const auto value = static_cast<float>((0.1 + 0.9 * (j + 0.5) / cells) * kPower[i]);
      map[at++] = value;
      map[at++] = -value;
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

// Finds codes by the upper bits of a value: sign, exponent and six bits of mantissa select a bucket
// in which at most one boundary between codes lies.
class CodeFinder {
 public:
  CodeFinder() : map_(MakeMap()) {
    for (size_t i = 0; i < 255; ++i) {
      // The largest float that still belongs to the lower code.
      const double middle = (static_cast<double>(map_[i]) + map_[i + 1]) / 2;
      auto edge = static_cast<float>(middle);
      if (edge > middle) edge = std::nextafter(edge, -2.0f);
      edges_[i] = edge;
    }
    for (size_t b = 0; b < kBuckets; ++b) {
      // A bucket's lowest value is its first bit pattern, or its last one when negative.
      const uint32_t first = static_cast<uint32_t>(b) << kShift;
      const bool negative = (first >> 31) != 0;
      const float low = FromBits(negative ? first | ((1u << kShift) - 1) : first);
      const auto code =
          static_cast<size_t>(std::lower_bound(edges_.begin(), edges_.end(), low) - edges_.begin());
      bucket_code_[b] = static_cast<uint8_t>(code);
      bucket_edge_[b] = code < 255 ? edges_[code] : 2.0f;
    }
  }
  // |v| <= 1.
  uint8_t Find(float v) const {
    const uint32_t b = BitsOf(v) >> kShift;
    return static_cast<uint8_t>(bucket_code_[b] + (v > bucket_edge_[b] ? 1 : 0));
  }
  float value(uint8_t code) const { return map_[code]; }

 private:
  static constexpr int kShift = 17;
  static constexpr size_t kBuckets = size_t{1} << (32 - kShift);

  const std::array<float, 256> map_;
  std::array<float, 255> edges_;
  std::array<uint8_t, kBuckets> bucket_code_;
  std::array<float, kBuckets> bucket_edge_;
};

const CodeFinder& Finder() {
  static const CodeFinder finder;
  return finder;
}

struct DynamicMapLayout {
  explicit DynamicMapLayout(Shape shape)
      : blocks(shape.rows * ((shape.cols + kMapBlock - 1) / kMapBlock)),
        codes_at(kFrameHeaderBytes + AlignUp8(4 * blocks)),
        frame_bytes(codes_at + shape.elements()) {}
  size_t blocks, codes_at, frame_bytes;
};

class DynamicMapCodec final : public FixedLengthCodec {
 public:
  DynamicMapCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa, {.block = kMapBlock, .param0 = 8}) {}
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return DynamicMapLayout(shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;
};

absl::StatusOr<size_t> DynamicMapCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                               std::span<std::byte> frame) const {
  const DynamicMapLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, kernels_);
  const CodeFinder& finder = Finder();
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  std::byte* scale_at = frame.data() + kFrameHeaderBytes;
  auto* q = reinterpret_cast<uint8_t*>(frame.data() + layout.codes_at);
  float values[kMapBlock];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kMapBlock, scale_at += 4) {
      const size_t c = std::min(kMapBlock, x.shape.cols - at);
      const float* block = reader.View(r * x.shape.cols + at, c, values);
      if (block == nullptr) return NotFiniteError(name_);
      float s = FromBits(kernels_.abs_max(block, c));
      if (s < 0x1p-126f) s = 0;
      std::memcpy(scale_at, &s, 4);
      // A quotient, not a product with 1/s, which would be a denormal for the largest scales.
      for (size_t i = 0; i < c; ++i) values[i] = s == 0 ? 0.0f : block[i] / s;
      for (size_t i = 0; i < c; ++i) *q++ = finder.Find(values[i]);
    }
  }
  SealFrame(HeaderFor(x, 0), frame.first(layout.frame_bytes));
  return layout.frame_bytes;
}

absl::Status DynamicMapCodec::Decode(std::span<const std::byte> frame, CodecState*,
                                     Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, Open(frame, x.shape));
  const DynamicMapLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header.block != kMapBlock || header.param0 != 8) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const NarrowWriter writer(x, kernels_);
  const CodeFinder& finder = Finder();
  const std::byte* scale_at = frame.data() + kFrameHeaderBytes;
  const std::byte* codes = frame.data() + layout.codes_at;
  float values[kMapBlock];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kMapBlock, scale_at += 4) {
      const size_t c = std::min(kMapBlock, x.shape.cols - at);
      float s;
      std::memcpy(&s, scale_at, 4);
      if (!std::isfinite(s)) return Corrupt("a scale is Inf or NaN");
      float scaled[256];
      for (size_t v = 0; v < 256; ++v) scaled[v] = finder.value(static_cast<uint8_t>(v)) * s;
      float* target = writer.Target(r * x.shape.cols + at, values);
      kernels_.table_values(codes, 8, c, scaled, target);
      codes += c;
      writer.Done(target, r * x.shape.cols + at, c);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewDynamicMapCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<DynamicMapCodec>(name, id, isa);
}

}  // namespace longhaul
