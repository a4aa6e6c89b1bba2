#include "compressors/families/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/families/top_k.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/index_coding.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/spelling.h"

namespace longhaul {
namespace {

constexpr std::string_view kPrefix[] = {"topk-", "randk-"};  // by Selection

bool InRange(const SelectionSpec& spec) {
  return spec.chunk >= 2 && spec.chunk <= 65536 && spec.kept >= 1 && spec.kept <= spec.chunk;
}

// Calls visit(index, window length) for the k windows of a chunk of `length`, in order.
template <typename Visit>
void ForEachWindow(size_t length, size_t k, NoiseStream& words, Visit visit) {
  size_t start = 0;
  for (size_t w = 0; w < k; ++w) {
    const size_t end = (w + 1) * length / k;
    visit(static_cast<uint32_t>(start + (words.Next() * uint64_t{end - start} >> 32)), end - start);
    start = end;
  }
}

// What is encoded: x, or x + decay e.
struct Source {
  ConstTensor x;
  float decay = 0;
  const float* e = nullptr;  // null: x alone
};

class SelectionCodec final : public CatalogCodec, public ResidualEncoder {
 public:
  SelectionCodec(std::string_view name, SelectionSpec spec, Gain gain,
                 std::shared_ptr<const Codec> values, Isa isa)
      : CatalogCodec(name, spec.selection == Selection::kTopK ? kTopKId : kRandKId, isa),
        spec_(spec),
        gain_(gain),
        values_(std::move(values)) {}

