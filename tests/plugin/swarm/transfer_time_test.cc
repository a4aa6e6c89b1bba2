// The closed form against numbers by pencil.
#include "plugin/swarm/transfer_time.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// 100 bytes/s and 1 s there and back hold 100 bytes; windows of 10, 20, 40, 80 take four round
// trips, 150 bytes leave in them, 850 are left at 100 a second: 4 + 8.5, and one round trip before.
TEST(TransferTime, OneSourceByPencil) {
  const Transfer copy{.bytes = 1000,
                      .sources = 1,
                      .up_bytes_per_s = 100,
                      .down_bytes_per_s = 1e9,
                      .rtt = absl::Seconds(1),
                      .round_trips_before_data = 0,
                      .first_window_bytes = 10};
  EXPECT_EQ(TransferTime(copy), absl::Seconds(13.5));
}

// Three more before: connect, handshake, interest.
TEST(TransferTime, RoundTripsBeforeDataAreAdded) {
  Transfer swarm{.bytes = 1000,
                 .sources = 1,
                 .up_bytes_per_s = 100,
                 .down_bytes_per_s = 1e9,
                 .rtt = absl::Seconds(1),
                 .round_trips_before_data = 3,
                 .first_window_bytes = 10};
  EXPECT_EQ(TransferTime(swarm), absl::Seconds(16.5));
}

// Four sources send 250 each: after the same four round trips 100 are left: 4 + 1 + 1.
TEST(TransferTime, SourcesShareTheBytes) {
  const Transfer four{.bytes = 1000,
                      .sources = 4,
                      .up_bytes_per_s = 100,
                      .down_bytes_per_s = 400,
                      .rtt = absl::Seconds(1),
                      .round_trips_before_data = 0,
                      .first_window_bytes = 10};
  EXPECT_EQ(TransferTime(four), absl::Seconds(6));
}

// The fetcher's own line is the narrow place: 4 x 25 bytes/s, 25 in flight each; windows of 10 and
// 20 take two round trips and 30 bytes; 220 at 25 a second: 2 + 8.8 + 1.
TEST(TransferTime, FetchersLineIsShared) {
  const Transfer four{.bytes = 1000,
                      .sources = 4,
                      .up_bytes_per_s = 100,
                      .down_bytes_per_s = 100,
                      .rtt = absl::Seconds(1),
                      .round_trips_before_data = 0,
                      .first_window_bytes = 10};
  EXPECT_EQ(TransferTime(four), absl::Seconds(11.8));
}

// What fits into the first window goes at the path's rate: 5 bytes at 100 a second, and a round
// trip.
TEST(TransferTime, LittleNeedsNoSlowStart) {
  const Transfer little{.bytes = 5,
                        .sources = 1,
                        .up_bytes_per_s = 100,
                        .down_bytes_per_s = 100,
                        .rtt = absl::Seconds(1),
                        .round_trips_before_data = 0,
                        .first_window_bytes = 10};
  EXPECT_EQ(TransferTime(little), absl::Seconds(1.05));
}

}  // namespace
}  // namespace longhaul
