#include "netem/emulators/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace longhaul {
namespace {

constexpr size_t kIp = kVnetHeaderBytes + kEthernetHeaderBytes;

void Put16(std::vector<std::byte>& f, size_t at, uint16_t host_value) {
  memcpy(&f[at], &host_value, sizeof host_value);
}

// 10.0.0.2 > 10.0.0.3, TCP with 12 bytes of options, `payload` bytes, cut into `gso_size` if set.
std::vector<std::byte> TcpFrame(size_t payload, uint16_t gso_size, uint8_t gso_type = 1) {
  std::vector<std::byte> f(kIp + 20 + 32 + payload);
  if (gso_size != 0) {
    f[1] = std::byte{gso_type};
    Put16(f, 2, 9999);  // hdr_len is a hint that may say anything
    Put16(f, 4, gso_size);
  }
  f[kIp - 2] = std::byte{0x08};
  f[kIp] = std::byte{0x45};
  f[kIp + 9] = std::byte{6};
  const uint8_t addresses[] = {10, 0, 0, 2, 10, 0, 0, 3};
  memcpy(&f[kIp + 12], addresses, sizeof addresses);
  f[kIp + 20 + 12] = std::byte{0x80};  // data offset 8 words
  return f;
}

TEST(ParseFrame, PlainFrameCostsItsBytes) {
  const auto f = TcpFrame(100, 0);
  const auto facts = ParseFrame(f, f.size());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->source, NodeAddressValue(0));
  EXPECT_EQ(facts->destination, NodeAddressValue(1));
  EXPECT_EQ(facts->wire_bytes, 14 + 20 + 32 + 100);
  EXPECT_EQ(facts->segments, 1);
}

TEST(ParseFrame, TsoFrameCostsTheHeadersOfEachSegment) {
  const auto f = TcpFrame(3 * 1448 + 1, 1448);
  const auto facts = ParseFrame(std::span(f).first(kParsedBytes), f.size());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->segments, 4);
  EXPECT_EQ(facts->wire_bytes, 3 * 1514 + (66 + 1));
}

TEST(ParseFrame, TsoWithTheEcnFlagIsTheSame) {
  const auto f = TcpFrame(2 * 1448, 1448, 0x81);
  EXPECT_EQ(ParseFrame(f, f.size())->segments, 2);
}

TEST(ParseFrame, WhatIsNotIpv4OrNotWholeIsRefused) {
  auto f = TcpFrame(100, 0);
  EXPECT_FALSE(ParseFrame(std::span(f).first(kIp + 19), kIp + 19).has_value());
  EXPECT_FALSE(ParseFrame({}, 0).has_value());
  EXPECT_FALSE(ParseFrame(std::span(f).first(40), f.size()).has_value()) << "head cut short";
  f[kIp - 2] = std::byte{0x86};  // IPv6
  f[kIp - 1] = std::byte{0xdd};
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
  f = TcpFrame(100, 0);
  f[kIp] = std::byte{0x44};  // header of 16 bytes
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
  f = TcpFrame(4000, 1448, 3);  // UDP fragmentation
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
  f = TcpFrame(4000, 1448);
  f[kIp + 9] = std::byte{17};
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
  f = TcpFrame(4000, 0);
  f[1] = std::byte{1};  // TSO without a size
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
}

