#include "compressors/frame/codec_frame.h"

#include <fmt/format.h>

namespace longhaul {

std::string ToString(Shape shape) { return fmt::format("[{}, {}]", shape.rows, shape.cols); }

absl::Status CheckEncodeArguments(std::string_view name, ConstTensor x, size_t frame_bytes,
                                  size_t needed_bytes) {
  uint64_t elements = 0;
  // 2^56 elements: no byte count derived from it can overflow 64 bits.
  if (__builtin_mul_overflow(x.shape.rows, x.shape.cols, &elements) || elements >> 56 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: shape {} has too many elements", name, ToString(x.shape)));
  }
  if (elements == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: empty tensor, shape {}", name, ToString(x.shape)));
  }
  if (frame_bytes < needed_bytes) {
    return absl::InvalidArgumentError(fmt::format("{}: shape {} needs a frame of {} bytes, got {}",
                                                  name, ToString(x.shape), needed_bytes,
                                                  frame_bytes));
  }
  return absl::OkStatus();
}

namespace {

// What OpenFrame checks of a frame that parses.
absl::StatusOr<FrameHeader> CheckHeader(std::string_view name, uint16_t codec_id,
                                        absl::StatusOr<FrameHeader> header, Shape shape,
                                        uint16_t allowed_flags) {
  if (!header.ok()) return header;
  if (header->codec != codec_id) {
    return absl::InvalidArgumentError(
        fmt::format("{}: frame of codec 0x{:02x}, want 0x{:02x}", name, header->codec, codec_id));
  }
  if (!(header->shape == shape)) {
    return absl::InvalidArgumentError(fmt::format("{}: frame of shape {}, tensor of {}", name,
                                                  ToString(header->shape), ToString(shape)));
  }
  uint64_t elements = 0;
  if (__builtin_mul_overflow(shape.rows, shape.cols, &elements) || elements >> 56 != 0 ||
      elements == 0) {
    return absl::DataLossError(fmt::format("{}: shape {} in a frame", name, ToString(shape)));
  }
  constexpr uint16_t kMarks = kFlagFirstVisit | kFlagDifference;
  if ((header->flags & kMarks & ~allowed_flags) != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: frame for a receiver with a state (+ef21), which this codec has not", name));
  }
  const uint16_t known = allowed_flags | kFlagErrorFeedback | kFlagSaturated;
  if (header->version != 1 || (header->flags & ~known) != 0) {
    return absl::DataLossError(fmt::format("{}: version {} or flags 0x{:04x} unknown", name,
                                           header->version, header->flags));
  }
  return header;
}

}  // namespace

absl::StatusOr<FrameHeader> OpenFrame(std::string_view name, uint16_t codec_id,
                                      std::span<const std::byte> frame, Shape shape,
                                      uint16_t allowed_flags) {
  return CheckHeader(name, codec_id, ParseFrame(frame), shape, allowed_flags);
}

absl::StatusOr<FrameHeader> OpenUnsummedFrame(std::string_view name, uint16_t codec_id,
                                              std::span<const std::byte> frame, Shape shape,
                                              uint16_t allowed_flags) {
  absl::StatusOr<FrameHeader> header =
      CheckHeader(name, codec_id, ParseUnsummedFrame(frame), shape, allowed_flags);
  // What is wrong may be a byte that changed on the way: the checksum speaks first.
  return header.ok() ? header : OpenFrame(name, codec_id, frame, shape, allowed_flags);
}

absl::Status RangeError(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {} is beyond fp32", name, what));
}

absl::Status NotFiniteError(std::string_view name) {
  return absl::InvalidArgumentError(fmt::format("{}: NaN or Inf in the tensor", name));
}

}  // namespace longhaul
