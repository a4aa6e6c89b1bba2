#pragma once

#include "pp_group/schedule/makespan.h"

namespace longhaul {

// What a message takes on a link: the one place for predictions of steps (estimates/step_time.h), runs
// in simulated time (planning/scale) and the simulated clock of a training (train/simulated_clock.h).

// One direction of a link, and what a message on it has: a first-in-first-out queue (full duplex),
// which all boundaries from one rank to the same other one share.
struct BoundaryLink {
  double message_bytes = 0;   // handed to the transport, per micro-batch
  double rate_bit_per_s = 0;  // Ethernet level; infinity: no limit
  double one_way_delay_s = 0;
};

// Wire bytes over payload bytes: a 1514-byte Ethernet frame carries 1448 bytes of a TCP stream.
constexpr double kWireFactor = 1514.0 / 1448.0;

// Busy for 8 kappa b / R, there one delay after that.
PipelineCosts::Wire WireOf(const BoundaryLink& link);
// The same with what TCP's slow start adds on a connection that is new or has idled: the closed form
// of plugin/swarm/transfer_time.h, pushed. `connections`: over so many at once, each with a first
// window of its own.
PipelineCosts::Wire ColdWireOf(const BoundaryLink& link, double connections = 1);

// One message on an idle link whose window is open, and on one that is cold.
double MessageSeconds(const BoundaryLink& link);
double ColdMessageSeconds(const BoundaryLink& link, double connections = 1);

}  // namespace longhaul
