// `q8_0` and `q4_0`: the blocks of 32 of ggml, byte for byte, so that they can be checked against
// it (and against it only: the scale is quantized with before it is rounded to fp16, and it
// underflows).
//
// Payload: the blocks in row order, without gaps.
//   q8_0   fp16 d = max|x| / 127, then the codes, i8, round half away from zero of x / d
//   q4_0   fp16 d = m / -8 with m the signed element of largest magnitude (the first on ties), then
//          16 bytes, byte j = code j | code (j + 16) << 4, code = min(15, int(x / d + 8.5)),
//          xhat = (code - 8) d
// Every step is rounded to fp32, as in the gguf package's numpy reference (ggml's C differs where
// it is compiled with fused multiply-add). A row's short block of c has c codes (q8_0) or
// h = ceil(c / 2) bytes,
// byte j = code j | code (j + h) << 4 (q4_0). 8.5 and 4.5 bits per element. InvalidArgument when d
// is beyond fp16.
#include "compressors/families/factories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "compressors/families/fixed_length_codec.h"
#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/ggml_loops.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

constexpr size_t kGgmlBlock = 32;
// Elements worked on at once: 16 KiB as fp32.
constexpr size_t kGgmlPiece = 128 * kGgmlBlock;

size_t BlockBytes(int bits, size_t c) { return 2 + (bits == 8 ? c : (c + 1) / 2); }

// How a tensor falls into blocks; one whose rows are whole blocks is one long row.
struct GgmlLayout {
  GgmlLayout(int bits, Shape shape)
      : bits(bits),
        cols(shape.cols % kGgmlBlock == 0 ? shape.elements() : shape.cols),
        rows(shape.cols % kGgmlBlock == 0 ? 1 : shape.rows),
        row_blocks((cols + kGgmlBlock - 1) / kGgmlBlock),
        row_bytes(At(cols)) {}
  // Where element i of a row begins, i a multiple of the block, or the row's end.
  size_t At(size_t i) const {
    const size_t tail = i % kGgmlBlock;
    return i / kGgmlBlock * BlockBytes(bits, kGgmlBlock) + (tail == 0 ? 0 : BlockBytes(bits, tail));
  }
  // Where block b begins in a frame.
  size_t Begin(size_t b) const {
    return kFrameHeaderBytes + b / row_blocks * row_bytes + At(b % row_blocks * kGgmlBlock);
  }
  // Calls visit(r, at, c, byte) for the pieces of blocks [first, last), counted along the rows:
  // whole blocks or a row's short one, and where they lie in the payload. Until one answers false.
  template <typename Visit>
  bool ForEachPiece(size_t first, size_t last, Visit visit) const {
    const size_t whole = cols - cols % kGgmlBlock;
    for (size_t b = first; b < last;) {
      const size_t r = b / row_blocks, at = b % row_blocks * kGgmlBlock;
      const size_t end = std::min(at + (last - b) * kGgmlBlock, cols);
      const size_t c = at < whole ? std::min({kGgmlPiece, whole - at, end - at}) : cols - at;
      if (!visit(r, at, c, r * row_bytes + At(at))) return false;
      b += (c + kGgmlBlock - 1) / kGgmlBlock;
    }
    return true;
  }
  int bits;
  size_t cols, rows, row_blocks, row_bytes;
};

// x: [c], c < 32, a row's short block; the rule of the full ones.
bool EncodeTail(int bits, const float* x, size_t c, std::byte* out) {
  float m = 0;
  for (size_t i = 0; i < c; ++i) m = (BitsOf(x[i]) & kAbsMask) > (BitsOf(m) & kAbsMask) ? x[i] : m;
  const float d = bits == 8 ? FromBits(BitsOf(m) & kAbsMask) / 127.0f : m / -8.0f;
  if (BeyondFp16(d)) return false;
  const float inverse = GgmlInverse(d);
  const uint16_t wire = F32ToF16Clamped(d);
  std::memcpy(out, &wire, 2);
  if (bits == 8) {
    for (size_t i = 0; i < c; ++i) out[2 + i] = static_cast<std::byte>(RoundAway(x[i] * inverse));
    return true;
  }
  const size_t half = (c + 1) / 2;
  for (size_t j = 0; j < half; ++j) {
    const int high = j + half < c ? Q4Code(x[j + half], inverse) : 0;
    out[2 + j] = static_cast<std::byte>(Q4Code(x[j], inverse) | high << 4);
  }
  return true;
}

bool DecodeTail(int bits, const std::byte* in, size_t c, float* x) {
  uint16_t wire;
  std::memcpy(&wire, in, 2);
  if ((wire & 0x7C00) == 0x7C00) return false;
  const float d = F16ToF32(wire);
  const size_t half = (c + 1) / 2;
  for (size_t i = 0; i < c; ++i) {
    int q;
    if (bits == 8) {
      q = static_cast<int8_t>(in[2 + i]);
    } else {
      const auto byte = static_cast<unsigned>(in[2 + i % half]);
      q = static_cast<int>(i < half ? byte & 15 : byte >> 4) - 8;
    }
    x[i] = static_cast<float>(q) * d;
  }
  return true;
}

