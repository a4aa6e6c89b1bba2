#include "netem/emulators/frame.h"

#include <algorithm>
#include <cstring>

namespace longhaul {
namespace {

// struct virtio_net_hdr in the host's byte order; <linux/virtio_net.h> does not compile as C++.
struct VnetHeader {
  uint8_t flags;
  uint8_t gso_type;
  uint16_t hdr_len;
  uint16_t gso_size;
  uint16_t csum_start;
  uint16_t csum_offset;
};
static_assert(sizeof(VnetHeader) == kVnetHeaderBytes);
constexpr uint8_t kGsoNone = 0;
constexpr uint8_t kGsoTcp4 = 1, kGsoTcp6 = 4;
constexpr uint8_t kGsoEcn = 0x80;  // a flag beside the type

constexpr size_t kIp = kVnetHeaderBytes + kEthernetHeaderBytes;
constexpr size_t kMinIpHeaderBytes = 20, kIpv6HeaderBytes = 40;
constexpr size_t kMinTcpHeaderBytes = 20;
constexpr uint8_t kTcp = 6, kUdp = 17, kSctp = 132;
// Headers of IPv6 that may stand before that of a protocol (RFC 8200).
constexpr uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kNoNext = 59, kForReceiver = 60;
// Of the second byte of an IP header; all set: CE. The traffic class of IPv6 begins half a byte
// earlier.
constexpr uint32_t kEcnBits = 3, kEcnBits6 = kEcnBits << 4;

uint32_t Byte(std::span<const std::byte> head, size_t at) {
  return std::to_integer<uint32_t>(head[at]);
}

uint32_t BigEndian32(std::span<const std::byte> head, size_t at) {
  return Byte(head, at) << 24 | Byte(head, at + 1) << 16 | Byte(head, at + 2) << 8 |
         Byte(head, at + 3);
}

bool IsIpv6(std::span<const std::byte> head) { return Byte(head, kIp) >> 4 == 6; }

// What is read of a header of either version.
struct IpHeader {
  uint32_t source, destination;     // as FrameFacts has them
  size_t addresses, address_bytes;  // where they are, and both together
  size_t end;                       // of all that stands before the protocol's own
  uint8_t protocol;
  bool fragment, ecn_capable;
};

std::optional<IpHeader> ReadIpv4(std::span<const std::byte> head) {
  if (head.size() < kIp + kMinIpHeaderBytes) return std::nullopt;
  const size_t bytes = (Byte(head, kIp) & 0xf) * 4;
  if (Byte(head, kIp) >> 4 != 4 || bytes < kMinIpHeaderBytes || head.size() < kIp + bytes) {
    return std::nullopt;
  }
  const bool fragment = (Byte(head, kIp + 6) & 0x3f) != 0 || Byte(head, kIp + 7) != 0;
  return IpHeader{BigEndian32(head, kIp + 12),
                  BigEndian32(head, kIp + 16),
                  kIp + 12,
                  8,
                  kIp + bytes,
                  static_cast<uint8_t>(Byte(head, kIp + 9)),
                  fragment,
                  (Byte(head, kIp + 1) & kEcnBits) != 0};
}

// The IPv4 address in a node's; 0: it is none.
uint32_t InnerAddress(std::span<const std::byte> head, size_t at) {
  const bool ours = memcmp(&head[at], kNodePrefix6.data(), kNodePrefix6.size()) == 0;
  return ours ? BigEndian32(head, at + kNodePrefix6.size()) : 0;
}

std::optional<IpHeader> ReadIpv6(std::span<const std::byte> head) {
  if (head.size() < kIp + kIpv6HeaderBytes || !IsIpv6(head)) return std::nullopt;
  IpHeader ip{InnerAddress(head, kIp + 8),
              InnerAddress(head, kIp + 24),
              kIp + 8,
              32,
              kIp + kIpv6HeaderBytes,
              static_cast<uint8_t>(Byte(head, kIp + 6)),
              false,
              (Byte(head, kIp + 1) & kEcnBits6) != 0};
  while (ip.protocol == kHopByHop || ip.protocol == kRouting || ip.protocol == kForReceiver ||
         ip.protocol == kFragment) {
    const bool fragment = ip.protocol == kFragment;
    ip.fragment = ip.fragment || fragment;
    if (ip.end + 8 > head.size()) {  // what comes is not known
      ip.protocol = kNoNext;
      break;
    }
    ip.protocol = static_cast<uint8_t>(Byte(head, ip.end));
    ip.end += fragment ? 8 : (Byte(head, ip.end + 1) + 1) * 8;
  }
  return ip;
}

// FNV-1a over addresses, protocol and ports: the same on every host.
uint64_t FlowOf(std::span<const std::byte> head, const IpHeader& ip) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  const auto take = [&](size_t begin, size_t count) {
    for (size_t i = begin; i < begin + count; ++i) mix(Byte(head, i));
  };
  take(ip.addresses, ip.address_bytes);
  mix(ip.protocol);
  // Of a fragment only the first has ports; all of them are to be one flow.
  const bool has_ports = ip.protocol == kTcp || ip.protocol == kUdp || ip.protocol == kSctp;
  if (has_ports && !ip.fragment && ip.end + 4 <= head.size()) take(ip.end, 4);
  return hash;
}

}  // namespace

