#include "compressors/block_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/block_kernels.h"
#include "compressors/codec_frame.h"
#include "compressors/convert.h"
#include "compressors/stochastic.h"
#include "compressors/wide.h"

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

uint16_t FlagIf(bool stochastic) { return stochastic ? uint16_t{kFlagStochastic} : uint16_t{0}; }

enum class Rounding { kNearest, kStochastic };

class BlockCodec final : public CatalogCodec {
 public:
  BlockCodec(std::string_view name, uint16_t id, BlockScheme scheme, Isa isa, Rounding rounding)
      : CatalogCodec(name, id, isa),
        scheme_(scheme),
        rounding_(rounding),
        kernels_(BlockKernels(isa)) {}

  BlockScheme scheme() const { return scheme_; }
  bool stochastic() const { return rounding_ == Rounding::kStochastic; }
  std::shared_ptr<const Codec> Stochastic(std::string_view name) const {
    if (!CanRoundStochastically(scheme_)) return nullptr;
    return std::make_shared<BlockCodec>(name, id_, scheme_, isa_, Rounding::kStochastic);
  }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return Layout(scheme_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeStochastic(const Layout& layout, ConstTensor x, uint64_t seed,
                              std::byte* frame) const;
  BlockFault EncodeRow(const Layout& layout, const std::byte* row, DType dtype,
                       BlockSections out) const;
  bool DecodeRow(const Layout& layout, ConstBlockSections in, DType dtype, std::byte* row,
                 size_t first, const uint64_t* seed) const;
  BlockFault EncodeRows(const Layout& layout, ConstTensor x, std::byte* frame) const;
  bool DecodeRows(const Layout& layout, const std::byte* frame, Tensor x,
                  const uint64_t* seed) const;
  absl::Status FaultStatus(BlockFault fault) const;

  const BlockScheme scheme_;
  const Rounding rounding_;
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

// `first` is the row's first element; `seed` that of a stochastically rounded frame, else null.
bool BlockCodec::DecodeRow(const Layout& l, ConstBlockSections in, DType dtype, std::byte* row,
                           size_t first, const uint64_t* seed) const {
  const DecodeBlocksFn decode = kernels_.decode[SchemeIndex(scheme_)];
  const size_t block = scheme_.block, whole = l.full * block;
  const bool straight = dtype == DType::kF32 && seed == nullptr;
  if (straight && !decode(in, l.full, row)) return false;
  const ConvertFn narrow = Converter(isa_, DType::kF32, dtype);
  alignas(float) std::byte values[4 * kPiece];
  for (size_t at = straight ? whole : 0; at < l.cols;) {
    const size_t c = std::min(kPiece, at < whole ? whole - at : l.tail);
    const size_t b = at / block;
    const ConstBlockSections from = {in.scales + ScaleBytes(scheme_) * b,
                                     in.zeros + ZeroBytes(scheme_) * b,
                                     in.codes + CodeBytes(scheme_) * b};
    const bool good = at < whole ? decode(from, c / block, values)
                                 : DecodeBlockReference(scheme_, from, c, values);
    if (!good) return false;
    if (seed != nullptr) {
      FinishStochasticDecode(scheme_, *seed, first + at, reinterpret_cast<float*>(values), c);
    }
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

bool BlockCodec::DecodeRows(const Layout& l, const std::byte* frame, Tensor x,
                            const uint64_t* seed) const {
  auto* row = static_cast<std::byte*>(x.values);
  ConstBlockSections in = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  for (size_t r = 0; r < l.rows; ++r) {
    if (!DecodeRow(l, in, x.dtype, row, r * l.cols, seed)) return false;
    row += l.cols * BytesPerElement(x.dtype);
    in.scales += ScaleBytes(scheme_) * l.row_blocks;
    in.zeros += ZeroBytes(scheme_) * l.row_blocks;
    in.codes += l.row_code_bytes;
  }
  return true;
}

BlockFault BlockCodec::EncodeStochastic(const Layout& l, ConstTensor x, uint64_t seed,
                                        std::byte* frame) const {
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const auto block = static_cast<size_t>(scheme_.block);
  BlockSections out = {frame + kFrameHeaderBytes, frame + l.zeros_at, frame + l.codes_at};
  float values[kMaxBlock];
  for (size_t r = 0; r < l.rows; ++r) {
    for (size_t at = 0; at < l.cols; at += block) {
      const size_t c = std::min(block, l.cols - at), first = r * l.cols + at;
      reader.Read(first, c, values);
      const BlockFault fault = EncodeBlockStochastic(scheme_, loops, seed, first, values, c, out);
      if (fault != BlockFault::kNone) return fault;
      out.scales += ScaleBytes(scheme_);
      out.zeros += ZeroBytes(scheme_);
      out.codes += PackedBytes(c, scheme_.bits);
    }
  }
  return BlockFault::kNone;
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

absl::StatusOr<size_t> BlockCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                          std::span<std::byte> frame) const {
  const Layout layout(scheme_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const BlockFault fault = stochastic() ? EncodeStochastic(layout, x, seed, frame.data())
                                        : EncodeRows(layout, x, frame.data());
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  std::memset(frame.data() + layout.scales_end, 0, layout.zeros_at - layout.scales_end);
  std::memset(frame.data() + layout.zeros_end, 0, layout.codes_at - layout.zeros_end);
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = FlagIf(stochastic()),
             .block = static_cast<uint32_t>(scheme_.block),
             .param0 = static_cast<uint32_t>(scheme_.bits),
             .shape = x.shape,
             .seed = stochastic() ? seed : 0,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status BlockCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const absl::StatusOr<FrameHeader> header =
      OpenFrame(name_, id_, frame, x.shape, FlagIf(CanRoundStochastically(scheme_)));
  if (!header.ok()) return header.status();
  const Layout layout(scheme_, x.shape);
  if (header->block != static_cast<uint32_t>(scheme_.block) ||
      header->param0 != static_cast<uint32_t>(scheme_.bits) || frame.size() != layout.frame_bytes) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {}, {} bits for shape {}", name_,
                                           frame.size(), header->block, header->param0,
                                           ToString(x.shape)));
  }
  const uint64_t* seed = (header->flags & kFlagStochastic) != 0 ? &header->seed : nullptr;
  if (!DecodeRows(layout, frame.data(), x, seed)) {
    return absl::DataLossError(
        fmt::format("{}: a scale, zero point or code is not a finite number", name_));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewBlockCodec(std::string_view name, uint16_t id, BlockScheme scheme,
                                           Isa isa) {
  return std::make_shared<BlockCodec>(name, id, scheme, isa, Rounding::kNearest);
}

std::optional<BlockSectionBytes> SectionsOf(const Codec& codec, Shape shape) {
  const auto* block = dynamic_cast<const BlockCodec*>(&codec);
  if (block == nullptr) return std::nullopt;
  const Layout l(block->scheme(), shape);
  return BlockSectionBytes{l.scales_end - kFrameHeaderBytes, l.zeros_end - l.zeros_at,
                           l.frame_bytes - l.codes_at};
}

std::optional<BlockCodecForm> BlockFormOf(const Codec& codec) {
  const auto* block = dynamic_cast<const BlockCodec*>(&codec);
  if (block == nullptr) return std::nullopt;
  return BlockCodecForm{block->scheme(), block->stochastic()};
}

std::shared_ptr<const Codec> WithStochasticRounding(const Codec& codec, std::string_view name) {
  const auto* block = dynamic_cast<const BlockCodec*>(&codec);
  return block == nullptr ? nullptr : block->Stochastic(name);
}

}  // namespace longhaul
