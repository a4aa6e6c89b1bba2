#pragma once

#include <compare>

namespace longhaul {

// A rate in bit/s at the Ethernet level (14-byte header counted, no FCS). 1 Mbit = 10^6 bit.
struct BitsPerSecond {
  double value = 0;
  friend auto operator<=>(const BitsPerSecond&, const BitsPerSecond&) = default;
};
constexpr BitsPerSecond Mbit(double mbit_per_s) { return {mbit_per_s * 1e6}; }
constexpr BitsPerSecond Gbit(double gbit_per_s) { return {gbit_per_s * 1e9}; }
constexpr double InMbit(BitsPerSecond rate) { return rate.value / 1e6; }

}  // namespace longhaul
