// `stat2`, `stat4`, `stat8` (MuLoCo, arXiv 2505.23725; hivemind's UNIFORM_8BIT; INTELLECT-1): per
// tensor, mu = mean, sigma with n - 1, 2^k bins of step = 6 sigma / 2^k (1 if sigma is 0) around
// mu, q = clamp(round((x - mu) / step + 2^(k-1)), 0, 2^k - 1), halves up, table[q] = mean of x - mu
// in the bin (0 if empty), xhat = table[q] + mu. Clips at 3 sigma: poor on heavy tails without
// error feedback. For k = 2 the edges lie at -2.25, -0.75 and 0.75 sigma, asymmetric by design.
//
// Payload: mu and table, f32 x (1 + 2^k); then the codes, ceil(n k / 8) bytes. k bits per element +
// 32 (2^k + 1). Sums for mu and
// sigma (stat_encoder.h) in the order of tree_sum.h; positions, and so a bin's sum, are whole
// numbers of units of step / 2^8 (2^15 for k = 8, stat_units.h), so its order does not matter.
// InvalidArgument when a sum is beyond fp32.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/families/stat_encoder.h"
#include "compressors/frame/frame.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

// Where a frame's table and codes lie.
struct StatLayout {
  StatLayout(int bits, size_t elements)
      : table_bytes(4 * (1 + (size_t{1} << bits))),
        codes_at(kFrameHeaderBytes + AlignUp8(table_bytes)),
        frame_bytes(codes_at + PackedBytes(elements, bits)) {}
  size_t table_bytes, codes_at, frame_bytes;
};

class StatCodec final : public FixedLengthCodec {
 public:
  StatCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : FixedLengthCodec(
            name, id, isa,
            {.param0 = static_cast<uint32_t>(bits), .range_fault = "a sum is beyond fp32"}),
        bits_(bits) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return StatLayout(bits_, shape.elements()).frame_bytes;
  }
  void ZeroGaps(Shape shape, std::byte* frame) const override {
    const StatLayout layout(bits_, shape.elements());
    const size_t table_end = kFrameHeaderBytes + layout.table_bytes;
    std::memset(frame + table_end, 0, layout.codes_at - table_end);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeTensor(const WideReader& reader, size_t elements, const StatLayout& layout,
                          std::span<std::byte> frame, SlicedSums<1>& sums) const;

  const int bits_;
};

// Threads share the chunks, whose sums wait where the codes will stand.
BlockFault StatCodec::EncodeTensor(const WideReader& reader, size_t elements,
                                   const StatLayout& layout, std::span<std::byte> frame,
                                   SlicedSums<1>& sums) const {
  std::byte* codes = frame.data() + layout.codes_at;
  StatEncoder encoder(reader, elements, kernels_, bits_, codes);
  constexpr size_t kMostSlices = 8;  // each has bins of its own
  const size_t chunks = encoder.chunks();
  const Slices slices(chunks, std::max(kWorthAThread / kSumChunk, (chunks + 7) / kMostSlices));
  const auto add_up = [&](auto term) {
    if (slices.count() == 1) return encoder.AddUp(term);
    CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
      for (size_t c = slices.first(slice); c < slices.last(slice); ++c) {
        const PivotSums sums_of_chunk = term(c);
        std::memcpy(codes + sizeof(PivotSums) * c, &sums_of_chunk, sizeof(PivotSums));
      }
    });
    return encoder.AddUp([&](size_t c) {
      PivotSums sums_of_chunk;
      std::memcpy(&sums_of_chunk, codes + sizeof(PivotSums) * c, sizeof(PivotSums));
      return sums_of_chunk;
    });
  };
  const BlockFault fault = encoder.SetMoments(add_up);
  if (fault != BlockFault::kNone) return fault;
  BinSums bins[kMostSlices];
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const size_t first = slices.first(slice);
    RunningSum running(layout.codes_at + PackedBytes(first * kSumChunk, bits_));
    for (size_t c = first; c < slices.last(slice); ++c) encoder.Codes(c, bins[slice], running);
    sums.part(0, slice) = running.part();
  });
  for (size_t slice = 1; slice < slices.count(); ++slice) bins[0].Add(bins[slice]);
  encoder.StoreTable(bins[0], frame.data() + kFrameHeaderBytes);
  return BlockFault::kNone;
}

absl::StatusOr<size_t> StatCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const StatLayout layout(bits_, x.shape.elements());
  const size_t bytes = layout.frame_bytes;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  const WideReader reader(x, kernels_);
  SlicedSums<1> sums;
  const BlockFault fault = EncodeTensor(reader, x.shape.elements(), layout, frame, sums);
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  ZeroGaps(x.shape, frame.data());
  SealFrame(HeaderFor(x, 0), frame.first(bytes), sums.Combine(frame.first(bytes)));
  return bytes;
}

absl::Status StatCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenUnsummed(frame, x.shape));
  const StatLayout layout(bits_, x.shape.elements());
  if (frame.size() != layout.frame_bytes || header.block != 0 ||
      header.param0 != static_cast<uint32_t>(bits_)) {
    return absl::DataLossError(fmt::format("{}: {} bytes, {} bits for shape {}", name_,
                                           frame.size(), header.param0, ToString(x.shape)));
  }
  StatTable table;
  std::memcpy(&table.mu, frame.data() + kFrameHeaderBytes, 4);
  std::memcpy(table.offset, frame.data() + kFrameHeaderBytes + 4, layout.table_bytes - 4);
  const size_t bins = size_t{1} << bits_;
  float value[kMaxStatBins];
  for (size_t b = 0; b < bins; ++b) value[b] = table.offset[b] + table.mu;
  if (kernels_.abs_max(value, bins) >= kInfBits) {
    return CorruptUnsummed(frame, "a table holds Inf or NaN");
  }
  // Threads share the elements in steps of whole bytes.
  constexpr size_t kStep = 8, kPiece = 2048;
  const size_t elements = x.shape.elements();
  const Slices slices((elements + kStep - 1) / kStep, kWorthAThread / kStep);
  SlicedSums<1> sums;
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    const size_t first = slices.first(slice) * kStep;
    const size_t last = std::min(slices.last(slice) * kStep, elements);
    const std::byte* codes = frame.data() + layout.codes_at + PackedBytes(first, bits_);
    RunningSum running(layout.codes_at + PackedBytes(first, bits_));
    float buffer[kPiece];
    for (size_t i = first; i < last; i += kPiece) {
      const size_t c = std::min(kPiece, last - i), bytes = PackedBytes(c, bits_);
      float* values = writer.Target(i, buffer);
      running.Add({codes, bytes});
      kernels_.table_values(codes, bits_, c, value, values);
      writer.Done(values, i, c);
      codes += bytes;
    }
    sums.part(0, slice) = running.part();
  });
  return CheckPayloadCrc(frame, sums.Combine(frame));
}

}  // namespace

template <int kBits>
std::shared_ptr<const Codec> NewStatCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<StatCodec>(name, id, isa, kBits);
}
template std::shared_ptr<const Codec> NewStatCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<8>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
