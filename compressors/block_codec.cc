#include "compressors/block_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/block_kernels.h"
#include "compressors/codec_frame.h"

namespace longhaul {
namespace {

// How a tensor falls into blocks, and where the sections lie in its frame.
struct Layout {
  Layout(BlockScheme scheme, Shape shape) : rows(shape.rows), cols(shape.cols) {
    if (cols % kBlock == 0) {  // no short blocks: one long row
      cols *= rows;
      rows = 1;
    }
    full = cols / kBlock;
    tail = cols % kBlock;
    row_blocks = full + (tail != 0);
    row_code_bytes = full * 8 * scheme.bits + PackedBytes(tail, scheme.bits);
    const size_t meta_bytes = AlignUp8(2 * rows * row_blocks);
    zeros_at = kFrameHeaderBytes + meta_bytes;
    codes_at = zeros_at + (scheme.grid == Grid::kAffine ? meta_bytes : 0);
    frame_bytes = codes_at + rows * row_code_bytes;
  }
  // Bytes of meta data in one section before the padding starts.
  size_t meta_end() const { return 2 * rows * row_blocks; }

  size_t rows, cols, full, tail, row_blocks, row_code_bytes;
  size_t zeros_at, codes_at, frame_bytes;
};

class BlockCodec final : public Codec {
 public:
  BlockCodec(std::string_view name, uint16_t id, BlockScheme scheme, Isa isa)
      : name_(name), id_(id), scheme_(scheme), kernels_(BlockKernels(isa)) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return Layout(scheme_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeRows(const Layout& layout, ConstTensor x, std::byte* frame) const;
  bool DecodeRows(const Layout& layout, const std::byte* frame, Tensor x) const;
  absl::Status FaultStatus(BlockFault fault) const;

  const std::string name_;
  const uint16_t id_;
  const BlockScheme scheme_;
  const BlockKernelTable& kernels_;
};

BlockFault BlockCodec::EncodeRows(const Layout& l, ConstTensor x, std::byte* frame) const {
  const EncodeBlocksFn encode = kernels_.encode[SchemeIndex(scheme_)][static_cast<size_t>(x.dtype)];
  const size_t width = BytesPerElement(x.dtype);
  const auto* row = static_cast<const std::byte*>(x.values);
  BlockSections out = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  for (size_t r = 0; r < l.rows; ++r) {
    if (BlockFault fault = encode(row, l.full, out); fault != BlockFault::kNone) return fault;
    if (l.tail != 0) {
      const BlockSections at = {out.scales + 2 * l.full, out.zeros + 2 * l.full,
                                out.codes + l.full * 8 * scheme_.bits};
      const BlockFault fault =
          EncodeBlockReference(scheme_, row + l.full * kBlock * width, x.dtype, l.tail, at);
      if (fault != BlockFault::kNone) return fault;
    }
    row += l.cols * width;
    out.scales += 2 * l.row_blocks;
    out.zeros += 2 * l.row_blocks;
    out.codes += l.row_code_bytes;
  }
  return BlockFault::kNone;
}

bool BlockCodec::DecodeRows(const Layout& l, const std::byte* frame, Tensor x) const {
  const DecodeBlocksFn decode = kernels_.decode[SchemeIndex(scheme_)][static_cast<size_t>(x.dtype)];
  const size_t width = BytesPerElement(x.dtype);
  auto* row = static_cast<std::byte*>(x.values);
  ConstBlockSections in = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  for (size_t r = 0; r < l.rows; ++r) {
    if (!decode(in, l.full, row)) return false;
    if (l.tail != 0) {
      const ConstBlockSections at = {in.scales + 2 * l.full, in.zeros + 2 * l.full,
                                     in.codes + l.full * 8 * scheme_.bits};
      if (!DecodeBlockReference(scheme_, at, l.tail, x.dtype, row + l.full * kBlock * width)) {
        return false;
      }
    }
    row += l.cols * width;
    in.scales += 2 * l.row_blocks;
    in.zeros += 2 * l.row_blocks;
    in.codes += l.row_code_bytes;
  }
  return true;
}

absl::Status BlockCodec::FaultStatus(BlockFault fault) const {
  if (fault == BlockFault::kNotFinite && scheme_.rotation == Rotation::kNone) {
    return NotFiniteError(name_);
  }
  if (fault == BlockFault::kNotFinite) {
    return absl::InvalidArgumentError(
        fmt::format("{}: NaN or Inf in the tensor, or a rotated block beyond fp32", name_));
  }
  return absl::InvalidArgumentError(fmt::format("{}: max - min of a block is beyond fp32", name_));
}

absl::StatusOr<size_t> BlockCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                          std::span<std::byte> frame) const {
  const Layout layout(scheme_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  if (BlockFault fault = EncodeRows(layout, x, frame.data()); fault != BlockFault::kNone) {
    return FaultStatus(fault);
  }
  const size_t padding = AlignUp8(layout.meta_end()) - layout.meta_end();
  std::memset(frame.data() + layout.zeros_at - padding, 0, padding);
  std::memset(frame.data() + layout.codes_at - padding, 0, padding);
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .block = kBlock,
             .param0 = static_cast<uint32_t>(scheme_.bits),
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status BlockCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const absl::StatusOr<FrameHeader> header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const Layout layout(scheme_, x.shape);
  if (header->block != kBlock || header->param0 != static_cast<uint32_t>(scheme_.bits) ||
      frame.size() != layout.frame_bytes) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {}, {} bits for shape {}", name_,
                                           frame.size(), header->block, header->param0,
                                           ToString(x.shape)));
  }
  if (!DecodeRows(layout, frame.data(), x)) {
    return absl::DataLossError(fmt::format("{}: a scale or zero point is not finite", name_));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewBlockCodec(std::string_view name, uint16_t id, BlockScheme scheme,
                                           Isa isa) {
  return std::make_shared<BlockCodec>(name, id, scheme, isa);
}

}  // namespace longhaul
