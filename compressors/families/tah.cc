// `tah4-g64`, `tah4-g32` (TAH-Quant, arXiv 2506.01352; reimplemented from the paper): a row is a
// token, cut into tiles of G channels and perhaps a short one.
//   1. Entropy of each tile, H = -sum p log2 p with p = |x| / sum|x|.
//   2. Within the row the round(0.8 T) of T tiles with the largest H get four bits, the others
//      three (ties: the lower tile).
//   3. A full tile whose largest |x| is at least twice its second is rotated: its element 0 and the
//      largest (the pivot, the first on ties) change places, then H_G / sqrt(G). The outlier turns
//      into an offset that the zero point takes up.
//   4. Min-max with bf16 zero point and scale (block_codec.h).
//
// Payload: widths, one bit per tile (1 = four bits); rotated, one bit per tile; pivots, log2 G bits
// per rotated tile; s [tiles] bf16; z [tiles] bf16; codes of the three-bit tiles, then of the
// four-bit ones, ceil(c b / 8) bytes each. 3.8 + 34/G + (share rotated) log2(G)/G bits per element.
// InvalidArgument when a range or a rotated tile is beyond fp32.
#include "compressors/families/factories.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <span>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/frame/frame.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/bit_stream.h"
#include "compressors/numbers/hadamard.h"
#include "compressors/numbers/scratch.h"

namespace longhaul {
namespace {

constexpr uint8_t kNotRotated = 0xFF;
constexpr size_t kMaxTile = 64;

// The tiles, in row order; the last one of a row may be short.
struct TahTiles {
  TahTiles(Shape shape, size_t tile)
      : cols(shape.cols),
        tile(tile),
        per_row((cols + tile - 1) / tile),
        count(shape.rows * per_row) {}
  size_t first(size_t t) const { return t / per_row * cols + t % per_row * tile; }
  size_t length(size_t t) const { return std::min(tile, cols - t % per_row * tile); }
  int pivot_bits() const { return static_cast<int>(std::bit_width(tile - 1)); }
  size_t wide_per_row() const { return (8 * per_row + 5) / 10; }
  size_t map_bytes() const { return AlignUp8((count + 7) / 8); }
  size_t cols, tile, per_row, count;
};

// Elements of the maps, one bit per tile.
bool TahBit(const std::byte* map, size_t t) {
  return (static_cast<unsigned>(map[t / 8]) >> (t % 8) & 1) != 0;
}
void SetTahBit(std::byte* map, size_t t) { map[t / 8] |= static_cast<std::byte>(1u << (t % 8)); }

// The codes of tile t.
size_t TahCodeBytes(const TahTiles& tiles, size_t t, bool wide) {
  return PackedBytes(tiles.length(t), 3 + wide);
}

// What the two maps decide: where every section begins.
struct TahLayout {
  TahLayout(const TahTiles& tiles, size_t rotated, size_t narrow_bytes, size_t wide_bytes)
      : rotated_at(kFrameHeaderBytes + tiles.map_bytes()),
        pivots_at(rotated_at + tiles.map_bytes()),
        pivot_bytes((rotated * static_cast<size_t>(tiles.pivot_bits()) + 7) / 8),
        scales_at(pivots_at + AlignUp8(pivot_bytes)),
        zeros_at(scales_at + AlignUp8(2 * tiles.count)),
        codes_at{zeros_at + AlignUp8(2 * tiles.count),
                 zeros_at + AlignUp8(2 * tiles.count) + narrow_bytes},
        frame_bytes(codes_at[1] + wide_bytes) {}
  size_t rotated_at, pivots_at, pivot_bytes, scales_at, zeros_at, codes_at[2], frame_bytes;
};

// The layout that a frame's maps say; nothing when they, or its length, do not fit the tiles.
std::optional<TahLayout> TahLayoutOf(const TahTiles& tiles, std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes + 2 * tiles.map_bytes()) return std::nullopt;
  const std::byte* wide = frame.data() + kFrameHeaderBytes;
  const std::byte* turned = wide + tiles.map_bytes();
  size_t rotated = 0, code_bytes[2] = {};
  for (size_t row = 0; row < tiles.count; row += tiles.per_row) {
    size_t wide_here = 0;
    for (size_t t = row; t < row + tiles.per_row; ++t) {
      wide_here += TahBit(wide, t);
      code_bytes[TahBit(wide, t)] += TahCodeBytes(tiles, t, TahBit(wide, t));
      if (TahBit(turned, t) && tiles.length(t) != tiles.tile) return std::nullopt;
      rotated += TahBit(turned, t);
    }
    if (wide_here != tiles.wide_per_row()) return std::nullopt;
  }
  const TahLayout layout(tiles, rotated, code_bytes[0], code_bytes[1]);
  return frame.size() == layout.frame_bytes ? std::optional(layout) : std::nullopt;
}

// The header of such a frame, and whether a header is one.
FrameHeader TahHeader(uint16_t id, ConstTensor x, size_t tile, size_t frame_bytes) {
  return {.codec = id,
          .dtype = x.dtype,
          .block = static_cast<uint32_t>(tile),
          .param0 = 4,
          .param1 = 512,  // tau = 2, in 1/256
          .shape = x.shape,
          .payload_bytes = frame_bytes - kFrameHeaderBytes};
}
bool IsTahHeader(const FrameHeader& header, size_t tile) {
  return header.block == tile && header.param0 == 4 && header.param1 == 512;
}

// What each tile became.
struct Plan {
  std::span<std::byte> wide;  // bit map
  std::span<uint8_t> pivot;   // kNotRotated or the pivot's place
  size_t rotated = 0;
  size_t code_bytes[2] = {};
};

class TahCodec final : public CatalogCodec {
 public:
  TahCodec(std::string_view name, uint16_t id, Isa isa, size_t tile)
      : CatalogCodec(name, id, isa), tile_(tile) {}
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const TahTiles tiles(shape, tile_);
    return TahLayout(tiles, tiles.count, 0, tiles.count * tile_ / 2).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  bool MakePlan(const WideReader& reader, const TahTiles& tiles, Plan& plan) const;
  bool EncodeTile(float* x, size_t c, uint8_t pivot, bool wide, std::byte* scale, std::byte* zero,
                  std::byte* codes) const;

