#include "experiments/price/price_crossing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compressors/catalog.h"

namespace longhaul {

absl::StatusOr<PriceCodecs> PriceCodecs::Make(const std::vector<std::string>& names) {
  PriceCodecs codecs;
  for (const std::string& name : names) {
    absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeCodec(name);
    if (!codec.ok()) return codec.status();
    constexpr Shape kAny = {64, 64};
    if ((*codec)->NewState(kAny) != nullptr || (*codec)->NewDecoderState(kAny) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("codec '", name,
                       "' keeps a state from tensor to tensor, and price sends every row as if "
                       "it came first; want a codec without one"));
    }
    if (std::find(codecs.names_.begin(), codecs.names_.end(), name) != codecs.names_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("codec '", name, "' is given twice"));
    }
    codecs.names_.push_back(name);
    codecs.codecs_.push_back(*std::move(codec));
  }
  return codecs;
}

absl::StatusOr<BoundaryCount> PriceCodecs::Cross(size_t codec, uint64_t seed, Shape shape,
                                                 std::span<const float> x, std::span<float> y) {
  const Codec& coder = *codecs_[codec];
  frame_.resize(std::max(frame_.size(), coder.MaxFrameBytes(shape, DType::kF32)));
  const absl::StatusOr<size_t> bytes =
      coder.Encode({x.data(), DType::kF32, shape}, seed, nullptr, frame_);
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("codec ", names_[codec], ": ", std::string(status.message())));
  };
  if (!bytes.ok()) return named(bytes.status());
  const absl::Status decoded =
      coder.Decode(std::span(frame_).first(*bytes), nullptr, {y.data(), DType::kF32, shape});
  if (!decoded.ok()) return named(decoded);
  BoundaryCount count{.bits = 8.0 * static_cast<double>(*bytes),
                      .elements = static_cast<double>(shape.elements()),
                      .tensors = 1};
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i], error = value - static_cast<double>(y[i]);
    count.squared_error += error * error;
    count.squared_norm += value * value;
  }
  return count;
}

}  // namespace longhaul
