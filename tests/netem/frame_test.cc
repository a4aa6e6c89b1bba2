#include "netem/emulators/frame.h"

#include <gtest/gtest.h>

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

TEST(ParseFrame, RandomBytesNeverReadOutsideOrCostLessThanNothing) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const size_t bytes = random() % 200;
    std::vector<std::byte> f(bytes);  // exactly sized: the sanitizer sees a read past its end
    for (std::byte& b : f) b = std::byte(random());
    if (bytes > kIp && random() % 2 == 0) {
      f[kIp - 2] = std::byte{8};
      f[kIp - 1] = std::byte{0};
      f[kIp] = std::byte(0x40 | random() % 16);
      f[1] = std::byte(random() % 3);
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
