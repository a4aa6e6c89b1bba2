#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "compressors/frame.h"

// What every codec checks before it looks at values or payload. `name` opens each message.
namespace longhaul {

// InvalidArgument: x empty or too large to count, or `frame_bytes` below `needed_bytes`.
absl::Status CheckEncodeArguments(std::string_view name, ConstTensor x, size_t frame_bytes,
                                  size_t needed_bytes);

// ParseFrame, then: InvalidArgument for another codec or another shape than x's, DataLoss for a
// version or flag outside `allowed_flags`. kFlagErrorFeedback is always allowed.
absl::StatusOr<FrameHeader> OpenFrame(std::string_view name, uint16_t codec_id,
                                      std::span<const std::byte> frame, Shape shape,
                                      uint16_t allowed_flags = 0);

absl::Status NotFiniteError(std::string_view name);

// "[3, 64]"
std::string ToString(Shape shape);

}  // namespace longhaul
