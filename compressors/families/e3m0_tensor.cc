// `e3m0`: powers of two under one scale of the tensor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/families/fp4.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/fp4_kernels.h"
#include "compressors/kernels/tensor_max.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

constexpr size_t kE3m0Piece = 2048;  // elements worked on at once

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
  static size_t PiecesOf(size_t n) { return (n + kE3m0Piece - 1) / kE3m0Piece; }

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
  const Slices slices(PiecesOf(n), kWorthAThread / kE3m0Piece);
  SlicedSums<1> sums;
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    RunningSum running(kCodesAt + slices.first(slice) * (kE3m0Piece / 2));
    float buffer[kE3m0Piece];
    uint8_t q[kE3m0Piece];
    for (size_t piece = slices.first(slice); piece < slices.last(slice); ++piece) {
      const size_t at = piece * kE3m0Piece, c = std::min(kE3m0Piece, n - at);
      const float* values = reader.Peek(at, c, buffer);
      std::byte* codes = frame.data() + kCodesAt + at / 2;
      const size_t whole = kernels == nullptr ? 0 : c - c % kFp4Group, rest = c - whole;
      if (whole > 0) {
        kernels->encode_e3m0(reinterpret_cast<const std::byte*>(values), whole / kFp4Group,
                             s.inverse, codes);
      }
      loops.e3m0_codes(values + whole, rest, s.inverse, q);
      if (s.value == 0) std::fill_n(q, rest, uint8_t{0});
      PackBits({q, rest}, 4, {codes + whole / 2, PackedBytes(rest, 4)});
      running.Add({codes, PackedBytes(c, 4)});
    }
    sums.part(0, slice) = running.part();
  });
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .param0 = 4,
                              .shape = x.shape,
                              .payload_bytes = bytes - kFrameHeaderBytes};
  SealFrame(header, frame.first(bytes), sums.Join(frame.first(bytes)));
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
  const Fp4Kernels* kernels = Fp4KernelsOf(isa_);
  const Slices slices(PiecesOf(n), kWorthAThread / kE3m0Piece);
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const NarrowWriter writer(x, isa_);
    float buffer[kE3m0Piece];
    uint8_t q[kE3m0Piece];
    for (size_t piece = slices.first(slice); piece < slices.last(slice); ++piece) {
      const size_t at = piece * kE3m0Piece, c = std::min(kE3m0Piece, n - at);
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
  });
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Codec> NewE3m0TensorCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<E3m0TensorCodec>(name, id, isa);
}

}  // namespace longhaul
