// `dgc` (Deep Gradient Compression, arXiv 1712.01887): momentum correction and factor masking
// around a sparse codec. With momentum m: u <- m u + x, v <- v + u, sends v; where the receiver
// gets something (its value is not 0), u and v become 0. What is not sent accumulates in v with its
// momentum, so the optimizer behind it runs without one.
//
// The wire is the inner codec's, with flag "sender used EF"; decoding needs no state. The state
// holds u and v (8 n bytes, saved); encoding takes 12 n bytes of scratch memory per thread.
// Clipping and the warm-up of the density are for the training loop.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/frame/frame.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/scratch.h"
#include "compressors/states/accumulators.h"

namespace longhaul {
namespace {

class MomentumCorrectionCodec final : public CatalogCodec {
 public:
  MomentumCorrectionCodec(std::shared_ptr<const Codec> inner, std::string_view name, float momentum,
                          Isa isa)
      : CatalogCodec(name, inner->id(), isa), inner_(std::move(inner)), momentum_(momentum) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return inner_->MaxFrameBytes(shape, DType::kF32);  // v is fp32
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Accumulators>(shape, name_, 2);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override {
    return inner_->Decode(frame, nullptr, x);
  }

 private:
  const std::shared_ptr<const Codec> inner_;
  const float momentum_;
};

absl::StatusOr<size_t> MomentumCorrectionCodec::Encode(ConstTensor x, uint64_t seed,
                                                       CodecState* state,
                                                       std::span<std::byte> frame) const {
  ASSIGN_OR_RETURN(Accumulators* const own, AccumulatorsOf(state, name_, x.shape));
  const size_t n = x.shape.elements();
  float* u = own->tensor(0);
  float* v = own->tensor(1);
  const std::span<float> both = Scratch<float, ScratchUse::kSum>(2 * n);
  float* new_u = both.data();
  float* new_v = both.data() + n;
  WideReader(x, kernels_).Read(0, n, new_u);  // NaN and Inf are the inner codec's to refuse
  for (size_t i = 0; i < n; ++i) {
    new_u[i] = momentum_ * u[i] + new_u[i];
    new_v[i] = v[i] + new_u[i];
  }
  const absl::StatusOr<size_t> bytes =
      inner_->Encode({new_v, DType::kF32, x.shape}, seed, nullptr, frame);
  if (!bytes.ok()) return bytes;
  float* sent = Scratch<float, ScratchUse::kDecoded>(n).data();
  if (absl::Status s = inner_->Decode(frame.first(*bytes), nullptr, {sent, DType::kF32, x.shape});
      !s.ok()) {
    return absl::InternalError(
        fmt::format("{}: own frame does not decode: {}", name_, std::string(s.message())));
  }
  for (size_t i = 0; i < n; ++i) {
    u[i] = sent[i] != 0 ? 0.0f : new_u[i];
    v[i] = sent[i] != 0 ? 0.0f : new_v[i];
  }
  AddFrameFlags(kFlagErrorFeedback, frame.first(*bytes));
  return bytes;
}

}  // namespace

std::shared_ptr<const Codec> NewMomentumCorrectionCodec(std::shared_ptr<const Codec> inner,
                                                        std::string_view name, float momentum,
                                                        Isa isa) {
  return std::make_shared<MomentumCorrectionCodec>(std::move(inner), name, momentum, isa);
}

}  // namespace longhaul