class GgmlCodec final : public FixedLengthCodec {
 public:
  GgmlCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : FixedLengthCodec(name, id, isa,
                         {.block = kGgmlBlock,
                          .param0 = static_cast<uint32_t>(bits),
                          .flags = kFlagFp16Scales,
                          .range_fault = "a scale is beyond fp16"}),
        bits_(bits) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    const GgmlLayout layout(bits_, shape);
    return kFrameHeaderBytes + layout.rows * layout.row_bytes;
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  BlockFault EncodeBlocks(const GgmlLayout& layout, ConstTensor x, size_t first, size_t last,
                          std::byte* payload, RunningSum& running) const;
  bool DecodeBlocks(const GgmlLayout& layout, const std::byte* payload, size_t first, size_t last,
                    Tensor x, RunningSum& running) const;

  const int bits_;
};

BlockFault GgmlCodec::EncodeBlocks(const GgmlLayout& layout, ConstTensor x, size_t first,
                                   size_t last, std::byte* payload, RunningSum& running) const {
  const WideReader reader(x, kernels_);
  const auto encode = bits_ == 8 ? kernels_.encode_q8 : kernels_.encode_q4;
  float values[kGgmlPiece];
  BlockFault fault = BlockFault::kNone;
  layout.ForEachPiece(first, last, [&](size_t r, size_t at, size_t c, size_t byte) {
    const float* piece = reader.Peek(r * layout.cols + at, c, values);
    std::byte* out = payload + byte;
    const bool good =
        c % kGgmlBlock == 0 ? encode(piece, c / kGgmlBlock, out) : EncodeTail(bits_, piece, c, out);
    if (!good) {
      fault = kernels_.abs_max(piece, c) >= kInfBits ? BlockFault::kNotFinite : BlockFault::kRange;
      return false;
    }
    running.Add({out, layout.At(at + c) - layout.At(at)});
    return true;
  });
  return fault;
}

absl::StatusOr<size_t> GgmlCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  const GgmlLayout layout(bits_, x.shape);
  const Slices slices(layout.rows * layout.row_blocks,
                      kWorthAThread / std::min(kGgmlBlock, layout.cols));
  SlicedSums<1> sums;
  const BlockFault fault = FirstAnswer(slices, [&](size_t slice) {
    RunningSum running(layout.Begin(slices.first(slice)));
    const BlockFault found = EncodeBlocks(layout, x, slices.first(slice), slices.last(slice),
                                          frame.data() + kFrameHeaderBytes, running);
    sums.part(0, slice) = running.part();
    return found;
  });
  if (fault != BlockFault::kNone) return FaultStatus(fault);
  SealFrame(HeaderFor(x, 0), frame.first(bytes), sums.Combine(frame.first(bytes)));
  return bytes;
}

// False: a scale is no number.
bool GgmlCodec::DecodeBlocks(const GgmlLayout& layout, const std::byte* payload, size_t first,
                             size_t last, Tensor x, RunningSum& running) const {
  const NarrowWriter writer(x, kernels_);
  const auto decode = bits_ == 8 ? kernels_.decode_q8 : kernels_.decode_q4;
  float values[kGgmlPiece];
  return layout.ForEachPiece(first, last, [&](size_t r, size_t at, size_t c, size_t byte) {
    const std::byte* in = payload + byte;
    const size_t bytes = layout.At(at + c) - layout.At(at);
    const size_t to = r * layout.cols + at;
    float* const target = writer.Target(to, values);
    running.Add({in, bytes});
    const bool good =
        c % kGgmlBlock == 0 ? decode(in, c / kGgmlBlock, target) : DecodeTail(bits_, in, c, target);
    if (good) writer.Done(target, to, c);
    return good;
  });
}

absl::Status GgmlCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const auto header, OpenUnsummed(frame, x.shape));
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header.block != kGgmlBlock ||
      header.param0 != static_cast<uint32_t>(bits_) || (header.flags & kFlagFp16Scales) == 0) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header.block, ToString(x.shape)));
  }
  const GgmlLayout layout(bits_, x.shape);
  const Slices slices(layout.rows * layout.row_blocks,
                      kWorthAThread / std::min(kGgmlBlock, layout.cols));
  SlicedSums<1> sums;
  const bool bad = FirstAnswer(slices, [&](size_t slice) {
    RunningSum running(layout.Begin(slices.first(slice)));
    const bool good = DecodeBlocks(layout, frame.data() + kFrameHeaderBytes, slices.first(slice),
                                   slices.last(slice), x, running);
    sums.part(0, slice) = running.part();
    return !good;
  });
  if (!bad) return CheckPayloadCrc(frame, sums.Combine(frame));
  return CorruptUnsummed(frame, "a scale is Inf or NaN");
}

}  // namespace

std::shared_ptr<const Codec> NewQ8Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 8);
}
std::shared_ptr<const Codec> NewQ4Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 4);
}

}  // namespace longhaul
