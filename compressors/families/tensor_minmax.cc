// `minmax2-tensor`, `minmax3-tensor`, `minmax4-tensor` (arXiv 2401.07788, whose quantiser takes the smallest and the
// largest element of the whole tensor): z = min, s = (max - min) / (2^k - 1), q = clamp(rne((x - z) / s), 0, 2^k - 1),
// xhat = z + q s; a tensor whose s is below 2^-126 is the constant z. A control for experiments: one value far out makes all others coarse, which blocks prevent.
//
// Payload: z f32, s f32; codes, ceil(n k / 8) bytes. k + 64/n bits per element. InvalidArgument when max - min is beyond
// fp32.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"

namespace longhaul {
namespace {

constexpr size_t kPiece = 1024;  // a multiple of 8: the codes of a piece are whole bytes
constexpr size_t kZeroAt = kFrameHeaderBytes, kScaleAt = kZeroAt + 4, kCodesAt = kScaleAt + 4;

// Rounded down where decoding the top code would overflow; Inf when the range does.
float ScaleOf(float z, float most, float levels) {
  const float s = (most - z) / levels;
  if (!(s >= 0x1p-126f)) return 0;
  return std::isfinite(s) && !std::isfinite(z + levels * s) ? std::nextafter(s, 0.0f) : s;
}

class TensorMinMaxCodec final : public FixedLengthCodec {
 public:
  TensorMinMaxCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : FixedLengthCodec(name, id, isa,
                         {.param0 = static_cast<uint32_t>(bits),
                          .range_fault = "max - min of the tensor is beyond fp32"}),
        bits_(bits) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return kCodesAt + PackedBytes(shape.elements(), bits_);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  // Calls visit(at, count) for each piece until it answers false.
  template <typename Visit>
  static bool EachPiece(Shape shape, Visit visit) {
    for (size_t at = 0; at < shape.elements(); at += kPiece) {
      if (!visit(at, std::min(kPiece, shape.elements() - at))) return false;
    }
    return true;
  }
  size_t CodesOf(size_t at) const { return kCodesAt + PackedBytes(at, bits_); }

  const int bits_;
};

absl::StatusOr<size_t> TensorMinMaxCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                                 std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  const WideReader reader(x, kernels_);
  float values[kPiece];
  float z = std::numeric_limits<float>::max(), most = -z;
  const bool finite = EachPiece(x.shape, [&](size_t at, size_t c) {
    const float* piece = reader.View(at, c, values);
    if (piece == nullptr) return false;
    float low, high;
    kernels_.range(piece, c, &low, &high);
    z = std::min(z, low);
    most = std::max(most, high);
    return true;
  });
  if (!finite) return FaultStatus(BlockFault::kNotFinite);
  if (x.shape.elements() == 0) z = most = 0;
  z += 0.0f;  // +0 for -0, which compare alike
  const auto levels = static_cast<float>((1 << bits_) - 1);
  const float s = ScaleOf(z, most, levels);
  if (!std::isfinite(s)) return FaultStatus(BlockFault::kRange);
  std::memcpy(frame.data() + kZeroAt, &z, 4);
  std::memcpy(frame.data() + kScaleAt, &s, 4);
  const float inverse = s == 0 ? 0.0f : 1.0f / s;
  uint8_t q[kPiece];
  EachPiece(x.shape, [&](size_t at, size_t c) {
    const float* piece = reader.Peek(at, c, values);
    kernels_.affine_codes(piece, c, z, inverse, /*offset=*/0, s == 0 ? 0.0f : levels, q);
    PackBits({q, c}, bits_, {frame.data() + CodesOf(at), PackedBytes(c, bits_)});
    return true;
  });
  SealFrame(HeaderFor(x, seed), frame.first(bytes));
  return bytes;
}

absl::Status TensorMinMaxCodec::Decode(std::span<const std::byte> frame, CodecState*,
                                       Tensor x) const {
  RETURN_IF_ERROR(Open(frame, x.shape).status());
  float z, s;
  std::memcpy(&z, frame.data() + kZeroAt, 4);
  std::memcpy(&s, frame.data() + kScaleAt, 4);
  if (!std::isfinite(z) || !std::isfinite(s)) return Corrupt("a scale is Inf or NaN");
  const NarrowWriter writer(x, kernels_);
  float values[kPiece];
  uint8_t q[kPiece];
  EachPiece(x.shape, [&](size_t at, size_t c) {
    UnpackBits({frame.data() + CodesOf(at), PackedBytes(c, bits_)}, bits_, {q, c});
    float* target = writer.Target(at, values);
    kernels_.affine_values(q, c, z, s, target);
    writer.Done(target, at, c);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace

template <int kBits>
std::shared_ptr<const Codec> NewTensorMinMaxCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<TensorMinMaxCodec>(name, id, isa, kBits);
}
template std::shared_ptr<const Codec> NewTensorMinMaxCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewTensorMinMaxCodec<3>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewTensorMinMaxCodec<4>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
