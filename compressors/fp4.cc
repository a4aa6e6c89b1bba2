// FP4 with a scale for the whole tensor; the block forms are schemes of block_codec.cc.
#include "compressors/fp4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/codec_frame.h"
#include "compressors/fp4_kernels.h"
#include "compressors/loop_kernels.h"
#include "compressors/payload_sum.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kPiece = 2048;  // elements worked on at once
constexpr float kSmallestNormal = 0x1p-126f;

// The tensor's largest |x|, Inf when it is not finite.
float TensorMax(const WideReader& reader, const LoopKernels& loops, size_t n) {
  float values[kPiece];
  uint32_t top = 0;
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t c = std::min(kPiece, n - at);
    top = std::max(top, loops.abs_max(reader.Peek(at, c, values), c));
  }
  return top < kInfBits ? FromBits(top) : INFINITY;
}

struct NvLayout {
  explicit NvLayout(Shape shape)
      : row_blocks((shape.cols + kNvBlock - 1) / kNvBlock),
        row_bytes(PackedBytes(shape.cols, 4)),
        codes_at(kFrameHeaderBytes + 8 + AlignUp8(shape.rows * row_blocks)),
        frame_bytes(codes_at + shape.rows * row_bytes) {}
  size_t row_blocks, row_bytes, codes_at, frame_bytes;
};

// No encoder writes a larger t (with room for its rounding).
constexpr float kMostT = 0x1.fffffep127f / (448.0f * 6.0f) * 1.000001f;

class NvFp4Codec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override { return NvLayout(shape).frame_bytes; }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  void EncodePiece(const float* x, size_t n, float t, std::byte* scales, uint8_t* q) const;
};

// n elements of a row, from a block's start.
void NvFp4Codec::EncodePiece(const float* x, size_t n, float t, std::byte* scales,
                             uint8_t* q) const {
  const LoopKernels& loops = LoopKernelsOf(isa_);
  for (size_t at = 0; at < n; at += kNvBlock) {
    const size_t c = std::min(size_t{kNvBlock}, n - at);
    const float max = FromBits(loops.abs_max(x + at, c));
    std::byte& code = scales[at / kNvBlock];
    code = static_cast<std::byte>(t == 0 ? 0 : F32ToMini(max / 6.0f / t, MiniFloat::kE4M3));
    const float s = NvScale(static_cast<uint8_t>(code), t);
    if (s == 0) {
      code = std::byte{0};
      std::fill_n(q + at, c, uint8_t{0});
    } else {
      loops.e2m1_codes(x + at, c, 1.0f / s, q + at);
    }
  }
}

absl::StatusOr<size_t> NvFp4Codec::Encode(ConstTensor x, uint64_t, CodecState*,
                                          std::span<std::byte> frame) const {
  const NvLayout layout(x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.frame_bytes); !s.ok()) {
    return s;
  }
  const WideReader reader(x, isa_);
  const float max = TensorMax(reader, LoopKernelsOf(isa_), x.shape.elements());
  if (!std::isfinite(max)) return NotFiniteError(name_);
  const float quotient = max / (448.0f * 6.0f);
  const float t = quotient < kSmallestNormal ? 0.0f : quotient;
  std::memset(frame.data() + layout.codes_at - 8, 0, 8);
  std::memset(frame.data() + kFrameHeaderBytes, 0, 8);
  std::memcpy(frame.data() + kFrameHeaderBytes, &t, 4);
  std::byte* scales = frame.data() + kFrameHeaderBytes + 8;
  std::byte* codes = frame.data() + layout.codes_at;
  const Fp4Kernels* kernels = t == 0 ? nullptr : Fp4KernelsOf(isa_);
  RunningSum scale_sum(kFrameHeaderBytes + 8), code_sum(layout.codes_at);
  float buffer[kPiece];
  uint8_t q[kPiece];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kPiece) {
      const size_t c = std::min(kPiece, x.shape.cols - at);
      const float* values = reader.Peek(r * x.shape.cols + at, c, buffer);
      std::byte* scales_at = scales + r * layout.row_blocks + at / kNvBlock;
      std::byte* codes_at = codes + r * layout.row_bytes + at / 2;
      const size_t whole = kernels == nullptr ? 0 : c - c % kFp4Group;
      if (whole > 0) {
        kernels->encode_nv(reinterpret_cast<const std::byte*>(values), whole / kFp4Group, t,
                           scales_at, codes_at);
      }
      const size_t rest = c - whole;
      EncodePiece(values + whole, rest, t, scales_at + whole / kNvBlock, q);
      PackBits({q, rest}, 4, {codes_at + whole / 2, PackedBytes(rest, 4)});
      scale_sum.Add({scales_at, (c + kNvBlock - 1) / kNvBlock});
      code_sum.Add({codes_at, PackedBytes(c, 4)});
    }
  }
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .block = kNvBlock,
                              .param0 = 4,
                              .shape = x.shape,
                              .payload_bytes = layout.frame_bytes - kFrameHeaderBytes};
  const SummedPart parts[] = {scale_sum.part(), code_sum.part()};
  SealFrame(header, frame.first(layout.frame_bytes),
            PayloadCrc(frame.first(layout.frame_bytes), parts));
  return layout.frame_bytes;
}

