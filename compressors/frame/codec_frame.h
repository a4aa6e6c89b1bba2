#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "compressors/frame/frame.h"
#include "compressors/isa.h"

// What every codec checks before it looks at values or payload. `name` opens each message.
namespace longhaul {

// A codec of the catalogue: what it is called there, and whose kernels it uses.
class CatalogCodec : public Codec {
 public:
  CatalogCodec(std::string_view name, uint16_t id, Isa isa) : name_(name), id_(id), isa_(isa) {}
  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }

 protected:
  // A frame that is sound but not what this codec writes.
  absl::Status Corrupt(std::string_view what) const;

  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
};

// InvalidArgument: x empty or too large to count, or `frame_bytes` below `needed_bytes`.
absl::Status CheckEncodeArguments(std::string_view name, ConstTensor x, size_t frame_bytes,
                                  size_t needed_bytes);

// ParseFrame, then: InvalidArgument for another codec or another shape than x's, DataLoss for a
// version or flag outside `allowed_flags`. kFlagErrorFeedback and kFlagSaturated are always
// allowed; a frame for a decoder with a state is InvalidArgument where it is not.
absl::StatusOr<FrameHeader> OpenFrame(std::string_view name, uint16_t codec_id,
                                      std::span<const std::byte> frame, Shape shape,
                                      uint16_t allowed_flags = 0);

// The same but for the checksum of a frame that it answers: the caller sums the payload while it
// reads it (payload_sum.h), then asks CheckPayloadCrc, and until then vouches for nothing.
absl::StatusOr<FrameHeader> OpenUnsummedFrame(std::string_view name, uint16_t codec_id,
                                              std::span<const std::byte> frame, Shape shape,
                                              uint16_t allowed_flags = 0);

absl::Status NotFiniteError(std::string_view name);
// `what` ("a sum") is a finite number in no type that the codec has.
absl::Status RangeError(std::string_view name, std::string_view what);

// "[3, 64]"
std::string ToString(Shape shape);

}  // namespace longhaul
