#include "compressors/statistical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/codec_frame.h"
#include "compressors/codec_threads.h"
#include "compressors/loop_kernels.h"
#include "compressors/payload_sum.h"
#include "compressors/stat_codes.h"
#include "compressors/tree_sum.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kMaxBins = 256;
constexpr size_t kStatPiece = 1024;  // elements that stay in the nearest cache beside the bins

// One tensor or row: mean, and what every code stands for beside it.
struct Table {
  float mu = 0;
  float offset[kMaxBins] = {};
};

enum class Scope { kTensor, kRow };

struct StatLayout {
  StatLayout(int bits, Scope scope, Shape shape)
      : tables(scope == Scope::kRow ? shape.rows : 1),
        elements(scope == Scope::kRow ? shape.cols : shape.elements()),
        table_bytes(4 * (1 + (size_t{1} << bits))),
        code_bytes(PackedBytes(elements, bits)),
        codes_at(kFrameHeaderBytes + AlignUp8(tables * table_bytes)),
        frame_bytes(codes_at + tables * code_bytes) {}
  size_t tables, elements, table_bytes, code_bytes, codes_at, frame_bytes;
};

// Elements [first, last) of a table's.
struct ElementRange {
  size_t first, last;
};

enum class StatFault { kNone, kNotFinite, kRange };

class StatCodec final : public Codec {
 public:
  StatCodec(std::string_view name, uint16_t id, Isa isa, int bits, Scope scope)
      : name_(name), id_(id), isa_(isa), bits_(bits), scope_(scope) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return StatLayout(bits_, scope_, shape).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  StatFault WhyNotFinite(const WideReader& reader, size_t first, size_t n) const;
  void EncodePiece(std::span<const float> x, float mu, float inverse, BinSlot* slots,
                   std::byte* codes) const;
  StatFault EncodeTable(const WideReader& reader, size_t first, size_t n, Table& table,
                        std::byte* codes, RunningSum& running) const;
  bool DecodeTable(const StatLayout& layout, const std::byte* frame, size_t t, ElementRange range,
                   const NarrowWriter& writer, RunningSum& running) const;

  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const int bits_;
  const Scope scope_;
};

// The bins' width, 1 where sigma says nothing.
float Step(double squares, size_t n, int bins) {
  const auto sigma = static_cast<float>(std::sqrt(squares / static_cast<double>(n - 1)));
  const float step = 6 * sigma / static_cast<float>(bins);
  return step >= 0x1p-126f && step < INFINITY ? step : 1.0f;
}

// Of elements whose sum is not finite.
StatFault StatCodec::WhyNotFinite(const WideReader& reader, size_t first, size_t n) const {
  float buffer[kSumChunk];
  for (size_t at = 0; at < n; at += kSumChunk) {
    if (reader.View(first + at, std::min(kSumChunk, n - at), buffer) == nullptr) {
      return StatFault::kNotFinite;
    }
  }
  return StatFault::kRange;
}

// x -> codes, and into the bins' sums.
void StatCodec::EncodePiece(std::span<const float> x, float mu, float inverse, BinSlot* slots,
                            std::byte* codes) const {
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const StatCodesFn encode = StatCodesOf(isa_);
  const int bins = 1 << bits_;
  uint8_t q[kStatPiece];
  const size_t done =
      encode == nullptr ? 0 : encode(x.data(), x.size(), mu, inverse, bits_, q, codes);
  const size_t rest = x.size() - done;
  loops.affine_codes(x.data() + done, rest, mu, inverse, static_cast<float>(bins) / 2,
                     static_cast<float>(bins - 1), q + done);
  PackBits({q + done, rest}, bits_, {codes + PackedBytes(done, bits_), PackedBytes(rest, bits_)});
  loops.add_to_bins(q, x.data(), mu, x.size(), static_cast<size_t>(bins), slots);
}

// Elements [first, first + n) -> mean, table and codes, chunk by chunk of the summing order.
StatFault StatCodec::EncodeTable(const WideReader& reader, size_t first, size_t n, Table& table,
                                 std::byte* codes, RunningSum& running) const {
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const int bins = 1 << bits_;
  float buffer[kSumChunk];
  double sum = 0, squares = 0;
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    sum += loops.sum(reader.Peek(first + at, c, buffer), c);
  }
  if (!std::isfinite(sum)) return WhyNotFinite(reader, first, n);
  const auto mu = static_cast<float>(sum / static_cast<double>(n));
  table.mu = mu;
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    squares += loops.sum_squares(reader.Peek(first + at, c, buffer), c, mu);
  }
  if (!std::isfinite(mu) || !std::isfinite(squares)) return StatFault::kRange;

  const float inverse = 1.0f / Step(squares, n, bins);
  alignas(64) BinSlot slots[4 * kMaxBins];
  std::memset(slots, 0, 4 * sizeof(BinSlot) * static_cast<size_t>(bins));
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    const float* x = reader.Peek(first + at, c, buffer);
    for (size_t i = 0; i < c; i += kStatPiece) {
      EncodePiece({x + i, std::min(kStatPiece, c - i)}, mu, inverse, slots,
                  codes + PackedBytes(i, bits_));
    }
    running.Add({codes, PackedBytes(c, bits_)});
    codes += PackedBytes(c, bits_);
  }
  loops.bin_means(slots, static_cast<size_t>(bins), table.offset);
  return StatFault::kNone;
}

