// `e3m0`: powers of two under one scale of the tensor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/families/fixed_length_codec.h"
#include "compressors/families/fp4.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/fp4_scale.h"
#include "compressors/kernels/tensor_max.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

constexpr size_t kE3m0Piece = 2048;  // elements worked on at once

class E3m0TensorCodec final : public FixedLengthCodec {
 public:
  E3m0TensorCodec(std::string_view name, uint16_t id, Isa isa)
      : FixedLengthCodec(name, id, isa, {.param0 = 4}) {}
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
  const WideReader reader(x, kernels_);
  const float max = TensorMax(reader, kernels_, n);
  if (!std::isfinite(max)) return NotFiniteError(name_);
  const WireScale s = AbsMaxScale(kScheme, BitsOf(max));
  std::memset(frame.data() + kFrameHeaderBytes, 0, 8);
  WriteScale(kScheme, s, frame.data() + kFrameHeaderBytes);
  const auto encode = s.value == 0 ? nullptr : kernels_.encode_e3m0;
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
      const size_t whole = encode == nullptr ? 0 : c - c % kFp4Group, rest = c - whole;
      if (whole > 0) {
        encode(reinterpret_cast<const std::byte*>(values), whole / kFp4Group, s.inverse, codes);
      }
      kernels_.e3m0_codes(values + whole, rest, s.inverse, q);
      if (s.value == 0) std::fill_n(q, rest, uint8_t{0});
      PackBits({q, rest}, 4, {codes + whole / 2, PackedBytes(rest, 4)});
      running.Add({codes, PackedBytes(c, 4)});
    }
    sums.part(0, slice) = running.part();
  });
  SealFrame(HeaderFor(x, 0), frame.first(bytes), sums.Combine(frame.first(bytes)));
  return bytes;
}

absl::Status E3m0TensorCodec::Decode(std::span<const std::byte> frame, CodecState*,
                                     Tensor x) const {
  const auto header = Open(frame, x.shape);
  if (!header.ok()) return header.status();
  const size_t n = x.shape.elements();
  float s;
  if (!ReadScale(kScheme, frame.data() + kFrameHeaderBytes, s))
    return Corrupt("the scale is Inf or NaN");
  const auto decode = kernels_.decode_e3m0;
  const Slices slices(PiecesOf(n), kWorthAThread / kE3m0Piece);
  CodecThreads::Process().Run(slices.count(), [&](size_t slice) {
    const NarrowWriter writer(x, kernels_);
    float buffer[kE3m0Piece];
    uint8_t q[kE3m0Piece];
    for (size_t piece = slices.first(slice); piece < slices.last(slice); ++piece) {
      const size_t at = piece * kE3m0Piece, c = std::min(kE3m0Piece, n - at);
      float* values = writer.Target(at, buffer);
      const std::byte* codes = frame.data() + kCodesAt + at / 2;
      const size_t whole = decode == nullptr ? 0 : c - c % kFp4Group, rest = c - whole;
      if (whole > 0) {
        decode(codes, whole / kFp4Group, s, reinterpret_cast<std::byte*>(values));
      }
      UnpackBits({codes + whole / 2, PackedBytes(rest, 4)}, 4, {q, rest});
      kernels_.e3m0_values(q, rest, s, values + whole);
      writer.Done(values, at, c);
    }
  });
  return absl::OkStatus();
}

}  // namespace

bool IsE3m0Tensor(const Codec& codec) {
  return dynamic_cast<const E3m0TensorCodec*>(&codec) != nullptr;
}

std::shared_ptr<const Codec> NewE3m0TensorCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<E3m0TensorCodec>(name, id, isa);
}

}  // namespace longhaul
