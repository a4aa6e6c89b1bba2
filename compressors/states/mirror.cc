#include "compressors/states/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/kernels/convert.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

bool AllFinite(const std::byte* values, DType dtype, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if ((BitsOf(LoadElement(values, dtype, i)) & kAbsMask) >= kInfBits) return false;
  }
  return true;
}

}  // namespace

Mirror::Mirror(Kind kind, Shape shape)
    : kind_(kind), shape_(shape), values_(shape.elements() * BytesPerElement(dtype())) {}

void Mirror::Reset() {
  filled_ = false;
  std::fill(values_.begin(), values_.end(), std::byte{0});
}

void Mirror::Save(std::span<std::byte> out) const {
  const uint64_t key[3] = {shape_.rows, shape_.cols,
                           static_cast<uint64_t>(kind_) | uint64_t{filled_} << 32};
  std::memcpy(out.data(), key, kHeaderBytes);
  std::memcpy(out.data() + kHeaderBytes, values_.data(), values_.size());
}

absl::Status Mirror::Load(std::span<const std::byte> in) {
  ASSIGN_OR_RETURN(const Mirror saved, Restore(in));
  if (saved.kind_ != kind_ || !(saved.shape_ == shape_)) {
    return absl::DataLossError(fmt::format("saved state of kind {}, shape {}, want {}, {}",
                                           static_cast<int>(saved.kind_), ToString(saved.shape_),
                                           static_cast<int>(kind_), ToString(shape_)));
  }
  *this = saved;
  return absl::OkStatus();
}

uint32_t Mirror::Tag() const { return Crc32c(values_); }

void Mirror::Fill(const void* values) {
  std::memcpy(values_.data(), values, values_.size());
  filled_ = true;
}

absl::StatusOr<Mirror> Mirror::Restore(std::span<const std::byte> in) {
  uint64_t key[3] = {};
  if (in.size() >= kHeaderBytes) std::memcpy(key, in.data(), kHeaderBytes);
  uint64_t elements = 0;
  const bool known = (key[2] & ~((uint64_t{1} << 32) | 1)) == 0 &&
                     !__builtin_mul_overflow(key[0], key[1], &elements) && elements >> 56 == 0;
  const auto kind = static_cast<Kind>(key[2] & 1);
  if (in.size() < kHeaderBytes || !known ||
      in.size() - kHeaderBytes != elements * (kind == Kind::kF32 ? 4 : 2)) {
    return absl::DataLossError(
        fmt::format("saved state of {} bytes for shape [{}, {}]", in.size(), key[0], key[1]));
  }
  Mirror mirror(kind, {key[0], key[1]});
  std::memcpy(mirror.values_.data(), in.data() + kHeaderBytes, mirror.values_.size());
  mirror.filled_ = key[2] >> 32 != 0;
  if (!AllFinite(mirror.values(), mirror.dtype(), elements)) {
    return absl::DataLossError("saved state holds NaN or Inf");
  }
  return mirror;
}

absl::StatusOr<Mirror*> MirrorOf(CodecState* state, std::string_view codec, Mirror::Kind kind,
                                 Shape shape) {
  if (state == nullptr) return nullptr;
  auto* own = dynamic_cast<Mirror*>(state);
  if (own != nullptr && own->kind() == kind && own->shape() == shape) return own;
  return absl::InvalidArgumentError(
      fmt::format("{}: needs its own state for shape {}, got {}", codec, ToString(shape),
                  own == nullptr ? "another codec's" : ToString(own->shape())));
}

absl::Status CheckMirror(std::string_view codec, uint16_t flags, uint32_t tag,
                         const Mirror* mirror) {
  const bool difference = (flags & kFlagDifference) != 0;
  if (difference == ((flags & kFlagFirstVisit) != 0)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: frame with flags 0x{:04x}: either values or a difference", codec, flags));
  }
  if (!difference) return absl::OkStatus();
  if (mirror == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the frame is a difference, decoding needs a state", codec));
  }
  if (const uint32_t own = mirror->Tag(); !mirror->filled() || own != tag) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: the frame is a difference to state {:08X}, this receiver's is {}: a frame was lost; "
        "the sender must reset its state",
        codec, tag, mirror->filled() ? fmt::format("{:08X}", own) : "empty"));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
