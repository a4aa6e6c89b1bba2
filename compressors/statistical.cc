#include "compressors/statistical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/codec_frame.h"
#include "compressors/loop_kernels.h"
#include "compressors/payload_sum.h"
#include "compressors/stat_codes.h"
#include "compressors/tree_sum.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kMaxBins = 256;

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
  StatFault EncodeTable(const WideReader& reader, size_t first, size_t n, Table& table,
                        std::byte* codes, RunningSum& running) const;
  absl::Status DecodeTables(const StatLayout& layout, std::span<const std::byte> frame, Tensor x,
                            RunningSum& running) const;

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

// Sums and counts of the bins. Four sums take turns, so that neighbours in one bin do not wait for
// each other; the order of additions is part of the format's arithmetic.
struct Bins {
  // Mean of x - mu in bin b, 0 if empty.
  float Mean(size_t b) const {
    double total = 0;
    for (size_t turn = 0; turn < 4; ++turn) total += totals[4 * b + turn];
    return counts[b] == 0 ? 0.0f : static_cast<float>(total / static_cast<double>(counts[b]));
  }
  double totals[4 * kMaxBins] = {};
  uint64_t counts[kMaxBins] = {};
};

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
  const StatCodesFn encode = StatCodesOf(isa_);
  Bins sums;
  for (size_t at = 0; at < n; at += kSumChunk) {
    const size_t c = std::min(kSumChunk, n - at);
    uint8_t q[kSumChunk];
    const float* x = reader.Peek(first + at, c, buffer);
    const size_t done = encode == nullptr ? 0 : encode(x, c, mu, inverse, bits_, q, codes);
    loops.affine_codes(x + done, c - done, mu, inverse, static_cast<float>(bins) / 2,
                       static_cast<float>(bins - 1), q + done);
    PackBits({q + done, c - done}, bits_,
             {codes + PackedBytes(done, bits_), PackedBytes(c - done, bits_)});
    loops.add_to_bins(q, x, mu, c, static_cast<size_t>(bins), sums.totals, sums.counts);
    running.Add({codes, PackedBytes(c, bits_)});
    codes += PackedBytes(c, bits_);
  }
  for (size_t b = 0; b < static_cast<size_t>(bins); ++b) table.offset[b] = sums.Mean(b);
  return StatFault::kNone;
}

absl::StatusOr<size_t> StatCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const StatLayout layout(bits_, scope_, x.shape);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, isa_);
  RunningSum running(layout.codes_at);
  for (size_t t = 0; t < layout.tables; ++t) {
    Table table;
    const StatFault fault =
        EncodeTable(reader, t * layout.elements, layout.elements, table,
                    frame.data() + layout.codes_at + t * layout.code_bytes, running);
    if (fault == StatFault::kNotFinite) return NotFiniteError(name_);
    if (fault == StatFault::kRange) {
      return absl::InvalidArgumentError(fmt::format("{}: a sum is beyond fp32", name_));
    }
    std::byte* at = frame.data() + kFrameHeaderBytes + t * layout.table_bytes;
    std::memcpy(at, &table.mu, 4);
    std::memcpy(at + 4, table.offset, layout.table_bytes - 4);
  }
  const size_t tables_end = kFrameHeaderBytes + layout.tables * layout.table_bytes;
  std::memset(frame.data() + tables_end, 0, layout.codes_at - tables_end);
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .param0 = static_cast<uint32_t>(bits_),
                              .shape = x.shape,
                              .payload_bytes = bytes - kFrameHeaderBytes};
  SealFrame(header, frame.first(bytes), PayloadCrc(frame.first(bytes), {&running.part(), 1}));
  return bytes;
}

absl::Status StatCodec::DecodeTables(const StatLayout& layout, std::span<const std::byte> frame,
                                     Tensor x, RunningSum& running) const {
  const NarrowWriter writer(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const std::byte* codes = frame.data() + layout.codes_at;
  for (size_t t = 0; t < layout.tables; ++t) {
    const std::byte* at = frame.data() + kFrameHeaderBytes + t * layout.table_bytes;
    Table table;
    std::memcpy(&table.mu, at, 4);
    std::memcpy(table.offset, at + 4, layout.table_bytes - 4);
    float value[kMaxBins];
    for (int b = 0; b < 1 << bits_; ++b) {
      value[b] = table.offset[b] + table.mu;
      if (!std::isfinite(value[b])) {
        return absl::DataLossError(fmt::format("{}: a table holds Inf or NaN", name_));
      }
    }
    for (size_t first = 0; first < layout.elements; first += kSumChunk) {
      const size_t c = std::min(kSumChunk, layout.elements - first);
      const size_t bytes = PackedBytes(c, bits_);
      float buffer[kSumChunk];
      float* values = writer.Target(t * layout.elements + first, buffer);
      running.Add({codes, bytes});
      loops.table_values(codes, bits_, c, value, values);
      writer.Done(values, t * layout.elements + first, c);
      codes += bytes;
    }
  }
  return absl::OkStatus();
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
  RunningSum running(layout.codes_at);
  const absl::Status decoded = DecodeTables(layout, frame, x, running);
  // What is wrong may be a byte that changed on the way: the checksum speaks first.
  const absl::Status sum = decoded.ok()
                               ? CheckPayloadCrc(frame, PayloadCrc(frame, {&running.part(), 1}))
                               : ParseFrame(frame).status();
  return sum.ok() ? decoded : sum;
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
