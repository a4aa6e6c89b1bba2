#include "compressors/families/mean_std.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/families/fixed_length_codec.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/streaming.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

constexpr float kSmallestStd = 0x1p-23f;
constexpr size_t kHalvesPiece = 2048;  // elements worked on at once

struct MeanStdLayout {
  explicit MeanStdLayout(Shape shape)
      : stds_at(kFrameHeaderBytes + AlignUp8(4 * shape.rows)),
        values_at(stds_at + AlignUp8(4 * shape.rows)),
        frame_bytes(values_at + 2 * shape.elements()) {}
  size_t stds_at, values_at, frame_bytes;
};

struct Moments {
  float mean = 0, std = 0;
  BlockFault fault = BlockFault::kNone;
};

class MeanStdCodec final : public FixedLengthCodec {
 public:
  MeanStdCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa, {.param0 = 16, .range_fault = "a sum is beyond fp32"}) {}
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return MeanStdLayout(shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  Moments Measure(const WideReader& reader, size_t first, size_t n) const;
  void EncodeRow(const WideReader& reader, size_t first, size_t n, const Moments& moments,
                 bool stream, std::byte* out, RunningSum& running) const;
  bool DecodeRow(const std::byte* in, size_t first, size_t n, const Moments& moments,
                 const NarrowWriter& writer, RunningSum& running) const;
};

// Of elements [first, first + n).
Moments MeanStdCodec::Measure(const WideReader& reader, size_t first, size_t n) const {
  float buffer[kSumChunk];
  double sum = 0, squares = 0;
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    sum += kernels_.sum(reader.Peek(first + at, c, buffer), c);
  }
  for (size_t at = 0; !std::isfinite(sum) && at < n; at += kSumChunk) {
    if (reader.View(first + at, std::min(kSumChunk, n - at), buffer) == nullptr) {
      return {.fault = BlockFault::kNotFinite};
    }
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    squares += kernels_.sum_squares(reader.Peek(first + at, c, buffer), c, mean);
  }
  if (!std::isfinite(mean) || !std::isfinite(squares)) return {.fault = BlockFault::kRange};
  const auto std = static_cast<float>(std::sqrt(squares / static_cast<double>(n)));
  return {.mean = mean, .std = std::max(std, kSmallestStd)};
}

void MeanStdCodec::EncodeRow(const WideReader& reader, size_t first, size_t n,
                             const Moments& moments, bool stream, std::byte* out,
                             RunningSum& running) const {
  const float inverse = 1.0f / moments.std;
  float buffer[kHalvesPiece];
  alignas(64) std::byte staged[2 * kHalvesPiece];
  for (size_t at = 0; at < n; at += kHalvesPiece, out += 2 * kHalvesPiece) {
    const size_t c = std::min(kHalvesPiece, n - at);
    std::byte* halves = stream ? staged : out;
    kernels_.standardize(reader.Peek(first + at, c, buffer), c, moments.mean, inverse, halves);
    running.Add({halves, 2 * c});
    if (stream) kernels_.stream(staged, 2 * c, out);
  }
}

absl::StatusOr<size_t> MeanStdCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                            std::span<std::byte> frame) const {
  const MeanStdLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, kernels_);
  std::memset(frame.data() + layout.stds_at - 8, 0, 8);
  std::memset(frame.data() + layout.values_at - 8, 0, 8);
  const bool stream = layout.frame_bytes >= kStreamedBytes;
  const size_t cols = x.shape.cols;
  const Slices slices(x.shape.rows, kWorthAThread / cols);
  SlicedSums<1> sums;
  const BlockFault fault = FirstAnswer(slices, [&](size_t slice) {
    RunningSum running(layout.values_at + 2 * cols * slices.first(slice));
    for (size_t r = slices.first(slice); r < slices.last(slice); ++r) {
      const Moments moments = Measure(reader, r * cols, cols);
      if (moments.fault != BlockFault::kNone) return moments.fault;
      std::memcpy(frame.data() + kFrameHeaderBytes + 4 * r, &moments.mean, 4);
      std::memcpy(frame.data() + layout.stds_at + 4 * r, &moments.std, 4);
      EncodeRow(reader, r * cols, cols, moments, stream,
                frame.data() + layout.values_at + 2 * cols * r, running);
    }
    if (stream) FinishStreaming();
    sums.part(0, slice) = running.part();
    return BlockFault::kNone;
  });
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  const std::span<std::byte> whole = frame.first(layout.frame_bytes);
  SealFrame(HeaderFor(x, 0), whole, sums.Combine(whole));
  return layout.frame_bytes;
}

// False: a value is Inf or NaN.
bool MeanStdCodec::DecodeRow(const std::byte* in, size_t first, size_t n, const Moments& moments,
                             const NarrowWriter& writer, RunningSum& running) const {
  float buffer[kHalvesPiece];
  for (size_t at = 0; at < n; at += kHalvesPiece, in += 2 * kHalvesPiece) {
    const size_t c = std::min(kHalvesPiece, n - at);
    running.Add({in, 2 * c});
    float* target = writer.Target(first + at, buffer);
    if (!kernels_.restore(in, c, moments.mean, moments.std, target)) return false;
    writer.Done(target, first + at, c);
  }
  return true;
}

absl::Status MeanStdCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenUnsummed(frame, x.shape);
  if (!header.ok()) return header.status();
  const MeanStdLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header->block != 0 || header->param0 != 16) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const size_t cols = x.shape.cols;
  const Slices slices(x.shape.rows, kWorthAThread / cols);
  SlicedSums<1> sums;
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    RunningSum running(layout.values_at + 2 * cols * slices.first(slice));
    for (size_t r = slices.first(slice); r < slices.last(slice); ++r) {
      Moments moments;
      std::memcpy(&moments.mean, frame.data() + kFrameHeaderBytes + 4 * r, 4);
      std::memcpy(&moments.std, frame.data() + layout.stds_at + 4 * r, 4);
      if (!std::isfinite(moments.mean) || !std::isfinite(moments.std) ||
          !DecodeRow(frame.data() + layout.values_at + 2 * cols * r, r * cols, cols, moments,
                     writer, running)) {
        return true;
      }
    }
    sums.part(0, slice) = running.part();
    return false;
  });
  if (!bad) return CheckPayloadCrc(frame, sums.Combine(frame));
  return CorruptUnsummed(frame, "a mean, deviation or value is Inf or NaN");
}

}  // namespace

std::shared_ptr<const Codec> NewMeanStdCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<MeanStdCodec>(name, id, isa);
}

}  // namespace longhaul