// Node 0 to node 1 over IPv6, `extensions` (each its own header) before TCP with 12 bytes of options.
std::vector<std::byte> TcpFrame6(size_t payload, uint16_t gso_size,
                                 const std::vector<std::vector<uint8_t>>& extensions = {}) {
  const uint8_t addresses[] = {0xfd, 0x6c, 0x6f, 0x6e, 0x67, 0x68, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
                               0xfd, 0x6c, 0x6f, 0x6e, 0x67, 0x68, 0, 0, 0, 0, 0, 0, 10, 0, 0, 3};
  std::vector<std::byte> f(kIp + 40);
  f[1] = std::byte{static_cast<uint8_t>(gso_size == 0 ? 0 : 4)};
  Put16(f, 4, gso_size);
  f[kIp - 2] = std::byte{0x86};
  f[kIp - 1] = std::byte{0xdd};
  f[kIp] = std::byte{0x60};
  size_t next_at = kIp + 6;
  memcpy(&f[kIp + 8], addresses, sizeof addresses);
  for (const std::vector<uint8_t>& extension : extensions) {  // its kind, then its bytes
    f[next_at] = std::byte{extension[0]};
    next_at = f.size();
    for (size_t i = 1; i < extension.size(); ++i) f.push_back(std::byte{extension[i]});
  }
  f[next_at] = std::byte{6};
  const size_t tcp = f.size();
  f.resize(tcp + 32 + payload);
  f[tcp + 1] = std::byte{80};
  f[tcp + 12] = std::byte{0x80};
  return f;
}

TEST(ParseFrame, Ipv6IsReadAsIpv4Is) {
  EXPECT_EQ(NodeAddress6(0), "fd6c:6f6e:6768::a00:2");
  EXPECT_EQ(NodeAddress6(250), "fd6c:6f6e:6768::a00:102") << "10.0.1.2";
  auto f = TcpFrame6(100, 0);
  auto facts = ParseFrame(f, f.size());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->source, NodeAddressValue(0));
  EXPECT_EQ(facts->destination, NodeAddressValue(1));
  EXPECT_EQ(facts->wire_bytes, 14 + 40 + 32 + 100);
  EXPECT_EQ(facts->segments, 1);
  EXPECT_FALSE(facts->ecn_capable);
  f = TcpFrame6(3 * 1428 + 1, 1428);
  facts = ParseFrame(std::span(f).first(kParsedBytes), f.size());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->segments, 4);
  EXPECT_EQ(facts->wire_bytes, 3 * 1514 + (86 + 1));
  f[1] = std::byte{1};  // TSO of IPv4
  EXPECT_FALSE(ParseFrame(f, f.size()).has_value());
  f = TcpFrame6(100, 0);
  f[kIp + 8 + 5] = std::byte{0};  // of another network
  EXPECT_EQ(ParseFrame(f, f.size())->source, 0u);
  EXPECT_EQ(NodeOfAddress(0), -1);
  EXPECT_FALSE(ParseFrame(std::span(f).first(kIp + 39), kIp + 39).has_value());
}

TEST(ParseFrame, HeadersBetweenIpv6AndTcpArePassed) {
  const std::vector<uint8_t> options = {0, 0, 0, 0, 0, 0, 0, 0, 0};  // hop by hop, 8 bytes
  const std::vector<uint8_t> longer = {60, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};  // 16
  const auto plain = TcpFrame6(0, 0), with = TcpFrame6(0, 0, {options, longer});
  const auto cut = TcpFrame6(3 * 1000, 1000, {options, longer});
  EXPECT_EQ(ParseFrame(plain, plain.size())->flow, ParseFrame(with, with.size())->flow);
  EXPECT_EQ(ParseFrame(cut, cut.size())->segments, 3);
  EXPECT_EQ(ParseFrame(cut, cut.size())->wire_bytes, 3 * (14 + 40 + 8 + 16 + 32 + 1000));
  // All fragments of a packet are one flow, ports or not.
  const std::vector<uint8_t> first = {44, 0, 0, 0, 1, 0, 0, 0, 1},
                             second = {44, 0, 0, 8, 0, 0, 0, 0, 1};
  auto one = TcpFrame6(0, 0, {first}), other = TcpFrame6(0, 0, {second});
  other[other.size() - 32] = std::byte{77};
  EXPECT_EQ(ParseFrame(one, one.size())->flow, ParseFrame(other, other.size())->flow);
  EXPECT_NE(ParseFrame(one, one.size())->flow, ParseFrame(plain, plain.size())->flow);
  std::vector<std::vector<uint8_t>> many(40, longer);  // further than is read
  const auto deep = TcpFrame6(0, 0, many);
  EXPECT_TRUE(ParseFrame(std::span(deep).first(kParsedBytes), deep.size()).has_value());
}

