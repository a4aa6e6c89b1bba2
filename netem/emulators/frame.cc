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
constexpr uint8_t kGsoTcp4 = 1;
constexpr uint8_t kGsoEcn = 0x80;  // a flag beside the type

constexpr size_t kIp = kVnetHeaderBytes + kEthernetHeaderBytes;
constexpr size_t kMinIpHeaderBytes = 20;
constexpr size_t kMinTcpHeaderBytes = 20;
constexpr uint8_t kTcp = 6, kUdp = 17, kSctp = 132;
constexpr uint32_t kEcnBits = 3;  // of the second byte of an IPv4 header; all set: CE

uint32_t Byte(std::span<const std::byte> head, size_t at) {
  return std::to_integer<uint32_t>(head[at]);
}

uint32_t BigEndian32(std::span<const std::byte> head, size_t at) {
  return Byte(head, at) << 24 | Byte(head, at + 1) << 16 | Byte(head, at + 2) << 8 |
         Byte(head, at + 3);
}

// FNV-1a over addresses, protocol and ports: the same on every host.
uint64_t FlowOf(std::span<const std::byte> head, size_t ip_header_bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto take = [&](size_t begin, size_t count) {
    for (size_t i = begin; i < begin + count; ++i) hash = (hash ^ Byte(head, i)) * 0x100000001b3;
  };
  take(kIp + 12, 8);
  take(kIp + 9, 1);
  const uint32_t protocol = Byte(head, kIp + 9);
  // Of a fragment only the first has ports; all of them are to be one flow.
  const bool fragment = (Byte(head, kIp + 6) & 0x3f) != 0 || Byte(head, kIp + 7) != 0;
  const size_t ports = kIp + ip_header_bytes;
  const bool has_ports = protocol == kTcp || protocol == kUdp || protocol == kSctp;
  if (has_ports && !fragment && ports + 4 <= head.size()) take(ports, 4);
  return hash;
}

}  // namespace

std::optional<FrameFacts> ParseFrame(std::span<const std::byte> head, size_t frame_bytes) {
  if (frame_bytes < kIp + kMinIpHeaderBytes || head.size() < std::min(frame_bytes, kParsedBytes)) {
    return std::nullopt;
  }
  const bool is_ipv4 = Byte(head, kIp - 2) == 0x08 && Byte(head, kIp - 1) == 0x00;
  const size_t ip_header_bytes = (Byte(head, kIp) & 0xf) * 4;
  if (!is_ipv4 || Byte(head, kIp) >> 4 != 4 || ip_header_bytes < kMinIpHeaderBytes ||
      frame_bytes < kIp + ip_header_bytes) {
    return std::nullopt;
  }
  FrameFacts facts{BigEndian32(head, kIp + 12), BigEndian32(head, kIp + 16),
                   static_cast<int64_t>(frame_bytes - kVnetHeaderBytes), 1};
  facts.flow = FlowOf(head.first(std::min(head.size(), frame_bytes)), ip_header_bytes);
  facts.ecn_capable = (Byte(head, kIp + 1) & kEcnBits) != 0;
  VnetHeader vnet;
  memcpy(&vnet, head.data(), sizeof vnet);
  if (vnet.gso_type == kGsoNone) return facts;

  // hdr_len is only a hint (the length of the kernel's linear part), so the headers are read.
  const size_t tcp = kIp + ip_header_bytes;
  const bool is_tso = (vnet.gso_type & ~kGsoEcn) == kGsoTcp4;
  if (!is_tso || vnet.gso_size == 0 || Byte(head, kIp + 9) != kTcp ||
      frame_bytes < tcp + kMinTcpHeaderBytes) {
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
