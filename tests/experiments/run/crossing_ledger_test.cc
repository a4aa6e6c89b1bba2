// What lives that follow each other have told of their crossings, as rows.
#include "experiments/run/ledgers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Two stages; rank 2 is stage 0 of group 1.
CrossingCount Count(int64_t rank, int64_t life, int64_t tensors, int64_t checkpoint = 0) {
  return {.checkpoint = checkpoint,
          .life = life,
          .group_kind = CrossingKind::kBoundary,
          .rank = rank,
          .peer = 1 - rank % 2,
          .sent = true,
          .codec = "none",
          .tensors = tensors,
          .elements = 10 * tensors,
          .payload_bytes = 40 * tensors,
          .message_bytes = 50 * tensors,
          .payload_hash = static_cast<uint64_t>(tensors)};
}

CrossingCount State(int64_t joiner, int64_t life, int64_t giver_group, int64_t bytes) {
  CrossingCount count = Count(joiner, life, 4);
  count.group_kind = CrossingKind::kState;
  count.peer = giver_group;
  count.sent = false;
  count.message_bytes = bytes;
  return count;
}

TEST(CrossingLedger, WhatALifeToldLastCountsAndLivesAdd) {
  CrossingLedger ledger(2, "int8-b64");
  ledger.Observe(Count(2, 0, 8));
  ledger.Observe(Count(2, 0, 16));  // of the same life: no more, but instead
  ledger.Observe(Count(2, 1, 4));
  ASSERT_THAT(ledger.Rows(), SizeIs(1));
  const CrossingRow row = ledger.Rows()[0];
  EXPECT_EQ(row.src_rank, 2);
  EXPECT_EQ(row.dst_rank, 3);
  EXPECT_EQ(row.direction, Direction::kForward);
  EXPECT_EQ(row.tensors, 20);
  EXPECT_EQ(row.message_bytes, 1000);
  EXPECT_EQ(row.payload_hash, 20u);
}

// Two ranks of two stages each: rank 1 sends activations of boundary 1 and gradients of 0 and 2 to
// rank 0, and both of its stages meet group 1.
TEST(CrossingLedger, OfSeveralStagesARankTheKindSaysTheDirectionAndStagesAddUp) {
  CrossingLedger ledger(2, "int8-b64");
  CrossingCount up = Count(1, 0, 4);
  up.kind = "activation";
  CrossingCount back = Count(1, 0, 8);
  back.kind = "gradient";
  CrossingCount outer = Count(1, 0, 2);
  outer.group_kind = CrossingKind::kOuter;
  outer.peer = 1;
  outer.stage = 1;
  CrossingCount other = outer;
  other.stage = 3;
  other.tensors = 6;
  for (const CrossingCount& count : {up, back, outer, other}) ledger.Observe(count);
  ASSERT_THAT(ledger.Rows(), SizeIs(3));
  for (const CrossingRow& row : ledger.Rows()) {
    EXPECT_EQ(row.src_rank, 1);
    EXPECT_EQ(row.dst_rank, row.direction == Direction::kOuter ? 3 : 0);
    EXPECT_EQ(row.tensors, row.direction == Direction::kForward    ? 4
                           : row.direction == Direction::kBackward ? 8
                                                                   : 2 + 6);
  }
}

TEST(CrossingLedger, BetweenGroupsThePeerIsAGroupOfTheSameStage) {
  CrossingLedger ledger(2, "int8-b64");
  CrossingCount outer = Count(3, 0, 2);
  outer.group_kind = CrossingKind::kOuter;
  outer.peer = 4;
  ledger.Observe(outer);
  ASSERT_THAT(ledger.Rows(), SizeIs(1));
  EXPECT_EQ(ledger.Rows()[0].dst_rank, 9);
  EXPECT_EQ(ledger.Rows()[0].direction, Direction::kOuter);
  EXPECT_EQ(ledger.Rows()[0].codec, "int8-b64");
}

TEST(CrossingLedger, ATiedHeadsPeerIsAStageAndItsCrossingHasANameOfItsOwn) {
  CrossingLedger ledger(4, "int8-b64");
  CrossingCount tied = Count(4, 0, 3);  // stage 0 of group 1
  tied.peer = 3;
  tied.group_kind = CrossingKind::kTied;
  ledger.Observe(tied);
  ASSERT_THAT(ledger.Rows(), SizeIs(1));
  EXPECT_EQ(ledger.Rows()[0].dst_rank, 7);
  EXPECT_EQ(ledger.Rows()[0].direction, Direction::kTied);
  EXPECT_EQ(ToString(Direction::kTied), "tied");
  EXPECT_EQ(ledger.Rows()[0].codec, "none");
}

TEST(CrossingLedger, TheReceiversSideIsNoRowButAJoinersState) {
  CrossingLedger ledger(2, "none");
  CrossingCount received = Count(1, 0, 7);
  received.sent = false;
  ledger.Observe(received);
  EXPECT_THAT(ledger.Rows(), IsEmpty());
  ledger.Observe(State(/*joiner=*/3, /*life=*/1, /*giver_group=*/0, 9000));
  ledger.Observe(State(3, 2, 0, 9000));
  ASSERT_THAT(ledger.Rows(), SizeIs(1));
  EXPECT_EQ(ledger.Rows()[0].src_rank, 1);
  EXPECT_EQ(ledger.Rows()[0].dst_rank, 3);
  EXPECT_EQ(ledger.Rows()[0].direction, Direction::kOther);
  EXPECT_EQ(ledger.Rows()[0].message_bytes, 18'000);
}

// A checkpoint by life 1 has what life 0 told last, and the state with which life 1 began; what is
// told after it is none of its business.
TEST(CrossingLedger, ACheckpointHasTheLivesBefore) {
  CrossingLedger ledger(2, "none");
  ledger.Observe(Count(2, 0, 8));
  ledger.Observe(State(2, 1, 0, 9000));
  ledger.Observe(Count(2, 1, 3, /*checkpoint=*/12));
  ledger.Observe(Count(2, 1, 5));
  ledger.Observe(Count(2, 2, 1));
  int64_t forward = 0, state = 0;
  for (const CrossingRow& row : ledger.RowsAt(12)) {
    if (row.direction == Direction::kForward) forward += row.tensors;
    if (row.direction == Direction::kOther) state += row.message_bytes;
  }
  EXPECT_EQ(forward, 11);
  EXPECT_EQ(state, 9000);
  ledger.Forget(12);
  EXPECT_THAT(ledger.RowsAt(12), IsEmpty());
}

}  // namespace
}  // namespace longhaul