std::optional<FrameFacts> ParseFrame(std::span<const std::byte> head, size_t frame_bytes) {
  if (frame_bytes <= kIp || head.size() < std::min(frame_bytes, kParsedBytes)) return std::nullopt;
  head = head.first(std::min(head.size(), frame_bytes));
  const uint32_t type = Byte(head, kIp - 2) << 8 | Byte(head, kIp - 1);
  const auto ip = type == 0x0800 ? ReadIpv4(head) : type == 0x86dd ? ReadIpv6(head) : std::nullopt;
  if (!ip) return std::nullopt;
  FrameFacts facts{ip->source, ip->destination,
                   static_cast<int64_t>(frame_bytes - kVnetHeaderBytes), 1};
  facts.flow = FlowOf(head, *ip);
  facts.ecn_capable = ip->ecn_capable;
  VnetHeader vnet;
  memcpy(&vnet, head.data(), sizeof vnet);
  if (vnet.gso_type == kGsoNone) return facts;

  // hdr_len is only a hint (the length of the kernel's linear part), so the headers are read.
  const size_t tcp = ip->end;
  const bool is_tso = (vnet.gso_type & ~kGsoEcn) == (IsIpv6(head) ? kGsoTcp6 : kGsoTcp4);
  if (!is_tso || vnet.gso_size == 0 || ip->protocol != kTcp ||
      head.size() < tcp + kMinTcpHeaderBytes) {
    return std::nullopt;
  }
  const size_t tcp_header_bytes = (Byte(head, tcp + 12) >> 4) * 4;
  if (tcp_header_bytes < kMinTcpHeaderBytes || frame_bytes < tcp + tcp_header_bytes) {
    return std::nullopt;
  }
  const auto headers = static_cast<int64_t>(tcp + tcp_header_bytes - kVnetHeaderBytes);
  const int64_t payload = facts.wire_bytes - headers;
  facts.segments = std::max<int64_t>(1, (payload + vnet.gso_size - 1) / vnet.gso_size);
  facts.wire_bytes += (facts.segments - 1) * headers;
  return facts;
}

void RewriteMacs(std::span<std::byte> head, const Mac& destination, const Mac& source) {
  memcpy(head.data() + kVnetHeaderBytes, destination.data(), destination.size());
  memcpy(head.data() + kVnetHeaderBytes + destination.size(), source.data(), source.size());
}

void MarkCongestion(std::span<std::byte> head) {
  if (IsIpv6(head)) {
    head[kIp + 1] |= static_cast<std::byte>(kEcnBits6);
    return;
  }
  const uint32_t before = Byte(head, kIp) << 8 | Byte(head, kIp + 1), after = before | kEcnBits;
  const uint32_t checksum = Byte(head, kIp + 10) << 8 | Byte(head, kIp + 11);
  // HC' = ~(~HC + ~m + m'), equation 3 of RFC 1624.
  uint32_t sum = (~checksum & 0xffff) + (~before & 0xffff) + after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  head[kIp + 1] = static_cast<std::byte>(after & 0xff);
  head[kIp + 10] = static_cast<std::byte>(~sum >> 8 & 0xff);
  head[kIp + 11] = static_cast<std::byte>(~sum & 0xff);
}

namespace {

// Of the bytes from `begin` on, in network order; the field itself holds the sum of what is not
// there (the pseudo header), as the kernel leaves it to a device.
uint16_t InternetChecksum(std::span<const std::byte> frame, size_t begin) {
  uint64_t sum = 0;
  for (size_t i = begin; i < frame.size(); ++i) {
    sum += (i - begin) % 2 == 0 ? Byte(frame, i) << 8 : Byte(frame, i);
  }
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void CompleteChecksum(std::span<std::byte> frame) {
  constexpr uint8_t kNeedsChecksum = 1;
  VnetHeader vnet;
  memcpy(&vnet, frame.data(), sizeof vnet);
  const size_t begin = kVnetHeaderBytes + vnet.csum_start, at = begin + vnet.csum_offset;
  if ((vnet.flags & kNeedsChecksum) == 0 || at + 2 > frame.size()) return;
  uint16_t sum = InternetChecksum(frame, begin);
  if (sum == 0) sum = 0xffff;  // as UDP wants it; TCP takes it for the same
  frame[at] = static_cast<std::byte>(sum >> 8);
  frame[at + 1] = static_cast<std::byte>(sum & 0xff);
  vnet.flags &= static_cast<uint8_t>(~kNeedsChecksum);
  vnet.csum_start = vnet.csum_offset = 0;
  memcpy(frame.data(), &vnet, sizeof vnet);
}

}  // namespace

void FlipBit(std::span<std::byte> frame, uint64_t draw) {
  if (frame.size() <= kIp) return;
  CompleteChecksum(frame);
  const size_t bits = (frame.size() - kIp) * 8, bit = draw % bits;
  frame[kIp + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
}

}  // namespace longhaul
