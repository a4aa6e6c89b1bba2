// The sending half of a peer over a link that does what the test says.
#include "plugin/core/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Keeps every packet until the test lets it go.
class HeldLink final : public Link {
 public:
  absl::StatusOr<SendState> Send(Lane, OutPacket* packet) override {
    if (refuse) return absl::UnavailableError("unplugged");
    headers.push_back(ParsePacket(packet->header, packet->payload).value());
    pending.push_back(packet);
    return SendState::kPending;
  }
  void Cut() override {}
  void Release(absl::Status status = absl::OkStatus()) {
    OutPacket* const packet = pending.front();
    pending.erase(pending.begin());
    packet->done(packet, status);
  }
  void ReleaseAll() {
    while (!pending.empty()) Release();
  }
  std::vector<int> Tags() const {
    std::vector<int> tags;
    for (const PacketHeader& header : headers) tags.push_back(header.tag);
    return tags;
  }

  bool refuse = false;
  std::vector<PacketHeader> headers;
  std::vector<OutPacket*> pending;
};

class OutboxTest : public testing::Test {
 protected:
  static constexpr size_t kSlice = 1000;
  static constexpr int64_t kCredit = 4 * (kSlice + kPacketHeaderBytes);

  OutboxTest() { outbox.Open(&link); }

  std::shared_ptr<OutMessage> Message(int tag, size_t bytes, uint64_t sequence = 0) {
    auto message = std::make_shared<OutMessage>();
    message->header.type = ElementType::kU8;
    message->header.elements = bytes;
    message->header.tag = tag;
    message->header.sequence = sequence;
    message->header.message_bytes = bytes;
    message->payload = std::span(memory).first(bytes);
    message->done = [this, tag](absl::Status status) { done.emplace_back(tag, status); };
    return message;
  }
  std::vector<int> Done() const {
    std::vector<int> tags;
    for (const auto& [tag, status] : done) tags.push_back(tag);
    return tags;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(100000);
  HeldLink link;
  TrafficCounters traffic;
  std::vector<absl::Status> lost;
  std::vector<std::pair<int, absl::Status>> done;
  Outbox outbox{{.credit_bytes = kCredit, .packet_payload_bytes = kSlice},
                &traffic,
                [this](absl::Status why) {
                  lost.push_back(why);
                  outbox.Fail(why);
                }};
};

TEST_F(OutboxTest, ASmallMessageWaitsForOnePacketOfABulkOne) {
  outbox.Submit(Message(1, 3 * kSlice));
  outbox.Submit(Message(2, 10));
  outbox.Submit(Message(3, 10));
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(1, 1, 2, 1, 3));
  EXPECT_THAT(Done(), ElementsAre(2, 1, 3));
}

TEST_F(OutboxTest, PacketsOfAMessageFollowOnWithARunningChecksum) {
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7);
  outbox.Submit(Message(1, 2 * kSlice + 5));
  link.ReleaseAll();
  ASSERT_EQ(link.headers.size(), 3u);
  EXPECT_EQ(link.headers[1].offset, kSlice);
  EXPECT_EQ(link.headers[2].offset, 2 * kSlice);
  EXPECT_EQ(link.headers[2].payload_bytes, 5u);
  EXPECT_NE(link.headers[1].payload_crc, link.headers[2].payload_crc);
  EXPECT_EQ(traffic.sent_messages.load(), 1);
  EXPECT_EQ(traffic.sent_bytes.load(),
            static_cast<int64_t>(2 * kSlice + 5 + 3 * kPacketHeaderBytes));
}

TEST_F(OutboxTest, WithoutCreditNothingLeavesUntilTheReceiverReleases) {
  for (int tag = 0; tag < 6; ++tag) outbox.Submit(Message(tag, kSlice));
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(0, 1, 2, 3));
  outbox.OnReleased(kSlice + kPacketHeaderBytes);
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(0, 1, 2, 3, 4));
  outbox.OnReleased(UINT64_MAX);  // more than was ever sent: counts as all of it
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(0, 1, 2, 3, 4, 5));
  for (int tag = 6; tag < 12; ++tag) outbox.Submit(Message(tag, kSlice));
  link.ReleaseAll();
  EXPECT_EQ(link.headers.size(), 9u) << "the lie must not have bought credit";
}

TEST_F(OutboxTest, WantedMessagesPassThoseThatWait) {
  for (int tag = 0; tag < 6; ++tag) outbox.Submit(Message(tag, kSlice));
  outbox.Submit(Message(7, 2 * kSlice));
  link.ReleaseAll();
  outbox.Exempt([](const PacketHeader& header) { return header.tag == 7; });
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(0, 1, 2, 3, 7, 7));
}

TEST_F(OutboxTest, AWantedMessageThatHasBegunGoesOnWithoutCredit) {
  outbox.Submit(Message(1, 10 * kSlice));
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), testing::SizeIs(4)) << "the credit is used up";
  outbox.Exempt([](const PacketHeader& header) { return header.tag == 1; });
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), testing::SizeIs(10));
  EXPECT_THAT(Done(), ElementsAre(1));
}

