#pragma once

#include <string>
#include <vector>

#include "compressors/codec.h"

namespace longhaul {

// The state of codecs that keep fp32 numbers between calls: `count` tensors of the tensor's shape
// and `extra` numbers beside them, zero at first. Saved as rows, cols (u64 each), the tensors one
// after the other, the extra numbers.
class Accumulators final : public CodecState {
 public:
  // codec: the name of whom it belongs to.
  Accumulators(Shape shape, std::string codec, size_t count, size_t extra = 0);

  Shape shape() const override { return shape_; }
  void Reset() override;
  size_t bytes() const override { return 16 + 4 * values_.size(); }
  void Save(std::span<std::byte> out) const override;
  absl::Status Load(std::span<const std::byte> in) override;

  // Tensor i, [elements].
  float* tensor(size_t i) { return values_.data() + i * shape_.elements(); }
  std::span<float> extra() { return std::span(values_).last(extra_); }
  const std::string& codec() const { return codec_; }

 private:
  const std::string codec_;
  const Shape shape_;
  const size_t extra_;
  std::vector<float> values_;
};

// `state` as the accumulators of `codec` for this shape; InvalidArgument when it is something else.
absl::StatusOr<Accumulators*> AccumulatorsOf(CodecState* state, std::string_view codec,
                                             Shape shape);

}  // namespace longhaul
