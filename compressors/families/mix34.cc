#include "compressors/families/mix34.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "compressors/families/catalog_codec.h"
#include "compressors/kernels/block_sections.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/scratch.h"

namespace longhaul {
namespace {

constexpr size_t kMix34Block = 64;
constexpr BlockScheme kSchemes[] = {{3, Grid::kAffine}, {4, Grid::kAffine}};

// Blocks in row order; the last one of a row may be short.
struct Blocks {
  explicit Blocks(Shape shape)
      : cols(shape.cols),
        per_row((shape.cols + kMix34Block - 1) / kMix34Block),
        count(shape.rows * per_row),
        wide(30 * count / 64) {}
  size_t first(size_t b) const { return b / per_row * cols + b % per_row * kMix34Block; }
  size_t length(size_t b) const { return std::min(kMix34Block, cols - b % per_row * kMix34Block); }
  size_t cols, per_row, count, wide;
};

struct Mix34Layout {
  explicit Mix34Layout(const Blocks& blocks)
      : scales_at(kFrameHeaderBytes + AlignUp8((blocks.count + 7) / 8)),
        zeros_at(scales_at + AlignUp8(2 * blocks.count)),
        codes_at(zeros_at + AlignUp8(2 * blocks.count)) {}
  size_t scales_at, zeros_at, codes_at;
};

bool IsWide(const std::byte* widths, size_t b) {
  return (static_cast<unsigned>(widths[b / 8]) >> (b % 8) & 1) != 0;
}

// Bytes of the codes of all blocks of three and of four bits; false unless the map marks as many
// blocks as it must, and none behind the last.
bool CodeBytesOf(const Blocks& blocks, const std::byte* widths, size_t bytes[2]) {
  size_t wide = 0;
  bytes[0] = bytes[1] = 0;
  for (size_t b = 0; b < AlignUp8(blocks.count); ++b) {
    const bool is_wide = IsWide(widths, b);
    if (is_wide && b >= blocks.count) return false;
    wide += is_wide;
    if (b < blocks.count) {
      bytes[is_wide] += PackedBytes(blocks.length(b), kSchemes[is_wide].bits);
    }
  }
  return wide == blocks.wide;
}

// Blocks of one width wait until there are enough for the kernels, which work on many at once.
class Gatherer {
 public:
  // out: where the codes of three bits go, and those of four.
  Gatherer(const Kernels& kernels, std::byte* scales, std::byte* zeros, std::byte* out[2])
      : kernels_(kernels), scales_(scales), zeros_(zeros), out_{out[0], out[1]} {}

  // Block b, x: [c]. False when a range is beyond fp32.
  bool Add(bool wide, size_t b, const float* x, size_t c) {
    Waiting& w = waiting_[wide];
    if (c < kMix34Block) {  // a row's short block: the codes before it come first
      if (!Flush(wide)) return false;
      const BlockSections to = {scales_ + 2 * b, zeros_ + 2 * b, out_[wide]};
      out_[wide] += PackedBytes(c, kSchemes[wide].bits);
      return EncodeBlockReference(kSchemes[wide], reinterpret_cast<const std::byte*>(x), c, to) ==
             BlockFault::kNone;
    }
    std::memcpy(w.values + w.count * kMix34Block, x, 4 * kMix34Block);
    w.block[w.count++] = b;
    return w.count < kMost || Flush(wide);
  }
  bool Flush(bool wide) {
    Waiting& w = waiting_[wide];
    std::byte scales[2 * kMost], zeros[2 * kMost];
    const BlockFault fault = kernels_.encode_blocks[SchemeIndex(kSchemes[wide])](
        reinterpret_cast<const std::byte*>(w.values), w.count, {scales, zeros, out_[wide]});
    for (size_t i = 0; i < w.count; ++i) {
      std::memcpy(scales_ + 2 * w.block[i], scales + 2 * i, 2);
      std::memcpy(zeros_ + 2 * w.block[i], zeros + 2 * i, 2);
    }
    out_[wide] += w.count * CodeBytes(kSchemes[wide]);
    w.count = 0;
    return fault == BlockFault::kNone;
  }

