#include "compressors/families/block_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "compressors/families/block_pieces.h"
#include "compressors/families/block_rows.h"
#include "compressors/families/stochastic.h"
#include "compressors/frame/codec_frame.h"

namespace longhaul {
namespace {

uint16_t FlagIf(bool stochastic) { return stochastic ? uint16_t{kFlagStochastic} : uint16_t{0}; }

enum class Rounding { kNearest, kStochastic };

class BlockCodec final : public CatalogCodec {
 public:
  BlockCodec(std::string_view name, uint16_t id, BlockScheme scheme, Isa isa, Rounding rounding)
      : CatalogCodec(name, id, isa), scheme_(scheme), rounding_(rounding) {}

  BlockScheme scheme() const { return scheme_; }
  bool stochastic() const { return rounding_ == Rounding::kStochastic; }
  std::shared_ptr<const Codec> Stochastic(std::string_view name) const {
    if (!CanRoundStochastically(scheme_)) return nullptr;
    return std::make_shared<BlockCodec>(name, id_, scheme_, isa_, Rounding::kStochastic);
  }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return BlockLayout(scheme_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;
  std::unique_ptr<FramePieces> Pieces(Shape shape, DType dtype) const override;

 private:
  FrameHeader HeaderOf(Shape shape, DType dtype, uint64_t seed) const;
  // Without its checksum.
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, Shape shape) const;
  absl::Status FaultStatus(BlockFault fault) const;

  const BlockScheme scheme_;
  const Rounding rounding_;
};

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
  const BlockLayout layout(scheme_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  BlockSums sums;
  const BlockFault fault = EncodeBlockRows({scheme_, isa_, layout}, x,
                                           stochastic() ? &seed : nullptr, frame.data(), sums);
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  std::memset(frame.data() + layout.scales_end, 0, layout.zeros_at - layout.scales_end);
  std::memset(frame.data() + layout.zeros_end, 0, layout.codes_at - layout.zeros_end);
  FrameHeader header = HeaderOf(x.shape, x.dtype, seed);
  header.payload_bytes = bytes - kFrameHeaderBytes;
  SealFrame(header, frame.first(bytes), sums.Join(frame.first(bytes)));
  return bytes;
}

FrameHeader BlockCodec::HeaderOf(Shape shape, DType dtype, uint64_t seed) const {
  return {.codec = id_,
          .dtype = dtype,
          .flags = FlagIf(stochastic()),
          .block = static_cast<uint32_t>(scheme_.block),
          .param0 = static_cast<uint32_t>(scheme_.bits),
          .shape = shape,
          .seed = stochastic() ? seed : 0};
}

absl::StatusOr<FrameHeader> BlockCodec::Open(std::span<const std::byte> frame, Shape shape) const {
  const absl::StatusOr<FrameHeader> header =
      OpenUnsummedFrame(name_, id_, frame, shape, FlagIf(CanRoundStochastically(scheme_)));
  if (!header.ok()) return header.status();
  if (header->block != static_cast<uint32_t>(scheme_.block) ||
      header->param0 != static_cast<uint32_t>(scheme_.bits) ||
      frame.size() != BlockLayout(scheme_, shape).frame_bytes) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {}, {} bits for shape {}", name_,
                                           frame.size(), header->block, header->param0,
                                           ToString(shape)));
  }
  return header;
}

// Noise is drawn by place in the tensor, so what is rounded with it is made whole.
std::unique_ptr<FramePieces> BlockCodec::Pieces(Shape shape, DType dtype) const {
  if (stochastic()) return nullptr;
  return NewBlockPieces({.scheme = scheme_,
                         .isa = isa_,
                         .shape = shape,
                         .header = HeaderOf(shape, dtype, 0),
                         .fault = [this](BlockFault fault) { return FaultStatus(fault); },
                         .check_header =
                             [this, shape](std::span<const std::byte> frame) {
                               const absl::StatusOr<FrameHeader> header = Open(frame, shape);
                               if (!header.ok()) return header.status();
                               if ((header->flags & kFlagStochastic) == 0) return absl::OkStatus();
                               return absl::InvalidArgumentError(
                                   fmt::format("{}: a frame with noise, in pieces", name_));
                             }});
}

absl::Status BlockCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const absl::StatusOr<FrameHeader> header = Open(frame, x.shape);
  if (!header.ok()) return header.status();
  const BlockLayout layout(scheme_, x.shape);
  const uint64_t* seed = (header->flags & kFlagStochastic) != 0 ? &header->seed : nullptr;
  BlockSums sums;
  const bool good = DecodeBlockRows({scheme_, isa_, layout}, frame.data(), seed, x, sums);
  // A scale that is no number because a byte changed on the way is told as that.
  const absl::Status sum =
      good ? CheckPayloadCrc(frame, sums.Join(frame)) : ParseFrame(frame).status();
  if (!sum.ok()) return sum;
  if (!good) return Corrupt("a scale, zero point or code is not a finite number");
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
  const BlockLayout l(block->scheme(), shape);
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
