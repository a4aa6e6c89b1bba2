// `qsgd4`, `qsgd8` (QSGD, arXiv 1610.02132): buckets of a row, norm v fp32, step = v / s; level =
// min(s, floor(|x| / step + u)), u uniform in [0, 1) by the frame's seed and the element's number
// (noise.h), so that the expectation is x; xhat = +-level step.
//   qsgd4   buckets of 512, v = max|x|, s = 7      4.0625 bits per element
//   qsgd8   buckets of 8192, v = ||x||_2, s = 127  8.004 bits; its variance is at most min(d / s^2,
//           sqrt(d) / s) ||x||^2 for d elements
// A bucket whose step is below 2^-126 is zero. No error feedback: the codec is unbiased.
//
// Payload: v [buckets] f32; codes, full bucket k B / 8 bytes, short bucket of c ceil(c k / 8): the
// level in the low k - 1 bits, the sign above. InvalidArgument when a norm is beyond fp32.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

constexpr size_t kMaxBucket = 8192;

struct QsgdLayout {
  QsgdLayout(int bits, size_t bucket, Shape shape)
      : cols(shape.cols),
        bucket(bucket),
        bucket_bytes(PackedBytes(bucket, bits)),
        row_buckets((shape.cols + bucket - 1) / bucket),
        row_bytes(shape.cols / bucket * bucket_bytes + PackedBytes(shape.cols % bucket, bits)),
        buckets(shape.rows * row_buckets),
        codes_at(kFrameHeaderBytes + AlignUp8(4 * buckets)),
        frame_bytes(codes_at + shape.rows * row_bytes) {}
  // Bucket b of the tensor, counted along the rows: its elements, and where its codes lie.
  size_t first(size_t b) const { return b / row_buckets * cols + b % row_buckets * bucket; }
  size_t length(size_t b) const { return std::min(bucket, cols - b % row_buckets * bucket); }
  size_t CodesOf(size_t b) const {
    return codes_at + b / row_buckets * row_bytes + b % row_buckets * bucket_bytes;
  }
  // How threads share the buckets.
  Slices slices() const { return {buckets, kWorthAThread / std::min(bucket, cols)}; }
  size_t cols, bucket, bucket_bytes, row_buckets, row_bytes, buckets, codes_at, frame_bytes;
};

// v / s, rounded down where s steps would otherwise overflow.
float StepOf(float norm, float levels) {
  const float step = norm / levels;
  return std::isfinite(step * levels) ? step : std::nextafter(step, 0.0f);
}

