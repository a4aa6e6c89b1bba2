// CoDel and FQ-CoDel on synthetic time, against traces worked out by hand from the pseudo-code of
// RFC 8289 and RFC 8290.
#include "netem/queues/codel.h"

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "netem/queues/fq_codel_queue.h"

namespace longhaul {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kFrame = 1000;
const CodelSpec kSpec{.max_packet_bytes = kFrame};

struct Fate {
  int64_t frame, at_ms;
  bool operator==(const Fate&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Fate& fate) {
  return out << fate.frame << " at " << fate.at_ms << " ms";
}

// Frame i comes at 5 i ms; one may leave every 10 ms, from 10 ms on. So the queue grows for ever.
class Overloaded {
 public:
  explicit Overloaded(const CodelSpec& spec) : queue_(spec, {.bytes = int64_t{1} << 40}) {}

  void RunUntil(int64_t end_ms, bool ecn_capable) {
    for (now_ms_ += 10; now_ms_ <= end_ms; now_ms_ += 10) {
      for (; 5 * next_ <= now_ms_; ++next_) Come(5 * next_, ecn_capable);
      Leave(now_ms_);
    }
    now_ms_ -= 10;
  }
  void Come(int64_t at_ms, bool ecn_capable) {
    queue_.Enqueue({.tag = static_cast<uint32_t>(count_++),
                    .wire_bytes = kFrame,
                    .arrived_ns = at_ms * kMs,
                    .ecn_capable = ecn_capable},
                   full_);
  }
  bool Leave(int64_t at_ms) {
    std::vector<DroppedFrame> dropped;
    const auto frame = queue_.Dequeue(at_ms * kMs, dropped);
    for (const auto& [gone, reason] : dropped) {
      EXPECT_EQ(reason, DropReason::kManaged);
      dropped_.push_back({gone.tag, at_ms});
    }
    if (frame && frame->marked) marked_.push_back({frame->tag, at_ms});
    return frame.has_value();
  }

