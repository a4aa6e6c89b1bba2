#include "compressors/ggml_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compressors/codec_frame.h"
#include "compressors/ggml_loops.h"
#include "compressors/payload_sum.h"
#include "compressors/wide.h"

namespace longhaul {
namespace {

constexpr size_t kBlock = 32;
constexpr size_t kPiece = 2048;  // elements: 8 KiB as fp32

size_t BlockBytes(int bits, size_t c) { return 2 + (bits == 8 ? c : (c + 1) / 2); }

// A tensor whose rows are whole blocks is one long row.
Shape RowsOf(Shape shape) { return shape.cols % kBlock == 0 ? Shape{1, shape.elements()} : shape; }

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

class GgmlCodec final : public Codec {
 public:
  GgmlCodec(std::string_view name, uint16_t id, Isa isa, int bits)
      : name_(name), id_(id), isa_(isa), bits_(bits) {}

  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }
  size_t MaxFrameBytes(Shape shape, DType) const override {
    const size_t tail = shape.cols % kBlock;
    return kFrameHeaderBytes + shape.rows * (shape.cols / kBlock * BlockBytes(bits_, kBlock) +
                                             (tail == 0 ? 0 : BlockBytes(bits_, tail)));
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  const std::string name_;
  const uint16_t id_;
  const Isa isa_;
  const int bits_;
};

absl::StatusOr<size_t> GgmlCodec::Encode(ConstTensor x, uint64_t, CodecState*,
                                         std::span<std::byte> frame) const {
  const size_t bytes = MaxFrameBytes(x.shape, x.dtype);
  if (absl::Status s = CheckEncodeArguments(name_, x, frame.size(), bytes); !s.ok()) return s;
  const WideReader reader(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const auto encode = bits_ == 8 ? loops.encode_q8 : loops.encode_q4;
  const auto [rows, cols] = RowsOf(x.shape);
  const size_t whole = cols - cols % kBlock;
  std::byte* out = frame.data() + kFrameHeaderBytes;
  RunningSum running(kFrameHeaderBytes);
  float values[kPiece];
  for (size_t r = 0; r < rows; ++r) {
    for (size_t at = 0; at < cols;) {
      const size_t c = std::min(kPiece, (at < whole ? whole : cols) - at);
      const float* piece = reader.Peek(r * cols + at, c, values);
      const bool good =
          at < whole ? encode(piece, c / kBlock, out) : EncodeTail(bits_, piece, c, out);
      if (!good) {
        if (loops.abs_max(piece, c) >= kInfBits) return NotFiniteError(name_);
        return absl::InvalidArgumentError(fmt::format("{}: a scale is beyond fp16", name_));
      }
      const size_t bytes_of_piece =
          at < whole ? c / kBlock * BlockBytes(bits_, kBlock) : BlockBytes(bits_, c);
      running.Add({out, bytes_of_piece});
      out += bytes_of_piece;
      at += c;
    }
  }
  const FrameHeader header = {.codec = id_,
                              .dtype = x.dtype,
                              .flags = kFlagFp16Scales,
                              .block = kBlock,
                              .param0 = static_cast<uint32_t>(bits_),
                              .shape = x.shape,
                              .payload_bytes = bytes - kFrameHeaderBytes};
  SealFrame(header, frame.first(bytes), running.part().crc);
  return bytes;
}

absl::Status GgmlCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  const auto header = OpenUnsummedFrame(name_, id_, frame, x.shape, kFlagFp16Scales);
  if (!header.ok()) return header.status();
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype) || header->block != kBlock ||
      header->param0 != static_cast<uint32_t>(bits_) || (header->flags & kFlagFp16Scales) == 0) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name_,
                                           frame.size(), header->block, ToString(x.shape)));
  }
  const NarrowWriter writer(x, isa_);
  const LoopKernels& loops = LoopKernelsOf(isa_);
  const auto decode = bits_ == 8 ? loops.decode_q8 : loops.decode_q4;
  const auto [rows, cols] = RowsOf(x.shape);
  const size_t whole = cols - cols % kBlock;
  const std::byte* in = frame.data() + kFrameHeaderBytes;
  RunningSum running(kFrameHeaderBytes);
  float values[kPiece];
  for (size_t r = 0; r < rows; ++r) {
    for (size_t at = 0; at < cols;) {
      const size_t c = std::min(kPiece, (at < whole ? whole : cols) - at);
      float* target = writer.Target(r * cols + at, values);
      const size_t bytes =
          at < whole ? c / kBlock * BlockBytes(bits_, kBlock) : BlockBytes(bits_, c);
      running.Add({in, bytes});
      const bool good =
          at < whole ? decode(in, c / kBlock, target) : DecodeTail(bits_, in, c, target);
      if (!good) {
        // A byte that changed on the way is told as that.
        const absl::Status sum = ParseFrame(frame).status();
        return sum.ok() ? absl::DataLossError(fmt::format("{}: a scale is Inf or NaN", name_))
                        : sum;
      }
      writer.Done(target, r * cols + at, c);
      in += bytes;
      at += c;
    }
  }
  return CheckPayloadCrc(frame, running.part().crc);
}

}  // namespace

std::shared_ptr<const Codec> NewQ8Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 8);
}
std::shared_ptr<const Codec> NewQ4Codec(std::string_view name, uint16_t id, Isa isa) {
  return std::make_shared<GgmlCodec>(name, id, isa, 4);
}

}  // namespace longhaul
