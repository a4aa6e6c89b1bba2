#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "experiments/price/price_plan.h"

namespace longhaul {

// The codecs of a pricing. Each tensor is encoded into a frame and decoded from it, as a sender and
// a receiver do. Not thread safe.
class PriceCodecs {
 public:
  // NotFound: a name that the catalogue has not. InvalidArgument: a codec that keeps a state from
  // tensor to tensor (+ef, aqsgd4, ...): rows are priced apart, each as if it came first; a name
  // twice.
  static absl::StatusOr<PriceCodecs> Make(const std::vector<std::string>& names);

  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return names_.size(); }

  // x: [shape] f32 -> y: what the receiver has of it. `seed`: of codecs that draw. InvalidArgument
  // with the codec's name: NaN or Inf in x.
  absl::StatusOr<BoundaryCount> Cross(size_t codec, uint64_t seed, Shape shape,
                                      std::span<const float> x, std::span<float> y);

 private:
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const Codec>> codecs_;
  std::vector<std::byte> frame_;
};

}  // namespace longhaul
