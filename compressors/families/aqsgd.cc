// `aqsgd2`, `aqsgd4`, `aqsgd8` (AQ-SGD, arXiv 2206.01299): activations of an example that is seen
// in every epoch. Both ends hold m, the activation as the receiver has it, in fp16. The first visit
// sends x as fp16; a later one quantizes delta = x - m with one scale per column, s = bf16(max over
// the rows of |delta|), q = clamp(rne(delta / s 2^(b-1)), -2^(b-1), 2^(b-1) - 1), and both ends set
// m <- fp16(m + q 2^-(b-1) s) and use m. The state belongs to the example and shape, not to the place. Where a
// difference would be no shorter than fp16 values, values are sent again.
//
// Payload of a first visit: the values fp16. Of a difference: s bf16 per column; codes q + 2^(b-1),
// one bit string. param0 = b. b + 16 / rows bits per element; first visit 16. Marks and tags:
// mirror.h. State: 2 n bytes at each end.
#include "compressors/families/factories.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/scratch.h"
#include "compressors/states/mirror.h"

namespace longhaul {
namespace {

struct AqSgdLayout {
  AqSgdLayout(int bits, Shape shape)
      : first_bytes(kFrameHeaderBytes + 2 * shape.elements()),
        codes_at(kFrameHeaderBytes + AlignUp8(2 * shape.cols)),
        difference_bytes(codes_at + PackedBytes(shape.elements(), bits)) {}
  size_t first_bytes, codes_at, difference_bytes;
};

class AqSgdCodec final : public CatalogCodec {
 public:
  AqSgdCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : CatalogCodec(name, id, isa), bits_(bits) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return AqSgdLayout(bits_, shape).first_bytes;  // a difference is never longer
  }
  std::unique_ptr<CodecState> NewState(Shape shape) const override {
    return std::make_unique<Mirror>(Mirror::Kind::kF16, shape);
  }
  std::unique_ptr<CodecState> NewDecoderState(Shape shape) const override {
    return NewState(shape);
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState* state,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState* state, Tensor x) const override;

 private:
  bool EncodeDifference(ConstTensor x, const std::byte* m, std::byte* frame) const;
  void Add(const std::byte* frame, const std::byte* m, Shape shape, std::byte* next) const;
  void Seal(ConstTensor x, uint16_t flags, uint32_t tag, std::span<std::byte> frame) const;

  const int bits_;
};

// Scales and codes of x - m; false when x holds NaN or Inf.
bool AqSgdCodec::EncodeDifference(ConstTensor x, const std::byte* m, std::byte* frame) const {
  const size_t rows = x.shape.rows, cols = x.shape.cols;
  const AqSgdLayout layout(bits_, x.shape);
  const std::span<float> delta = Scratch<float, ScratchUse::kSum>(rows * cols);
  const std::span<float> old = Scratch<float, ScratchUse::kWide>(cols);
  const std::span<uint32_t> top = Scratch<uint32_t, ScratchUse::kIndices>(cols);
  const WideReader reader(x, kernels_), cache({m, DType::kF16, x.shape}, kernels_);
  std::fill(top.begin(), top.end(), 0u);
  for (size_t r = 0; r < rows; ++r) {
    float* row = delta.data() + r * cols;
    if (!reader.Read(r * cols, cols, row)) return false;
    cache.Read(r * cols, cols, old.data());
    kernels_.add_scaled(old.data(), cols, -1.0f, row);
    for (size_t c = 0; c < cols; ++c) top[c] = std::max(top[c], BitsOf(row[c]) & kAbsMask);
  }
  const auto half = static_cast<float>(1 << (bits_ - 1));
  for (size_t c = 0; c < cols; ++c) {
    const WireScale s = RoundScale(FromBits(top[c]), [](float v) { return v; });
    std::memcpy(frame + kFrameHeaderBytes + 2 * c, &s.wire, 2);
    old[c] = s.inverse * half;
  }
  std::memset(frame + kFrameHeaderBytes + 2 * cols, 0,
              layout.codes_at - kFrameHeaderBytes - 2 * cols);
  const std::span<uint8_t> q = Scratch<uint8_t, ScratchUse::kCodes>(rows * cols);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c) {
      const float code = std::clamp(delta[r * cols + c] * old[c], -half, half - 1);
      q[r * cols + c] = static_cast<uint8_t>(RoundToInt(code) + (1 << (bits_ - 1)));
    }
  }
  PackBits(q, bits_, {frame + layout.codes_at, PackedBytes(q.size(), bits_)});
  return true;
}

