#pragma once

#include <limits>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "netem/topology/topology.h"
#include "pp_group/schedule/clock.h"

namespace longhaul {

// What a message takes on a link: the one place for predictions of steps, runs in simulated time
// (planning/scale.h) and the simulated clock of a training (train/simulated_clock.h).

// One direction of a link, and what a message on it has: a first-in-first-out queue (full duplex),
// which all boundaries from one rank to the same other one share.
struct BoundaryLink {
  double message_bytes = 0;   // handed to the transport, per micro-batch
  double rate_bit_per_s = 0;  // Ethernet level; infinity: no limit
  double one_way_delay_s = 0;
  // For TCP's sake (pp_group/schedule/wire.h): packets that may wait before the rate, and whether
  // senders' frames of up to 64 kB pass whole, as `tap` lets them where a line is fast and netem never.
  double queue_packets = std::numeric_limits<double>::infinity();
  bool whole_buffers = true;
  Wire::Control control = Wire::Control::kReno;
  FrameLoss loss = {};  // its key is for whoever knows the ends
};

// The link that a path is to the run's congestion control, without a message. No rate: no limit. "system"
// is what Linux begins with, cubic; of others see CheckControl.
BoundaryLink LinkOf(const Topology& links, const PathSpec& path, const RunSpec& run);

// InvalidArgument: a congestion control that links have no model of; want system, reno, cubic or bbr.
absl::Status CheckControl(const RunSpec& run);

// InvalidArgument: links that a simulated clock has no model of: a path that loses everything, access lines
// that paths share, rates that change with time. Jitter is left out, without an error.
absl::Status CheckLinks(const Topology& links);

// Wire bytes over payload bytes: a 1514-byte Ethernet frame carries 1448 bytes of a TCP stream.
constexpr double kWireFactor = 1514.0 / 1448.0;

// Busy for 8 kappa b / R, there one delay after that; the rules of P1 and P3 know no headers (kappa 1).
Wire WireOf(const BoundaryLink& link, LinkPolicy policy = LinkPolicy::kFullDuplex);
// The same through a TCP connection, whose window is what its messages have made of it. `connections`:
// over so many at once, each with a first window of its own.
Wire ColdWireOf(const BoundaryLink& link, double connections = 1);

// One message on an idle link whose window is open.
double MessageSeconds(const BoundaryLink& link);

// What a group that takes over the weights needs for a stage of so many parameters, from `sources`
// members at once through the swarm (plugin/swarm/transfer_time.h): each has such a path to it, and its
// own line is no faster.
double FetchSeconds(int64_t parameters, int64_t sources, const BoundaryLink& path);

}  // namespace longhaul
