#include "compressors/block_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/block_kernels.h"
#include "compressors/codec_frame.h"
#include "compressors/convert.h"

namespace longhaul {
namespace {

// How a tensor falls into blocks, and where the sections lie in its frame.
struct Layout {
  Layout(BlockScheme scheme, Shape shape) : rows(shape.rows), cols(shape.cols) {
    const size_t block = scheme.block;
    if (cols % block == 0) {  // no short blocks: one long row
      cols *= rows;
      rows = 1;
    }
    full = cols / block;
    tail = cols % block;
    row_blocks = full + (tail != 0);
    row_code_bytes = full * CodeBytes(scheme) + PackedBytes(tail, scheme.bits);
    scales_end = kFrameHeaderBytes + ScaleBytes(scheme) * rows * row_blocks;
    zeros_at = AlignUp8(scales_end);
    zeros_end = zeros_at + ZeroBytes(scheme) * rows * row_blocks;
    codes_at = AlignUp8(zeros_end);
    frame_bytes = codes_at + rows * row_code_bytes;
  }
  size_t rows, cols, full, tail, row_blocks, row_code_bytes;
  size_t scales_end, zeros_at, zeros_end, codes_at, frame_bytes;
};

class BlockCodec final : public Codec {
 public:
  BlockCodec(std::string_view name, uint16_t id, BlockScheme scheme, Isa isa)
      : name_(name), id_(id), scheme_(scheme), isa_(isa), kernels_(BlockKernels(isa)) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return Layout(scheme_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeRow(const Layout& layout, const std::byte* row, DType dtype,
                       BlockSections out) const;
  bool DecodeRow(const Layout& layout, ConstBlockSections in, DType dtype, std::byte* row) const;
  BlockFault EncodeRows(const Layout& layout, ConstTensor x, std::byte* frame) const;
  bool DecodeRows(const Layout& layout, const std::byte* frame, Tensor x) const;
  absl::Status FaultStatus(BlockFault fault) const;

  const std::string name_;
  const uint16_t id_;
  const BlockScheme scheme_;
  const Isa isa_;
  const BlockKernelTable& kernels_;
};

// Elements of one piece: 16 KiB as fp32, a multiple of every block.
constexpr size_t kPiece = kMaxBlock;

// One row: full blocks piece by piece, then the short one. `row` holds cols elements of `dtype`.
BlockFault BlockCodec::EncodeRow(const Layout& l, const std::byte* row, DType dtype,
                                 BlockSections out) const {
  const EncodeBlocksFn encode = kernels_.encode[SchemeIndex(scheme_)];
  const size_t block = scheme_.block, whole = l.full * block;
  if (dtype == DType::kF32) {
    if (BlockFault fault = encode(row, l.full, out); fault != BlockFault::kNone) return fault;
  }
  const ConvertFn widen = Converter(isa_, dtype, DType::kF32);
  std::byte values[4 * kPiece];
  for (size_t at = dtype == DType::kF32 ? whole : 0; at < l.cols;) {
    const size_t c = std::min(kPiece, at < whole ? whole - at : l.tail);
    widen(row + at * BytesPerElement(dtype), c, values);
    const size_t b = at / block;  // blocks before this piece
    const BlockSections to = {out.scales + ScaleBytes(scheme_) * b,
                              out.zeros + ZeroBytes(scheme_) * b,
                              out.codes + CodeBytes(scheme_) * b};
    const BlockFault fault =
        at < whole ? encode(values, c / block, to) : EncodeBlockReference(scheme_, values, c, to);
    if (fault != BlockFault::kNone) return fault;
    at += c;
  }
  return BlockFault::kNone;
}

bool BlockCodec::DecodeRow(const Layout& l, ConstBlockSections in, DType dtype,
                           std::byte* row) const {
  const DecodeBlocksFn decode = kernels_.decode[SchemeIndex(scheme_)];
  const size_t block = scheme_.block, whole = l.full * block;
  if (dtype == DType::kF32 && !decode(in, l.full, row)) return false;
  const ConvertFn narrow = Converter(isa_, DType::kF32, dtype);
  std::byte values[4 * kPiece];
  for (size_t at = dtype == DType::kF32 ? whole : 0; at < l.cols;) {
    const size_t c = std::min(kPiece, at < whole ? whole - at : l.tail);
    const size_t b = at / block;
    const ConstBlockSections from = {in.scales + ScaleBytes(scheme_) * b,
                                     in.zeros + ZeroBytes(scheme_) * b,
                                     in.codes + CodeBytes(scheme_) * b};
    const bool good = at < whole ? decode(from, c / block, values)
                                 : DecodeBlockReference(scheme_, from, c, values);
    if (!good) return false;
    narrow(values, c, row + at * BytesPerElement(dtype));
    at += c;
  }
  return true;
}

BlockFault BlockCodec::EncodeRows(const Layout& l, ConstTensor x, std::byte* frame) const {
  const auto* row = static_cast<const std::byte*>(x.values);
  BlockSections out = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  for (size_t r = 0; r < l.rows; ++r) {
    if (BlockFault fault = EncodeRow(l, row, x.dtype, out); fault != BlockFault::kNone) {
      return fault;
    }
    row += l.cols * BytesPerElement(x.dtype);
    out.scales += ScaleBytes(scheme_) * l.row_blocks;
    out.zeros += ZeroBytes(scheme_) * l.row_blocks;
    out.codes += l.row_code_bytes;
  }
  return BlockFault::kNone;
}

bool BlockCodec::DecodeRows(const Layout& l, const std::byte* frame, Tensor x) const {
  auto* row = static_cast<std::byte*>(x.values);
  ConstBlockSections in = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  for (size_t r = 0; r < l.rows; ++r) {
    if (!DecodeRow(l, in, x.dtype, row)) return false;
    row += l.cols * BytesPerElement(x.dtype);
    in.scales += ScaleBytes(scheme_) * l.row_blocks;
    in.zeros += ZeroBytes(scheme_) * l.row_blocks;
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
  std::memset(frame.data() + layout.scales_end, 0, layout.zeros_at - layout.scales_end);
  std::memset(frame.data() + layout.zeros_end, 0, layout.codes_at - layout.zeros_end);
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .block = static_cast<uint32_t>(scheme_.block),
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
  if (header->block != static_cast<uint32_t>(scheme_.block) ||
      header->param0 != static_cast<uint32_t>(scheme_.bits) || frame.size() != layout.frame_bytes) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {}, {} bits for shape {}", name_,
                                           frame.size(), header->block, header->param0,
                                           ToString(x.shape)));
  }
  if (!DecodeRows(layout, frame.data(), x)) {
    return absl::DataLossError(
        fmt::format("{}: a scale, zero point or code is not a finite number", name_));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewBlockCodec(std::string_view name, uint16_t id, BlockScheme scheme,
                                           Isa isa) {
  return std::make_shared<BlockCodec>(name, id, scheme, isa);
}

}  // namespace longhaul