absl::StatusOr<size_t> StatCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const StatLayout layout(bits_, scope_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, isa_);
  const Slices slices(layout.tables, kWorthAThread / layout.elements);
  SlicedSums<1> sums;
  StatFault faults[Slices::kMost] = {};
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    RunningSum running(layout.codes_at + slices.first(slice) * layout.code_bytes);
    Table table;
    for (size_t t = slices.first(slice); t < slices.last(slice); ++t) {
      faults[slice] = EncodeTable(reader, t * layout.elements, layout.elements, table,
                                  frame.data() + layout.codes_at + t * layout.code_bytes, running);
      if (faults[slice] != StatFault::kNone) return;
      std::byte* at = frame.data() + kFrameHeaderBytes + t * layout.table_bytes;
      std::memcpy(at, &table.mu, 4);
      std::memcpy(at + 4, table.offset, layout.table_bytes - 4);
    }
    sums.part(0, slice) = running.part();
  });
  for (const StatFault fault : faults) {  // the first one in the tensor
    if (fault == StatFault::kNotFinite) return NotFiniteError(name_);
    if (fault == StatFault::kRange) return RangeError(name_, "a sum");
  }
  const size_t tables_end = kFrameHeaderBytes + layout.tables * layout.table_bytes;
  std::memset(frame.data() + tables_end, 0, layout.codes_at - tables_end);
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .param0 = static_cast<uint32_t>(bits_),
                              .shape = x.shape,
                              .payload_bytes = bytes - kFrameHeaderBytes};
  SealFrame(header, frame.first(bytes), sums.Join(frame.first(bytes)));
  return bytes;
}

// first: a multiple of 8, or 0. False: the table is not finite.
bool StatCodec::DecodeTable(const StatLayout& layout, const std::byte* frame, size_t t,
                            ElementRange range, const NarrowWriter& writer,
                            RunningSum& running) const {
  const std::byte* at = frame + kFrameHeaderBytes + t * layout.table_bytes;
  Table table;
  std::memcpy(&table.mu, at, 4);
  std::memcpy(table.offset, at + 4, layout.table_bytes - 4);
  float value[kMaxBins];
  for (size_t b = 0; b < size_t{1} << bits_; ++b) {
    value[b] = table.offset[b] + table.mu;
    if (!std::isfinite(value[b])) return false;
  }
  const std::byte* codes =
      frame + layout.codes_at + t * layout.code_bytes + PackedBytes(range.first, bits_);
  constexpr size_t kPiece = 2048;
  for (size_t i = range.first; i < range.last; i += kPiece) {
    const size_t c = std::min(kPiece, range.last - i), bytes = PackedBytes(c, bits_);
    float buffer[kPiece];
    float* values = writer.Target(t * layout.elements + i, buffer);
    running.Add({codes, bytes});
    LoopKernelsOf(isa_).table_values(codes, bits_, c, value, values);
    writer.Done(values, t * layout.elements + i, c);
    codes += bytes;
  }
  return true;
}

absl::Status StatCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenUnsummedFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const StatLayout layout(bits_, scope_, x.shape);
  if (frame.size() != layout.frame_bytes || header->block != 0 ||
      header->param0 != static_cast<uint32_t>(bits_)) {
    return absl::DataLossError(fmt::format("{}: {} bytes, {} bits for shape {}", name_,
                                           frame.size(), header->param0, ToString(x.shape)));
  }
  // Threads share the tables, or the elements of the only one in steps of whole bytes.
  const size_t step = layout.tables > 1 ? layout.elements : std::min<size_t>(8, layout.elements);
  const Slices slices((x.shape.elements() + step - 1) / step, kWorthAThread / step);
  SlicedSums<1> sums;
  bool bad[Slices::kMost] = {};
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const NarrowWriter writer(x, isa_);
    size_t first = slices.first(slice) * step;
    const size_t last = std::min(slices.last(slice) * step, x.shape.elements());
    RunningSum running(layout.codes_at + first / layout.elements * layout.code_bytes +
                       PackedBytes(first % layout.elements, bits_));
    for (; first < last && !bad[slice];) {
      const size_t t = first / layout.elements, in_table = first % layout.elements;
      const size_t end = std::min(layout.elements, last - t * layout.elements);
      bad[slice] = !DecodeTable(layout, frame.data(), t, {in_table, end}, writer, running);
      first = t * layout.elements + end;
    }
    sums.part(0, slice) = running.part();
  });
  if (std::find(std::begin(bad), std::end(bad), true) == std::end(bad)) {
    return CheckPayloadCrc(frame, sums.Join(frame));
  }
  // What is wrong may be a byte that changed on the way: the checksum speaks first.
  const absl::Status sum = ParseFrame(frame).status();
  return sum.ok() ? absl::DataLossError(fmt::format("{}: a table holds Inf or NaN", name_)) : sum;
}

}  // namespace

StatCodesFn StatCodesOf(Isa isa) {
  return isa == Isa::kAvx512 ? Avx512StatCodes() : isa == Isa::kAvx2 ? Avx2StatCodes() : nullptr;
}

template <int kBits>
std::shared_ptr<const Codec> NewStatCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<StatCodec>(name, id, isa, kBits, Scope::kTensor);
}
template <int kBits>
std::shared_ptr<const Codec> NewStatRowsCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<StatCodec>(name, id, isa, kBits, Scope::kRow);
}

template std::shared_ptr<const Codec> NewStatCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatCodec<8>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewStatRowsCodec<8>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
