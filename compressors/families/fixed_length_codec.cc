#include "compressors/families/fixed_length_codec.h"

#include <fmt/format.h>

namespace longhaul {

FrameHeader FixedLengthCodec::HeaderFor(ConstTensor x, uint64_t seed) const {
  return {.codec = id_,
          .dtype = x.dtype,
          .flags = fields_.flags,
          .block = fields_.block,
          .param0 = fields_.param0,
          .shape = x.shape,
          .seed = (fields_.flags & kFlagStochastic) != 0 ? seed : 0,
          .payload_bytes = MaxFrameBytes(x.shape, x.dtype) - kFrameHeaderBytes};
}

absl::StatusOr<FrameHeader> FixedLengthCodec::Check(absl::StatusOr<FrameHeader> header,
                                                    size_t bytes, Shape shape) const {
  if (!header.ok()) return header;
  const auto needed = static_cast<uint16_t>(fields_.flags & ~fields_.optional_flags);
  if (bytes != MaxFrameBytes(shape, header->dtype) || header->block != fields_.block ||
      header->param0 != fields_.param0 || (header->flags & needed) != needed) {
    return Corrupt(
        fmt::format("{} bytes, block {}, parameter {}, flags 0x{:04x} do not fit shape {}", bytes,
                    header->block, header->param0, header->flags, ToString(shape)));
  }
  return header;
}

absl::StatusOr<FrameHeader> FixedLengthCodec::Open(std::span<const std::byte> frame,
                                                   Shape shape) const {
  return Check(OpenFrame(name_, id_, frame, shape, AllowedFlags()), frame.size(), shape);
}

absl::StatusOr<FrameHeader> FixedLengthCodec::OpenUnsummed(std::span<const std::byte> frame,
                                                           Shape shape) const {
  return Check(OpenUnsummedFrame(name_, id_, frame, shape, AllowedFlags()), frame.size(), shape);
}

absl::Status FixedLengthCodec::FaultStatus(BlockFault fault) const {
  const bool range = fault == BlockFault::kRange;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", name_, range ? fields_.range_fault : fields_.not_finite_fault));
}

absl::Status FixedLengthCodec::CorruptUnsummed(std::span<const std::byte> frame,
                                               std::string_view what) const {
  const absl::Status sum = ParseFrame(frame).status();
  return sum.ok() ? Corrupt(what) : sum;
}

}  // namespace longhaul
