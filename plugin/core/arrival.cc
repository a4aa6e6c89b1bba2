#include "plugin/core/arrival.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "compressors/frame/frame.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {

bool WantsState(std::span<const std::byte> frame) {
  return (PeekHeader(frame).flags & (kFlagFirstVisit | kFlagDifference)) != 0;
}

void Arrival::Account(const PacketHeader& packet, std::span<const std::byte> payload) {
  ++packets;
  if (packet.cancelled()) {
    const std::string_view reason(reinterpret_cast<const char*>(payload.data()), payload.size());
    const bool mismatch = (packet.flags & kPacketMismatch) != 0;
    failure =
        absl::Status(mismatch ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kAborted,
                     fmt::format("rank {} gave it up: {}", rank, reason));
    complete = true;
    return;
  }
  if (packet.offset != received_bytes || packet.message_bytes != header.message_bytes ||
      packet.type != header.type || packet.elements != header.elements ||
      packet.codec != header.codec || packet.streamed() != header.streamed()) {
    failure = absl::DataLossError("its packets do not belong together");
    complete = true;
    return;
  }
  crc_ = Crc32c(payload, crc_);
  if (crc_ != packet.payload_crc && failure.ok()) {
    failure = absl::DataLossError(
        fmt::format("payload checksum {:08x}, the header says {:08x}", crc_, packet.payload_crc));
  }
  received_bytes += payload.size();
  complete = received_bytes == header.message_bytes;
}

void Arrival::Hold(KeptBytes bytes) {
  held_bytes_ += kPacketHeaderBytes + bytes.bytes().size();
  held.push_back(std::move(bytes));
}

void Arrival::LetGo() {
  held.clear();
  if (held_bytes_ > 0) peer->Release(std::exchange(held_bytes_, 0));
}

absl::Status Arrival::MakeRoom(std::span<const std::byte> first, const Tensor& x, Reading reading,
                               BufferPool& pool) {
  frame_ = pool.Acquire(header.message_bytes);
  const Codec* codec = PlainCodec(header.codec);
  std::unique_ptr<FramePieces> pieces;
  if (codec != nullptr && (header.streamed() || header.message_bytes > kWholeFrameBytes)) {
    pieces = codec->Pieces(x.shape, x.dtype);
  }
  const bool fits = pieces != nullptr && pieces->frame_bytes() == header.message_bytes;
  if (header.streamed()) {
    if (!fits) {
      return absl::DataLossError(fmt::format("no {} frame of {} has {} bytes in stream order",
                                             CodecNameOf(header.codec), ToString(header),
                                             header.message_bytes));
    }
    order_ = StreamOrder(*pieces);
  } else {
    // Noise and states belong to whole frames; in this order the header is there already.
    constexpr uint16_t kWhole = kFlagStochastic | kFlagFirstVisit | kFlagDifference;
    if (!fits || first.size() < kFrameHeaderBytes) return absl::OkStatus();
    if ((PeekHeader(first).flags & kWhole) != 0) return absl::OkStatus();
  }
  if (reading == Reading::kWhole) return absl::OkStatus();
  const auto order = header.streamed() ? PieceReader::Order::kStream : PieceReader::Order::kFrame;
  reader = std::make_unique<PieceReader>(std::move(pieces), order, frame_.bytes(), x);
  return absl::OkStatus();
}

void Arrival::Place(std::span<const std::byte> bytes) {
  std::byte* const frame = frame_.bytes().data();
  if (order_.empty()) {
    std::memcpy(frame + placed_, bytes.data(), bytes.size());
    placed_ += bytes.size();
    return;
  }
  while (!bytes.empty()) {  // as many as are left of the message at most, which the order covers
    const FramePart& part = order_[part_];
    const size_t n = std::min(bytes.size(), part.size() - part_bytes_);
    std::memcpy(frame + part.begin + part_bytes_, bytes.data(), n);
    bytes = bytes.subspan(n);
    placed_ += n;
    part_bytes_ += n;
    if (part_bytes_ < part.size()) return;
    ++part_;
    part_bytes_ = 0;
  }
}

uint32_t Arrival::Checksum() const { return header.streamed() ? FrameCrc(frame()) : crc_; }

}  // namespace longhaul
