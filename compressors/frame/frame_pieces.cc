#include "compressors/frame/frame_pieces.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

using Sums = std::array<uint32_t, FramePieces::kSections>;

// The CRC of each section, taken up to the end of a piece while it is in a cache.
void Extend(const FramePieces::Parts& parts, const std::byte* frame, Sums& sums) {
  for (size_t s = 0; s < parts.size(); ++s) {
    sums[s] = Crc32c({frame + parts[s].begin, parts[s].size()}, sums[s]);
  }
}

uint32_t PayloadSum(const FramePieces& pieces, const Sums& sums) {
  const FramePieces::Parts first = pieces.PartsOf(0), last = pieces.PartsOf(pieces.count() - 1);
  uint32_t crc = 0;
  for (size_t s = 0; s < sums.size(); ++s) {
    crc = Crc32cCombine(crc, sums[s], last[s].end - first[s].begin);
  }
  return crc;
}

size_t BytesOf(const FramePieces::Parts& parts) {
  return parts[0].size() + parts[1].size() + parts[2].size();
}

// How far a frame that comes as it lies must have come for a piece.
size_t EndOf(const FramePieces::Parts& parts) {
  size_t end = 0;
  for (const FramePart& part : parts) {
    if (part.size() > 0) end = std::max(end, part.end);
  }
  return end;
}

}  // namespace

std::unique_ptr<FramePieces> Codec::Pieces(Shape, DType) const { return nullptr; }

std::vector<FramePart> StreamOrder(const FramePieces& pieces) {
  std::vector<FramePart> order;
  for (size_t i = 0; i < pieces.count(); ++i) {
    for (const FramePart& part : pieces.PartsOf(i)) {
      if (part.size() > 0) order.push_back(part);
    }
  }
  order.push_back({0, kFrameHeaderBytes});
  return order;
}

PieceWriter::PieceWriter(std::unique_ptr<FramePieces> pieces, ConstTensor x,
                         std::span<std::byte> frame)
    : pieces_(std::move(pieces)), x_(x), frame_(frame) {}

absl::StatusOr<size_t> PieceWriter::Next() {
  RETURN_IF_ERROR(pieces_->Encode(next_, x_, frame_.data()));
  const FramePieces::Parts parts = pieces_->PartsOf(next_++);
  Extend(parts, frame_.data(), sums_);
  final_ += BytesOf(parts);
  if (next_ < pieces_->count()) return final_;
  FrameHeader header = pieces_->header();
  header.payload_bytes = frame_.size() - kFrameHeaderBytes;
  SealFrame(header, frame_, PayloadSum(*pieces_, sums_));
  return frame_.size();
}

PieceReader::PieceReader(std::unique_ptr<FramePieces> pieces, Order order,
                         std::span<const std::byte> frame, Tensor x)
    : pieces_(std::move(pieces)), order_(order), frame_(frame), x_(x) {}

absl::Status PieceReader::Reach(size_t bytes) {
  reached_ = bytes;
  while (next_ < pieces_->count()) {
    const FramePieces::Parts parts = pieces_->PartsOf(next_);
    const size_t needed = order_ == Order::kStream ? before_ + BytesOf(parts) : EndOf(parts);
    if (bytes < needed) return absl::OkStatus();
    Extend(parts, frame_.data(), sums_);
    RETURN_IF_ERROR(pieces_->Decode(next_, frame_.data(), x_));
    before_ += BytesOf(parts);
    ++next_;
  }
  if (bytes < frame_.size()) return absl::OkStatus();
  RETURN_IF_ERROR(pieces_->CheckHeader(frame_));
  return CheckPayloadCrc(frame_, PayloadSum(*pieces_, sums_));
}

}  // namespace longhaul
