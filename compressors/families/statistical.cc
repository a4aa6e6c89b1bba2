#include "compressors/families/statistical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/families/fixed_length_codec.h"
#include "compressors/families/stat_encoder.h"
#include "compressors/families/stat_layout.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

class StatCodec final : public FixedLengthCodec {
 public:
  StatCodec(std::string_view name, uint16_t id, Isa isa, StatForm form)
      : FixedLengthCodec(
            name, id, isa,
            {.param0 = static_cast<uint32_t>(form.bits), .range_fault = "a sum is beyond fp32"}),
        form_(form),
        bits_(form.bits) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return StatLayout(form_, shape).frame_bytes;
  }
  void ZeroGaps(Shape shape, std::byte* frame) const override {
    const StatLayout layout(form_, shape);
    const size_t tables_end = kFrameHeaderBytes + layout.tables * layout.table_bytes;
    std::memset(frame + tables_end, 0, layout.codes_at - tables_end);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeTensor(const WideReader& reader, const StatLayout& layout,
                          std::span<std::byte> frame, SlicedSums<1>& sums) const;
  BlockFault EncodeRows(const WideReader& reader, const StatLayout& layout,
                        std::span<std::byte> frame, SlicedSums<1>& sums) const;
  bool DecodeTable(const StatLayout& layout, const std::byte* frame, size_t t, StatRange range,
                   const NarrowWriter& writer, RunningSum& running) const;

  const StatForm form_;
  const int bits_;
};

// One table: threads share its chunks, whose sums wait where the codes will stand.
BlockFault StatCodec::EncodeTensor(const WideReader& reader, const StatLayout& layout,
                                   std::span<std::byte> frame, SlicedSums<1>& sums) const {
  std::byte* codes = frame.data() + layout.codes_at;
  StatEncoder encoder(reader, {0, layout.elements}, kernels_, bits_, codes);
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

// A table per row: threads share the rows.
BlockFault StatCodec::EncodeRows(const WideReader& reader, const StatLayout& layout,
                                 std::span<std::byte> frame, SlicedSums<1>& sums) const {
  const Slices slices(layout.tables, kWorthAThread / layout.elements);
  return FirstAnswer(slices, [&](size_t slice) {
    RunningSum running(layout.codes_at + slices.first(slice) * layout.code_bytes);
    for (size_t t = slices.first(slice); t < slices.last(slice); ++t) {
      StatEncoder encoder(reader, {t * layout.elements, (t + 1) * layout.elements}, kernels_, bits_,
                          frame.data() + layout.codes_at + t * layout.code_bytes);
      const BlockFault fault =
          encoder.SetMoments([&encoder](auto term) { return encoder.AddUp(term); });
      if (fault != BlockFault::kNone) return fault;
      BinSums bins(size_t{1} << bits_);
      for (size_t c = 0; c < encoder.chunks(); ++c) encoder.Codes(c, bins, running);
      encoder.StoreTable(bins, frame.data() + kFrameHeaderBytes + t * layout.table_bytes);
    }
    sums.part(0, slice) = running.part();
    return BlockFault::kNone;
  });
}

absl::StatusOr<size_t> StatCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const StatLayout layout(form_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, kernels_);
  SlicedSums<1> sums;
  const BlockFault fault = form_.by_rows ? EncodeRows(reader, layout, frame, sums)
                                         : EncodeTensor(reader, layout, frame, sums);
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  ZeroGaps(x.shape, frame.data());
  SealFrame(HeaderFor(x, 0), frame.first(bytes), sums.Combine(frame.first(bytes)));
  return bytes;
}

// first: a multiple of 8, or 0. False: the table is not finite.
bool StatCodec::DecodeTable(const StatLayout& layout, const std::byte* frame, size_t t,
                            StatRange range, const NarrowWriter& writer,
                            RunningSum& running) const {
  const std::byte* at = frame + kFrameHeaderBytes + t * layout.table_bytes;
  StatTable table;
  std::memcpy(&table.mu, at, 4);
  std::memcpy(table.offset, at + 4, layout.table_bytes - 4);
  const size_t bins = size_t{1} << bits_;
  float value[kMaxStatBins];
  for (size_t b = 0; b < bins; ++b) value[b] = table.offset[b] + table.mu;
  if (kernels_.abs_max(value, bins) >= kInfBits) return false;
  const std::byte* codes =
      frame + layout.codes_at + t * layout.code_bytes + PackedBytes(range.first, bits_);
  constexpr size_t kPiece = 2048;
  for (size_t i = range.first; i < range.last; i += kPiece) {
    const size_t c = std::min(kPiece, range.last - i), bytes = PackedBytes(c, bits_);
    float buffer[kPiece];
    float* values = writer.Target(t * layout.elements + i, buffer);
    running.Add({codes, bytes});
    kernels_.table_values(codes, bits_, c, value, values);
    writer.Done(values, t * layout.elements + i, c);
    codes += bytes;
  }
  return true;
}

absl::Status StatCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenUnsummed(frame, x.shape);
  if (!header.ok()) return header.status();
  const StatLayout layout(form_, x.shape);
  if (frame.size() != layout.frame_bytes || header->block != 0 ||
      header->param0 != static_cast<uint32_t>(bits_)) {
    return absl::DataLossError(fmt::format("{}: {} bytes, {} bits for shape {}", name_,
                                           frame.size(), header->param0, ToString(x.shape)));
  }
  // Threads share the tables, or the elements of the only one in steps of whole bytes.
  const size_t step = layout.tables > 1 ? layout.elements : std::min<size_t>(8, layout.elements);
  const Slices slices((x.shape.elements() + step - 1) / step, kWorthAThread / step);
  SlicedSums<1> sums;
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    size_t first = slices.first(slice) * step;
    const size_t last = std::min(slices.last(slice) * step, x.shape.elements());
    RunningSum running(layout.codes_at + first / layout.elements * layout.code_bytes +
                       PackedBytes(first % layout.elements, bits_));
    while (first < last) {
      const size_t t = first / layout.elements, in_table = first % layout.elements;
      const size_t end = std::min(layout.elements, last - t * layout.elements);
      if (!DecodeTable(layout, frame.data(), t, {in_table, end}, writer, running)) return true;
      first = t * layout.elements + end;
    }
    sums.part(0, slice) = running.part();
    return false;
  });
  if (!bad) return CheckPayloadCrc(frame, sums.Combine(frame));
  return CorruptUnsummed(frame, "a table holds Inf or NaN");
}

}  // namespace

template <int kBits>
std::shared_ptr<const Codec> NewStatCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<StatCodec>(name, id, isa, StatForm{kBits, false});
}
template <int kBits>
std::shared_ptr<const Codec> NewStatRowsCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<StatCodec>(name, id, isa, StatForm{kBits, true});
}

template std::shared_ptr<const Codec> NewStatCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<8>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<8>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