// next = fp16(m + what the frame says), [elements] fp16. The same operations at both ends.
void AqSgdCodec::Add(const std::byte* frame, const std::byte* m, Shape shape,
                     std::byte* next) const {
  const size_t cols = shape.cols, n = shape.elements();
  const AqSgdLayout layout(bits_, shape);
  const std::span<uint8_t> q = Scratch<uint8_t, ScratchUse::kCodes>(n);
  UnpackBits({frame + layout.codes_at, PackedBytes(n, bits_)}, bits_, q);
  const int half = 1 << (bits_ - 1);
  const std::span<float> scale = Scratch<float, ScratchUse::kWide>(2 * cols).first(cols);
  const std::span<float> row = Scratch<float, ScratchUse::kWide>(2 * cols).last(cols);
  for (size_t c = 0; c < cols; ++c) {
    uint16_t wire;
    std::memcpy(&wire, frame + kFrameHeaderBytes + 2 * c, 2);
    scale[c] = Bf16ToF32(wire) / static_cast<float>(half);
  }
  const WideReader cache({m, DType::kF16, shape}, kernels_);
  const NarrowWriter writer({next, DType::kF16, shape}, kernels_);
  for (size_t r = 0; r < shape.rows; ++r) {
    cache.Read(r * cols, cols, row.data());
    for (size_t c = 0; c < cols; ++c) {
      row[c] += static_cast<float>(static_cast<int>(q[r * cols + c]) - half) * scale[c];
    }
    writer.Write(row.data(), r * cols, cols);
  }
}

void AqSgdCodec::Seal(ConstTensor x, uint16_t flags, uint32_t tag,
                      std::span<std::byte> frame) const {
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = flags,
             .param0 = static_cast<uint32_t>(bits_),
             .shape = x.shape,
             .payload_bytes = frame.size() - kFrameHeaderBytes,
             .state = tag},
            frame);
}

absl::StatusOr<size_t> AqSgdCodec::Encode(ConstTensor x, uint64_t, CodecState* state,
                                          std::span<std::byte> frame) const {
  const AqSgdLayout layout(bits_, x.shape);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), layout.first_bytes); !s.ok()) {
    return s;
  }
  ASSIGN_OR_RETURN(const auto own, MirrorOf(state, name_, Mirror::Kind::kF16, x.shape));
  if (own == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: Encode needs a state", name_));
  }
  Mirror& m = *own;
  if (!m.filled() || layout.difference_bytes >= layout.first_bytes) {
    std::byte* const values = frame.data() + kFrameHeaderBytes;
    if (!kernels_.Converter(x.dtype, DType::kF16)(static_cast<const std::byte*>(x.values),
                                                  x.shape.elements(), values)) {
      return NotFiniteError(name_);
    }
    m.Fill(values);
    Seal(x, kFlagFirstVisit, 0, frame.first(layout.first_bytes));
    return layout.first_bytes;
  }
  if (!EncodeDifference(x, m.values(), frame.data())) return NotFiniteError(name_);
  const size_t bytes = layout.difference_bytes;
  Seal(x, kFlagDifference, m.Tag(), frame.first(bytes));
  const auto next = Scratch<std::byte, ScratchUse::kWork>(2 * x.shape.elements());
  Add(frame.data(), m.values(), x.shape, next.data());
  m.Fill(next.data());
  return bytes;
}

absl::Status AqSgdCodec::Decode(std::span<const std::byte> frame, CodecState* state,
                                Tensor x) const {
  ASSIGN_OR_RETURN(const auto own, MirrorOf(state, name_, Mirror::Kind::kF16, x.shape));
  ASSIGN_OR_RETURN(const auto header,
                   OpenFrame(name_, id_, frame, x.shape, kFlagFirstVisit | kFlagDifference));
  RETURN_IF_ERROR(CheckMirror(name_, header.flags, header.state, own));
  const AqSgdLayout layout(bits_, x.shape);
  const bool first = (header.flags & kFlagFirstVisit) != 0;
  if (frame.size() != (first ? layout.first_bytes : layout.difference_bytes) ||
      header.param0 != static_cast<uint32_t>(bits_) || header.block != 0) {
    return Corrupt("bytes or fields do not fit the shape");
  }
  const size_t n = x.shape.elements();
  const auto next = Scratch<std::byte, ScratchUse::kWork>(2 * n);
  const std::byte* values = frame.data() + kFrameHeaderBytes;
  if (!first) {
    for (size_t c = 0; c < x.shape.cols; ++c) {
      uint16_t wire;
      std::memcpy(&wire, values + 2 * c, 2);
      if ((wire & 0x7F80) == 0x7F80) return Corrupt("a scale is Inf or NaN");
    }
    Add(frame.data(), own->values(), x.shape, next.data());
    values = next.data();
  }
  if (!kernels_.Converter(DType::kF16, x.dtype)(values, n, static_cast<std::byte*>(x.values))) {
    return Corrupt("NaN or Inf in it");
  }
  if (own != nullptr) own->Fill(values);
  return absl::OkStatus();
}

}  // namespace

template <int kBits>
std::shared_ptr<const Codec> NewAqSgdCodec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<AqSgdCodec>(name, id, isa, kBits);
}
template std::shared_ptr<const Codec> NewAqSgdCodec<2>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewAqSgdCodec<4>(std::string_view, uint16_t, Isa);
template std::shared_ptr<const Codec> NewAqSgdCodec<8>(std::string_view, uint16_t, Isa);

}  // namespace longhaul
