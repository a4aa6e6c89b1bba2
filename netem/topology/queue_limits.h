#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "netem/topology/queue_capacity.h"
#include "netem/topology/topology.h"
#include "netem/topology/units.h"

namespace longhaul {

// Bytes of a full Ethernet frame: MTU + 14-byte header, no FCS. 1514 at MTU 1500.
int64_t FrameBytes(int mtu);

// The part of a frame's rate that is TCP payload with timestamps on: 1448/1514 at MTU 1500.
double TcpPayloadShare(int mtu, int ip_header_bytes = 20);

// Queue of a rated line in packets: Q = max(64, depth x rate x rtt / (8 F)), rounded up, with the
// depth in bandwidth-delay products.
int64_t QueuePackets(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu);

// How many full frames the queue of the uplink or downlink that `node` is behind holds: its own
// queue where it has one, else QueuePackets with the largest round-trip time of any path that
// crosses the line, and the deepest of their queues. A node behind no line: as if it had one.
int64_t AccessQueuePackets(const Topology& topology, int node, BitsPerSecond rate);

// The same of the queue before a path's own rate, which the path must have. The delay line comes
// after the rate and is never in it: an idle path takes as long a burst as an access line does.
int64_t PathQueuePackets(const Topology& topology, const PathSpec& path);

// The same queues as `tap` counts them: packets of any size where packets or bandwidth-delay
// products were asked for, bytes where bytes or milliseconds were. netem counts packets alone.
QueueCapacity AccessQueueCapacity(const Topology& topology, int node, BitsPerSecond rate);
QueueCapacity PathQueueCapacity(const Topology& topology, const PathSpec& path);

// How long a full queue of full frames takes to empty: before the path's rate, and before the rates
// of the lines that it crosses, together.
absl::Duration FullQueuesTime(const Topology& topology, const PathSpec& path);

}  // namespace longhaul
