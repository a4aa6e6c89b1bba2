#include "compressors/families/cocktail.h"

#include <algorithm>
#include <cstring>

#include "compressors/families/catalog_codec.h"
#include "compressors/families/top_k.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/chunk_grid.h"
#include "compressors/numbers/index_coding.h"
#include "compressors/numbers/scratch.h"

namespace longhaul {
namespace {

constexpr size_t kTooth = 10;  // distance of the comb's elements
constexpr size_t kChunk = 5120, kKept = 1024;
constexpr size_t kCocktailBlock = 128;
constexpr BlockScheme kScheme = {4, Grid::kSymmetric, Rotation::kNone, kCocktailBlock};

struct CocktailLayout {
  CocktailLayout(Shape shape, size_t offset)
      : n(shape.elements()),
        offset(offset),
        comb(n > offset ? (n - offset + kTooth - 1) / kTooth : 0),
        grid({1, comb}, kChunk, kKept),
        kept(comb == 0 ? 0 : grid.total_kept()),
        blocks((kept + kCocktailBlock - 1) / kCocktailBlock),
        scales_at(kFrameHeaderBytes + AlignUp8((comb + 7) / 8)),
        codes_at(scales_at + AlignUp8(2 * blocks)),
        frame_bytes(codes_at + PackedBytes(kept, 4)) {}
  size_t n, offset, comb;
  ChunkGrid grid;
  size_t kept, blocks, scales_at, codes_at, frame_bytes;
};

class CocktailCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return CocktailLayout(shape, 0).frame_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  bool Gather(ConstTensor x, const CocktailLayout& layout, float* comb) const;
  absl::Status DecodeValues(const CocktailLayout& layout, const std::byte* frame,
                            float* values) const;
};

// False when x holds NaN or Inf, on the comb or beside it.
bool CocktailCodec::Gather(ConstTensor x, const CocktailLayout& l, float* comb) const {
  constexpr size_t kPiece = 400 * kTooth;
  const WideReader reader(x, kernels_);
  float values[kPiece];
  for (size_t at = 0; at < l.n; at += kPiece) {
    const size_t c = std::min(kPiece, l.n - at);
    if (!reader.Read(at, c, values)) return false;
    for (size_t i = l.offset; i < c; i += kTooth) *comb++ = values[i];
  }
  return true;
}

// values: [c], one block -> q: [c], as stored.
WireScale Quantize(const float* values, size_t c, uint8_t* q) {
  uint32_t max_bits = 0;
  for (size_t i = 0; i < c; ++i) max_bits = std::max(max_bits, BitsOf(values[i]) & kAbsMask);
  const WireScale s = AbsMaxScale(kScheme, max_bits);
  for (size_t i = 0; i < c; ++i) {
    q[i] = static_cast<uint8_t>(RoundToInt(std::clamp(values[i] * s.inverse, -7.0f, 7.0f)) + 8);
  }
  return s;
}

absl::StatusOr<size_t> CocktailCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                             std::span<std::byte> frame) const {
  const CocktailLayout layout(x.shape, seed % kTooth);
  const size_t bytes = layout.frame_bytes;
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const std::span<float> comb = Scratch<float, ScratchUse::kWide>(layout.comb);
  if (!Gather(x, layout, comb.data())) return NotFiniteError(name_);
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(layout.kept);
  const auto values = Scratch<float, ScratchUse::kKept>(layout.kept);
  TopKSelector top(kernels_);
  size_t at = 0, first = 0;
  if (layout.comb > 0) {
    layout.grid.ForEach([&](size_t length, size_t kept) {
      top.Select(comb.subspan(first, length), indices.subspan(at, kept));
      for (size_t i = 0; i < kept; ++i, ++at) values[at] = comb[first + indices[at]];
      first += length;
      return true;
    });
  }
  std::memset(frame.data() + kFrameHeaderBytes, 0, layout.codes_at - kFrameHeaderBytes);
  if (layout.comb > 0) {
    WriteIndices({IndexCoding::kBitmap, 0, 0}, layout.grid, indices,
                 frame.data() + kFrameHeaderBytes);
  }
  for (size_t b = 0; b < layout.blocks; ++b) {
    const size_t c = std::min(kCocktailBlock, layout.kept - b * kCocktailBlock);
    uint8_t q[kCocktailBlock];
    const WireScale s = Quantize(values.data() + b * kCocktailBlock, c, q);
    WriteScale(kScheme, s, frame.data() + layout.scales_at + 2 * b);
    PackBits({q, c}, 4,
             {frame.data() + layout.codes_at + b * kCocktailBlock / 2, PackedBytes(c, 4)});
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagIndexBitmap,
             .block = kCocktailBlock,
             .param0 = kTooth,
             .param1 = static_cast<uint32_t>(layout.offset),
             .shape = x.shape,
             .seed = seed,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status CocktailCodec::DecodeValues(const CocktailLayout& l, const std::byte* frame,
                                         float* values) const {
  for (size_t b = 0; b < l.blocks; ++b) {
    const size_t c = std::min(kCocktailBlock, l.kept - b * kCocktailBlock);
    float s;
    if (!ReadScale(kScheme, frame + l.scales_at + 2 * b, s)) return Corrupt("a scale is no number");
    uint8_t q[kCocktailBlock];
    UnpackBits({frame + l.codes_at + b * kCocktailBlock / 2, PackedBytes(c, 4)}, 4, {q, c});
    for (size_t i = 0; i < c; ++i) {
      values[b * kCocktailBlock + i] = static_cast<float>(static_cast<int>(q[i]) - 8) * s;
    }
  }
  return absl::OkStatus();
}

absl::Status CocktailCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape, kFlagIndexMask);
  if (!header.ok()) return header.status();
  const CocktailLayout layout(x.shape, header->seed % kTooth);
  if (frame.size() != layout.frame_bytes || header->block != kCocktailBlock ||
      header->param0 != kTooth || header->param1 != layout.offset ||
      (header->flags & kFlagIndexMask) != uint16_t{kFlagIndexBitmap}) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(layout.kept);
  const auto values = Scratch<float, ScratchUse::kKept>(layout.kept);
  if (layout.comb > 0 &&
      !ReadIndices(IndexCoding::kBitmap, 0, layout.grid,
                   frame.subspan(kFrameHeaderBytes, (layout.comb + 7) / 8), indices)) {
    return Corrupt("its bit map does not keep a fifth of every chunk");
  }
  if (absl::Status s = DecodeValues(layout, frame.data(), values.data()); !s.ok()) return s;
  auto* out = static_cast<std::byte*>(x.values);
  std::memset(out, 0, layout.n * BytesPerElement(x.dtype));
  if (layout.comb == 0) return absl::OkStatus();
  size_t at = 0, first = 0;
  layout.grid.ForEach([&](size_t length, size_t kept) {
    for (size_t i = 0; i < kept; ++i, ++at) {
      StoreElement(values[at], out, x.dtype, layout.offset + kTooth * (first + indices[at]));
    }
    first += length;
    return true;
  });
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewCocktailCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<CocktailCodec>(name, id, isa);
}

}  // namespace longhaul