absl::Status NvFp4Codec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const NvLayout layout(x.shape);
  if (frame.size() != layout.frame_bytes || header->block != kNvBlock || header->param0 != 4) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  float t;
  std::memcpy(&t, frame.data() + kFrameHeaderBytes, 4);
  if (!(t >= 0 && t <= kMostT)) {
    return Corrupt("the tensor's scale is no number that an encoder writes");
  }
  const NarrowWriter writer(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const std::byte* scales = frame.data() + kFrameHeaderBytes + 8;
  const std::byte* codes = frame.data() + layout.codes_at;
  const Fp4Kernels* kernels = Fp4KernelsOf(isa_);
  float buffer[kPiece];
  uint8_t q[kPiece];
  for (size_t r = 0; r < x.shape.rows; ++r) {
    for (size_t at = 0; at < x.shape.cols; at += kPiece) {
      const size_t c = std::min(kPiece, x.shape.cols - at);
      float* values = writer.Target(r * x.shape.cols + at, buffer);
      const std::byte* scales_at = scales + r * layout.row_blocks + at / kNvBlock;
      const std::byte* codes_at = codes + r * layout.row_bytes + at / 2;
      const size_t whole = kernels == nullptr ? 0 : c - c % kFp4Group;
      if (whole > 0 && !kernels->decode_nv(scales_at, codes_at, whole / kFp4Group, t,
                                           reinterpret_cast<std::byte*>(values))) {
        return Corrupt("a block's scale is no number");
      }
      const size_t rest = c - whole;
      UnpackBits({codes_at + whole / 2, PackedBytes(rest, 4)}, 4, {q, rest});
      for (size_t b = 0; b < rest; b += kNvBlock) {
        const auto code = static_cast<uint8_t>(scales_at[(whole + b) / kNvBlock]);
        if (code > 0x7E) return Corrupt("a block's scale is no number");
        loops.e2m1_values(q + b, std::min(size_t{kNvBlock}, rest - b), NvScale(code, t),
                          values + whole + b);
      }
      writer.Done(values, r * x.shape.cols + at, c);
    }
  }
  return absl::OkStatus();
}

class E3m0TensorCodec final : public CatalogCodec {
 public:
  using CatalogCodec::CatalogCodec;
  size_t MaxFrameBytes(Shape shape, DType) const override {
    return kCodesAt + PackedBytes(shape.elements(), 4);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  static constexpr BlockScheme kScheme = {4, Grid::kE3M0};
  static constexpr size_t kCodesAt = kFrameHeaderBytes + 8;
};

absl::StatusOr<size_t> E3m0TensorCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                               std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype), n = x.shape.elements();
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const float max = TensorMax(reader, loops, n);
  if (!std::isfinite(max)) return NotFiniteError(name_);
  const WireScale s = AbsMaxScale(kScheme, BitsOf(max));
  std::memset(frame.data() + kFrameHeaderBytes, 0, 8);
  WriteScale(kScheme, s, frame.data() + kFrameHeaderBytes);
  const Fp4Kernels* kernels = s.value == 0 ? nullptr : Fp4KernelsOf(isa_);
  RunningSum running(kCodesAt);
  float buffer[kPiece];
  uint8_t q[kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t c = std::min(kPiece, n - at);
    const float* values = reader.Peek(at, c, buffer);
    std::byte* codes = frame.data() + kCodesAt + at / 2;
    const size_t whole = kernels == nullptr ? 0 : c - c % kFp4Group, rest = c - whole;
    if (whole > 0) {
      kernels->encode_e3m0(reinterpret_cast<const std::byte*>(values), whole / kFp4Group, s.inverse,
                           codes);
    }
    loops.e3m0_codes(values + whole, rest, s.inverse, q);
    if (s.value == 0) std::fill_n(q, rest, uint8_t{0});
    PackBits({q, rest}, 4, {codes + whole / 2, PackedBytes(rest, 4)});
    running.Add({codes, PackedBytes(c, 4)});
  }
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .param0 = 4,
                              .shape = x.shape,
                              .payload_bytes = bytes - kFrameHeaderBytes};
  SealFrame(header, frame.first(bytes), PayloadCrc(frame.first(bytes), {&running.part(), 1}));
  return bytes;
}

absl::Status E3m0TensorCodec::Decode(std::span<const std::byte> frame, CodecState*,
                                     Tensor x) const {
  const auto header = OpenFrame(name_, id_, frame, x.shape);
  if (!header.ok()) return header.status();
  const size_t n = x.shape.elements();
  float s;
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header->block != 0 ||
      header->param0 != 4 || !ReadScale(kScheme, frame.data() + kFrameHeaderBytes, s)) {
    return Corrupt("bytes, scale or fields do not fit the shape");
  }
  const NarrowWriter writer(x, isa_);
  const Fp4Kernels* kernels = Fp4KernelsOf(isa_);
  float buffer[kPiece];
  uint8_t q[kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t c = std::min(kPiece, n - at);
    float* values = writer.Target(at, buffer);
    const std::byte* codes = frame.data() + kCodesAt + at / 2;
    const size_t whole = kernels == nullptr ? 0 : c - c % kFp4Group, rest = c - whole;
    if (whole > 0) {
      kernels->decode_e3m0(codes, whole / kFp4Group, s, reinterpret_cast<std::byte*>(values));
    }
    UnpackBits({codes + whole / 2, PackedBytes(rest, 4)}, 4, {q, rest});
    LoopKernelsOf(isa_).e3m0_values(q, rest, s, values + whole);
    writer.Done(values, at, c);
  }
  return absl::OkStatus();
}

}  // namespace

const Fp4Kernels* Fp4KernelsOf(Isa isa) {
  return isa == Isa::kAvx512 ? &Avx512Fp4Kernels()
         : isa == Isa::kAvx2 ? &Avx2Fp4Kernels()
                             : nullptr;
}

std::shared_ptr<const Codec> NewNvFp4Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<NvFp4Codec>(name, id, isa);
}
std::shared_ptr<const Codec> NewE3m0TensorCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<E3m0TensorCodec>(name, id, isa);
}

}  // namespace longhaul
