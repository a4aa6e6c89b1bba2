// Who greets without being let in: what it says counts for nothing, and for one more stranger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "compressors/numbers/crc32c.h"
#include "plugin/core/greeting.h"
#include "tests/plugin/rigged_transport.h"

namespace longhaul {
namespace {

// The reference implementation's vectors: key 00 01 .. 0f, input 00 01 .. of that length.
TEST(SipHash, GivesTheReferencesVectors) {
  NodeKey key;
  std::vector<std::byte> input;
  for (size_t i = 0; i < key.size(); ++i) key[i] = std::byte(i);
  const auto hex = [&](size_t length) {
    input.clear();
    for (size_t i = 0; i < length; ++i) input.push_back(std::byte(i));
    std::string text;
    for (const std::byte b : SipHash128(key, input)) text += fmt::format("{:02x}", int(b));
    return text;
  };
  // As `openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16 SIPHASH`.
  EXPECT_EQ(hex(0), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(hex(1), "da87c1d86b99af44347659119b22fc45");
  EXPECT_EQ(hex(8), "3b62a9ba6258f5610f83e264f31497b4");
  EXPECT_EQ(hex(63), "5150d1772f50834a503e069a973fbd7c");
}

// Two nodes in a group, and what a stranger says to the first: packets laid before it as its
// transport would.
class Strangers : public testing::Test {
 protected:
  void SetUp() override {
    cluster.wires[1]->on_packet = [this](const PacketHeader& header, std::span<std::byte> payload) {
      if (header.kind == PacketKind::kHello) heard.assign(payload.begin(), payload.end());
      return true;
    };
    group = cluster.MakeGroup("members");
    cluster.wires[1]->on_packet = nullptr;
    own = ParseAddress(cluster.nodes[0]->address()).value();
    member = ParseAddress(cluster.nodes[1]->address()).value();
    stranger = member;
    stranger.node_id = 4711;
    stranger.key = {std::byte{1}};
  }

  void Say(PacketHeader header, std::span<const std::byte> payload) {
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.message_bytes = payload.size();
    header.payload_crc = Crc32c(payload);
    OutPacket packet;
    WritePacketHeader(header, packet.header);
    packet.payload = payload;
    const auto link = cluster.wires[1]->Connect(own.blob, own.node_id).value();
    ASSERT_TRUE(link->Send(Lane::kBulk, &packet).ok());
  }
  void Greet(const NodeAddress& who, const NodeKey& key, uint64_t greeted) {
    const std::string payload = MakeGreeting(who, greeted, key, 0);
    Say({.kind = PacketKind::kHello, .source_node = who.node_id},
        std::as_bytes(std::span(payload.data(), payload.size())));
  }
  int64_t strangers() const { return cluster.nodes[0]->traffic().refused_strangers; }
  void ExpectTheGroupWorks() {
    std::vector<float> x = Noise(1000, 1), y(1000);
    Outcome send, recv;
    group[1]->Send(F32(x), 0, 0, send.done());
    group[0]->Recv(F32(y), 1, 0, recv.done());
    EXPECT_EQ(recv.Wait(), absl::OkStatus());
    EXPECT_EQ(x, y);
  }

  RiggedCluster cluster{2};
  std::vector<std::shared_ptr<Group>> group;
  std::vector<std::byte> heard;  // the greeting of node 1 to node 0
  NodeAddress own, member, stranger;
};

TEST_F(Strangers, NoneIsCountedWhereThereAreOnlyMembers) {
  ExpectTheGroupWorks();
  EXPECT_EQ(strangers(), 0);
  EXPECT_EQ(cluster.nodes[1]->traffic().refused_strangers, 0);
}

TEST_F(Strangers, AGreetingWithAnotherKeyIsRefused) {
  Greet(stranger, stranger.key, own.node_id);  // of another job: it knows its own store
  Greet(stranger, NodeKey{}, own.node_id);     // of a program that was told none
  Greet(stranger, member.key, own.node_id);    // who is let in there is not let in here
  EXPECT_EQ(strangers(), 3);
  ExpectTheGroupWorks();
}

TEST_F(Strangers, TheSameGreetingWithTheKeyIsAnswered) {
  Greet(stranger, own.key, own.node_id);
  EXPECT_EQ(strangers(), 0);
}

TEST_F(Strangers, AGreetingToSomebodyElseIsRefused) {
  Greet(stranger, own.key, own.node_id + 1);
  EXPECT_EQ(strangers(), 1);
}

TEST_F(Strangers, AGreetingThatWasOverheardAndComesAgainIsRefused) {
  ASSERT_FALSE(heard.empty());
  Say({.kind = PacketKind::kHello, .source_node = member.node_id}, heard);
  EXPECT_EQ(strangers(), 1);
  Say({.kind = PacketKind::kHello, .source_node = stranger.node_id}, heard);  // under another name
  EXPECT_EQ(strangers(), 2);
  ExpectTheGroupWorks();
}

TEST_F(Strangers, AChangedBitOfAGreetingIsRefused) {
  const std::string whole = MakeGreeting(stranger, own.node_id, own.key, 0);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    Say({.kind = PacketKind::kHello, .source_node = stranger.node_id},
        std::as_bytes(std::span(changed.data(), changed.size())));
    ASSERT_EQ(strangers(), static_cast<int64_t>(at + 1)) << at;
  }
  ExpectTheGroupWorks();
}

TEST_F(Strangers, WhatTheySayBesideGreetingsCountsForNothing) {
  const std::vector<std::byte> payload(100);
  for (const PacketKind kind : {PacketKind::kWelcome, PacketKind::kCredit, PacketKind::kGoodbye,
                                PacketKind::kWant, PacketKind::kGroupAbort, PacketKind::kWaits}) {
    Say({.kind = kind, .source_node = stranger.node_id}, payload);
  }
  Say({.kind = PacketKind::kData, .source_node = stranger.node_id, .elements = 100}, payload);
  EXPECT_EQ(strangers(), 7);
  ExpectTheGroupWorks();
}

TEST_F(Strangers, HugeAndTinyGreetingsAreRefused) {
  for (const size_t bytes : {size_t{0}, size_t{19}, kMaxGreetingBytes, kMaxGreetingBytes + 1}) {
    const std::vector<std::byte> payload(bytes, std::byte{0xff});  // says: 4 GiB of address
    Say({.kind = PacketKind::kHello, .source_node = stranger.node_id}, payload);
  }
  EXPECT_EQ(strangers(), 4);
  ExpectTheGroupWorks();
}

}  // namespace
}  // namespace longhaul
