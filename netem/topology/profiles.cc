#include <vector>

#include "netem/topology/topology.h"
#include "netem/topology/topology_file.h"

namespace longhaul {

// Rates and round-trip times of the planning scenarios; the sources name the latency statistics the
// round-trip time was taken from. Adding a profile is adding a line here.
const std::vector<Profile>& Profiles() {
  static const std::vector<Profile> profiles = {
      {"colocated", Gbit(1), absl::Milliseconds(5), "same metro area, several sites"},
      {"regional", Gbit(1), absl::Milliseconds(20), "London-Frankfurt: Epsilon 20 ms, Azure 17 ms"},
      {"same-country", Mbit(500), absl::Milliseconds(35), "between regional and continental"},
      {"continental-us", Mbit(100), absl::Milliseconds(65),
       "New York-Los Angeles: Epsilon 64 ms, Azure east-west 71 ms"},
      {"transatlantic", Mbit(100), absl::Milliseconds(75),
       "New York-London: Verizon 70 ms, Epsilon 75 ms, Azure 79 ms"},
      {"agora", Mbit(200), absl::Milliseconds(80),
       "least that a peer of Pluralis' Agora must have: 200 Mbit/s, below 80 ms RTT"},
      {"simulator-default", Mbit(100), absl::Milliseconds(100),
       "baseline of the planning study: 100 Mbit/s symmetric, 100 ms"},
      {"transpacific", Mbit(50), absl::Milliseconds(105),
       "Los Angeles-Tokyo: AWS 105 ms, Epsilon 100 ms"},
      {"global", Mbit(25), absl::Milliseconds(230), "Virginia-Singapore: AWS 224 ms"},
      {"worst-case", Mbit(10), absl::Milliseconds(340),
       "Brazil-South-East Asia: Azure 332 to 343 ms"},
  };
  return profiles;
}

}  // namespace longhaul