  CodelQueue queue_;
  int64_t now_ms_ = 0, next_ = 0, count_ = 0;
  std::vector<DroppedFrame> full_;
  std::vector<Fate> dropped_, marked_;
};

// The wait is above 5 ms from the first frame on, at 10 ms. So 110 ms drops the first, 210 the
// second (100 / sqrt 1), then 210 + 100 / sqrt 2 = 280.7, + 57.7 = 338.4, + 50 = 388.4, + 44.7 =
// 433.2, + 40.8 = 474.0: each at the next time that a frame may leave. Every drop lets the frame
// behind it go, so the k-th time takes frame k - 1 plus the drops before it.
TEST(Codel, DropsByPencil) {
  Overloaded run(kSpec);
  run.RunUntil(485, false);
  EXPECT_EQ(run.dropped_,
            (std::vector<Fate>{
                {10, 110}, {21, 210}, {30, 290}, {36, 340}, {42, 390}, {48, 440}, {53, 480}}));
  EXPECT_TRUE(run.marked_.empty());
}

TEST(Codel, MarksAtTheSameTimesAndDropsNothing) {
  CodelSpec spec = kSpec;
  spec.ecn = true;
  Overloaded run(spec);
  run.RunUntil(485, true);
  EXPECT_TRUE(run.dropped_.empty());
  EXPECT_EQ(run.marked_,
            (std::vector<Fate>{
                {10, 110}, {20, 210}, {28, 290}, {33, 340}, {38, 390}, {43, 440}, {47, 480}}));
  Overloaded not_capable(spec);
  not_capable.RunUntil(485, false);
  EXPECT_EQ(not_capable.dropped_.size(), 7u) << "who cannot take a mark is dropped";
}

TEST(Codel, TargetAndIntervalAreAsSet) {
  CodelSpec spec = kSpec;
  spec.interval_ns = 30 * kMs;
  Overloaded run(spec);
  run.RunUntil(75, false);
  // Above at 10, so 40; 40 + 30 = 70.
  EXPECT_EQ(run.dropped_, (std::vector<Fate>{{3, 40}, {7, 70}}));
  spec.target_ns = 1000 * kMs;
  Overloaded patient(spec);
  patient.RunUntil(485, false);
  EXPECT_TRUE(patient.dropped_.empty());
}

TEST(Codel, AFrameInTimeEndsTheDroppingAndAShortQueueIsLeftAlone) {
  Overloaded run(kSpec);
  run.RunUntil(200, false);
  ASSERT_EQ(run.dropped_.size(), 1u);
  while (run.Leave(201)) {
  }
  // Alone in the queue, however long it waited.
  const size_t drops = run.dropped_.size();
  for (int64_t ms = 300; ms < 2000; ms += 20) {
    run.Come(ms, false);
    EXPECT_TRUE(run.Leave(ms + 19));
  }
  EXPECT_EQ(run.dropped_.size(), drops);
}

TEST(Codel, GoesOnAtItsRateSoonAfter) {
  FifoQueue queue;
  Codel codel;
  std::vector<DroppedFrame> dropped;
  uint32_t tag = 0;
  const auto wait_long = [&](int64_t from_ms, int64_t to_ms) {
    for (int64_t ms = from_ms; ms <= to_ms; ms += 10) {
      for (int i = 0; i < 3; ++i) {
        queue.Enqueue({.tag = tag++, .wire_bytes = kFrame, .arrived_ns = (ms - 50) * kMs}, dropped);
      }
      codel.Dequeue(ms * kMs, kSpec, queue, dropped);
    }
  };
  wait_long(0, 470);  // drops at 100, 200, 280, 330, 380, 430, 470: count 7, begun at 1
  EXPECT_EQ(codel.count(), 7);
  EXPECT_EQ(dropped.size(), 7u);
  while (queue.Pop()) {
  }
  codel.Dequeue(480 * kMs, kSpec, queue, dropped);
  EXPECT_FALSE(codel.dropping());
  wait_long(500, 600);
  EXPECT_TRUE(codel.dropping());
  EXPECT_EQ(codel.count(), 6) << "7 - 1: within 16 intervals of the last";
  while (queue.Pop()) {
  }
  codel.Dequeue(610 * kMs, kSpec, queue, dropped);
  wait_long(4000, 4100);
  EXPECT_EQ(codel.count(), 1) << "long after: anew";
}

// Frames of flow f are called 100 f, 100 f + 1, ..
class Flows {
 public:
  explicit Flows(int64_t limit_bytes = 1 << 20)
      : queue_({.codel = kSpec, .quantum_bytes = 1500, .capacity = {.bytes = limit_bytes}}) {}
  void Come(uint32_t flow, int count, int64_t at_ms = 0) {
    for (int i = 0; i < count; ++i) {
      queue_.Enqueue({.tag = 100 * flow + next_[flow]++,
                      .wire_bytes = kFrame,
                      .arrived_ns = at_ms * kMs,
                      .flow = flow},
                     dropped_);
    }
  }
  std::vector<uint32_t> Leave(int count, int64_t at_ms = 1) {
    std::vector<uint32_t> tags;
    for (int i = 0; i < count; ++i) {
      const auto frame = queue_.Dequeue(at_ms * kMs, dropped_);
      if (frame) tags.push_back(frame->tag);
    }
    return tags;
  }
  FqCodelQueue queue_;
  uint32_t next_[10] = {};
  std::vector<DroppedFrame> dropped_;
};

// Quantum 1500, frames of 1000. Flow 1 sends two (credit 500, then -500) before its turn is over,
// so does flow 2, which came meanwhile and is new. Then the old ones: 1 has 1000 and sends one;
// with 0 it gets 1500 and waits behind 2, which is empty and goes; so 1 sends its last.
TEST(FqCodel, DeficitRoundRobinByPencil) {
  Flows flows;
  flows.Come(1, 4);
  EXPECT_EQ(flows.Leave(2), (std::vector<uint32_t>{100, 101}));
  flows.Come(2, 2);
  EXPECT_EQ(flows.Leave(5), (std::vector<uint32_t>{200, 201, 102, 103}));
  EXPECT_TRUE(flows.queue_.empty());
  EXPECT_EQ(flows.queue_.bytes(), 0);
}

// What a turn overdrew is taken from the next one: two frames, one, two, one.
TEST(FqCodel, ATurnPaysWhatTheOneBeforeOverdrew) {
  Flows flows;
  flows.Come(1, 6);
  flows.Come(2, 6);
  EXPECT_EQ(flows.Leave(12),
            (std::vector<uint32_t>{100, 101, 200, 201, 102, 202, 103, 104, 203, 204, 105, 205}));
}

// Flow 3 went away 500 bytes in debt; flow 1 has 500 left of its turn when flow 3 comes back.
TEST(FqCodel, AFlowThatComesBackHasAWholeTurn) {
  Flows flows;
  flows.Come(3, 2);
  EXPECT_EQ(flows.Leave(3), (std::vector<uint32_t>{300, 301}))
      << "and no third: it is listed no more";
  flows.Come(1, 10);
  EXPECT_EQ(flows.Leave(4), (std::vector<uint32_t>{100, 101, 102, 103}));
  flows.Come(3, 3);
  EXPECT_EQ(flows.Leave(3), (std::vector<uint32_t>{302, 303, 104}));
}

TEST(FqCodel, AFlowThatWasIdleGoesBeforeABacklogAndNotForEver) {
  Flows flows;
  flows.Come(1, 20);
  EXPECT_EQ(flows.Leave(3), (std::vector<uint32_t>{100, 101, 102}));
  flows.Come(3, 1);
  EXPECT_EQ(flows.Leave(1), (std::vector<uint32_t>{300})) << "before the 17 of flow 1";
  // Empty now, it waits a turn among the old flows: a frame that comes at once is not new again.
  EXPECT_EQ(flows.Leave(1), (std::vector<uint32_t>{103}));
  flows.Come(3, 1);
  const auto next = flows.Leave(3);
  EXPECT_EQ(next[0], 301u) << "credit 500 is left of its turn";
  EXPECT_EQ(next[1], 104u);
}

TEST(FqCodel, TheLongestQueuePaysForTheFullBuffer) {
  Flows flows(/*limit_bytes=*/4 * kFrame);
  flows.Come(1, 4);
  EXPECT_TRUE(flows.dropped_.empty());
  flows.Come(2, 1);
  // Half of its 4000 bytes, from the head.
  ASSERT_EQ(flows.dropped_.size(), 2u);
  EXPECT_EQ(flows.dropped_[0].frame.tag, 100u);
  EXPECT_EQ(flows.dropped_[1].frame.tag, 101u);
  EXPECT_EQ(flows.dropped_[0].reason, DropReason::kFull);
  EXPECT_EQ(flows.queue_.bytes(), 3 * kFrame);
  EXPECT_EQ(flows.Leave(4), (std::vector<uint32_t>{102, 103, 200}));
}

TEST(FqCodel, EachFlowHasACodelOfItsOwn) {
  Flows flows;
  for (int64_t ms = 0; ms <= 300; ms += 10) {
    flows.Come(1, 4, ms);  // a backlog that grows
    flows.Come(2, 1, ms);  // one frame that leaves at once
    for (int i = 0; i < 3; ++i) flows.Leave(1, ms + 1);
  }
  EXPECT_FALSE(flows.dropped_.empty());
  for (const auto& [frame, reason] : flows.dropped_) {
    EXPECT_EQ(frame.flow, 1u);
    EXPECT_EQ(reason, DropReason::kManaged);
  }
}

// Count 7 when the first state ends; the next drop would be due at 501.8 ms (200 + 100 / sqrt(2) + ..
// + 100 / sqrt(7)): 16 intervals later, up to 2,101.8 ms, a new state goes on at 6, after that at 1.
TEST(Codel, SixteenIntervalsAreSoon) {
  for (const auto& [begins_ms, count] : {std::pair(2100, 6), {2110, 1}}) {
    FifoQueue queue;
    Codel codel;
    std::vector<DroppedFrame> dropped;
    const auto wait_long = [&](int64_t from_ms, int64_t to_ms) {
      for (int64_t ms = from_ms; ms <= to_ms; ms += 10) {
        for (int i = 0; i < 3; ++i) {
          queue.Enqueue({.tag = 0, .wire_bytes = kFrame, .arrived_ns = (ms - 50) * kMs}, dropped);
        }
        codel.Dequeue(ms * kMs, kSpec, queue, dropped);
      }
    };
    wait_long(0, 470);
    ASSERT_EQ(codel.count(), 7);
    while (queue.Pop()) {
    }
    codel.Dequeue(480 * kMs, kSpec, queue, dropped);
    wait_long(begins_ms - 100, begins_ms);
    EXPECT_TRUE(codel.dropping());
    EXPECT_EQ(codel.count(), count) << begins_ms;
  }
}

// Half of 200 frames would be 100: no more than 64 go at once, and the next arrival finds room.
TEST(FqCodel, NoMoreThanSixtyFourAreDroppedAtOnce) {
  Flows flows(/*limit_bytes=*/200 * kFrame);
  flows.Come(1, 200);
  flows.Come(2, 1);
  EXPECT_EQ(flows.dropped_.size(), 64u);
  EXPECT_EQ(flows.queue_.bytes(), (201 - 64) * kFrame);
  Flows few(/*limit_bytes=*/100 * kFrame);
  few.Come(1, 100);
  few.Come(2, 1);
  EXPECT_EQ(few.dropped_.size(), 50u) << "half of the longest";
}

}  // namespace
}  // namespace longhaul
