#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/frame/frame.h"

// What every codec checks before it looks at values or payload. `name` opens each message.
namespace longhaul {

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
