// `demo-dct` (DeMo, arXiv 2411.19870): delta <- 0.999 delta + x; of the orthonormal 2-D DCT-II of
// every tile of 64 x 64 the 32 largest coefficients are sent as bf16, ties: the lowest index, and
// leave delta. Decodes to the inverse DCT of what was sent; averaging, and the sign that DeMo takes
// of the average, belong to the round. x is lr * gradient.
//
// A tensor of one row is tiled as rows of 64 elements in its order. Tiles at the right and lower
// edge are smaller and have DCTs of their sides; a tile of c elements keeps about 32 c / 4096, at
// least one. Bands of tiles: the full rows of tiles, the last row of tiles, and of a one-row tensor
// what is left of a row of 64; those that are empty are left out.
// Payload: per band u32 index coding, u32 Rice r, u64 bytes of the indices; then per band the
// indices (index_coding.h; tile by tile, row of the tile times its width plus column); the kept
// coefficients bf16 in that order. Each 8-byte aligned. block = 64, param0 = 32. About 0.19 bits
// per element. State: one fp32 copy.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/families/top_k.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/chunk_grid.h"
#include "compressors/numbers/dct.h"
#include "compressors/numbers/index_coding.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/states/accumulators.h"

namespace longhaul {
namespace {

constexpr size_t kSide = 64, kTile = kSide * kSide, kKeptOfTile = 32;
constexpr float kDecay = 0.999f;
constexpr size_t kMostBands = 3;

size_t KeptOf(size_t elements) {
  return std::max<size_t>(1, (2 * kKeptOfTile * elements + kTile) / (2 * kTile));
}

// Rows of tiles of one height that follow each other.
struct Band {
  Band(size_t first, size_t tile_rows, size_t height, size_t width)
      : first(first),
        height(height),
        width(width),
        grid({tile_rows, height * width}, height * kSide, KeptOf(height * kSide)) {}
  size_t first, height, width;  // of the tensor's elements; rows of a tile; row length
  ChunkGrid grid;               // a chunk is a tile
};

struct Bands {
  explicit Bands(Shape shape) {
    const size_t n = shape.elements();
    const size_t rows = shape.rows == 1 ? n / kSide : shape.rows;
    const size_t width = shape.rows == 1 ? kSide : shape.cols;
    const size_t full = rows / kSide, rest = rows % kSide;
    if (full > 0) Add({0, full, kSide, width});
    if (rest > 0) Add({full * kSide * width, 1, rest, width});
    if (rows * width < n) Add({rows * width, 1, 1, n - rows * width});
  }
  void Add(const Band& band) {
    bands[count++] = band;
    kept += band.grid.total_kept();
  }
  Band bands[kMostBands] = {{0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}};
  size_t count = 0, kept = 0;
};

// A tile's place: element (i, j) is at `at` + i * stride + j.
struct Tile {
  size_t at, stride, height, width;
  ProductSize along_rows() const { return {height, width, width}; }
  ProductSize along_columns() const { return {height, height, width}; }
};

// Calls visit(tile, kept) in order until one answers false.
template <typename Visit>
bool ForEachTile(const Band& band, Visit visit) {
  size_t row = 0, column = 0;
  return band.grid.ForEach([&](size_t length, size_t kept) {
    const Tile tile = {band.first + row * band.height * band.width + column, band.width,
                       band.height, length / band.height};
    column += tile.width;
    if (column == band.width) {
      column = 0;
      ++row;
    }
    return visit(tile, kept);
  });
}

struct BandHeader {
  uint32_t coding, rice;
  uint64_t bytes;
};
static_assert(sizeof(BandHeader) == 16);

class DemoCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const Bands bands(shape);
    // 12 bits per index are an upper bound of the codings; a byte to fill up in every band.
    return kFrameHeaderBytes + bands.count * (sizeof(BandHeader) + 16) +
           AlignUp8(bands.kept * 3 / 2) + 2 * bands.kept;
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Accumulators>(shape, name_, 1);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  bool Transform(const Bands& bands, const float* delta, std::span<uint32_t> indices,
                 std::span<float> kept) const;
  struct Plan;
  void Write(const Bands& bands, const Plan& plan, std::span<const uint32_t> indices,
             std::span<const float> kept, std::byte* frame) const;
  bool ReadBands(const Bands& bands, std::span<const std::byte> frame, std::span<uint32_t> indices,
                 size_t& values_at) const;
  bool Inverse(const Tile& tile, const uint32_t* indices, const std::byte* kept, size_t count,
               const NarrowWriter& writer) const;
};

// delta -> what every tile keeps; false when a coefficient is beyond fp32.
bool DemoCodec::Transform(const Bands& bands, const float* delta, std::span<uint32_t> indices,
                          std::span<float> kept) const {
  TopKSelector top(kernels_);
  float tile_values[kTile], half[kTile], all[kTile];
  size_t at = 0;
  for (size_t b = 0; b < bands.count; ++b) {
    const bool good = ForEachTile(bands.bands[b], [&](const Tile& tile, size_t k) {
      std::memset(tile_values, 0, 4 * kSide * tile.height);
      for (size_t i = 0; i < tile.height; ++i) {
        std::memcpy(tile_values + kSide * i, delta + tile.at + i * tile.stride, 4 * tile.width);
      }
      kernels_.multiply64(tile_values, DctMatrixOf(tile.width).inverse, tile.along_rows(), half);
      kernels_.multiply64(DctMatrixOf(tile.height).forward, half, tile.along_columns(), all);
      for (size_t i = 1; i < tile.height && tile.width < kSide; ++i) {
        std::memmove(all + i * tile.width, all + i * kSide, 4 * tile.width);
      }
      const size_t length = tile.height * tile.width;
      if (kernels_.abs_max(all, length) >= kInfBits) return false;
      top.Select({all, length}, indices.subspan(at, k));
      for (size_t i = 0; i < k; ++i, ++at) kept[at] = all[indices[at]];
      return true;
    });
    if (!good) return false;
  }
  return true;
}

// The payload, planned; the frame's bytes.
struct DemoCodec::Plan {
  Plan(const Bands& bands, std::span<const uint32_t> indices)
      : bytes(kFrameHeaderBytes + bands.count * sizeof(BandHeader) + 2 * bands.kept) {
    size_t from = 0;
    for (size_t b = 0; b < bands.count; ++b) {
      const ChunkGrid& grid = bands.bands[b].grid;
      band[b] = PlanIndices(grid, indices.subspan(from, grid.total_kept()));
      from += grid.total_kept();
      bytes += AlignUp8(band[b].bytes);
    }
  }
  IndexPlan band[kMostBands];
  size_t bytes;
};

void DemoCodec::Write(const Bands& bands, const Plan& plan, std::span<const uint32_t> indices,
                      std::span<const float> kept, std::byte* frame) const {
  size_t to = kFrameHeaderBytes + bands.count * sizeof(BandHeader), from = 0;
  for (size_t b = 0; b < bands.count; ++b) {
    const ChunkGrid& grid = bands.bands[b].grid;
    const auto own = indices.subspan(from, grid.total_kept());
    const IndexPlan& p = plan.band[b];
    const BandHeader header = {static_cast<uint32_t>(p.coding), p.rice, p.bytes};
    std::memcpy(frame + kFrameHeaderBytes + b * sizeof(BandHeader), &header, sizeof(header));
    std::memset(frame + to + p.bytes, 0, AlignUp8(p.bytes) - p.bytes);
    WriteIndices(p, grid, own, frame + to);
    to += AlignUp8(p.bytes);
    from += own.size();
  }
  for (float value : kept) {
    const uint16_t wire = F32ToBf16Clamped(value);
    std::memcpy(frame + to, &wire, 2);
    to += 2;
  }
}

absl::StatusOr<size_t> DemoCodec::Encode(ConstTensor x, uint64_t, CodecState* state,
                                         std::span<std::byte> frame) const {
  const Bands bands(x.shape);
  const size_t n = x.shape.elements(), least = kFrameHeaderBytes + 2 * bands.kept;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), least));
  ASSIGN_OR_RETURN(Accumulators* const own, AccumulatorsOf(state, name_, x.shape));
  float* kept_delta = own->tensor(0);
  const std::span<float> delta = Scratch<float, ScratchUse::kSum>(n);
  if (!WideReader(x, kernels_).Read(0, n, delta.data())) return NotFiniteError(name_);
  kernels_.add_scaled(kept_delta, n, kDecay, delta.data());
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(bands.kept);
  const auto kept = Scratch<float, ScratchUse::kKept>(bands.kept);
  if (!Transform(bands, delta.data(), indices, kept)) return RangeError(name_, "a coefficient");
  const Plan plan(bands, indices);
  const size_t bytes = plan.bytes;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  Write(bands, plan, indices, kept, frame.data());
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagErrorFeedback,
             .block = kSide,
             .param0 = kKeptOfTile,
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  const std::span<float> decoded = Scratch<float, ScratchUse::kDecoded>(n);
  if (!Decode(frame.first(bytes), nullptr, {decoded.data(), DType::kF32, x.shape}).ok()) {
    return RangeError(name_, "what the receiver would make of it");
  }
  for (size_t i = 0; i < n; ++i) kept_delta[i] = delta[i] - decoded[i];
  return bytes;
}

