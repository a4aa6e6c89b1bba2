#include "compressors/mean_std.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/codec_frame.h"
#include "compressors/loop_kernels.h"
#include "compressors/payload_sum.h"
#include "compressors/tree_sum.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr float kSmallestStd = 0x1p-23f;

struct MeanStdLayout {
  explicit MeanStdLayout(Shape shape)
      : stds_at(kFrameHeaderBytes + AlignUp8(4 * shape.rows)),
        values_at(stds_at + AlignUp8(4 * shape.rows)),
        frame_bytes(values_at + 2 * shape.elements()) {}
  size_t stds_at, values_at, frame_bytes;
};

struct Moments {
  float mean, std;
};

class MeanStdCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return MeanStdLayout(shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  absl::StatusOr<Moments> Measure(const WideReader& reader, size_t first, size_t n) const;
};

// Of elements [first, first + n).
absl::StatusOr<Moments> MeanStdCodec::Measure(const WideReader& reader, size_t first,
                                              size_t n) const {
  const LoopKernels& loops = LoopKernelsOf(isa_);
  float buffer[kSumChunk];
  double sum = 0, squares = 0;
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    sum += loops.sum(reader.Peek(first + at, c, buffer), c);
  }
  for (size_t at = 0; !std::isfinite(sum) && at < n; at += kSumChunk) {
    if (reader.View(first + at, std::min(kSumChunk, n - at), buffer) == nullptr) {
      return NotFiniteError(name_);
    }
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    squares += loops.sum_squares(reader.Peek(first + at, c, buffer), c, mean);
  }
  if (!std::isfinite(mean) || !std::isfinite(squares)) return RangeError(name_, "a sum");
  const auto std = static_cast<float>(std::sqrt(squares / static_cast<double>(n)));
  return Moments{mean, std::max(std, kSmallestStd)};
}

absl::StatusOr<size_t> MeanStdCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                            std::span<std::byte> frame) const {
  const MeanStdLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, isa_);
  const ConvertFn narrow = Converter(isa_, DType::kF32, DType::kF16);
  std::memset(frame.data() + layout.stds_at - 8, 0, 8);
  std::memset(frame.data() + layout.values_at - 8, 0, 8);
  std::byte* out = frame.data() + layout.values_at;
  RunningSum running(layout.values_at);
  const size_t cols = x.shape.cols;
  for (size_t r = 0; r < x.shape.rows; ++r) {
    const absl::StatusOr<Moments> moments = Measure(reader, r * cols, cols);
    if (!moments.ok()) return moments.status();
    const auto [mean, std] = *moments;
    std::memcpy(frame.data() + kFrameHeaderBytes + 4 * r, &mean, 4);
    std::memcpy(frame.data() + layout.stds_at + 4 * r, &std, 4);
    const float inverse = 1.0f / std;
    float values[kSumChunk];
    for (size_t at = 0; at < cols; at += kSumChunk) {
      const size_t c = std::min(kSumChunk, cols - at);
      const float* x_at = reader.Peek(r * cols + at, c, values);
      LoopKernelsOf(isa_).standardize(x_at, c, mean, inverse, values);
      narrow(reinterpret_cast<const std::byte*>(values), c, out);
      running.Add({out, 2 * c});
      out += 2 * c;
    }
  }
  const std::span<std::byte> whole = frame.first(layout.frame_bytes);
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .param0 = 16,
                              .shape = x.shape,
                              .payload_bytes = layout.frame_bytes - kFrameHeaderBytes};
  SealFrame(header, whole, PayloadCrc(whole, {&running.part(), 1}));
  return layout.frame_bytes;
}

absl::Status MeanStdCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const MeanStdLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header->block != 0 || header->param0 != 16) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const NarrowWriter writer(x, isa_);
  const ConvertFn widen = Converter(isa_, DType::kF16, DType::kF32);
  const std::byte* in = frame.data() + layout.values_at;
  const size_t cols = x.shape.cols;
  for (size_t r = 0; r < x.shape.rows; ++r) {
    float mean, std;
    std::memcpy(&mean, frame.data() + kFrameHeaderBytes + 4 * r, 4);
    std::memcpy(&std, frame.data() + layout.stds_at + 4 * r, 4);
    if (!std::isfinite(mean) || !std::isfinite(std)) return Corrupt("a mean or deviation is Inf");
    float values[kSumChunk];
    for (size_t at = 0; at < cols; at += kSumChunk) {
      const size_t c = std::min(kSumChunk, cols - at);
      if (!widen(in, c, reinterpret_cast<std::byte*>(values))) return Corrupt("a value is Inf");
      float* target = writer.Target(r * cols + at, values);
      LoopKernelsOf(isa_).restore(values, c, mean, std, target);
      writer.Done(target, r * cols + at, c);
      in += 2 * c;
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewMeanStdCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<MeanStdCodec>(name, id, isa);
}

}  // namespace longhaul