  const size_t tile_;
};

// The place of the largest |x| where it is twice the second, else kNotRotated.
uint8_t PivotOf(const float* x, size_t c) {
  uint32_t first = 0, second = 0;
  size_t place = 0;
  for (size_t i = 0; i < c; ++i) {
    const uint32_t abs = BitsOf(x[i]) & kAbsMask;
    if (abs > first) {
      second = first;
      first = abs;
      place = i;
    } else {
      second = abs > second ? abs : second;
    }
  }
  return first > 0 && FromBits(first) * 0.5f >= FromBits(second) ? static_cast<uint8_t>(place)
                                                                 : kNotRotated;
}

// False when x holds NaN or Inf.
bool TahCodec::MakePlan(const WideReader& reader, const TahTiles& tiles, Plan& plan) const {
  // Entropy as ordered bits (it is never negative beyond rounding) above the inverted tile number.
  const auto keys = Scratch<uint64_t, ScratchUse::kWork>(tiles.per_row);
  for (size_t row = 0; row < tiles.count; row += tiles.per_row) {
    for (size_t j = 0; j < tiles.per_row; ++j) {
      const size_t t = row + j, c = tiles.length(t);
      float x[kMaxTile];
      if (!reader.Read(tiles.first(t), c, x)) return false;
      const float entropy = std::max(kernels_.entropy(x, c), 0.0f);
      keys[j] = uint64_t{BitsOf(entropy)} << 32 | (UINT32_MAX - static_cast<uint32_t>(j));
      plan.pivot[t] = c == tile_ ? PivotOf(x, c) : kNotRotated;
      plan.rotated += plan.pivot[t] != kNotRotated;
    }
    const auto end = keys.begin() + static_cast<ptrdiff_t>(tiles.wide_per_row());
    std::nth_element(keys.begin(), end - (end != keys.begin()), keys.end(), std::greater<>());
    for (auto key = keys.begin(); key != end; ++key) {
      SetTahBit(plan.wide.data(), row + (UINT32_MAX - static_cast<uint32_t>(*key)));
    }
    for (size_t t = row; t < row + tiles.per_row; ++t) {
      const bool wide = TahBit(plan.wide.data(), t);
      plan.code_bytes[wide] += TahCodeBytes(tiles, t, wide);
    }
  }
  return true;
}

// x: [c], changed. False when the range is beyond fp32.
bool TahCodec::EncodeTile(float* x, size_t c, uint8_t pivot, bool wide, std::byte* scale,
                          std::byte* zero, std::byte* codes) const {
  if (pivot != kNotRotated) {
    std::swap(x[0], x[pivot]);
    Hadamard({x, c});
  }
  if (kernels_.abs_max(x, c) >= kInfBits) return false;
  float min, max;
  kernels_.range(x, c, &min, &max);
  const uint16_t wire_z = AffineZero(min);
  const float z = Bf16ToF32(wire_z);
  if (AffineOverflows(min, max, z)) return false;
  const int levels = wide ? 15 : 7;
  const WireScale s = AffineScale(z, max, levels);
  uint8_t q[kMaxTile];
  kernels_.affine_codes(x, c, z, s.inverse, 0, static_cast<float>(levels), q);
  std::memcpy(scale, &s.wire, 2);
  std::memcpy(zero, &wire_z, 2);
  PackBits({q, c}, 3 + wide, {codes, PackedBytes(c, 3 + wide)});
  return true;
}

absl::StatusOr<size_t> TahCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                        std::span<std::byte> frame) const {
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), kFrameHeaderBytes); !s.ok()) {
    return s;
  }
  const TahTiles tiles(x.shape, tile_);
  if (tiles.per_row > UINT32_MAX) return RangeError(name_, "the number of tiles");
  // Before anything is read: scales and zero points alone take that much.
  const size_t least = kFrameHeaderBytes + 4 * tiles.count;
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), least));
  Plan plan = {.wide = Scratch<std::byte, ScratchUse::kCodes>(tiles.map_bytes()),
               .pivot = Scratch<uint8_t, ScratchUse::kCodes>(tiles.count)};
  std::fill(plan.wide.begin(), plan.wide.end(), std::byte{0});
  const WideReader reader(x, kernels_);
  if (!MakePlan(reader, tiles, plan)) return NotFiniteError(name_);
  const TahLayout l(tiles, plan.rotated, plan.code_bytes[0], plan.code_bytes[1]);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), l.frame_bytes); !s.ok()) {
    return s;
  }
  std::memset(frame.data() + kFrameHeaderBytes, 0, l.codes_at[0] - kFrameHeaderBytes);
  std::memcpy(frame.data() + kFrameHeaderBytes, plan.wide.data(), tiles.map_bytes());
  BitWriter pivots(frame.data() + l.pivots_at);
  std::byte* codes[2] = {frame.data() + l.codes_at[0], frame.data() + l.codes_at[1]};
  for (size_t t = 0; t < tiles.count; ++t) {
    const bool wide = TahBit(plan.wide.data(), t);
    const size_t c = tiles.length(t);
    if (plan.pivot[t] != kNotRotated) {
      SetTahBit(frame.data() + l.rotated_at, t);
      pivots.Put(plan.pivot[t], tiles.pivot_bits());
    }
    float values[kMaxTile];
    reader.Read(tiles.first(t), c, values);
    if (!EncodeTile(values, c, plan.pivot[t], wide, frame.data() + l.scales_at + 2 * t,
                    frame.data() + l.zeros_at + 2 * t, codes[wide])) {
      return RangeError(name_, "the range of a tile");
    }
    codes[wide] += PackedBytes(c, 3 + wide);
  }
  pivots.Finish();
  SealFrame(TahHeader(id_, x, tile_, l.frame_bytes), frame.first(l.frame_bytes));
  return l.frame_bytes;
}

