#include "compressors/families/block_codec.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "compressors/families/block_rows.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/families/stochastic.h"
#include "compressors/frame/frame_pieces.h"

namespace longhaul {
namespace {

// The frames of one block scheme, rounded to nearest, in pieces of whole blocks, or of whole rows
// where rows end in short blocks.
struct BlockPiecesOf {
  BlockScheme scheme;
  const Kernels& kernels;
  Shape shape;
  FrameHeader header;
  std::function<absl::Status(BlockFault)> fault;  // what a codec says of a tensor's fault
  std::function<absl::Status(std::span<const std::byte> frame)> check_header;
};

class BlockPieces final : public FramePieces {
 public:
  explicit BlockPieces(BlockPiecesOf of)
      : of_(std::move(of)),
        whole_(of_.scheme, of_.shape),
        by_row_(whole_.rows > 1),
        unit_elements_(by_row_ ? whole_.cols : static_cast<size_t>(of_.scheme.block)),
        units_(by_row_ ? whole_.rows : whole_.row_blocks),
        per_piece_(std::max<size_t>(1, kElements / unit_elements_)) {}

  size_t frame_bytes() const override { return whole_.frame_bytes; }
  size_t count() const override { return (units_ + per_piece_ - 1) / per_piece_; }
  FrameHeader header() const override { return of_.header; }
  absl::Status CheckHeader(std::span<const std::byte> frame) const override {
    return of_.check_header(frame);
  }

  Parts PartsOf(size_t piece) const override {
    const BlockPlace from = At(First(piece)), to = At(Last(piece));
    const bool last = Last(piece) == units_;  // the gaps between sections are its own
    return {{{from.scales, last ? whole_.zeros_at : to.scales},
             {from.zeros, last ? whole_.codes_at : to.zeros},
             {from.codes, to.codes}}};
  }

  absl::Status Encode(size_t piece, ConstTensor x, std::byte* frame) const override {
    const Window window(*this, piece);
    x.values = static_cast<const std::byte*>(x.values) + window.before * BytesPerElement(x.dtype);
    x.shape = window.shape;
    BlockSums unused;
    const BlockFault fault = EncodeBlockRows({of_.scheme, of_.kernels, window.layout}, x, nullptr,
                                             frame + window.shift, unused);
    if (fault != BlockFault::kNone) return of_.fault(fault);
    if (Last(piece) == units_) {
      std::memset(frame + whole_.scales_end, 0, whole_.zeros_at - whole_.scales_end);
      std::memset(frame + whole_.zeros_end, 0, whole_.codes_at - whole_.zeros_end);
    }
    return absl::OkStatus();
  }

  absl::Status Decode(size_t piece, const std::byte* frame, Tensor x) const override {
    const Window window(*this, piece);
    x.values = static_cast<std::byte*>(x.values) + window.before * BytesPerElement(x.dtype);
    x.shape = window.shape;
    BlockSums unused;
    const bool good = DecodeBlockRows({of_.scheme, of_.kernels, window.layout},
                                      frame + window.shift, nullptr, x, unused);
    if (good) return absl::OkStatus();
    return absl::DataLossError("a scale, zero point or code is not a finite number");
  }

 private:
  // A piece as a tensor of its own, whose sections lie where they are in the whole frame.
  struct Window {
    Window(const BlockPieces& of, size_t piece)
        : before(of.First(piece) * of.unit_elements_),
          shape(of.by_row_ ? Shape{of.Last(piece) - of.First(piece), of.whole_.cols}
                           : Shape{1, std::min(of.Last(piece) * of.unit_elements_, of.whole_.cols) -
                                          before}),
          layout(of.of_.scheme, shape) {
      const BlockPlace at = of.At(of.First(piece));
      shift = at.scales - kFrameHeaderBytes;
      layout.zeros_at = at.zeros - shift;
      layout.codes_at = at.codes - shift;
      layout.frame_bytes = 0;  // small: summed by the caller, kept in the caches
    }
    size_t before;  // elements of the tensor
    Shape shape;
    BlockLayout layout;
    size_t shift;  // its frame begins so far behind the whole one
  };

  size_t First(size_t piece) const { return piece * per_piece_; }
  size_t Last(size_t piece) const { return std::min(units_, (piece + 1) * per_piece_); }
  BlockPlace At(size_t unit) const {
    return whole_.At(of_.scheme, by_row_ ? unit : 0, by_row_ ? 0 : unit);
  }

  const BlockPiecesOf of_;
  const BlockLayout whole_;
  const bool by_row_;
  const size_t unit_elements_, units_, per_piece_;
};

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
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
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
  return std::make_unique<BlockPieces>(BlockPiecesOf{
      .scheme = scheme_,
      .kernels = kernels_,
      .shape = shape,
      .header = HeaderFor({nullptr, dtype, shape}, 0),
      .fault = [this](BlockFault fault) { return FaultStatus(fault); },
      .check_header =
          [this, shape](std::span<const std::byte> frame) {
            ASSIGN_OR_RETURN(const FrameHeader header, OpenUnsummed(frame, shape));
            if ((header.flags & kFlagStochastic) == 0) return absl::OkStatus();
            return absl::InvalidArgumentError(name_ + ": a frame with noise, in pieces");
          }});
}

absl::Status BlockCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const FrameHeader header, OpenUnsummed(frame, x.shape));
  const BlockLayout layout(scheme_, x.shape);
  const uint64_t* seed = (header.flags & kFlagStochastic) != 0 ? &header.seed : nullptr;
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
