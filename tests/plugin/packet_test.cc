// The wire header, its parser against damage, and node addresses.
#include "plugin/core/packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/numbers/crc32c.h"
#include "plugin/core/address.h"
#include "plugin/core/buffer_pool.h"

namespace longhaul {
namespace {

using Bytes = std::array<std::byte, kPacketHeaderBytes>;

PacketHeader Example() {
  PacketHeader header{.kind = PacketKind::kData,
                      .source_node = 0x1122334455667788,
                      .group = 0x99AABBCCDDEEFF00,
                      .source_rank = 3,
                      .tag = -7,
                      .sequence = 42};
  DescribeTensor({.values = nullptr, .type = ElementType::kF32, .dims = {2, 8}}, header);
  header.message_bytes = 64;
  header.payload_bytes = 64;
  header.payload_crc = 0xDEADBEEF;
  return header;
}

absl::StatusOr<PacketHeader> RoundTrip(const PacketHeader& header) {
  Bytes bytes;
  WritePacketHeader(header, bytes);
  return ParsePacket(bytes, std::vector<std::byte>(header.payload_bytes));
}

TEST(Packet, FieldsStandWhereTheLayoutSays) {
  Bytes bytes;
  WritePacketHeader(Example(), bytes);
  const auto at = [&](size_t i) { return static_cast<int>(bytes[i]); };
  EXPECT_EQ(at(0), 'L');
  EXPECT_EQ(at(3), '2');
  EXPECT_EQ(at(4), 1);
  EXPECT_EQ(at(8), 0x88);
  EXPECT_EQ(at(16), 0x00);
  EXPECT_EQ(at(23), 0x99);
  EXPECT_EQ(at(24), 3);
  EXPECT_EQ(at(28), 0xF9);
  EXPECT_EQ(at(32), 42);
  EXPECT_EQ(at(40), 0);   // f32
  EXPECT_EQ(at(41), 2);   // rank
  EXPECT_EQ(at(44), 64);  // payload bytes
  EXPECT_EQ(at(48), 16);  // elements
  EXPECT_EQ(at(56), 2);
  EXPECT_EQ(at(60), 8);
  EXPECT_EQ(at(88), 64);
  EXPECT_EQ(at(104), 0xEF);
  const uint32_t crc = Crc32c(std::span(bytes).first(108));
  EXPECT_EQ(at(108), static_cast<int>(crc & 0xFF));
}

TEST(Packet, ComesBackAsItWas) {
  const absl::StatusOr<PacketHeader> back = RoundTrip(Example());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
  EXPECT_EQ(ToString(*back), "f32[2,8]");
}

TEST(Packet, EveryFlippedBitAndEveryTruncationIsDataLoss) {
  Bytes bytes;
  WritePacketHeader(Example(), bytes);
  const std::vector<std::byte> payload(64);
  ASSERT_TRUE(ParsePacket(bytes, payload).ok());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_EQ(ParsePacket(damaged, payload).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePacket(std::span(bytes).first(size), payload).ok());
  }
  EXPECT_FALSE(ParsePacket(bytes, std::span(payload).first(63)).ok());
}

// The checksum is no protection against somebody who can compute it.
TEST(Packet, ImpossibleFieldsAreDataLossDespiteAGoodChecksum) {
  const auto refused = [](auto&& change) {
    PacketHeader header = Example();
    change(header);
    return !RoundTrip(header).ok();
  };
  EXPECT_TRUE(refused([](PacketHeader& h) { h.kind = static_cast<PacketKind>(0); }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.kind = static_cast<PacketKind>(10); }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.space = static_cast<ChannelSpace>(2); }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.type = static_cast<ElementType>(20); }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.flags = 1 << 9; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.source_rank = -1; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.rank = 9; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.rank = 1; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.dims[1] = 9; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.elements = 15; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.message_bytes = 63; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.offset = 1; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](PacketHeader& h) { h.payload_bytes = 0; }));
  EXPECT_TRUE(refused([](PacketHeader& h) {
    h.rank = 3;
    h.dims = {1u << 31, 1u << 31, 1u << 31};
    h.elements = 0;
  })) << "the product of the dims overflows";
  EXPECT_TRUE(refused([](PacketHeader& h) {
    h.rank = 0;
    h.dims = {};
    h.elements = (uint64_t{1} << 62) + 16;
  })) << "4 bytes times the elements overflows to 64";
  EXPECT_TRUE(refused([](PacketHeader& h) {
    h.type = ElementType::kI32;
    h.codec = 1;
  })) << "no codec encodes integers";
  EXPECT_TRUE(refused([](PacketHeader& h) { h.kind = PacketKind::kCredit; }))
      << "the payload checksum of a control packet";
}

TEST(Packet, DimsThatDoNotFitAreLeftOut) {
  PacketHeader header;
  DescribeTensor({nullptr, ElementType::kI8, {1, 1, 1, 1, 1, 1, 1, 1, 5}}, header);
  EXPECT_EQ(header.rank, 0);
  EXPECT_EQ(header.elements, 5u);
  EXPECT_EQ(ToString(header), "i8 x 5");
  DescribeTensor({nullptr, ElementType::kI8, {int64_t{1} << 33}}, header);
  EXPECT_EQ(header.rank, 0);
  EXPECT_EQ(header.elements, uint64_t{1} << 33);
}

TEST(Address, ComesBackAsItWasAndNoDamageGetsThrough) {
  const NodeAddress address{.transport = TransportKind::kUcx,
                            .node_id = 17,
                            .generation = 3,
                            .network_id = 99,
                            .credit_bytes = 1 << 20,
                            .deadline = absl::Milliseconds(1500),
                            .key = {std::byte{7}, std::byte{8}},
                            .blob = std::string("a\0b", 3)};
  const std::string bytes = SerializeAddress(address).value();
  const NodeAddress back = ParseAddress(bytes).value();
  EXPECT_EQ(back.node_id, 17u);
  EXPECT_EQ(back.generation, 3u);
  EXPECT_EQ(back.deadline, address.deadline);
  EXPECT_EQ(back.key, address.key);
  EXPECT_EQ(back.blob, address.blob);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(ParseAddress(damaged).ok()) << i;
    EXPECT_FALSE(ParseAddress(bytes.substr(0, i)).ok()) << i;
  }
  NodeAddress big = address;
  big.blob.resize(kMaxAddressBytes);
  EXPECT_EQ(SerializeAddress(big).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(BufferPool, GivesTheSameMemoryAgainUpToItsLimit) {
  BufferPool pool(/*max_idle_bytes=*/1 << 20);
  const std::byte* first = nullptr;
  {
    const PooledBuffer buffer = pool.Acquire(100000);
    first = buffer.bytes().data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(buffer.bytes().size(), 100000u);
  }
  EXPECT_EQ(pool.Acquire(70000).bytes().data(), first);
  EXPECT_TRUE(pool.Acquire(0).bytes().empty());
  PooledBuffer outlives;
  {
    BufferPool short_lived;
    outlives = short_lived.Acquire(5000);
  }
  outlives.bytes()[4999] = std::byte{1};
}

}  // namespace
}  // namespace longhaul
