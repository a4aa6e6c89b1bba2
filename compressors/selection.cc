#include "compressors/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "compressors/codec_frame.h"
#include "compressors/convert.h"
#include "compressors/index_coding.h"
#include "compressors/noise.h"
#include "compressors/small_floats.h"

namespace longhaul {
namespace {

std::vector<ChunkShape> ChunksOf(const SelectionSpec& spec, Shape shape) {
  std::vector<ChunkShape> chunks;
  const size_t full = shape.cols / spec.chunk, tail = shape.cols % spec.chunk;
  chunks.reserve(shape.rows * (full + (tail != 0)));
  for (size_t r = 0; r < shape.rows; ++r) {
    chunks.insert(chunks.end(), full, {spec.chunk, spec.kept});
    const size_t kept = (2 * size_t{spec.kept} * tail + spec.chunk) / (2 * size_t{spec.chunk});
    if (tail != 0) chunks.push_back({tail, std::max<size_t>(1, kept)});
  }
  return chunks;
}

size_t TotalKept(std::span<const ChunkShape> chunks) {
  size_t kept = 0;
  for (const ChunkShape& c : chunks) kept += c.kept;
  return kept;
}

struct Window {
  size_t start, length;
};
// Window w of the k of a chunk of c, and the element that the seed chooses in it.
Window WindowOf(ChunkShape c, size_t w) {
  const size_t start = w * c.length / c.kept;
  return {start, (w + 1) * c.length / c.kept - start};
}
uint32_t ChosenIn(const Window& window, uint64_t seed, uint64_t counter) {
  const uint64_t word = NoiseWord(seed, NoisePurpose::kIndexChoice, counter);
  return static_cast<uint32_t>(window.start + (word * window.length >> 32));
}

class SelectionCodec final : public Codec {
 public:
  SelectionCodec(std::string_view name, SelectionSpec spec, std::shared_ptr<const Codec> values,
                 Isa isa)
      : name_(name), spec_(spec), values_(std::move(values)), isa_(isa) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return spec_.selection == Selection::kTopK ? kTopKId : kRandKId; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const size_t kept = TotalKept(ChunksOf(spec_, shape));
    // Fixed-width indices of at most 16 bits are an upper bound of the three codings.
    const size_t index_bytes = spec_.selection == Selection::kTopK ? 2 * kept : 0;
    return kFrameHeaderBytes + 8 + AlignUp8(index_bytes) +
           values_->MaxFrameBytes({1, kept}, DType::kF32);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  bool Select(ConstTensor x, uint64_t seed, std::span<const ChunkShape> chunks,
              std::span<uint32_t> indices, std::span<float> values) const;
  absl::Status Corrupt(std::string_view what) const {
    return absl::DataLossError(fmt::format("{}: {}", name_, what));
  }
  absl::StatusOr<std::vector<uint32_t>> IndicesOf(const FrameHeader& header,
                                                  std::span<const ChunkShape> chunks,
                                                  std::span<const std::byte> coded) const;

  const std::string name_;
  const SelectionSpec spec_;
  const std::shared_ptr<const Codec> values_;
  const Isa isa_;
};

// The k largest magnitudes, ties to the lowest index, as sorted indices. keys: scratch.
void TopOf(std::span<const float> x, std::span<uint32_t> indices, std::vector<uint64_t>& keys) {
  keys.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    keys[i] = uint64_t{BitsOf(x[i]) & kAbsMask} << 32 | (UINT32_MAX - i);
  }
  const auto kth = keys.begin() + static_cast<ptrdiff_t>(indices.size() - 1);
  std::nth_element(keys.begin(), kth, keys.end(), std::greater<>());
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = UINT32_MAX - static_cast<uint32_t>(keys[i]);
  }
  std::sort(indices.begin(), indices.end());
}

// False when x holds NaN or Inf.
bool SelectionCodec::Select(ConstTensor x, uint64_t seed, std::span<const ChunkShape> chunks,
                            std::span<uint32_t> indices, std::span<float> values) const {
  const ConvertFn widen = Converter(isa_, x.dtype, DType::kF32);
  const auto* in = static_cast<const std::byte*>(x.values);
  std::vector<float> chunk(spec_.chunk);
  std::vector<uint64_t> keys;
  size_t at = 0;
  for (size_t j = 0; j < chunks.size(); ++j) {
    const ChunkShape c = chunks[j];
    if (!widen(in, c.length, reinterpret_cast<std::byte*>(chunk.data()))) return false;
    const std::span<uint32_t> chosen = indices.subspan(at, c.kept);
    if (spec_.selection == Selection::kTopK) {
      TopOf(std::span(chunk).first(c.length), chosen, keys);
    }
    for (size_t w = 0; w < c.kept; ++w, ++at) {
      float gain = 1;
      if (spec_.selection == Selection::kRandK) {
        const Window window = WindowOf(c, w);
        chosen[w] = ChosenIn(window, seed, uint64_t{j} * spec_.kept + w);
        if (spec_.gain == Gain::kUnbiased) gain = static_cast<float>(window.length);
      }
      values[at] = gain * chunk[chosen[w]];
    }
    in += c.length * BytesPerElement(x.dtype);
  }
  return true;
}