  SelectionForm form() const { return {spec_, gain_, values_}; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const size_t kept = GridOf(shape).total_kept();
    // Fixed-width indices of at most 16 bits are an upper bound of the three codings.
    return kFrameHeaderBytes + 8 + AlignUp8(TopK() ? 2 * kept : 0) +
           values_->MaxFrameBytes({1, kept}, DType::kF32);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::StatusOr<size_t> EncodeResidual(ConstTensor x, float decay, float* e, uint64_t seed,
                                        std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  bool TopK() const { return spec_.selection == Selection::kTopK; }
  ChunkGrid GridOf(Shape shape) const { return {shape, spec_.chunk, spec_.kept}; }
  bool Select(const Source& source, uint64_t seed, const ChunkGrid& grid,
              std::span<uint32_t> indices, std::span<float> values) const;
  bool SelectChunks(const Source& source, uint64_t seed, const ChunkGrid& grid, size_t first,
                    size_t last, std::span<uint32_t> indices, std::span<float> values) const;
  absl::StatusOr<size_t> EncodeSource(const Source& source, uint64_t seed,
                                      std::span<std::byte> frame) const;
  bool FindIndices(const FrameHeader& header, const ChunkGrid& grid,
                   std::span<const std::byte> coded, std::span<uint32_t> indices) const;
  absl::Status DecodeKept(const FrameHeader& header, std::span<const std::byte> frame,
                          const ChunkGrid& grid, bool found, std::span<uint32_t> kept,
                          std::span<float> values) const;

  const SelectionSpec spec_;
  const Gain gain_;
  const std::shared_ptr<const Codec> values_;
};

// Chunks [first, last). False when NaN or Inf is among them.
bool SelectionCodec::SelectChunks(const Source& source, uint64_t seed, const ChunkGrid& grid,
                                  size_t first, size_t last, std::span<uint32_t> indices,
                                  std::span<float> values) const {
  const WideReader reader(source.x, kernels_);
  const std::span<float> buffer = Scratch<float, ScratchUse::kWide>(spec_.chunk);
  TopKSelector top(kernels_);
  for (size_t number = first; number < last; ++number) {
    const ChunkGrid::Chunk c = grid.at(number);
    const float* x = reader.Peek(c.first, c.length, buffer.data());
    if (source.e != nullptr) {
      kernels_.sum_scaled(x, source.decay, source.e + c.first, c.length, buffer.data());
      x = buffer.data();
    }
    if (TopK()) {
      const std::span<uint32_t> kept = indices.subspan(c.kept_at, c.kept);
      if (!top.Select({x, c.length}, kept)) return false;
      for (size_t i = 0; i < c.kept; ++i) values[c.kept_at + i] = x[kept[i]];
    } else {
      if (kernels_.abs_max(x, c.length) >= kInfBits) return false;
      NoiseStream words(seed, NoisePurpose::kIndexChoice, uint64_t{number} * spec_.kept);
      size_t at = c.kept_at;
      ForEachWindow(c.length, c.kept, words, [&](uint32_t index, size_t window) {
        const float gain = gain_ == Gain::kUnbiased ? static_cast<float>(window) : 1.0f;
        values[at++] = gain * x[index];
      });
    }
  }
  return true;
}

bool SelectionCodec::Select(const Source& source, uint64_t seed, const ChunkGrid& grid,
                            std::span<uint32_t> indices, std::span<float> values) const {
  const Slices slices(grid.chunks(), kWorthAThread / spec_.chunk);
  const bool bad = FirstAnswer(slices, [&](size_t i) {
    return !SelectChunks(source, seed, grid, slices.first(i), slices.last(i), indices, values);
  });
  return !bad;
}

absl::StatusOr<size_t> SelectionCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                              std::span<std::byte> frame) const {
  return EncodeSource({x}, seed, frame);
}

absl::StatusOr<size_t> SelectionCodec::EncodeSource(const Source& source, uint64_t seed,
                                                    std::span<std::byte> frame) const {
  const ConstTensor x = source.x;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), 0));
  const ChunkGrid grid = GridOf(x.shape);
  const Shape value_shape = {1, grid.total_kept()};
  // Before anything is read or taken: the values alone need that much.
  const size_t least = kFrameHeaderBytes + 8 + values_->MaxFrameBytes(value_shape, DType::kF32);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), least));
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(TopK() ? value_shape.cols : 0);
  const auto values = Scratch<float, ScratchUse::kKept>(value_shape.cols);
  if (!Select(source, seed, grid, indices, values)) return NotFiniteError(name_);

  const IndexPlan plan = TopK() ? PlanIndices(grid, indices) : IndexPlan();
  const size_t indices_at = kFrameHeaderBytes + 8;
  const size_t values_at = indices_at + AlignUp8(plan.bytes);
  const size_t most = values_at + values_->MaxFrameBytes(value_shape, DType::kF32);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), most));
  const absl::StatusOr<size_t> value_bytes = values_->Encode(
      {values.data(), DType::kF32, value_shape}, seed, nullptr, frame.subspan(values_at));
  if (!value_bytes.ok()) return value_bytes;
  const uint64_t index_bytes = plan.bytes;
  std::memcpy(frame.data() + kFrameHeaderBytes, &index_bytes, 8);
  std::memset(frame.data() + values_at - 8, 0, values_at > indices_at ? 8 : 0);
  if (TopK()) WriteIndices(plan, grid, indices, frame.data() + indices_at);
  const size_t bytes = values_at + *value_bytes;
  SealFrame({.codec = id(),
             .value_codec = values_->id(),
             .dtype = source.e == nullptr ? x.dtype : DType::kF32,
             .flags = static_cast<uint16_t>(TopK() ? static_cast<int>(plan.coding) << 8 : 0),
             .block = spec_.chunk,
             .param0 = spec_.kept,
             .param1 = plan.rice,
             .shape = x.shape,
             .seed = TopK() ? 0 : seed,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

bool SelectionCodec::FindIndices(const FrameHeader& header, const ChunkGrid& grid,
                                 std::span<const std::byte> coded,
                                 std::span<uint32_t> indices) const {
  if (TopK()) {
    const auto coding = static_cast<IndexCoding>((header.flags & kFlagIndexMask) >> 8);
    return ReadIndices(coding, header.param1, grid, coded, indices);
  }
  if (!coded.empty() || (header.flags & kFlagIndexMask) != 0) return false;
  size_t at = 0, number = 0;
  return grid.ForEach([&](size_t length, size_t kept) {
    NoiseStream words(header.seed, NoisePurpose::kIndexChoice, uint64_t{number++} * spec_.kept);
    ForEachWindow(length, kept, words, [&](uint32_t index, size_t) { indices[at++] = index; });
    return true;
  });
}

absl::StatusOr<size_t> SelectionCodec::EncodeResidual(ConstTensor x, float decay, float* e,
                                                      uint64_t seed,
                                                      std::span<std::byte> frame) const {
  const absl::StatusOr<size_t> bytes = EncodeSource({x, decay, e}, seed, frame);
  if (!bytes.ok()) return bytes;
  const ChunkGrid grid = GridOf(x.shape);
  const auto kept = Scratch<uint32_t, ScratchUse::kIndices>(grid.total_kept());
  const auto decoded = Scratch<float, ScratchUse::kKept>(kept.size());
  const std::span<const std::byte> sent = frame.first(*bytes);  // kept: as EncodeSource left them
  const absl::Status own = DecodeKept(PeekHeader(sent), sent, grid, TopK(), kept, decoded);
  if (!own.ok()) {
    return absl::InternalError(
        fmt::format("{}: own frame does not decode: {}", name_, std::string(own.message())));
  }
  // The sum once more: it was never kept.
  const WideReader reader(x, kernels_);
  const Slices slices(grid.chunks(), kWorthAThread / spec_.chunk);
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const std::span<float> buffer = Scratch<float, ScratchUse::kWide>(spec_.chunk);
    for (size_t number = slices.first(slice); number < slices.last(slice); ++number) {
      const ChunkGrid::Chunk c = grid.at(number);
      float* left = e + c.first;
      kernels_.sum_scaled(reader.Peek(c.first, c.length, buffer.data()), decay, left, c.length,
                          left);
      for (size_t i = c.kept_at; i < c.kept_at + c.kept; ++i) left[kept[i]] -= decoded[i];
    }
  });
  return bytes;
}

