#include "plugin/core/crossing.h"

#include <cstring>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/frame/frame_pieces.h"
#include "compressors/numbers/crc32c.h"
#include "plugin/core/coding.h"

namespace longhaul {
namespace {

void CrossRaw(Crossing& crossing, const WireTensor& y) {
  const size_t bytes = crossing.header.message_bytes;
  crossing.crc = Crc32c({static_cast<const std::byte*>(crossing.x.values), bytes});
  if (y.values != crossing.x.values && bytes > 0) {
    std::memcpy(y.values, crossing.x.values, bytes);
  }
  crossing.wire_bytes = crossing.outbox.WireBytes(bytes, {});
}

// In the order in which a coder would have sent it.
std::vector<FramePart> OrderOf(const Codec& codec, ConstTensor x) {
  if (codec.MaxFrameBytes(x.shape, x.dtype) <= kWholeFrameBytes) return {};
  const std::unique_ptr<FramePieces> pieces = codec.Pieces(x.shape, x.dtype);
  return pieces == nullptr ? std::vector<FramePart>() : StreamOrder(*pieces);
}

// As FrameNmse, of what the receiver has where it keeps f32, as the decoder makes it.
absl::StatusOr<double> NmseOf(std::span<const std::byte> frame, ConstTensor x, ConstTensor y,
                              BufferPool& pool) {
  if (y.dtype == DType::kF32) return Nmse(y, x);
  const PooledBuffer scratch = pool.Acquire(x.shape.elements() * sizeof(float));
  return FrameNmse(frame, x, /*state=*/nullptr, scratch.bytes());
}

}  // namespace

absl::Status Cross(Crossing& crossing, const WireTensor& y, NodeCore& node) {
  if (crossing.codec == nullptr) {
    CrossRaw(crossing, y);
    return absl::OkStatus();
  }
  const Tensor x = CodecTensor(crossing.x, crossing.header);
  const Tensor decoded = CodecTensor(y, crossing.header);
  const absl::Duration start = node.clock().Now();
  PooledBuffer buffer = node.pool().Acquire(crossing.codec->MaxFrameBytes(x.shape, x.dtype));
  const absl::StatusOr<size_t> bytes =
      crossing.codec->Encode(x, crossing.seed, /*state=*/nullptr, buffer.bytes());
  if (!bytes.ok()) return bytes.status();
  const std::span<const std::byte> frame = buffer.bytes().first(*bytes);
  const absl::Duration encoded = node.clock().Now();
  RETURN_IF_ERROR(DecodeFrame(frame, decoded));
  crossing.encode = encoded - start;
  crossing.decode = node.clock().Now() - encoded;
  if (crossing.sampled) {
    const absl::StatusOr<double> nmse = NmseOf(frame, x, decoded, node.pool());
    if (nmse.ok()) crossing.nmse = *nmse;
  }
  crossing.header.codec = crossing.codec->id();
  crossing.header.message_bytes = *bytes;
  crossing.crc = FrameCrc(frame);
  crossing.wire_bytes = crossing.outbox.WireBytes(*bytes, OrderOf(*crossing.codec, x));
  return absl::OkStatus();
}

}  // namespace longhaul
