#include "compressors/frame/frame.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

constexpr std::array<char, 4> kMagic = {'L', 'H', 'C', '1'};
constexpr size_t kDTypeAt = 9;
constexpr size_t kFlagsAt = 10;
constexpr size_t kCrcAt = 56;
constexpr size_t kStateAt = 60;

template <typename T>
void Put(std::span<std::byte> frame, size_t at, T value) {
  std::memcpy(frame.data() + at, &value, sizeof(T));
}

template <typename T>
T Get(std::span<const std::byte> frame, size_t at) {
  T value;
  std::memcpy(&value, frame.data() + at, sizeof(T));
  return value;
}

// CRC of the header, its own field read as zero.
uint32_t HeaderCrc(std::span<const std::byte> frame) {
  std::array<std::byte, kFrameHeaderBytes> header;
  std::memcpy(header.data(), frame.data(), header.size());
  Put<uint32_t>(header, kCrcAt, 0);
  return Crc32c(header);
}

// Renews the CRC of a sealed frame after a change of its header, which had `before`: the payload
// need not be read again.
void RenewCrc(uint32_t before, std::span<std::byte> frame) {
  const uint32_t change = before ^ HeaderCrc(frame);
  Put(frame, kCrcAt,
      Crc32cCombine(change, Get<uint32_t>(frame, kCrcAt), frame.size() - kFrameHeaderBytes));
}

}  // namespace

void SealFrame(const FrameHeader& h, std::span<std::byte> frame) {
  SealFrame(h, frame, Crc32c(frame.subspan(kFrameHeaderBytes)));
}

void SealFrame(const FrameHeader& h, std::span<std::byte> frame, uint32_t payload_crc) {
  Put(frame, 0, kMagic);
  Put(frame, 4, h.codec);
  Put(frame, 6, h.value_codec);
  Put(frame, 8, h.version);
  Put(frame, 9, h.dtype);
  Put(frame, kFlagsAt, h.flags);
  Put(frame, 12, h.block);
  Put(frame, 16, h.param0);
  Put(frame, 20, h.param1);
  Put(frame, 24, h.shape.rows);
  Put(frame, 32, h.shape.cols);
  Put(frame, 40, h.seed);
  Put(frame, 48, h.payload_bytes);
  Put(frame, kStateAt, h.state);
  Put(frame, kCrcAt,
      Crc32cCombine(HeaderCrc(frame), payload_crc, frame.size() - kFrameHeaderBytes));
}

absl::Status CheckPayloadCrc(std::span<const std::byte> frame, uint32_t payload_crc) {
  const uint32_t crc = Get<uint32_t>(frame, kCrcAt);
  const uint32_t want =
      Crc32cCombine(HeaderCrc(frame), payload_crc, frame.size() - kFrameHeaderBytes);
  if (crc == want) return absl::OkStatus();
  return absl::DataLossError(fmt::format("frame: CRC {:08X}, its bytes give {:08X}", crc, want));
}

absl::StatusOr<FrameHeader> ParseFrame(std::span<const std::byte> frame) {
  const absl::StatusOr<FrameHeader> header = ParseUnsummedFrame(frame);
  if (!header.ok()) return header;
  const absl::Status sum = CheckPayloadCrc(frame, Crc32c(frame.subspan(kFrameHeaderBytes)));
  return sum.ok() ? header : sum;
}

absl::StatusOr<FrameHeader> ParseUnsummedFrame(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes) {
    return absl::DataLossError(
        fmt::format("frame: {} bytes, the header alone has {}", frame.size(), kFrameHeaderBytes));
  }
  if (Get<std::array<char, 4>>(frame, 0) != kMagic) {
    return absl::DataLossError("frame: does not start with LHC1");
  }
  const FrameHeader h = PeekHeader(frame);
  if (h.payload_bytes != frame.size() - kFrameHeaderBytes) {
    return absl::DataLossError(fmt::format("frame: {} payload bytes announced, {} present",
                                           h.payload_bytes, frame.size() - kFrameHeaderBytes));
  }
  const uint8_t dtype = Get<uint8_t>(frame, kDTypeAt);
  if (dtype > static_cast<uint8_t>(DType::kF16) ||
      (h.state != 0 && (h.flags & kFlagDifference) == 0)) {
    return absl::DataLossError(
        fmt::format("frame: dtype {} unknown, or a state without a difference", dtype));
  }
  return h;
}

uint32_t FrameCrc(std::span<const std::byte> frame) {
  const size_t payload_bytes = frame.size() - kFrameHeaderBytes;
  const uint32_t payload =
      Crc32cCombine(HeaderCrc(frame), Get<uint32_t>(frame, kCrcAt), payload_bytes);
  return Crc32cCombine(Crc32c(frame.first(kFrameHeaderBytes)), payload, payload_bytes);
}

void AddFrameFlags(uint16_t flags, std::span<std::byte> frame) {
  const uint32_t before = HeaderCrc(frame);
  Put<uint16_t>(frame, kFlagsAt, Get<uint16_t>(frame, kFlagsAt) | flags);
  RenewCrc(before, frame);
}

void MarkFrame(uint16_t flags, uint32_t state, std::span<std::byte> frame) {
  constexpr uint16_t kMarks = kFlagFirstVisit | kFlagDifference;
  const uint32_t before = HeaderCrc(frame);
  const uint16_t others = Get<uint16_t>(frame, kFlagsAt) & static_cast<uint16_t>(~kMarks);
  Put<uint16_t>(frame, kFlagsAt, others | (flags & kMarks));
  Put(frame, kStateAt, state);
  RenewCrc(before, frame);
}

FrameHeader PeekHeader(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes) return {};
  return {.codec = Get<uint16_t>(frame, 4),
          .value_codec = Get<uint16_t>(frame, 6),
          .version = Get<uint8_t>(frame, 8),
          .dtype = static_cast<DType>(Get<uint8_t>(frame, kDTypeAt)),
          .flags = Get<uint16_t>(frame, kFlagsAt),
          .block = Get<uint32_t>(frame, 12),
          .param0 = Get<uint32_t>(frame, 16),
          .param1 = Get<uint32_t>(frame, 20),
          .shape = {Get<uint64_t>(frame, 24), Get<uint64_t>(frame, 32)},
          .seed = Get<uint64_t>(frame, 40),
          .payload_bytes = Get<uint64_t>(frame, 48),
          .state = Get<uint32_t>(frame, kStateAt)};
}

}  // namespace longhaul
