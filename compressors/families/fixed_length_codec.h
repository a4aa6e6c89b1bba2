#pragma once

#include <string_view>

#include "compressors/families/catalog_codec.h"
#include "compressors/frame/frame.h"

namespace longhaul {

// What the frames of a FixedLengthCodec have in common.
struct FixedFields {
  uint32_t block = 0, param0 = 0;
  uint16_t flags = 0;           // of every frame that it writes
  uint16_t optional_flags = 0;  // that frames which it reads may have or not
  // Why Encode refuses a tensor: what BlockFault::kRange and kNotFinite stand for.
  std::string_view range_fault = "";
  std::string_view not_finite_fault = "NaN or Inf in the tensor";
};

// A codec of the catalogue whose frames have a length and a header that the tensor's shape and
// dtype alone decide. A device's codec (cuda/fixed_frame.h) takes all of this from the host's.
class FixedLengthCodec : public CatalogCodec {
 public:
  FixedLengthCodec(std::string_view name, uint16_t id, Isa isa, const FixedFields& fields)
      : CatalogCodec(name, id, isa), fields_(fields) {}

  // The header of a frame of x, whose values are not looked at.
  FrameHeader HeaderFor(ConstTensor x, uint64_t seed) const;
  // Zeroes what lies between the sections of a frame of this shape.
  virtual void ZeroGaps(Shape, std::byte*) const {}
  // As OpenFrame and OpenUnsummedFrame (codec_frame.h); DataLoss also for a length or fields that
  // do not fit the shape.
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, Shape shape) const;
  absl::StatusOr<FrameHeader> OpenUnsummed(std::span<const std::byte> frame, Shape shape) const;
  // InvalidArgument for a fault that is not kNone.
  absl::Status FaultStatus(BlockFault fault) const;

 protected:
  // Corrupt, or, where a byte changed on the way of a frame not summed yet, that.
  absl::Status CorruptUnsummed(std::span<const std::byte> frame, std::string_view what) const;

 private:
  absl::StatusOr<FrameHeader> Check(absl::StatusOr<FrameHeader> header, size_t bytes,
                                    Shape shape) const;
  uint16_t AllowedFlags() const { return fields_.flags | fields_.optional_flags; }

  const FixedFields fields_;
};

}  // namespace longhaul
