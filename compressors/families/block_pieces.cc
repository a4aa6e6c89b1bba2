#include "compressors/families/block_pieces.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace longhaul {
namespace {

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

}  // namespace

std::unique_ptr<FramePieces> NewBlockPieces(BlockPiecesOf of) {
  return std::make_unique<BlockPieces>(std::move(of));
}

}  // namespace longhaul
