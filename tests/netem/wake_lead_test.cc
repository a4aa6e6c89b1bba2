#include "netem/emulators/wake_lead.h"

#include <gtest/gtest.h>

#include <random>

#include "netem/emulator.h"

namespace longhaul {
namespace {

TEST(WakeLead, FollowsAConstantLateness) {
  WakeLead lead;
  EXPECT_EQ(lead.ns(), 0);
  for (int i = 0; i < 60; ++i) lead.Woke(60'000);
  EXPECT_NEAR(static_cast<double>(lead.ns()), 60'000, 2'000);
  for (int i = 0; i < 60; ++i) lead.Woke(10'000);
  EXPECT_NEAR(static_cast<double>(lead.ns()), 10'000, 2'000);
}

TEST(WakeLead, TailDoesNotMoveIt) {
  WakeLead lead;
  std::mt19937 rng(7);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t late_ns = 50'000 + static_cast<int64_t>(rng() % 10'000);
    lead.Woke(rng() % 20 == 0 ? late_ns + 5'000'000 : late_ns);
    if (i < 100) continue;
    ASSERT_GT(lead.ns(), 40'000);
    ASSERT_LT(lead.ns(), 65'000);
  }
}

TEST(WakeLead, StaysWithinItsBounds) {
  WakeLead lead;
  for (int i = 0; i < 1000; ++i) lead.Woke(10'000'000);
  EXPECT_EQ(lead.ns(), WakeLead::kMostNs);
  for (int i = 0; i < 1000; ++i) lead.Woke(-10'000);
  EXPECT_EQ(lead.ns(), 0);
}

// A quarter of the way, no more than 2 us up and 8 us down, between 0 and 100 us.
TEST(WakeLead, MovesByTheStepsThatItMay) {
  WakeLead lead;
  lead.Woke(4'000);
  EXPECT_EQ(lead.ns(), 1'000);
  lead.Woke(1'000'000);
  EXPECT_EQ(lead.ns(), 3'000);
  for (int i = 0; i < 100; ++i) lead.Woke(1'000'000);
  EXPECT_EQ(lead.ns(), 100'000);
  lead.Woke(80'000);
  EXPECT_EQ(lead.ns(), 95'000);
  lead.Woke(0);
  EXPECT_EQ(lead.ns(), 87'000);
}

TEST(Lateness, IsOfFramesThatAreMoreThanAMillisecondLate) {
  Lateness lateness;
  lateness.Delivered(absl::Microseconds(-40));
  EXPECT_EQ(lateness.max, absl::ZeroDuration()) << "early is not late";
  lateness.Delivered(absl::Milliseconds(1));
  EXPECT_EQ(lateness.late_frames, 0);
  lateness.Delivered(absl::Milliseconds(1) + absl::Nanoseconds(1));
  lateness.Delivered(absl::Microseconds(10));
  EXPECT_EQ(lateness.frames, 4);
  EXPECT_EQ(lateness.late_frames, 1);
  EXPECT_EQ(lateness.max, absl::Milliseconds(1) + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace longhaul