TEST(MarkCongestion, OfIpv6SetsTheTwoBitsAlone) {
  for (uint8_t traffic_class : {0x02, 0x01, 0xb9}) {
    auto f = TcpFrame6(0, 0);
    f[kIp] = std::byte(0x60 | traffic_class >> 4);
    f[kIp + 1] = std::byte(traffic_class << 4 | 0x5);  // 5: of the flow's label
    EXPECT_TRUE(ParseFrame(f, f.size())->ecn_capable);
    auto marked = f;
    MarkCongestion(marked);
    f[kIp + 1] = std::byte((traffic_class | 3) << 4 | 0x5);
    EXPECT_EQ(marked, f);
  }
}

TEST(ParseFrame, RandomBytesNeverReadOutsideOrCostLessThanNothing) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const size_t bytes = random() % 200;
    std::vector<std::byte> f(bytes);  // exactly sized: the sanitizer sees a read past its end
    for (std::byte& b : f) b = std::byte(random());
    if (bytes > kIp && random() % 2 == 0) {
      const bool ipv6 = random() % 2 == 0;
      f[kIp - 2] = std::byte(ipv6 ? 0x86 : 0x08);
      f[kIp - 1] = std::byte(ipv6 ? 0xdd : 0x00);
      f[kIp] = std::byte((ipv6 ? 0x60 : 0x40) | random() % 16);
      if (ipv6 && bytes > kIp + 6)
        f[kIp + 6] = std::byte(std::array{0, 6, 43, 44, 60}[random() % 5]);
      f[1] = std::byte(random() % 5);
    }
    const auto facts = ParseFrame(f, bytes);
    if (facts) {
      EXPECT_GE(facts->wire_bytes, static_cast<int64_t>(bytes - kVnetHeaderBytes));
      EXPECT_GE(facts->segments, 1);
    }
  }
}

uint32_t HeaderSum(const std::vector<std::byte>& f) {
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) {
    sum += std::to_integer<uint32_t>(f[kIp + i]) << 8 | std::to_integer<uint32_t>(f[kIp + i + 1]);
  }
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;  // 0xffff: the checksum is right
}

TEST(MarkCongestion, SetsCeAndKeepsTheChecksumRight) {
  std::mt19937 rng(5);
  for (int i = 0; i < 20'000; ++i) {
    auto f = TcpFrame(100, 0);
    for (size_t at : {1, 2, 3, 4, 5, 8}) f[kIp + at] = static_cast<std::byte>(rng());
    const uint32_t right = ~HeaderSum(f) & 0xffff;
    f[kIp + 10] = static_cast<std::byte>(right >> 8);
    f[kIp + 11] = static_cast<std::byte>(right & 0xff);
    ASSERT_EQ(HeaderSum(f), 0xffffu);
    auto marked = f;
    MarkCongestion(marked);
    EXPECT_EQ(HeaderSum(marked), 0xffffu);
    EXPECT_EQ(marked[kIp + 1], f[kIp + 1] | std::byte{3});
    EXPECT_TRUE(ParseFrame(marked, marked.size())->ecn_capable);
    for (size_t at = 0; at < f.size(); ++at) {
      const bool may = at == kIp + 1 || at == kIp + 10 || at == kIp + 11;
      EXPECT_TRUE(may || marked[at] == f[at]) << at;
    }
  }
}

