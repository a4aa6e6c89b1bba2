// `nvfp4` (NVIDIA's format): tensor scale t = max|x| / (448 * 6), fp32; blocks of 16 of a row with
// scale c = E4M3((block's max|x| / 6) / t); elements E2M1(x / (c t)), RNE, saturating. Below 2^-126
// t and c t are 0, and so is what they scale. 4.5 + 32/n bits per element, two passes.
// Payload: t f32, c [blocks] u8, codes: a row's codes in one bit string of ceil(4 cols / 8) bytes.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/fp4_scale.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

constexpr float kSmallestNormal = 0x1p-126f;
constexpr size_t kFp4Piece = 2048;  // elements worked on at once

// Where the sections of a frame lie, behind the tensor's scale.
struct NvLayout {
  explicit NvLayout(Shape shape)
      : scales_at(kFrameHeaderBytes + 8),
        row_blocks((shape.cols + kNvBlock - 1) / kNvBlock),
        row_bytes(PackedBytes(shape.cols, 4)),
        codes_at(scales_at + AlignUp8(shape.rows * row_blocks)),
        frame_bytes(codes_at + shape.rows * row_bytes),
        rows(shape.rows),
        cols(shape.cols),
        row_pieces((shape.cols + kFp4Piece - 1) / kFp4Piece) {}
  // Pieces of up to kFp4Piece elements, counted along the rows.
  size_t pieces() const { return rows * row_pieces; }
  size_t first(size_t piece) const {
    return piece / row_pieces * cols + piece % row_pieces * kFp4Piece;
  }
  size_t length(size_t piece) const {
    return std::min(kFp4Piece, cols - piece % row_pieces * kFp4Piece);
  }
  size_t ScaleAt(size_t piece) const {
    return piece / row_pieces * row_blocks + piece % row_pieces * (kFp4Piece / kNvBlock);
  }
  size_t CodeAt(size_t piece) const {
    return piece / row_pieces * row_bytes + piece % row_pieces * (kFp4Piece / 2);
  }
  size_t scales_at, row_blocks, row_bytes, codes_at, frame_bytes, rows, cols, row_pieces;
};

// The largest |x| of a tensor of n elements, on all threads of the pool; Inf when it is not finite.
float TensorMax(const WideReader& reader, const Kernels& kernels, size_t n) {
  const Slices slices(n, kWorthAThread);
  uint32_t tops[Slices::kMost] = {};
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    float values[kFp4Piece];
    uint32_t top = 0;
    for (size_t at = slices.first(slice); at < slices.last(slice); at += kFp4Piece) {
      const size_t c = std::min(kFp4Piece, slices.last(slice) - at);
      top = std::max(top, kernels.abs_max(reader.Peek(at, c, values), c));
    }
    tops[slice] = top;
  });
  const uint32_t top = *std::max_element(std::begin(tops), std::end(tops));
  return top < kInfBits ? FromBits(top) : INFINITY;
}

class NvFp4Codec final : public FixedLengthCodec {
 public:
  NvFp4Codec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa, {.block = kNvBlock, .param0 = 4}) {}
  size_t MaxFrameBytes(Shape shape, DType) const override { return NvLayout(shape).frame_bytes; }
  void ZeroGaps(Shape shape, std::byte* frame) const override {
    const NvLayout layout(shape);
    const size_t scales_end = layout.scales_at + shape.rows * layout.row_blocks;
    std::memset(frame + scales_end, 0, layout.codes_at - scales_end);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  void EncodeRest(const float* x, size_t n, float t, std::byte* scales, uint8_t* q) const;
  void EncodePiece(const WideReader& reader, size_t first, size_t n, float t, std::byte* scales,
                   std::byte* codes) const;
  bool DecodePiece(const std::byte* scales, const std::byte* codes, size_t n, float t,
                   float* values) const;
};

// n elements of a row without a kernel, from a block's start.
void NvFp4Codec::EncodeRest(const float* x, size_t n, float t, std::byte* scales,
                            uint8_t* q) const {
  for (size_t at = 0; at < n; at += kNvBlock) {
    const size_t c = std::min(size_t{kNvBlock}, n - at);
    const float max = FromBits(kernels_.abs_max(x + at, c));
    std::byte& code = scales[at / kNvBlock];
    code = static_cast<std::byte>(t == 0 ? 0 : F32ToMini(max / 6.0f / t, MiniFloat::kE4M3));
    const float s = NvScale(static_cast<uint8_t>(code), t);
    if (s == 0) {
      code = std::byte{0};
      std::fill_n(q + at, c, uint8_t{0});
    } else {
      kernels_.e2m1_codes(x + at, c, 1.0f / s, q + at);
    }
  }
}

// Elements [first, first + n), n <= kFp4Piece.
void NvFp4Codec::EncodePiece(const WideReader& reader, size_t first, size_t n, float t,
                             std::byte* scales, std::byte* codes) const {
  float buffer[kFp4Piece];
  const float* values = reader.Peek(first, n, buffer);
  const auto encode = t == 0 ? nullptr : kernels_.encode_nv;
  const size_t whole = encode == nullptr ? 0 : n - n % kFp4Group, rest = n - whole;
  if (whole > 0) {
    encode(reinterpret_cast<const std::byte*>(values), whole / kFp4Group, t, scales, codes);
  }
  uint8_t q[kFp4Piece];
  EncodeRest(values + whole, rest, t, scales + whole / kNvBlock, q);
  PackBits({q, rest}, 4, {codes + whole / 2, PackedBytes(rest, 4)});
}

