#pragma once

#include <string>
#include <vector>

#include "compressors/codec.h"

namespace longhaul {

// The state of codecs that keep fp32 tensors between calls: `count` of the tensor's shape, zero at
// first. Saved as rows, cols (u64 each), then the tensors one after the other.
class Accumulators final : public CodecState {
 public:
  // codec: the name of whom it belongs to.
  Accumulators(Shape shape, std::string codec, size_t count);

  Shape shape() const override { return shape_; }
  void Reset() override;
  size_t bytes() const override { return 16 + 4 * values_.size(); }
  void Save(std::span<std::byte> out) const override;
  absl::Status Load(std::span<const std::byte> in) override;

  // Tensor i, [elements].
  float* tensor(size_t i) { return values_.data() + i * shape_.elements(); }
  const std::string& codec() const { return codec_; }

 private:
  const std::string codec_;
  const Shape shape_;
  std::vector<float> values_;
};

// `state` as the accumulators of `codec` for this shape; InvalidArgument when it is something else.
absl::StatusOr<Accumulators*> AccumulatorsOf(CodecState* state, std::string_view codec,
                                             Shape shape);

}  // namespace longhaul