class QsgdCodec final : public FixedLengthCodec {
 public:
  QsgdCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : FixedLengthCodec(name, id, isa,
                         {.block = bits == 4 ? 512u : uint32_t{kMaxBucket},
                          .param0 = static_cast<uint32_t>(bits),
                          .flags = kFlagStochastic,
                          .range_fault = "a norm is beyond fp32"}),
        bits_(bits),
        bucket_(bits == 4 ? 512 : kMaxBucket),
        levels_(static_cast<float>((1 << (bits - 1)) - 1)) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return QsgdLayout(bits_, bucket_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  float Norm(const float* x, size_t c) const;
  BlockFault EncodeBucket(const QsgdLayout& layout, const WideReader& reader, uint64_t seed,
                          size_t b, std::byte* frame) const;
  bool DecodeBucket(const QsgdLayout& layout, const std::byte* frame, size_t b,
                    const NarrowWriter& writer) const;

  const int bits_;
  const size_t bucket_;
  const float levels_;
};

// The bucket's v; 0 where the step would be too small, Inf where the norm is beyond fp32.
float QsgdCodec::Norm(const float* x, size_t c) const {
  float norm;
  if (bits_ == 4) {
    norm = FromBits(kernels_.abs_max(x, c));
  } else {
    double squares = 0;
    for (size_t at = 0; at < c; at += kSumChunk) {
      squares += kernels_.sum_squares(x + at, std::min(kSumChunk, c - at), 0);
    }
    norm = static_cast<float>(std::sqrt(squares));
  }
  return norm / levels_ < 0x1p-126f ? 0.0f : norm;
}

BlockFault QsgdCodec::EncodeBucket(const QsgdLayout& layout, const WideReader& reader,
                                   uint64_t seed, size_t b, std::byte* frame) const {
  const size_t c = layout.length(b), first = layout.first(b);
  float values[kMaxBucket], u[kMaxBucket + 8];
  uint8_t q[kMaxBucket], sign[kMaxBucket];
  if (!reader.Read(first, c, values)) return BlockFault::kNotFinite;
  const float norm = Norm(values, c);
  if (!std::isfinite(norm)) return BlockFault::kRange;
  std::memcpy(frame + kFrameHeaderBytes + 4 * b, &norm, 4);
  // Noise is drawn by the element's number, in whole groups of four.
  const size_t skip = first % 4;
  kernels_.uniform(seed, static_cast<uint32_t>(NoisePurpose::kRounding), first - skip, c + skip, u);
  const float inverse = norm == 0 ? 0.0f : 1.0f / StepOf(norm, levels_);
  for (size_t i = 0; i < c; ++i) {
    sign[i] = static_cast<uint8_t>(BitsOf(values[i]) >> 31 << (bits_ - 1));
    values[i] = FromBits(BitsOf(values[i]) & kAbsMask);
  }
  kernels_.noisy_codes(values, u + skip, c, 0, inverse, norm == 0 ? 0.0f : levels_, q);
  for (size_t i = 0; i < c; ++i) q[i] |= sign[i];
  PackBits({q, c}, bits_, {frame + layout.CodesOf(b), PackedBytes(c, bits_)});
  return BlockFault::kNone;
}

// False: the norm is Inf or NaN.
bool QsgdCodec::DecodeBucket(const QsgdLayout& layout, const std::byte* frame, size_t b,
                             const NarrowWriter& writer) const {
  const auto mask = static_cast<uint8_t>((1 << (bits_ - 1)) - 1);
  const size_t c = layout.length(b);
  float values[kMaxBucket], norm;
  uint8_t q[kMaxBucket];
  std::memcpy(&norm, frame + kFrameHeaderBytes + 4 * b, 4);
  if (!std::isfinite(norm)) return false;
  const float step = StepOf(norm, levels_);
  UnpackBits({frame + layout.CodesOf(b), PackedBytes(c, bits_)}, bits_, {q, c});
  for (size_t i = 0; i < c; ++i) {
    const float size = static_cast<float>(static_cast<int>(q[i] & mask)) * step;
    values[i] = FromBits(BitsOf(size) ^ static_cast<uint32_t>(q[i] & ~mask & 0xFF) << (32 - bits_));
  }
  writer.Write(values, layout.first(b), c);
  return true;
}

absl::StatusOr<size_t> QsgdCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                         std::span<std::byte> frame) const {
  const QsgdLayout layout(bits_, bucket_, x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, kernels_);
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  const Slices slices = layout.slices();
  const BlockFault fault = FirstAnswer(slices, [&](size_t slice) {
    for (size_t b = slices.first(slice); b < slices.last(slice); ++b) {
      const BlockFault found = EncodeBucket(layout, reader, seed, b, frame.data());
      if (found != BlockFault::kNone) return found;
    }
    return BlockFault::kNone;
  });
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  SealFrame(HeaderFor(x, seed), frame.first(layout.frame_bytes));
  return layout.frame_bytes;
}

absl::Status QsgdCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, Open(frame, x.shape));
  const QsgdLayout layout(bits_, bucket_, x.shape);
  if (frame.size() != layout.frame_bytes || header.block != bucket_ ||
      header.param0 != static_cast<uint32_t>(bits_)) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const Slices slices = layout.slices();
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    for (size_t b = slices.first(slice); b < slices.last(slice); ++b) {
      if (!DecodeBucket(layout, frame.data(), b, writer)) return true;
    }
    return false;
  });
  return bad ? Corrupt("a norm is Inf or NaN") : absl::OkStatus();
}

}  // namespace

template <int kBits>
std::shared_ptr<const Codec> NewQsgdCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<QsgdCodec>(name, id, isa, kBits);
}
template std::shared_ptr<const Codec> NewQsgdCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewQsgdCodec<8>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
