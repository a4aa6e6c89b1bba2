// What a receiver says, and when.
#include "pp_group/schedule/tcp_receiver.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

using Blocks = std::vector<std::pair<int64_t, int64_t>>;

// A receiver that is past the frames that it answers at once: 16 are there, a millisecond apart.
TcpReceiver Used() {
  TcpReceiver receiver(0.1);
  for (int64_t i = 0; i < 16; ++i) receiver.Receive(1e-3 * static_cast<double>(i), i, i, false);
  EXPECT_EQ(receiver.Take().size(), 16u);
  return receiver;
}

TEST(TcpReceiver, SaysOfEachSecondFrameAndOfAMessagesEnd) {
  TcpReceiver receiver = Used();
  receiver.Receive(0.016, 16, 16, false);
  EXPECT_TRUE(receiver.Take().empty());
  EXPECT_DOUBLE_EQ(receiver.due(), 0.016 + 0.04);
  receiver.Receive(0.017, 17, 17, false);
  const auto second = receiver.Take();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].until, 18);
  EXPECT_EQ(receiver.due(), TcpReceiver::kNotYet);
  receiver.Receive(0.018, 18, 18, true);
  EXPECT_EQ(receiver.Take().size(), 1u);
  receiver.Receive(0.019, 19, 19, false);
  receiver.Due(0.059);
  const auto late = receiver.Take();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].until, 20);
}

TEST(TcpReceiver, IsQuickAgainBehindAPause) {
  TcpReceiver receiver = Used();
  receiver.Receive(1, 16, 16, false);
  EXPECT_EQ(receiver.Take().size(), 1u);
}

// Segment 16 is missing. Three behind it are said of at once, the next ones a millisecond later; then 16 comes,
// and a copy of it.
TEST(TcpReceiver, HoldsBackWhatIsBehindAHole) {
  TcpReceiver receiver = Used();
  for (int64_t i = 17; i < 22; ++i) receiver.Receive(0.016, i, i, false);
  const auto at_once = receiver.Take();
  ASSERT_EQ(at_once.size(), 3u);
  EXPECT_EQ(at_once[2].until, 16);
  EXPECT_EQ(at_once[2].blocks, (Blocks{{17, 20}}));
  EXPECT_DOUBLE_EQ(receiver.due(), 0.017);
  receiver.Due(0.017);
  EXPECT_EQ(receiver.Take().at(0).blocks, (Blocks{{17, 22}}));
  receiver.Receive(0.02, 16, 30, false);
  const auto filled = receiver.Take();
  ASSERT_EQ(filled.size(), 1u);
  EXPECT_EQ(filled[0].until, 22);
  EXPECT_TRUE(filled[0].blocks.empty());
  EXPECT_FALSE(filled[0].repeated);
  receiver.Receive(0.03, 16, 31, false);
  EXPECT_TRUE(receiver.Take().at(0).repeated);
}

TEST(TcpReceiver, HasRoomForThreeBlocksTheLastFirst) {
  TcpReceiver receiver = Used();
  for (const int64_t segment : {17, 19, 21, 23, 25})
    receiver.Receive(0.016, segment, segment, false);
  receiver.Due(0.017);
  EXPECT_EQ(receiver.Take().back().blocks, (Blocks{{25, 26}, {23, 24}, {21, 22}}));
  receiver.Receive(0.018, 22, 40, false);  // joins two
  receiver.Due(0.019);
  EXPECT_EQ(receiver.Take().back().blocks, (Blocks{{21, 24}, {25, 26}, {19, 20}}));
}

}  // namespace
}  // namespace longhaul
