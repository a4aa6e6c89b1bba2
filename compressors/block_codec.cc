#include "compressors/block_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/block_kernels.h"
#include "compressors/block_layout.h"
#include "compressors/codec_frame.h"
#include "compressors/convert.h"
#include "compressors/stochastic.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

using Layout = BlockLayout;

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
  BlockFault EncodeRow(const Layout& layout, const std::byte* row, DType dtype, BlockRange blocks,
                       BlockSections out) const;
  bool DecodeRow(const Layout& layout, ConstBlockSections in, DType dtype, std::byte* row,
                 BlockRange blocks, size_t first, const uint64_t* seed) const;
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

// Some blocks of a row: full ones piece by piece, then the short one. `row` holds cols elements of
// `dtype`, `out` is where the row's sections begin.
BlockFault BlockCodec::EncodeRow(const Layout& l, const std::byte* row, DType dtype,
                                 BlockRange blocks, BlockSections out) const {
  const EncodeBlocksFn encode = kernels_.encode[SchemeIndex(scheme_)];
  const size_t block = scheme_.block, whole = l.full * block;
  const size_t end = std::min(blocks.last * block, l.cols);
  const auto sections = [&](size_t b) {
    return BlockSections{out.scales + ScaleBytes(scheme_) * b, out.zeros + ZeroBytes(scheme_) * b,
                         out.codes + CodeBytes(scheme_) * b};
  };
  size_t at = blocks.first * block;
  if (dtype == DType::kF32 && at < whole) {
    const size_t straight = std::min(blocks.last, l.full) - blocks.first;
    const BlockFault fault = encode(row + 4 * at, straight, sections(blocks.first));
    if (fault != BlockFault::kNone) return fault;
    at += straight * block;
  }
  const ConvertFn widen = Converter(isa_, dtype, DType::kF32);
  std::byte values[4 * kPiece];
  while (at < end) {
    const size_t c = std::min(kPiece, at < whole ? std::min(whole, end) - at : l.tail);
    widen(row + at * BytesPerElement(dtype), c, values);
    const BlockFault fault = at < whole
                                 ? encode(values, c / block, sections(at / block))
                                 : EncodeBlockReference(scheme_, values, c, sections(at / block));
    if (fault != BlockFault::kNone) return fault;
    at += c;
  }
  return BlockFault::kNone;
}

// `first` is the row's first element; `seed` that of a stochastically rounded frame, else null.
bool BlockCodec::DecodeRow(const Layout& l, ConstBlockSections in, DType dtype, std::byte* row,
                           BlockRange blocks, size_t first, const uint64_t* seed) const {
  const DecodeBlocksFn decode = kernels_.decode[SchemeIndex(scheme_)];
  const size_t block = scheme_.block, whole = l.full * block;
  const size_t end = std::min(blocks.last * block, l.cols);
  const auto sections = [&](size_t b) {
    return ConstBlockSections{in.scales + ScaleBytes(scheme_) * b,
                              in.zeros + ZeroBytes(scheme_) * b, in.codes + CodeBytes(scheme_) * b};
  };
  size_t at = blocks.first * block;
  if (dtype == DType::kF32 && seed == nullptr && at < whole) {
    const size_t straight = std::min(blocks.last, l.full) - blocks.first;
    if (!decode(sections(blocks.first), straight, row + 4 * at)) return false;
    at += straight * block;
  }
  const ConvertFn narrow = Converter(isa_, DType::kF32, dtype);
  alignas(float) std::byte values[4 * kPiece];
  while (at < end) {
    const size_t c = std::min(kPiece, at < whole ? std::min(whole, end) - at : l.tail);
    const bool good = at < whole ? decode(sections(at / block), c / block, values)
                                 : DecodeBlockReference(scheme_, sections(at / block), c, values);
    if (!good) return false;
    if (seed != nullptr) {
      FinishStochasticDecode(scheme_, LoopKernelsOf(isa_), *seed, first + at,
                             reinterpret_cast<float*>(values), c);
    }
    narrow(values, c, row + at * BytesPerElement(dtype));
    at += c;
  }
  return true;
}

BlockFault BlockCodec::EncodeRows(const Layout& l, ConstTensor x, std::byte* frame) const {
  const auto* values = static_cast<const std::byte*>(x.values);
  const BlockShares shares(l, scheme_);
  BlockFault faults[Slices::kMost] = {};
  CodecThreads::Process().Run(shares.slices.count(), [&](size_t slice) {
    shares.ForEach(slice, [&](size_t r, BlockRange blocks) {
      const BlockSections out = {frame + kFrameHeaderBytes + ScaleBytes(scheme_) * l.row_blocks * r,
                                 frame + l.zeros_at + ZeroBytes(scheme_) * l.row_blocks * r,
                                 frame + l.codes_at + l.row_code_bytes * r};
      faults[slice] =
          EncodeRow(l, values + r * l.cols * BytesPerElement(x.dtype), x.dtype, blocks, out);
      return faults[slice] == BlockFault::kNone;
    });
  });
  for (BlockFault fault : faults) {  // the first one in the tensor
    if (fault != BlockFault::kNone) return fault;
  }
  return BlockFault::kNone;
}

bool BlockCodec::DecodeRows(const Layout& l, const std::byte* frame, Tensor x,
                            const uint64_t* seed) const {
  auto* values = static_cast<std::byte*>(x.values);
  const BlockShares shares(l, scheme_);
  bool bad[Slices::kMost] = {};
  CodecThreads::Process().Run(shares.slices.count(), [&](size_t slice) {
    bad[slice] = !shares.ForEach(slice, [&](size_t r, BlockRange blocks) {
      const ConstBlockSections in = {
          frame + kFrameHeaderBytes + ScaleBytes(scheme_) * l.row_blocks * r,
          frame + l.zeros_at + ZeroBytes(scheme_) * l.row_blocks * r,
          frame + l.codes_at + l.row_code_bytes * r};
      return DecodeRow(l, in, x.dtype, values + r * l.cols * BytesPerElement(x.dtype), blocks,
                       r * l.cols, seed);
    });
  });
  return std::find(std::begin(bad), std::end(bad), true) == std::end(bad);
}

BlockFault BlockCodec::EncodeStochastic(const Layout& l, ConstTensor x, uint64_t seed,
                                        std::byte* frame) const {
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const auto block = static_cast<size_t>(scheme_.block);
  const BlockShares shares(l, scheme_);
  BlockFault faults[Slices::kMost] = {};
  CodecThreads::Process().Run(shares.slices.count(), [&](size_t slice) {
    float values[kMaxBlock];
    shares.ForEach(slice, [&](size_t r, BlockRange blocks) {
      for (size_t b = blocks.first; b < blocks.last; ++b) {
        const size_t at = b * block, c = std::min(block, l.cols - at), first = r * l.cols + at;
        const size_t before = l.row_blocks * r + b;
        const BlockSections out = {
            frame + kFrameHeaderBytes + ScaleBytes(scheme_) * before,
            frame + l.zeros_at + ZeroBytes(scheme_) * before,
            frame + l.codes_at + l.row_code_bytes * r + CodeBytes(scheme_) * b};
        reader.Read(first, c, values);
        faults[slice] = EncodeBlockStochastic(scheme_, loops, seed, first, values, c, out);
        if (faults[slice] != BlockFault::kNone) return false;
      }
      return true;
    });
  });
  for (BlockFault fault : faults) {  // the first one in the tensor
    if (fault != BlockFault::kNone) return fault;
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