// Indices of all bands, and where the values begin; false when they do not fit.
bool DemoCodec::ReadBands(const Bands& bands, std::span<const std::byte> frame,
                          std::span<uint32_t> indices, size_t& values_at) const {
  values_at = kFrameHeaderBytes + bands.count * sizeof(BandHeader);
  if (frame.size() < values_at) return false;
  size_t from = 0;
  for (size_t b = 0; b < bands.count; ++b) {
    const ChunkGrid& grid = bands.bands[b].grid;
    BandHeader header;
    std::memcpy(&header, frame.data() + kFrameHeaderBytes + b * sizeof(BandHeader), sizeof(header));
    const size_t left = frame.size() - values_at;
    if (header.coding < 1 || header.coding > 3 || header.bytes > left ||
        AlignUp8(header.bytes) > left ||
        !ReadIndices(static_cast<IndexCoding>(header.coding), header.rice, grid,
                     frame.subspan(values_at, header.bytes),
                     indices.subspan(from, grid.total_kept()))) {
      return false;
    }
    values_at += AlignUp8(header.bytes);
    from += grid.total_kept();
  }
  return frame.size() - values_at == 2 * indices.size();
}

// One tile; false when a coefficient or an element is not finite.
bool DemoCodec::Inverse(const Tile& tile, const uint32_t* indices, const std::byte* kept,
                        size_t count, const NarrowWriter& writer) const {
  float sparse[kTile], half[kTile], all[kTile];
  std::memset(sparse, 0, 4 * kSide * tile.height);
  for (size_t i = 0; i < count; ++i) {
    uint16_t wire;
    std::memcpy(&wire, kept + 2 * i, 2);
    if ((wire & 0x7F80) == 0x7F80) return false;
    const size_t u = indices[i] / tile.width, v = indices[i] % tile.width;
    sparse[kSide * u + v] = Bf16ToF32(wire);
  }
  kernels_.multiply64(sparse, DctMatrixOf(tile.width).forward, tile.along_rows(), half);
  kernels_.multiply64(DctMatrixOf(tile.height).inverse, half, tile.along_columns(), all);
  for (size_t i = 0; i < tile.height; ++i) {
    if (kernels_.abs_max(all + kSide * i, tile.width) >= kInfBits) return false;
    writer.Write(all + kSide * i, tile.at + i * tile.stride, tile.width);
  }
  return true;
}

absl::Status DemoCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenFrame(name_, id_, frame, x.shape));
  if (header.block != kSide || header.param0 != kKeptOfTile || header.param1 != 0) {
    return Corrupt("its fields are not those of this codec");
  }
  const Bands bands(x.shape);
  if (bands.kept > frame.size()) return Corrupt("bytes do not fit the shape");
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(bands.kept);
  size_t values_at = 0;
  if (!ReadBands(bands, frame, indices, values_at)) return Corrupt("its indices do not fit");
  const NarrowWriter writer(x, kernels_);
  size_t at = 0;
  for (size_t b = 0; b < bands.count; ++b) {
    const bool good = ForEachTile(bands.bands[b], [&](const Tile& tile, size_t k) {
      const size_t first = at;
      at += k;
      return Inverse(tile, indices.data() + first, frame.data() + values_at + 2 * first, k, writer);
    });
    if (!good) return Corrupt("a coefficient or an element is Inf or NaN");
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewDemoCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<DemoCodec>(name, id, isa);
}

}  // namespace longhaul