absl::StatusOr<size_t> SelectionCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                              std::span<std::byte> frame) const {
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), 0); !s.ok()) return s;
  const std::vector<ChunkShape> chunks = ChunksOf(spec_, x.shape);
  const Shape value_shape = {1, TotalKept(chunks)};
  std::vector<uint32_t> indices(value_shape.cols);
  std::vector<float> values(value_shape.cols);
  if (!Select(x, seed, chunks, indices, values)) return NotFiniteError(name_);

  const bool top = spec_.selection == Selection::kTopK;
  IndexPlan plan;
  if (top) plan = PlanIndices(chunks, spec_.chunk, indices);
  const size_t indices_at = kFrameHeaderBytes + 8;
  const size_t values_at = indices_at + AlignUp8(plan.bytes);
  const size_t most = values_at + values_->MaxFrameBytes(value_shape, DType::kF32);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), most); !s.ok()) return s;
  const absl::StatusOr<size_t> value_bytes = values_->Encode(
      {values.data(), DType::kF32, value_shape}, seed, nullptr, frame.subspan(values_at));
  if (!value_bytes.ok()) return value_bytes;
  const uint64_t index_bytes = plan.bytes;
  std::memcpy(frame.data() + kFrameHeaderBytes, &index_bytes, 8);
  std::memset(frame.data() + indices_at, 0, values_at - indices_at);
  if (top) {
    WriteIndices(plan, chunks, spec_.chunk, indices, frame.subspan(indices_at, plan.bytes));
  }
  const size_t bytes = values_at + *value_bytes;
  SealFrame({.codec = id(),
             .value_codec = values_->id(),
             .dtype = x.dtype,
             .flags = static_cast<uint16_t>(top ? static_cast<int>(plan.coding) << 8 : 0),
             .block = spec_.chunk,
             .param0 = spec_.kept,
             .param1 = plan.rice,
             .shape = x.shape,
             .seed = top ? 0 : seed,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::StatusOr<std::vector<uint32_t>> SelectionCodec::IndicesOf(
    const FrameHeader& header, std::span<const ChunkShape> chunks,
    std::span<const std::byte> coded) const {
  std::vector<uint32_t> indices(TotalKept(chunks));
  const auto coding = static_cast<IndexCoding>((header.flags & kFlagIndexMask) >> 8);
  if (spec_.selection == Selection::kTopK) {
    if (!ReadIndices(coding, header.param1, chunks, spec_.chunk, coded, indices)) {
      return Corrupt("the indices do not fit their chunks");
    }
    return indices;
  }
  if (!coded.empty() || header.flags & kFlagIndexMask) return Corrupt("indices in a RandK frame");
  size_t at = 0;
  for (size_t j = 0; j < chunks.size(); ++j) {
    for (size_t w = 0; w < chunks[j].kept; ++w) {
      indices[at++] = ChosenIn(WindowOf(chunks[j], w), header.seed, uint64_t{j} * spec_.kept + w);
    }
  }
  return indices;
}

absl::Status SelectionCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id(), frame, x.shape, kFlagIndexMask);
  if (!header.ok()) return header.status();
  if (header->block != spec_.chunk || header->param0 != spec_.kept ||
      header->value_codec != values_->id()) {
    return absl::InvalidArgumentError(fmt::format("{}: frame of {} of {} with value codec 0x{:02x}",
                                                  name_, header->param0, header->block,
                                                  header->value_codec));
  }
  if (frame.size() < kFrameHeaderBytes + 8) return Corrupt("no room for its indices");
  uint64_t index_bytes;
  std::memcpy(&index_bytes, frame.data() + kFrameHeaderBytes, 8);
  const std::span<const std::byte> rest = frame.subspan(kFrameHeaderBytes + 8);
  if (index_bytes > rest.size() || AlignUp8(index_bytes) > rest.size()) {
    return Corrupt("its indices are longer than the frame");
  }
  const std::vector<ChunkShape> chunks = ChunksOf(spec_, x.shape);
  const auto indices = IndicesOf(*header, chunks, rest.first(index_bytes));
  if (!indices.ok()) return indices.status();
  std::vector<float> values(indices->size());
  const absl::Status inner = values_->Decode(rest.subspan(AlignUp8(index_bytes)), nullptr,
                                             {values.data(), DType::kF32, {1, values.size()}});
  if (!inner.ok()) return Corrupt(std::string(inner.message()));

  auto* out = static_cast<std::byte*>(x.values);
  std::memset(out, 0, x.shape.elements() * BytesPerElement(x.dtype));
  size_t at = 0;
  for (const ChunkShape& c : chunks) {
    for (size_t i = 0; i < c.kept; ++i, ++at) {
      StoreElement(values[at], out, x.dtype, (*indices)[at]);
    }
    out += c.length * BytesPerElement(x.dtype);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewSelectionCodec(std::string_view name, SelectionSpec spec,
                                               std::shared_ptr<const Codec> values, Isa isa) {
  return std::make_shared<SelectionCodec>(name, spec, std::move(values), isa);
}

}  // namespace longhaul
