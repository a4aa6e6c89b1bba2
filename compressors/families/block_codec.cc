#include "compressors/families/block_codec.h"

#include <cstring>

#include "compressors/families/block_pieces.h"
#include "compressors/families/block_rows.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/families/stochastic.h"

namespace longhaul {
namespace {

enum class Rounding { kNearest, kStochastic };

FixedFields FieldsOf(BlockScheme scheme, Rounding rounding) {
  const auto flag = static_cast<uint16_t>(kFlagStochastic);
  return {.block = static_cast<uint32_t>(scheme.block),
          .param0 = static_cast<uint32_t>(scheme.bits),
          .flags = rounding == Rounding::kStochastic ? flag : uint16_t{0},
          .optional_flags = CanRoundStochastically(scheme) ? flag : uint16_t{0},
          .range_fault = "max - min of a block is beyond fp32",
          .not_finite_fault = scheme.rotation == Rotation::kNone
                                  ? "NaN or Inf in the tensor"
                                  : "NaN or Inf in the tensor, or a rotated block beyond fp32"};
}

class BlockCodec final : public FixedLengthCodec {
 public:
  BlockCodec(std::string_view name, uint16_t id, BlockScheme scheme, Isa isa, Rounding rounding)
      : FixedLengthCodec(name, id, isa, FieldsOf(scheme, rounding)),
        scheme_(scheme),
        rounding_(rounding) {}

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

  void ZeroGaps(Shape shape, std::byte* frame) const override {
    const BlockLayout layout(scheme_, shape);
    std::memset(frame + layout.scales_end, 0, layout.zeros_at - layout.scales_end);
    std::memset(frame + layout.zeros_end, 0, layout.codes_at - layout.zeros_end);
  }

 private:
  const BlockScheme scheme_;
  const Rounding rounding_;
};

absl::StatusOr<size_t> BlockCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                          std::span<std::byte> frame) const {
  const BlockLayout layout(scheme_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  BlockSums sums;
  const BlockFault fault = EncodeBlockRows({scheme_, kernels_, layout}, x,
                                           stochastic() ? &seed : nullptr, frame.data(), sums);
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  ZeroGaps(x.shape, frame.data());
  SealFrame(HeaderFor(x, seed), frame.first(bytes), sums.Combine(frame.first(bytes)));
  return bytes;
}

// Noise is drawn by place in the tensor, so what is rounded with it is made whole.
std::unique_ptr<FramePieces> BlockCodec::Pieces(Shape shape, DType dtype) const {
  if (stochastic()) return nullptr;
  return NewBlockPieces(
      {.scheme = scheme_,
       .kernels = kernels_,
       .shape = shape,
       .header = HeaderFor({nullptr, dtype, shape}, 0),
       .fault = [this](BlockFault fault) { return FaultStatus(fault); },
       .check_header =
           [this, shape](std::span<const std::byte> frame) {
             const absl::StatusOr<FrameHeader> header = OpenUnsummed(frame, shape);
             if (!header.ok()) return header.status();
             if ((header->flags & kFlagStochastic) == 0) return absl::OkStatus();
             return absl::InvalidArgumentError(name_ + ": a frame with noise, in pieces");
           }});
}

absl::Status BlockCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const absl::StatusOr<FrameHeader> header = OpenUnsummed(frame, x.shape);
  if (!header.ok()) return header.status();
  const BlockLayout layout(scheme_, x.shape);
  const uint64_t* seed = (header->flags & kFlagStochastic) != 0 ? &header->seed : nullptr;
  BlockSums sums;
  const bool good = DecodeBlockRows({scheme_, kernels_, layout}, frame.data(), seed, x, sums);
  if (!good) return CorruptUnsummed(frame, "a scale, zero point or code is not a finite number");
  return CheckPayloadCrc(frame, sums.Combine(frame));
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