// False: a block's scale is no number. values: [n].
bool NvFp4Codec::DecodePiece(const std::byte* scales, const std::byte* codes, size_t n, float t,
                             float* values) const {
  const size_t whole = kernels_.decode_nv == nullptr ? 0 : n - n % kFp4Group, rest = n - whole;
  if (whole > 0 && !kernels_.decode_nv(scales, codes, whole / kFp4Group, t,
                                       reinterpret_cast<std::byte*>(values))) {
    return false;
  }
  uint8_t q[kFp4Piece];
  UnpackBits({codes + whole / 2, PackedBytes(rest, 4)}, 4, {q, rest});
  for (size_t b = 0; b < rest; b += kNvBlock) {
    const auto code = static_cast<uint8_t>(scales[(whole + b) / kNvBlock]);
    if (code > 0x7E) return false;
    kernels_.e2m1_values(q + b, std::min(size_t{kNvBlock}, rest - b), NvScale(code, t),
                         values + whole + b);
  }
  return true;
}

absl::StatusOr<size_t> NvFp4Codec::Encode(ConstTensor x, uint64_t, CodecState*,
                                          std::span<std::byte> frame) const {
  const NvLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, kernels_);
  const float max = TensorMax(reader, kernels_, x.shape.elements());
  if (!std::isfinite(max)) return NotFiniteError(name_);
  const float quotient = max / (448.0f * 6.0f);
  const float t = quotient < kSmallestNormal ? 0.0f : quotient;
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  std::memset(frame.data() + kFrameHeaderBytes, 0, 8);
  std::memcpy(frame.data() + kFrameHeaderBytes, &t, 4);
  std::byte* scales = frame.data() + kFrameHeaderBytes + 8;
  std::byte* codes = frame.data() + layout.codes_at;
  const Slices slices(layout.pieces(), kWorthAThread / std::min(kFp4Piece, layout.cols));
  SlicedSums<2> sums;
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    RunningSum scale_sum(kFrameHeaderBytes + 8 + layout.ScaleAt(slices.first(slice)));
    RunningSum code_sum(layout.codes_at + layout.CodeAt(slices.first(slice)));
    for (size_t piece = slices.first(slice); piece < slices.last(slice); ++piece) {
      std::byte* scales_at = scales + layout.ScaleAt(piece);
      std::byte* codes_at = codes + layout.CodeAt(piece);
      const size_t c = layout.length(piece);
      EncodePiece(reader, layout.first(piece), c, t, scales_at, codes_at);
      scale_sum.Add({scales_at, (c + kNvBlock - 1) / kNvBlock});
      code_sum.Add({codes_at, PackedBytes(c, 4)});
    }
    sums.part(0, slice) = scale_sum.part();
    sums.part(1, slice) = code_sum.part();
  });
  SealFrame(HeaderFor(x, 0), frame.first(layout.frame_bytes),
            sums.Combine(frame.first(layout.frame_bytes)));
  return layout.frame_bytes;
}

absl::Status NvFp4Codec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenUnsummed(frame, x.shape));
  const NvLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header.block != kNvBlock || header.param0 != 4) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  float t;
  std::memcpy(&t, frame.data() + kFrameHeaderBytes, 4);
  if (!(t >= 0 && t <= kMostNvScale)) {
    return CorruptUnsummed(frame, "the tensor's scale is no number that an encoder writes");
  }
  const std::byte* scales = frame.data() + kFrameHeaderBytes + 8;
  const std::byte* codes = frame.data() + layout.codes_at;
  const Slices slices(layout.pieces(), kWorthAThread / std::min(kFp4Piece, layout.cols));
  SlicedSums<2> sums;
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    bool no_number = false;
    const NarrowWriter writer(x, kernels_);
    float buffer[kFp4Piece];
    RunningSum scale_sum(kFrameHeaderBytes + 8 + layout.ScaleAt(slices.first(slice)));
    RunningSum code_sum(layout.codes_at + layout.CodeAt(slices.first(slice)));
    for (size_t piece = slices.first(slice); piece < slices.last(slice); ++piece) {
      const std::byte* scales_at = scales + layout.ScaleAt(piece);
      const std::byte* codes_at = codes + layout.CodeAt(piece);
      const size_t c = layout.length(piece);
      scale_sum.Add({scales_at, (c + kNvBlock - 1) / kNvBlock});
      code_sum.Add({codes_at, PackedBytes(c, 4)});
      float* values = writer.Target(layout.first(piece), buffer);
      no_number |= !DecodePiece(scales_at, codes_at, c, t, values);
      writer.Done(values, layout.first(piece), c);
    }
    sums.part(0, slice) = scale_sum.part();
    sums.part(1, slice) = code_sum.part();
    return no_number;
  });
  if (bad) return CorruptUnsummed(frame, "a block's scale is no number");
  return CheckPayloadCrc(frame, sums.Combine(frame));
}

}  // namespace

std::shared_ptr<const Codec> NewNvFp4Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<NvFp4Codec>(name, id, isa);
}

}  // namespace longhaul
