// `sign1` (EF-signSGD): one bit per element and a scale per block of 256, for outer deltas with error
// feedback. Bit = x >= 0 (-0 too), xhat = +-s, s = bf16(mean|x|), which minimises the squared error.
// Sums in the order of tree_sum.h.
// Payload: scales [blocks] bf16, bits: 32 bytes per full block, ceil(c / 8) for a row's short block.
// 1.0625 bits per element. InvalidArgument when a block's sum is beyond fp32.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/frame/frame.h"
#include "compressors/kernels/kernels.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kAtOnce = 16;  // blocks

// Where the sections of a frame lie.
struct SignLayout {
  explicit SignLayout(Shape shape)
      : row_blocks((shape.cols + kSignBlock - 1) / kSignBlock),
        scale_bytes(2 * shape.rows * row_blocks),
        row_bytes(shape.cols / kSignBlock * (kSignBlock / 8) + (shape.cols % kSignBlock + 7) / 8),
        bits_at(kFrameHeaderBytes + AlignUp8(scale_bytes)),
        frame_bytes(bits_at + shape.rows * row_bytes) {}
  size_t row_blocks, scale_bytes, row_bytes, bits_at, frame_bytes;
};

// x: [blocks, kSignBlock], or less, of one block -> its signs, and each block's mean |x|; not finite
// where x is not.
void SplitBlocks(const Kernels& kernels, const float* x, size_t blocks, size_t c, std::byte* bits,
                 float* means) {
  if (c < kSignBlock) {
    kernels.sign_bits(x, c, bits);
    means[0] = kernels.sum_abs(x, c) / static_cast<float>(c);
    return;
  }
  kernels.sign_blocks(x, blocks, bits, means);
  for (size_t b = 0; b < blocks; ++b) means[b] /= static_cast<float>(kSignBlock);
}

// bf16; below its smallest normal +0.
uint16_t Wire(float scale) {
  const uint16_t wire = F32ToBf16(scale);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}
bool IsFinite(uint16_t wire) { return (wire & 0x7F80) != 0x7F80; }

class SignCodec final : public FixedLengthCodec {
 public:
  SignCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(
            name, id, isa,
            {.block = kSignBlock, .param0 = 1, .range_fault = "a block's sum is beyond fp32"}) {}

  size_t MaxFrameBytes(Shape shape, DType) const override { return SignLayout(shape).frame_bytes; }
  void ZeroGaps(Shape shape, std::byte* frame) const override {
    const SignLayout layout(shape);
    const size_t end = kFrameHeaderBytes + layout.scale_bytes;
    std::memset(frame + end, 0, layout.bits_at - end);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeBlocks(const SignLayout& layout, const WideReader& reader, size_t cols, size_t b,
                          size_t count, std::byte* frame) const;
  bool DecodeBlock(const SignLayout& layout, const std::byte* frame, size_t b, size_t cols,
                   float* x) const;
};

// `count` whole blocks of one row, or its last one, from b on, counted along the rows.
BlockFault SignCodec::EncodeBlocks(const SignLayout& layout, const WideReader& reader, size_t cols,
                                   size_t b, size_t count, std::byte* frame) const {
  const size_t r = b / layout.row_blocks, j = b % layout.row_blocks;
  const size_t c = std::min(kSignBlock, cols - j * kSignBlock);
  float values[kAtOnce * kSignBlock];
  const float* x = reader.Peek(r * cols + j * kSignBlock, (count - 1) * kSignBlock + c, values);
  float means[kAtOnce];
  SplitBlocks(kernels_, x, count, c,
              frame + layout.bits_at + r * layout.row_bytes + j * (kSignBlock / 8), means);
  for (size_t i = 0; i < count; ++i) {
    const uint16_t scale = Wire(means[i]);
    if (!IsFinite(scale)) {
      return kernels_.abs_max(x + i * kSignBlock, c) >= kInfBits ? BlockFault::kNotFinite
                                                                 : BlockFault::kRange;
    }
    std::memcpy(frame + kFrameHeaderBytes + 2 * (b + i), &scale, 2);
  }
  return BlockFault::kNone;
}

absl::StatusOr<size_t> SignCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const SignLayout layout(x.shape);
  const size_t bytes = layout.frame_bytes;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  ZeroGaps(x.shape, frame.data());
  const WideReader reader(x, kernels_);
  const Slices slices(x.shape.rows * layout.row_blocks,
                      kWorthAThread / std::min<size_t>(kSignBlock, x.shape.cols));
  const BlockFault fault = FirstAnswer(slices, [&](size_t slice) {
    for (size_t b = slices.first(slice), count; b < slices.last(slice); b += count) {
      const size_t whole = x.shape.cols / kSignBlock, in_row = b % layout.row_blocks;
      const size_t most = std::min(kAtOnce, slices.last(slice) - b);
      count = in_row < whole ? std::min(most, whole - in_row) : 1;
      const BlockFault found = EncodeBlocks(layout, reader, x.shape.cols, b, count, frame.data());
      if (found != BlockFault::kNone) return found;
    }
    return BlockFault::kNone;
  });
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  SealFrame(HeaderFor(x, 0), frame.first(bytes));
  return bytes;
}

// False: a scale is no number. x: of the block.
bool SignCodec::DecodeBlock(const SignLayout& layout, const std::byte* frame, size_t b, size_t cols,
                            float* x) const {
  const size_t r = b / layout.row_blocks, j = b % layout.row_blocks;
  const size_t c = std::min(kSignBlock, cols - j * kSignBlock);
  uint16_t scale;
  std::memcpy(&scale, frame + kFrameHeaderBytes + 2 * b, 2);
  if (!IsFinite(scale)) return false;
  const float s = Bf16ToF32(scale);
  const std::byte* bits = frame + layout.bits_at + r * layout.row_bytes + j * (kSignBlock / 8);
  kernels_.expand_signs(bits, c, -s, s, x);
  return true;
}

absl::Status SignCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, Open(frame, x.shape));
  const SignLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header.block != kSignBlock || header.param0 != 1) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header.block, ToString(x.shape)));
  }
  const Slices slices(x.shape.rows * layout.row_blocks,
                      kWorthAThread / std::min<size_t>(kSignBlock, x.shape.cols));
  // Several blocks at a time: a line that two of them share should be written once.
  constexpr size_t kPiece = 8;
  const auto first_element = [&](size_t b) {
    return b / layout.row_blocks * x.shape.cols + b % layout.row_blocks * kSignBlock;
  };
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
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
  if (bad) return Corrupt("a scale is Inf or NaN");
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewSignCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<SignCodec>(name, id, isa);
}

}  // namespace longhaul
