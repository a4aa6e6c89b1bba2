#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/core/group.h"

// The one layout of what crosses a transport, for both directions and every kind. A *message* is
// what one Send moves; it travels as one or more *packets*: this header plus a slice of the payload
// (raw values, or one codec frame of compressors/frame/frame.h). Little-endian.
//
//   off  type    field
//     0  u32     magic          bytes 'L' 'H' 'P' '2'
//     4  u8      kind           PacketKind
//     5  u8      space          ChannelSpace (data, want)
//     6  u16     flags          PacketFlag bits
//     8  u64     source_node    random id of the sending node
//    16  u64     group          hash of the group (data, want, group abort)
//    24  i32     source_rank    group rank of the sender
//    28  i32     tag
//    32  u64     sequence       data: of the message in its channel; else see PacketKind
//    40  u8      type           ElementType
//    41  u8      rank           number of dims given; 0: only `elements` is known
//    42  u16     codec          0: raw values; else the codec id of the frame
//    44  u32     payload_bytes  of this packet
//    48  u64     elements       of the whole message
//    56  u32 x8  dims           unused ones 0; collective data: the call (collective_call.h)
//    88  u64     message_bytes  payload of the whole message
//    96  u64     offset         of this packet's payload in the message
//   104  u32     payload_crc    CRC32C of the message's payload from its start to this packet's end
//   108  u32     header_crc     CRC32C of the header up to here
namespace longhaul {

constexpr size_t kPacketMaxDims = 8;
constexpr size_t kPacketHeaderBytes =
    4 + 1 + 1 + 2 + 8 + 8 + 4 + 4 + 8 + 1 + 1 + 2 + 4 + 8 + 4 * kPacketMaxDims + 8 + 8 + 4 + 4;
static_assert(kPacketHeaderBytes == 112);

enum class PacketKind : uint8_t {
  kData = 1,
  kCredit = 2,       // sequence: data bytes (headers included) released since the connection began
  kHeartbeat = 3,    // sequence: data bytes received from you so far
  kGoodbye = 4,      // leaving; nothing follows. payload: reason, empty for a clean end
  kGoodbyeSeen = 5,  // answers kGoodbye: everything before it has arrived
  kHello = 6,        // first packet of a connection. payload: greeting.h
  kWelcome = 7,      // answers kHello
  kWant = 8,         // receives are posted for messages of this channel below `sequence`
  kGroupAbort = 9,   // source_rank aborted the group, or its collective `tag`. payload: reason
  kWaits = 10,       // source_rank has waited long for rank `tag` of the group. payload: in what
};

enum class ChannelSpace : uint8_t { kPointToPoint = 0, kCollective = 1 };

enum PacketFlag : uint16_t {
  kPacketCancelled = 1 << 0,  // the sender gave this message up; payload: reason
  kPacketAborted = 1 << 1,    // goodbye: not a clean end
  kPacketStreamed = 1 << 2,   // payload: the frame in stream order (frame_pieces.h)
  kPacketMismatch = 1 << 3,   // of a collective, given up or aborted: the ranks' calls do not fit
  kPacketTimedOut = 1 << 4,   // of a collective that is aborted: not complete within its timeout
};

struct PacketHeader {
  PacketKind kind = PacketKind::kData;
  ChannelSpace space = ChannelSpace::kPointToPoint;
  uint16_t flags = 0;
  uint64_t source_node = 0;
  uint64_t group = 0;
  int32_t source_rank = 0;
  int32_t tag = 0;
  uint64_t sequence = 0;
  ElementType type = ElementType::kU8;
  uint8_t rank = 0;
  uint16_t codec = 0;
  uint32_t payload_bytes = 0;
  uint64_t elements = 0;
  std::array<uint32_t, kPacketMaxDims> dims = {};
  uint64_t message_bytes = 0;
  uint64_t offset = 0;
  uint32_t payload_crc = 0;
  friend bool operator==(const PacketHeader&, const PacketHeader&) = default;
  bool cancelled() const { return (flags & kPacketCancelled) != 0; }
  bool streamed() const { return (flags & kPacketStreamed) != 0; }
};

// Describes `x` in type, rank, dims and elements. Dims that do not fit (more than eight, or 2^32
// and longer) are left out: rank 0.
void DescribeTensor(const WireTensor& x, PacketHeader& header);

// "f32[16,128]", or "f32 x 2048" when the dims are not known.
std::string ToString(const PacketHeader& header);
std::string ToString(const WireTensor& x);

void WritePacketHeader(const PacketHeader& header, std::span<std::byte, kPacketHeaderBytes> out);

// Treats `bytes` as hostile: DataLoss unless length, magic, CRC and every field are possible and
// agree with each other and with the length of the payload that came along. payload_crc is checked
// for all kinds but data, whose CRC runs over several packets.
absl::StatusOr<PacketHeader> ParsePacket(std::span<const std::byte> bytes,
                                         std::span<const std::byte> payload);

}  // namespace longhaul
