#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netem/nodes/addressing.h"

namespace longhaul {

// A frame as a TAP device with IFF_VNET_HDR gives and takes it:
//   0   virtio_net_hdr (10 bytes): flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
//   10  Ethernet header: destination MAC, source MAC, type
//   24  IPv4 or IPv6 header, and so on
inline constexpr size_t kVnetHeaderBytes = 10;
inline constexpr size_t kEthernetHeaderBytes = 14;
// Enough of a frame to hold every header that ParseFrame reads.
inline constexpr size_t kParsedBytes = kVnetHeaderBytes + kEthernetHeaderBytes + 60 + 60;

struct FrameFacts {
  // IPv4, host byte order; of a node's IPv6 address the IPv4 address in it (NodeAddress6), of any
  // other 0.
  uint32_t source;
  uint32_t destination;
  int64_t wire_bytes;        // what it costs on a wire: each segment with its own headers
  int64_t segments;          // frames of the MTU it stands for; 1 when it is not a TSO frame
  uint64_t flow = 0;         // of addresses, protocol and, but for fragments, ports
  bool ecn_capable = false;  // ECT(0), ECT(1) or CE (RFC 3168)
};

// `head`: the first bytes of a frame of `frame_bytes` in all (vnet header included), at least
// min(frame_bytes, kParsedBytes) of them. nullopt: not a whole frame of IPv4 or IPv6, or a TSO frame
// that is not TCP over what it says or does not add up.
std::optional<FrameFacts> ParseFrame(std::span<const std::byte> head, size_t frame_bytes);

// `head` holds at least the vnet and the Ethernet header.
void RewriteMacs(std::span<std::byte> head, const Mac& destination, const Mac& source);

// Congestion experienced (RFC 3168): sets CE in the IP header of a frame that ParseFrame took, and
// keeps an IPv4 header's checksum right (RFC 1624).
void MarkCongestion(std::span<std::byte> head);

// Flips one bit behind the Ethernet header of a whole frame of the MTU, which `draw` chooses. A
// checksum that was left to the device is made first: else nobody would see the damage.
void FlipBit(std::span<std::byte> frame, uint64_t draw);

}  // namespace longhaul