 private:
  static constexpr size_t kMost = 33;  // two batches and one block more, which lets all be whole
  struct Waiting {
    float values[kMost * kMix34Block];
    size_t block[kMost];
    size_t count = 0;
  };
  const Kernels& kernels_;
  std::byte* const scales_;
  std::byte* const zeros_;
  std::byte* out_[2];
  Waiting waiting_[2];
};

class MixedMinMaxCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  // Short blocks may be wide or not: at most all that can be wide are long.
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const Blocks blocks(shape);
    return Mix34Layout(blocks).codes_at + shape.rows * (shape.cols / kMix34Block * 24) +
           shape.rows * PackedBytes(shape.cols % kMix34Block, 3) + 8 * blocks.wide;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  absl::Status ChooseWidths(const WideReader& reader, const Blocks& blocks,
                            std::byte* widths) const;
};

// Marks the blocks of four bits in the zeroed map.
absl::Status MixedMinMaxCodec::ChooseWidths(const WideReader& reader, const Blocks& blocks,
                                            std::byte* widths) const {
  // Range as bits above the inverted block number: the largest keys win, ties go to lower blocks.
  const auto keys = Scratch<uint64_t, ScratchUse::kWork>(blocks.count);
  for (size_t b = 0; b < blocks.count; ++b) {
    float values[kMix34Block], min, max;
    const float* block = reader.View(blocks.first(b), blocks.length(b), values);
    if (block == nullptr) return NotFiniteError(name_);
    kernels_.range(block, blocks.length(b), &min, &max);
    const float range = max - min;
    if (!std::isfinite(range)) return RangeError(name_, "max - min of a block");
    keys[b] = uint64_t{BitsOf(range) & kAbsMask} << 32 | (UINT32_MAX - static_cast<uint32_t>(b));
  }
  if (blocks.wide == 0) return absl::OkStatus();
  const auto last = keys.begin() + static_cast<ptrdiff_t>(blocks.wide - 1);
  std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
  for (size_t i = 0; i < blocks.wide; ++i) {
    const size_t b = UINT32_MAX - static_cast<uint32_t>(keys[i]);
    widths[b / 8] |= static_cast<std::byte>(1u << (b % 8));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> MixedMinMaxCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                                std::span<std::byte> frame) const {
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), kFrameHeaderBytes); !s.ok()) {
    return s;
  }
  const Blocks blocks(x.shape);
  if (blocks.count > UINT32_MAX) return RangeError(name_, "the number of blocks");
  const WideReader reader(x, kernels_);
  const Mix34Layout layout(blocks);
  // Before anything is read: scales and zero points alone take that much.
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.codes_at); !s.ok()) {
    return s;
  }
  const auto map = Scratch<std::byte, ScratchUse::kCodes>(AlignUp8((blocks.count + 7) / 8));
  std::fill(map.begin(), map.end(), std::byte{0});
  if (absl::Status s = ChooseWidths(reader, blocks, map.data()); !s.ok()) return s;
  size_t code_bytes[2];
  CodeBytesOf(blocks, map.data(), code_bytes);
  const size_t bytes = layout.codes_at + code_bytes[0] + code_bytes[1];
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;

  std::memcpy(frame.data() + kFrameHeaderBytes, map.data(), map.size());
  std::memset(frame.data() + layout.zeros_at - 8, 0, 8);
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  std::byte* out[2] = {frame.data() + layout.codes_at,
                       frame.data() + layout.codes_at + code_bytes[0]};
  Gatherer gatherer(kernels_, frame.data() + layout.scales_at, frame.data() + layout.zeros_at, out);
  for (size_t b = 0; b < blocks.count; ++b) {
    float buffer[kMix34Block];
    const size_t c = blocks.length(b);
    const float* block = reader.Peek(blocks.first(b), c, buffer);
    if (!gatherer.Add(IsWide(map.data(), b), b, block, c)) {
      return RangeError(name_, "max - min of a block");
    }
  }
  if (!gatherer.Flush(0) || !gatherer.Flush(1)) {
    return RangeError(name_, "max - min of a block");
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .block = kMix34Block,
             .param0 = 3,
             .param1 = 4,
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status MixedMinMaxCodec::Decode(std::span<const std::byte> frame, CodecState*,
                                      Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const Blocks blocks(x.shape);
  const Mix34Layout layout(blocks);
  const std::byte* widths = frame.data() + kFrameHeaderBytes;
  size_t code_bytes[2];
  if (frame.size() < layout.codes_at || header->block != kMix34Block || header->param0 != 3 ||
      header->param1 != 4 || !CodeBytesOf(blocks, widths, code_bytes) ||
      frame.size() != layout.codes_at + code_bytes[0] + code_bytes[1]) {
    return Corrupt("bytes, widths or fields do not fit the shape");
  }
  const NarrowWriter writer(x, kernels_);
  const std::byte* in[2] = {frame.data() + layout.codes_at,
                            frame.data() + layout.codes_at + code_bytes[0]};
  for (size_t b = 0; b < blocks.count; ++b) {
    const bool wide = IsWide(widths, b);
    const size_t c = blocks.length(b);
    const ConstBlockSections from = {frame.data() + layout.scales_at + 2 * b,
                                     frame.data() + layout.zeros_at + 2 * b, in[wide]};
    float values[kMix34Block];
    auto* out = reinterpret_cast<std::byte*>(values);
    const bool good = c == kMix34Block
                          ? kernels_.decode_blocks[SchemeIndex(kSchemes[wide])](from, 1, out)
                          : DecodeBlockReference(kSchemes[wide], from, c, out);
    if (!good) return Corrupt("a scale or zero point is Inf or NaN");
    writer.Write(values, blocks.first(b), c);
    in[wide] += PackedBytes(c, kSchemes[wide].bits);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewMixedMinMaxCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<MixedMinMaxCodec>(name, id, isa);
}

}  // namespace longhaul
