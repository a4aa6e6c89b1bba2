#include "compressors/states/accumulators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/frame/codec_frame.h"
#include "compressors/kernels/convert.h"

namespace longhaul {

Accumulators::Accumulators(Shape shape, std::string codec, size_t count, size_t extra)
    : codec_(std::move(codec)),
      shape_(shape),
      extra_(extra),
      values_(count * shape.elements() + extra) {}

void Accumulators::Reset() { std::fill(values_.begin(), values_.end(), 0.0f); }

void Accumulators::Save(std::span<std::byte> out) const {
  const uint64_t key[2] = {shape_.rows, shape_.cols};
  std::memcpy(out.data(), key, 16);
  std::memcpy(out.data() + 16, values_.data(), 4 * values_.size());
}

absl::Status Accumulators::Load(std::span<const std::byte> in) {
  if (in.size() != bytes()) {
    return absl::DataLossError(
        fmt::format("{}: saved state of {} bytes, want {}", codec_, in.size(), bytes()));
  }
  uint64_t key[2];
  std::memcpy(key, in.data(), 16);
  if (key[0] != shape_.rows || key[1] != shape_.cols) {
    return absl::DataLossError(fmt::format("{}: saved state of shape [{}, {}], want {}", codec_,
                                           key[0], key[1], ToString(shape_)));
  }
  const std::byte* saved = in.data() + 16;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!std::isfinite(LoadElement(saved, DType::kF32, i))) {
      return absl::DataLossError(fmt::format("{}: saved state holds NaN or Inf", codec_));
    }
  }
  std::memcpy(values_.data(), saved, 4 * values_.size());
  return absl::OkStatus();
}

absl::StatusOr<Accumulators*> AccumulatorsOf(CodecState* state, std::string_view codec,
                                             Shape shape) {
  auto* own = dynamic_cast<Accumulators*>(state);
  if (own != nullptr && own->codec() == codec && own->shape() == shape) return own;
  return absl::InvalidArgumentError(
      fmt::format("{}: needs its own state for shape {}, got {}", codec, ToString(shape),
                  own == nullptr ? "none" : own->codec() + " " + ToString(own->shape())));
}

}  // namespace longhaul
