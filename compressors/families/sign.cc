#include "compressors/families/sign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/frame/codec_frame.h"
#include "compressors/kernels/loop_kernels.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kAtOnce = 16;  // blocks
enum class Kind { kMean, kRms, kTwoLevel };
enum class SignFault { kNone, kNotFinite, kRange };

struct SignLevels {
  float low, high;
};

// x [c] -> its signs and what the two of them stand for, before rounding; not finite where x is
// not.
SignLevels SplitBlock(Kind kind, const LoopKernels& loops, const float* x, size_t c,
                      std::byte* bits) {
  if (kind == Kind::kTwoLevel) {
    const SignSums sums = loops.sign_sums(x, c, bits);
    return {sums.negative == 0 ? 0.0f : sums.negative / static_cast<float>(c - sums.not_below),
            sums.positive == 0 ? 0.0f : sums.positive / static_cast<float>(sums.not_below)};
  }
  loops.sign_bits(x, c, bits);
  const auto n = static_cast<float>(c);
  const float s =
      kind == Kind::kMean ? loops.sum_abs(x, c) / n : std::sqrt(loops.sum_squares(x, c, 0) / n);
  return {-s, s};
}

// The same of a few blocks. x: [blocks, kSignBlock], or less, of one block.
void SplitBlocks(Kind kind, const LoopKernels& loops, const float* x, size_t blocks, size_t c,
                 std::byte* bits, SignLevels* levels) {
  if (kind == Kind::kTwoLevel || c < kSignBlock) {
    for (size_t b = 0; b < blocks; ++b) {
      levels[b] = SplitBlock(kind, loops, x + b * kSignBlock, c, bits + b * (kSignBlock / 8));
    }
    return;
  }
  float sums[kAtOnce];
  const SignTerm term = kind == Kind::kMean ? SignTerm::kMagnitude : SignTerm::kSquare;
  loops.sign_blocks(x, blocks, term, bits, sums);
  for (size_t b = 0; b < blocks; ++b) {
    const float mean = sums[b] / static_cast<float>(kSignBlock);
    const float s = kind == Kind::kMean ? mean : std::sqrt(mean);
    levels[b] = {-s, s};
  }
}

// bf16; below its smallest normal +0.
uint16_t Wire(float level) {
  const uint16_t wire = F32ToBf16(level);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}
bool IsFinite(uint16_t wire) { return (wire & 0x7F80) != 0x7F80; }

struct SignLayout {
  SignLayout(Kind kind, Shape shape)
      : row_blocks((shape.cols + kSignBlock - 1) / kSignBlock),
        row_bytes(shape.cols / kSignBlock * (kSignBlock / 8) + (shape.cols % kSignBlock + 7) / 8),
        high_at(kFrameHeaderBytes +
                (kind == Kind::kTwoLevel ? AlignUp8(2 * shape.rows * row_blocks) : 0)),
        bits_at(high_at + AlignUp8(2 * shape.rows * row_blocks)),
        frame_bytes(bits_at + shape.rows * row_bytes) {}
  size_t row_blocks, row_bytes, high_at, bits_at, frame_bytes;
};

