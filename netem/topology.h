#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/units.h"

namespace longhaul {

// One direction of network between two nodes. A plain value: no kernel state.
// A rate is at the Ethernet level; a delay is one way (an RTT is two of these).
struct PathSpec {
  int from;                           // node index
  int to;                             // node index
  std::optional<BitsPerSecond> rate;  // nullopt: only the access lines limit it
  absl::Duration delay;               // one way
  absl::Duration jitter;              // one standard deviation, one way; zero: none
  double loss_prob = 0;               // independent drop probability per packet, [0, 1)
  double queue_bdp = 1;               // queue depth in bandwidth-delay products
};

// A node's shared access line; both directions are drop-tail queues with a rate and no delay.
struct AccessSpec {
  BitsPerSecond up;
  BitsPerSecond down;
};

struct NodeSpec {
  std::string name;                  // unique; also the namespace's name
  std::optional<AccessSpec> access;  // nullopt: unlimited
};

// What a lab is made of. Node i has the address NodeAddress(i) on its one interface, "net0".
struct Topology {
  std::string profile;  // the name it was made from, or the file; for records
  std::vector<NodeSpec> nodes;
  std::vector<PathSpec> paths;  // every ordered pair that may talk
  int mtu = 1500;
};

// InvalidArgument naming the field: rates <= 0, negative or NaN delays, loss outside [0, 1), names
// that repeat or that the kernel refuses, a path to nowhere, a pair given twice.
absl::Status Validate(const Topology& topology);

// The path of an ordered pair; null when the pair may not talk.
const PathSpec* FindPath(const Topology& topology, int from, int to);

// Delay of the path and of the path back (of the path twice where there is none back).
absl::Duration NominalRtt(const Topology& topology, const PathSpec& path);

// Full mesh of `nodes` nodes named w0, w1, ... with the same profile between every ordered pair.
// NotFound: unknown profile; the message lists the known ones.
absl::StatusOr<Topology> UniformTopology(std::string_view profile, int nodes);

// The profiles of docs/netem.md: name, rate, RTT, source of the figures.
struct Profile {
  std::string_view name;
  BitsPerSecond rate;
  absl::Duration rtt;
  std::string_view source;
};
const std::vector<Profile>& Profiles();

}  // namespace longhaul