absl::Status TahCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenFrame(name_, id_, frame, x.shape));
  const TahTiles tiles(x.shape, tile_);
  const std::optional<TahLayout> l = TahLayoutOf(tiles, frame);
  if (!l || !IsTahHeader(header, tile_)) {
    return Corrupt("bytes, maps or fields do not fit the shape");
  }
  BitReader pivots(frame.subspan(l->pivots_at, l->pivot_bytes));
  const NarrowWriter writer(x, kernels_);
  const std::byte* codes[2] = {frame.data() + l->codes_at[0], frame.data() + l->codes_at[1]};
  constexpr BlockScheme kScheme = {4, Grid::kAffine};
  for (size_t t = 0; t < tiles.count; ++t) {
    const bool wide = TahBit(frame.data() + kFrameHeaderBytes, t);
    const size_t c = tiles.length(t);
    const bool rotated = TahBit(frame.data() + l->rotated_at, t);
    uint32_t pivot = 0;
    if (rotated && !pivots.Get(tiles.pivot_bits(), pivot)) return Corrupt("pivots end early");
    float s, z, values[kMaxTile];
    if (!ReadScale(kScheme, frame.data() + l->scales_at + 2 * t, s) ||
        !ReadScale(kScheme, frame.data() + l->zeros_at + 2 * t, z)) {
      return Corrupt("a scale or zero point is Inf or NaN");
    }
    uint8_t q[kMaxTile];
    UnpackBits({codes[wide], PackedBytes(c, 3 + wide)}, 3 + wide, {q, c});
    codes[wide] += PackedBytes(c, 3 + wide);
    kernels_.affine_values(q, c, z, s, values);
    if (rotated) {
      Hadamard({values, c});
      std::swap(values[0], values[pivot]);
    }
    writer.Write(values, tiles.first(t), c);
  }
  return pivots.AtEnd() ? absl::OkStatus() : Corrupt("bits behind the pivots");
}

}  // namespace

template <int kTile>
std::shared_ptr<const Codec> NewTahCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<TahCodec>(name, id, isa, kTile);
}
template std::shared_ptr<const Codec> NewTahCodec<64>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewTahCodec<32>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