// Indices and values of a frame whose header is this codec's; found: `kept` holds the indices
// already. kept, values: [total_kept].
absl::Status SelectionCodec::DecodeKept(const FrameHeader& header, std::span<const std::byte> frame,
                                        const ChunkGrid& grid, bool found, std::span<uint32_t> kept,
                                        std::span<float> values) const {
  if (frame.size() < kFrameHeaderBytes + 8) return Corrupt("no room for its indices");
  uint64_t index_bytes;
  std::memcpy(&index_bytes, frame.data() + kFrameHeaderBytes, 8);
  const std::span<const std::byte> rest = frame.subspan(kFrameHeaderBytes + 8);
  if (index_bytes > rest.size() || AlignUp8(index_bytes) > rest.size()) {
    return Corrupt("its indices are longer than the frame");
  }
  if (!found && !FindIndices(header, grid, rest.first(index_bytes), kept)) {
    return Corrupt("its indices do not fit their chunks");
  }
  const absl::Status inner = values_->Decode(rest.subspan(AlignUp8(index_bytes)), nullptr,
                                             {values.data(), DType::kF32, {1, values.size()}});
  return inner.ok() ? inner : Corrupt(std::string(inner.message()));
}

absl::Status SelectionCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenFrame(name_, id(), frame, x.shape, kFlagIndexMask));
  if (header.block != spec_.chunk || header.param0 != spec_.kept ||
      header.value_codec != values_->id()) {
    return absl::InvalidArgumentError(fmt::format("{}: frame of {} of {} with value codec 0x{:02x}",
                                                  name_, header.param0, header.block,
                                                  header.value_codec));
  }
  const ChunkGrid grid = GridOf(x.shape);
  // Before memory is taken for them: an index takes a bit or more, and so do values.
  if (grid.total_kept() / 64 > frame.size()) return Corrupt("bytes do not fit the shape");
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(grid.total_kept());
  const auto values = Scratch<float, ScratchUse::kKept>(indices.size());
  RETURN_IF_ERROR(DecodeKept(header, frame, grid, false, indices, values));

  const Slices slices(grid.chunks(), kWorthAThread / spec_.chunk);
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    const std::span<float> buffer = Scratch<float, ScratchUse::kWide>(spec_.chunk);
    for (size_t number = slices.first(slice); number < slices.last(slice); ++number) {
      const ChunkGrid::Chunk c = grid.at(number);
      float* chunk = writer.Target(c.first, buffer.data());
      std::memset(chunk, 0, 4 * c.length);
      for (size_t i = c.kept_at; i < c.kept_at + c.kept; ++i) chunk[indices[i]] = values[i];
      writer.Done(chunk, c.first, c.length);
    }
  });
  return absl::OkStatus();
}

}  // namespace

std::optional<SelectionSpec> ParseSelection(std::string_view text) {
  for (Selection selection : {Selection::kTopK, Selection::kRandK}) {
    const std::string_view prefix = kPrefix[static_cast<size_t>(selection)];
    if (!text.starts_with(prefix)) continue;
    const std::string_view numbers = text.substr(prefix.size());
    const size_t of = numbers.find("of");
    if (of == std::string_view::npos) return std::nullopt;
    const auto kept = ParseNumber(numbers.substr(0, of));
    const auto chunk = ParseNumber(numbers.substr(of + 2));
    const SelectionSpec spec = {selection, kept.value_or(0), chunk.value_or(0)};
    return InRange(spec) ? std::optional(spec) : std::nullopt;
  }
  return std::nullopt;
}

std::string ToString(const SelectionSpec& spec) {
  return fmt::format("{}{}of{}", kPrefix[static_cast<size_t>(spec.selection)], spec.kept,
                     spec.chunk);
}

std::optional<SelectionSpec> SelectionOf(const FrameHeader& header) {
  if (header.codec != kTopKId && header.codec != kRandKId) return std::nullopt;
  const SelectionSpec spec = {header.codec == kTopKId ? Selection::kTopK : Selection::kRandK,
                              header.param0, header.block};
  return InRange(spec) ? std::optional(spec) : std::nullopt;
}

std::optional<SelectionForm> SelectionFormOf(const Codec& codec) {
  const auto* selection = dynamic_cast<const SelectionCodec*>(&codec);
  if (selection == nullptr) return std::nullopt;
  return selection->form();
}

std::shared_ptr<const Codec> NewSelectionCodec(std::string_view name, SelectionSpec spec, Gain gain,
                                               std::shared_ptr<const Codec> values, Isa isa) {
  return std::make_shared<SelectionCodec>(name, spec, gain, std::move(values), isa);
}

}  // namespace longhaul
