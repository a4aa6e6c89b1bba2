#include "experiments/spec/link_time.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// 1448 bytes of a message are a frame of 1514, but by the rules of P1 and P3.
TEST(LinkTime, KappaCountsTheHeadersOfEveryPacket) {
  const BoundaryLink link{.message_bytes = 1448e3, .rate_bit_per_s = 8e6, .one_way_delay_s = 0.5};
  EXPECT_DOUBLE_EQ(WireOf(link).busy_s, 1.514);
  EXPECT_DOUBLE_EQ(MessageSeconds(link), 2.014);
  for (const auto rule : {LinkPolicy::kSerialSlots, LinkPolicy::kOneAReceiver}) {
    EXPECT_DOUBLE_EQ(WireOf(link, rule).busy_s, 1.448);
    EXPECT_EQ(WireOf(link, rule).delay_s, 0.5);
  }
}

}  // namespace
}  // namespace longhaul