TEST_F(OutboxTest, ACancelledMessageTellsTheReceiverAndEndsWhenTheTransportLetsGo) {
  const auto running = Message(1, 3 * kSlice), waiting = Message(2, kSlice);
  outbox.Submit(running);
  outbox.Submit(waiting);
  outbox.Cancel(waiting, absl::DeadlineExceededError("late"));
  EXPECT_THAT(Done(), ElementsAre(2));
  outbox.Cancel(running, absl::DeadlineExceededError("late"));
  EXPECT_THAT(Done(), ElementsAre(2)) << "a packet of it is still in the transport";
  link.ReleaseAll();
  EXPECT_THAT(Done(), ElementsAre(2, 1));
  ASSERT_EQ(link.headers.size(), 3u);
  EXPECT_TRUE(link.headers[1].cancelled());
  EXPECT_TRUE(link.headers[2].cancelled());
  EXPECT_EQ(done[1].second.code(), absl::StatusCode::kDeadlineExceeded);
}

// Its first packet has gone, and what follows is still being made.
class OutboxOfACoder : public OutboxTest {
 protected:
  OutboxOfACoder() {
    coded->ready_bytes = kSlice;
    coded->coding = true;
    outbox.Submit(coded);
    for (int tag = 2; tag < 6; ++tag) outbox.Submit(Message(tag, kSlice));
    link.ReleaseAll();
    EXPECT_THAT(link.Tags(), ElementsAre(1, 2, 3, 4)) << "the credit is used up";
    done.clear();
  }
  void EndCoding() {
    coded->ready_bytes = 3 * kSlice;
    coded->coding = false;
    outbox.Continue(coded);
    link.ReleaseAll();
  }
  const std::shared_ptr<OutMessage> coded = Message(1, 3 * kSlice);
};

TEST_F(OutboxOfACoder, AMessageAskedForMeanwhileGoesOnWithoutCredit) {
  outbox.Exempt([](const PacketHeader& header) { return header.tag == 1; });
  EndCoding();
  EXPECT_THAT(link.Tags(), ElementsAre(1, 2, 3, 4, 1, 1));
  EXPECT_THAT(Done(), ElementsAre(1));
  outbox.OnReleased(6 * (kSlice + kPacketHeaderBytes));
  link.ReleaseAll();
  EXPECT_THAT(Done(), ElementsAre(1, 5)) << "nothing is left that needs no credit";
}

TEST_F(OutboxOfACoder, ACancelledMessageTellsItsReceiverAtOnceAndEndsWithItsCoder) {
  outbox.Cancel(coded, absl::DeadlineExceededError("late"));
  link.ReleaseAll();
  EXPECT_TRUE(link.headers.back().cancelled());
  EXPECT_THAT(Done(), IsEmpty()) << "the coder still reads its tensor";
  EndCoding();
  EXPECT_THAT(Done(), ElementsAre(1));
  EXPECT_EQ(link.headers.size(), 5u) << "nothing of it follows the notice";
}

TEST_F(OutboxOfACoder, ALostPeerEndsItWithItsCoder) {
  outbox.Fail(absl::UnavailableError("gone"));
  EXPECT_THAT(Done(), ElementsAre(5));
  EndCoding();
  EXPECT_THAT(Done(), ElementsAre(5, 1));
  EXPECT_EQ(done[1].second.code(), absl::StatusCode::kUnavailable);
}

TEST_F(OutboxTest, AFailedPeerFailsEverythingOnce) {
  outbox.Submit(Message(1, 3 * kSlice));
  outbox.Submit(Message(2, 10));
  outbox.Fail(absl::UnavailableError("gone"));
  EXPECT_THAT(Done(), ElementsAre(2)) << "a packet of 1 is still in the transport";
  link.Release(absl::CancelledError("cut"));
  EXPECT_THAT(Done(), ElementsAre(2, 1));
  outbox.Submit(Message(3, 10));
  EXPECT_THAT(Done(), ElementsAre(2, 1, 3));
  for (const auto& [tag, status] : done) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << tag;
  }
  EXPECT_EQ(link.headers.size(), 1u);
}

TEST_F(OutboxTest, ALinkThatRefusesIsReported) {
  link.refuse = true;
  outbox.Submit(Message(1, 10));
  EXPECT_THAT(lost, testing::SizeIs(1));
  EXPECT_THAT(Done(), ElementsAre(1));
  EXPECT_TRUE(outbox.empty());
}

TEST_F(OutboxTest, AnEmptyMessageIsOnePacket) {
  outbox.Submit(Message(1, 0));
  link.ReleaseAll();
  EXPECT_THAT(link.Tags(), ElementsAre(1));
}

}  // namespace
}  // namespace longhaul