TEST(ParseFrame, FlowsAreToldApartByPortsAndFragmentsAreNot) {
  auto f = TcpFrame(100, 0), other = f;
  other[kIp + 20] = std::byte{1};  // source port
  EXPECT_EQ(ParseFrame(f, f.size())->flow, ParseFrame(f, f.size())->flow);
  EXPECT_NE(ParseFrame(f, f.size())->flow, ParseFrame(other, other.size())->flow);
  EXPECT_FALSE(ParseFrame(f, f.size())->ecn_capable);
  f[kIp + 1] = std::byte{2};  // ECT(0)
  EXPECT_TRUE(ParseFrame(f, f.size())->ecn_capable);
  for (auto* fragment : {&f, &other}) (*fragment)[kIp + 6] = std::byte{0x20};  // more to come
  EXPECT_EQ(ParseFrame(f, f.size())->flow, ParseFrame(other, other.size())->flow);
}

TEST(RewriteMacs, TouchesOnlyTheTwelveBytes) {
  auto f = TcpFrame(10, 0);
  const auto before = f;
  RewriteMacs(f, MacOf(MacKind::kNode, 0x0102), MacOf(MacKind::kLan, 3));
  const uint8_t want[] = {2, 0, 0, 1, 1, 2, 2, 0, 0, 2, 0, 3};
  EXPECT_EQ(memcmp(&f[kVnetHeaderBytes], want, sizeof want), 0);
  EXPECT_TRUE(std::equal(f.begin(), f.begin() + kVnetHeaderBytes, before.begin()));
  EXPECT_TRUE(std::equal(f.begin() + kIp - 2, f.end(), before.begin() + kIp - 2));
}

TEST(Addressing, AddressesAreDistinctAndReversible) {
  EXPECT_EQ(NodeAddress(0), "10.0.0.2");
  EXPECT_EQ(NodeAddress(249), "10.0.0.251");
  EXPECT_EQ(NodeAddress(250), "10.0.1.2");
  for (int node : {0, 1, 249, 250, 251, 9999}) {
    EXPECT_EQ(NodeOfAddress(NodeAddressValue(node)), node);
  }
  EXPECT_EQ(NodeOfAddress(0x0a000001), -1);
  EXPECT_EQ(NodeOfAddress(0x0a0000ff), -1);
  EXPECT_EQ(NodeOfAddress(0x0b000002), -1);
}

// RFC 1071's own example: words 0001 f203 f4f5 f6f7 sum to ddf2.
TEST(FlipBit, TheChecksumThatWasLeftToTheDeviceIsMadeFirst) {
  std::vector<std::byte> f(kIp + 20 + 8);
  f[0] = std::byte{1};                                            // it is left to the device
  Put16(f, 6, static_cast<uint16_t>(kEthernetHeaderBytes + 20));  // from here on
  Put16(f, 8, 6);                                                 // the field
  const uint8_t words[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5};
  memcpy(&f[kIp + 20], words, sizeof words);
  f[kIp + 26] = std::byte{0xf6};  // what stands in the field is summed too
  f[kIp + 27] = std::byte{0xf7};
  std::vector<std::byte> flipped = f;
  FlipBit(flipped, /*draw=*/5);
  EXPECT_EQ(flipped[kIp + 26], std::byte{0x22});  // ~ddf2
  EXPECT_EQ(flipped[kIp + 27], std::byte{0x0d});
  EXPECT_EQ(flipped[0], std::byte{0});
  EXPECT_EQ(flipped[kIp], f[kIp] ^ std::byte{1 << 5}) << "the bit that was drawn";
  std::vector<std::byte> same = f;
  FlipBit(same, 5 + 8 * 28);
  EXPECT_EQ(same, flipped) << "draws wrap around the frame";
}

TEST(FlipBit, HostileFramesAreLeftInTheirBounds) {
  for (size_t bytes : {size_t{0}, size_t{10}, kIp, kIp + 1}) {
    std::vector<std::byte> f(bytes, std::byte{0xff});
    FlipBit(f, ~0ull);
  }
}

}  // namespace
}  // namespace longhaul
