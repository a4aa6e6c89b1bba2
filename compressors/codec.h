#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/tensor.h"

namespace longhaul {

// What one end of a stateful codec keeps between calls (the residual of error feedback, the tensor
// that a receiver adds differences to, ...). Keyed by its owner: one state per tensor or boundary,
// direction and micro-batch slot, and per end; never shared.
class CodecState {
 public:
  virtual ~CodecState() = default;
  virtual Shape shape() const = 0;
  virtual void Reset() = 0;  // back to the state of NewState()
  // Checkpointing: Save writes exactly bytes() bytes; Load takes what Save wrote for the same codec
  // and shape (else DataLoss, state unchanged).
  virtual size_t bytes() const = 0;
  virtual void Save(std::span<std::byte> out) const = 0;
  virtual absl::Status Load(std::span<const std::byte> in) = 0;
};

class FramePieces;  // frame/frame_pieces.h

// A Codec turns one tensor into one frame of bytes and back. No I/O, no clock; all randomness comes
// from `seed`, so equal (x, seed, state) give equal bytes on every host and every instruction set.
// Thread safety: const methods may run concurrently, each on its own state.
class Codec {
 public:
  virtual ~Codec() = default;

  // The catalogue's name, e.g. "int4-b64-h64+ef". A new byte layout is a new name.
  virtual std::string_view name() const = 0;

  // Id in the frame header; wrappers such as +ef answer the id of what is on the wire.
  virtual uint16_t id() const = 0;

  // Upper bound on the bytes of one frame of this shape and source dtype, header included.
  virtual size_t MaxFrameBytes(Shape shape, DType dtype) const = 0;

  // What Encode wants; nullptr: nothing.
  virtual std::unique_ptr<CodecState> NewState(Shape) const { return nullptr; }

  // What Decode wants; nullptr (almost all codecs): nothing, frames decode in any order.
  virtual std::unique_ptr<CodecState> NewDecoderState(Shape) const { return nullptr; }

  // x: [rows, cols] f32, bf16 or f16, finite. Writes one frame and returns its bytes. On error
  // nothing beyond `frame` is touched and `state` is unchanged.
  // InvalidArgument: empty x, NaN or Inf in x, `frame` too short, state missing or of another
  // shape.
  virtual absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                        std::span<std::byte> frame) const = 0;

  // Fills x from one frame (all of `frame`). x.dtype may differ from the source dtype.
  // DataLoss: truncated, bad checksum, impossible field. InvalidArgument: a frame of another codec
  // or shape, a state that is missing or another tensor's. FailedPrecondition: the frame was made
  // for a state that this one is not (a frame was lost; Reset at the sender makes them agree
  // again). On error `state` is unchanged, x holds unspecified values and nothing beyond it is
  // touched.
  virtual absl::Status Decode(std::span<const std::byte> frame, CodecState* state,
                              Tensor x) const = 0;

  // Of a codec that makes and reads its frames of that shape and source dtype piece by piece too;
  // nullptr: only whole.
  virtual std::unique_ptr<FramePieces> Pieces(Shape shape, DType dtype) const;
};

}  // namespace longhaul
