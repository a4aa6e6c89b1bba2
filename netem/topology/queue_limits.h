#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "netem/topology/topology.h"
#include "netem/topology/units.h"

namespace longhaul {

// Bytes of a full Ethernet frame: MTU + 14-byte header, no FCS. 1514 at MTU 1500.
int64_t FrameBytes(int mtu);

// The part of a frame's rate that is TCP payload with timestamps on: 1448/1514 at MTU 1500.
double TcpPayloadShare(int mtu);

// Queue of a rated line in packets: Q = max(64, depth x rate x rtt / (8 F)), rounded up, with the
// depth in bandwidth-delay products.
int64_t QueuePackets(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu);

// The limit of the uplink or downlink that `node` is behind: its own queue where it has one, else
// QueuePackets with the largest round-trip time of any path that crosses the line, and the deepest
// of their queues. A node behind no line: as if it had one.
int64_t AccessLimitPackets(const Topology& topology, int node, BitsPerSecond rate);

// The limit of a path's leaf. It covers the delay line AND the queue, because netem counts both:
// with a rate, ceil(rate (delay + 3 jitter) / (8 F) + Q), Q the path's own queue where it has one;
// a queue of its own apart from the delay line (QueuesApart): Q; without a rate, behind access
// lines, 2 ceil(uplink (delay + 3 jitter) / (8 F)) + 64, wide on purpose since no queue can form
// there. Neither rate nor access line: kUnlimitedPackets.
inline constexpr int64_t kUnlimitedPackets = 1 << 20;
int64_t PathLimitPackets(const Topology& topology, const PathSpec& path);

}  // namespace longhaul
