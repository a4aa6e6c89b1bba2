#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"

// The one frame layout, for both directions. Little-endian; the payload follows the header, and
// each section of the payload starts 8-byte aligned within the frame, the gaps filled with zeros.
//
//   off  type  field
//     0  u32   magic          bytes 'L' 'H' 'C' '1'
//     4  u16   codec          id of the catalogue
//     6  u16   value_codec    codec of the kept values of a sparse codec, 0 = none
//     8  u8    version        layout version of this codec, starts at 1
//     9  u8    dtype          of the source: 0 f32, 1 bf16, 2 f16
//    10  u16   flags          FrameFlag bits
//    12  u32   block          elements per block, 0 = whole tensor
//    16  u32   param0         k, rank, bits
//    20  u32   param1         Rice parameter, threshold, ...
//    24  u64   rows
//    32  u64   cols
//    40  u64   seed           noise key; 0 from codecs that draw no noise
//    48  u64   payload_bytes
//    56  u32   crc            CRC32C of the frame with this field zero
//    60  u32   state          tag of the state that the decoder must be in; 0 without
//                           kFlagDifference
namespace longhaul {

static_assert(std::endian::native == std::endian::little,
              "frames are written as they lie in memory");

constexpr size_t kFrameHeaderBytes = 4 + 2 + 2 + 1 + 1 + 2 + 4 + 4 + 4 + 8 + 8 + 8 + 8 + 4 + 4;
static_assert(kFrameHeaderBytes == 64);

enum FrameFlag : uint16_t {
  kFlagStochastic = 1 << 0,     // stochastic rounding
  kFlagSaturated = 1 << 1,      // Inf or NaN was replaced
  kFlagFp16Scales = 1 << 2,     // scales are fp16, not bf16
  kFlagErrorFeedback = 1 << 3,  // the sender added its residual
  kFlagFirstVisit = 1 << 4,     // values, which replace the decoder's state (aqsgd*, +ef21)
  kFlagDifference = 1 << 5,     // a difference to the decoder's state (aqsgd*, +ef21)
  kFlagIndexFixed = 1 << 8,     // index coding, two bits: 0 none or shared seed, 1 fixed,
  kFlagIndexRice = 2 << 8,      // 2 Rice,
  kFlagIndexBitmap = 3 << 8,    // 3 bitmap
};
constexpr uint16_t kFlagIndexMask = 3 << 8;

struct FrameHeader {
  uint16_t codec = 0;
  uint16_t value_codec = 0;
  uint8_t version = 1;
  DType dtype = DType::kF32;
  uint16_t flags = 0;
  uint32_t block = 0;
  uint32_t param0 = 0;
  uint32_t param1 = 0;
  Shape shape;
  uint64_t seed = 0;
  uint64_t payload_bytes = 0;
  uint32_t state = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

constexpr size_t AlignUp8(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// Writes header and CRC in front of a payload that already stands at frame[64...]. `frame` is
// exactly kFrameHeaderBytes + header.payload_bytes long.
void SealFrame(const FrameHeader& header, std::span<std::byte> frame);

// The same for a payload whose CRC is known already (payload_sum.h).
void SealFrame(const FrameHeader& header, std::span<std::byte> frame, uint32_t payload_crc);

// Checks length, magic, CRC and the fields that mean the same for every codec. DataLoss otherwise.
absl::StatusOr<FrameHeader> ParseFrame(std::span<const std::byte> frame);

// The same but for the CRC: trust nothing before CheckPayloadCrc, which is given that of the bytes
// behind the header and answers DataLoss where the frame says another one.
absl::StatusOr<FrameHeader> ParseUnsummedFrame(std::span<const std::byte> frame);
absl::Status CheckPayloadCrc(std::span<const std::byte> frame, uint32_t payload_crc);

// CRC32C of all bytes of a sealed frame, from its header alone: what Crc32c(frame) answers.
uint32_t FrameCrc(std::span<const std::byte> frame);

// Sets flag bits in a sealed frame and renews its CRC.
void AddFrameFlags(uint16_t flags, std::span<std::byte> frame);

// Marks a sealed frame as one for a decoder with a state, or takes the marks off: replaces the
// flags kFlagFirstVisit and kFlagDifference by those of `flags`, sets `state`, renews the CRC.
void MarkFrame(uint16_t flags, uint32_t state, std::span<std::byte> frame);

// The fields of what may be a frame, before any check: trust none of them. All zero when it is too
// short to be one.
FrameHeader PeekHeader(std::span<const std::byte> frame);

}  // namespace longhaul
