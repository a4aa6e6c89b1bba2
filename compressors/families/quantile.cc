#include "compressors/families/quantile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "compressors/families/fixed_length_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/radix_sort.h"
#include "compressors/numbers/scratch.h"

namespace longhaul {
namespace {

constexpr size_t kCodes = 256;
constexpr size_t kSortedAtOnce = size_t{1} << 17;
constexpr size_t kQuantilePiece = 4096;
constexpr size_t kTableEnd = kFrameHeaderBytes + 4 * kCodes;

// As keys of radix_sort.h, which are compared without branches.
using Borders = std::array<uint32_t, kCodes - 1>;

// -0 becomes 0, which it equals.
uint32_t ComparedKey(float v) { return OrderedKey(v + 0.0f); }

// Elements number floor(i n / 256), i = 1..255, of n sorted ones.
void PickQuantiles(const RadixSort& sorted, float* out) {
  for (size_t i = 1; i < kCodes; ++i) out[i - 1] = sorted.Value(i * sorted.count() / kCodes);
}

// The middle one of each border's neighbours: element number floor((i - 1/2) m) of 255 m.
void PickMiddles(std::span<const float> sorted, size_t chunks, Borders& borders) {
  for (size_t i = 0; i < borders.size(); ++i) {
    borders[i] = ComparedKey(sorted[(2 * i + 1) * chunks / 2]);
  }
}

// Number of borders not above v, by eight halvings.
uint8_t CodeOf(const Borders& borders, float v) {
  const uint32_t key = ComparedKey(v);
  size_t below = 0;
  for (size_t step = kCodes / 2; step > 0; step /= 2) {
    below += static_cast<size_t>(borders[below + step - 1] <= key) * step;
  }
  return static_cast<uint8_t>(below);
}

class QuantileCodec final : public FixedLengthCodec {
 public:
  QuantileCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa, {.param0 = 8}) {}
  size_t MaxFrameBytes(Shape shape, DType) const override { return kTableEnd + shape.elements(); }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  // False when x holds NaN or Inf.
  bool FindBorders(const WideReader& reader, size_t n, Borders& borders) const;
};

bool QuantileCodec::FindBorders(const WideReader& reader, size_t n, Borders& borders) const {
  const size_t chunks = (n + kSortedAtOnce - 1) / kSortedAtOnce;
  const auto keys = Scratch<uint32_t, ScratchUse::kWork>(2 * std::min(n, kSortedAtOnce));
  const auto picked = Scratch<float, ScratchUse::kWork>(chunks * (kCodes - 1));
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const size_t begin = chunk * kSortedAtOnce, end = std::min(begin + kSortedAtOnce, n);
    RadixSort sorted(keys.first(keys.size() / 2), keys.last(keys.size() / 2));
    for (size_t at = begin; at < end; at += kQuantilePiece) {
      const size_t c = std::min(kQuantilePiece, end - at);
      float buffer[kQuantilePiece];
      const float* values = reader.View(at, c, buffer);
      if (values == nullptr) return false;
      sorted.Add({values, c});
    }
    sorted.Sort();
    PickQuantiles(sorted, picked.data() + chunk * (kCodes - 1));
  }
  std::sort(picked.begin(), picked.end());
  PickMiddles(picked, chunks, borders);
  return true;
}

absl::StatusOr<size_t> QuantileCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                             std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype), n = x.shape.elements();
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, kernels_);
  Borders borders;
  if (!FindBorders(reader, n, borders)) return NotFiniteError(name_);
  double sum[kCodes] = {};
  uint64_t count[kCodes] = {};
  auto* q = reinterpret_cast<uint8_t*>(frame.data() + kTableEnd);
  for (size_t at = 0; at < n; at += kQuantilePiece) {
    const size_t c = std::min(kQuantilePiece, n - at);
    float buffer[kQuantilePiece];
    const float* values = reader.Peek(at, c, buffer);
    for (size_t i = 0; i < c; ++i) {
      const uint8_t code = CodeOf(borders, values[i]);
      q[at + i] = code;
      sum[code] += values[i];
      ++count[code];
    }
  }
  for (size_t b = 0; b < kCodes; ++b) {
    const float mean =
        count[b] == 0 ? 0.0f : static_cast<float>(sum[b] / static_cast<double>(count[b]));
    std::memcpy(frame.data() + kFrameHeaderBytes + 4 * b, &mean, 4);
  }
  SealFrame(HeaderFor(x, 0), frame.first(bytes));
  return bytes;
}

absl::Status QuantileCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = Open(frame, x.shape);
  if (!header.ok()) return header.status();
  const size_t n = x.shape.elements();
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header->block != 0 ||
      header->param0 != 8) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  float table[kCodes];
  std::memcpy(table, frame.data() + kFrameHeaderBytes, sizeof(table));
  for (float value : table) {
    if (!std::isfinite(value)) return Corrupt("the table holds Inf or NaN");
  }
  const NarrowWriter writer(x, kernels_);
  const std::byte* codes = frame.data() + kTableEnd;
  for (size_t at = 0; at < n; at += kQuantilePiece) {
    const size_t c = std::min(kQuantilePiece, n - at);
    float buffer[kQuantilePiece];
    float* values = writer.Target(at, buffer);
    kernels_.table_values(codes + at, 8, c, table, values);
    writer.Done(values, at, c);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewQuantileCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<QuantileCodec>(name, id, isa);
}

}  // namespace longhaul