// The bytes between the sections.
void ZeroGaps(const SignLayout& layout, std::byte* frame) {
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
    return SignLayout(kind_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  SignFault EncodeBlocks(const SignLayout& layout, const WideReader& reader, size_t cols, size_t b,
                         size_t count, std::byte* frame) const;
  bool DecodeBlock(const SignLayout& layout, const std::byte* frame, size_t b, size_t cols,
                   float* x) const;

  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const Kind kind_;
};

// `count` whole blocks of one row, or its last one, from b on, counted along the rows.
SignFault SignCodec::EncodeBlocks(const SignLayout& layout, const WideReader& reader, size_t cols,
                                  size_t b, size_t count, std::byte* frame) const {
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const size_t r = b / layout.row_blocks, j = b % layout.row_blocks;
  const size_t c = std::min(kSignBlock, cols - j * kSignBlock);
  float values[kAtOnce * kSignBlock];
  const float* x = reader.Peek(r * cols + j * kSignBlock, (count - 1) * kSignBlock + c, values);
  SignLevels levels[kAtOnce];
  SplitBlocks(kind_, loops, x, count, c,
              frame + layout.bits_at + r * layout.row_bytes + j * (kSignBlock / 8), levels);
  for (size_t i = 0; i < count; ++i) {
    const uint16_t low = Wire(levels[i].low), high = Wire(levels[i].high);
    if (!IsFinite(low) || !IsFinite(high)) {
      return loops.abs_max(x + i * kSignBlock, c) >= kInfBits ? SignFault::kNotFinite
                                                              : SignFault::kRange;
    }
    if (kind_ == Kind::kTwoLevel) std::memcpy(frame + kFrameHeaderBytes + 2 * (b + i), &low, 2);
    std::memcpy(frame + layout.high_at + 2 * (b + i), &high, 2);
  }
  return SignFault::kNone;
}

absl::StatusOr<size_t> SignCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const SignLayout layout(kind_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  ZeroGaps(layout, frame.data());
  const WideReader reader(x, isa_);
  const Slices slices(x.shape.rows * layout.row_blocks,
                      kWorthAThread / std::min<size_t>(kSignBlock, x.shape.cols));
  const SignFault fault = FirstAnswer(slices, [&](size_t slice) {
    for (size_t b = slices.first(slice), count; b < slices.last(slice); b += count) {
      const size_t whole = x.shape.cols / kSignBlock, in_row = b % layout.row_blocks;
      const size_t most = std::min(kAtOnce, slices.last(slice) - b);
      count = in_row < whole ? std::min(most, whole - in_row) : 1;
      const SignFault found = EncodeBlocks(layout, reader, x.shape.cols, b, count, frame.data());
      if (found != SignFault::kNone) return found;
    }
    return SignFault::kNone;
  });
  if (fault == SignFault::kNotFinite) return NotFiniteError(name_);
  if (fault == SignFault::kRange) return RangeError(name_, "a block's sum");
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .block = kSignBlock,
             .param0 = 1,
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

// False: a scale is no number. x: of the block.
bool SignCodec::DecodeBlock(const SignLayout& layout, const std::byte* frame, size_t b, size_t cols,
                            float* x) const {
  const size_t r = b / layout.row_blocks, j = b % layout.row_blocks;
  const size_t c = std::min(kSignBlock, cols - j * kSignBlock);
  uint16_t high, low;
  std::memcpy(&high, frame + layout.high_at + 2 * b, 2);
  low = high ^ 0x8000;
  if (kind_ == Kind::kTwoLevel) std::memcpy(&low, frame + kFrameHeaderBytes + 2 * b, 2);
  if (!IsFinite(low) || !IsFinite(high)) return false;
  const std::byte* bits = frame + layout.bits_at + r * layout.row_bytes + j * (kSignBlock / 8);
  LoopKernelsOf(isa_).expand_signs(bits, c, Bf16ToF32(low), Bf16ToF32(high), x);
  return true;
}

absl::Status SignCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const SignLayout layout(kind_, x.shape);
  if (frame.size() != layout.frame_bytes || header->block != kSignBlock || header->param0 != 1) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header->block, ToString(x.shape)));
  }
  const Slices slices(x.shape.rows * layout.row_blocks,
                      kWorthAThread / std::min<size_t>(kSignBlock, x.shape.cols));
  // Several blocks at a time: a line that two of them share should be written once.
  constexpr size_t kPiece = 8;
  const auto first_element = [&](size_t b) {
    return b / layout.row_blocks * x.shape.cols + b % layout.row_blocks * kSignBlock;
  };
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, isa_);
    float values[kPiece * kSignBlock];
    for (size_t b = slices.first(slice); b < slices.last(slice);) {
      const size_t end = std::min(b + kPiece, slices.last(slice)), first = first_element(b);
      float* target = writer.Target(first, values);
      for (; b < end; ++b) {
        float* at = target + (first_element(b) - first);
        if (!DecodeBlock(layout, frame.data(), b, x.shape.cols, at)) return true;
      }
      writer.Done(target, first, first_element(end) - first);
    }
    return false;
  });
  if (bad) return absl::DataLossError(fmt::format("{}: a scale is Inf or NaN", name_));
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
