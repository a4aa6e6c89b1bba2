#include "compressors/sign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/codec_frame.h"
#include "compressors/loop_kernels.h"
#include "compressors/small_floats.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kBlock = 256;
enum class Kind { kMean, kRms, kTwoLevel };

struct Levels {
  float low, high;
};

// What the two signs of a block stand for, before rounding; not finite where x is not.
// not_below: how many of x are not below 0.
Levels BlockLevels(Kind kind, const LoopKernels& loops, const float* x, size_t c,
                   size_t not_below) {
  const auto n = static_cast<float>(c);
  if (kind == Kind::kMean) {
    const float s = loops.sum_abs(x, c) / n;
    return {-s, s};
  }
  if (kind == Kind::kRms) {
    const float s = std::sqrt(loops.sum_squares(x, c, 0) / n);
    return {-s, s};
  }
  const size_t below = c - not_below;
  const float low = loops.sum_negative(x, c);
  const float high = loops.sum_positive(x, c);
  if (loops.abs_max(x, c) >= kInfBits) return {INFINITY, INFINITY};
  return {below == 0 ? 0.0f : low / static_cast<float>(below),
          below == c ? 0.0f : high / static_cast<float>(c - below)};
}

// bf16; below its smallest normal +0.
uint16_t Wire(float level) {
  const uint16_t wire = F32ToBf16(level);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}
bool IsFinite(uint16_t wire) { return (wire & 0x7F80) != 0x7F80; }

struct Layout {
  Layout(Kind kind, Shape shape)
      : row_blocks((shape.cols + kBlock - 1) / kBlock),
        row_bytes(shape.cols / kBlock * (kBlock / 8) + (shape.cols % kBlock + 7) / 8),
        high_at(kFrameHeaderBytes +
                (kind == Kind::kTwoLevel ? AlignUp8(2 * shape.rows * row_blocks) : 0)),
        bits_at(high_at + AlignUp8(2 * shape.rows * row_blocks)),
        frame_bytes(bits_at + shape.rows * row_bytes) {}
  size_t row_blocks, row_bytes, high_at, bits_at, frame_bytes;
};

// The bytes between the sections.
void ZeroGaps(const Layout& layout, std::byte* frame) {
  if (layout.high_at > kFrameHeaderBytes) std::memset(frame + layout.high_at - 8, 0, 8);
  std::memset(frame + layout.bits_at - 8, 0, 8);
}

class SignCodec final : public Codec {
 public:
  SignCodec(std::string_view name, uint16_t id, Isa isa, Kind kind)
      : name_(name), id_(id), isa_(isa), kind_(kind) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return Layout(kind_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const Kind kind_;
};

absl::StatusOr<size_t> SignCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const Layout layout(kind_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  std::byte* low_at = frame.data() + kFrameHeaderBytes;
  std::byte* high_at = frame.data() + layout.high_at;
  std::byte* out = frame.data() + layout.bits_at;
  ZeroGaps(layout, frame.data());
  float values[kBlock];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kBlock, high_at += 2, low_at += 2) {
      const size_t c = std::min(kBlock, x.shape.cols - at);
      const float* block = reader.Peek(r * x.shape.cols + at, c, values);
      const size_t not_below = loops.sign_bits(block, c, out);
      const Levels levels = BlockLevels(kind_, loops, block, c, not_below);
      const uint16_t low = Wire(levels.low), high = Wire(levels.high);
      if (!IsFinite(low) || !IsFinite(high)) {
        if (loops.abs_max(block, c) >= kInfBits) return NotFiniteError(name_);
        return absl::InvalidArgumentError(fmt::format("{}: a block's sum is beyond fp32", name_));
      }
      if (kind_ == Kind::kTwoLevel) std::memcpy(low_at, &low, 2);
      std::memcpy(high_at, &high, 2);
      out += (c + 7) / 8;
    }
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .block = kBlock,
             .param0 = 1,
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status SignCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const Layout layout(kind_, x.shape);
  if (frame.size() != layout.frame_bytes || header->block != kBlock || header->param0 != 1) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header->block, ToString(x.shape)));
  }
  const NarrowWriter writer(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const std::byte* low_at = frame.data() + kFrameHeaderBytes;
  const std::byte* high_at = frame.data() + layout.high_at;
  const std::byte* in = frame.data() + layout.bits_at;
  float values[kBlock];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kBlock, high_at += 2, low_at += 2) {
      const size_t c = std::min(kBlock, x.shape.cols - at);
      uint16_t high, low;
      std::memcpy(&high, high_at, 2);
      low = high ^ 0x8000;
      if (kind_ == Kind::kTwoLevel) std::memcpy(&low, low_at, 2);
      if (!IsFinite(low) || !IsFinite(high)) {
        return absl::DataLossError(fmt::format("{}: a scale is Inf or NaN", name_));
      }
      const size_t first = r * x.shape.cols + at;
      float* target = writer.Target(first, values);
      loops.expand_signs(in, c, Bf16ToF32(low), Bf16ToF32(high), target);
      writer.Done(target, first, c);
      in += (c + 7) / 8;
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewSignMeanCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<SignCodec>(name, id, isa, Kind::kMean);
}
std::shared_ptr<const Codec> NewSignRmsCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<SignCodec>(name, id, isa, Kind::kRms);
}
std::shared_ptr<const Codec> NewSignTwoLevelCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<SignCodec>(name, id, isa, Kind::kTwoLevel);
}

}  // namespace longhaul
