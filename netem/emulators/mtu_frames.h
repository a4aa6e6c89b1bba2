#pragma once

#include "netem/topology/topology.h"

namespace longhaul {

// True when frames that leave this node must be cut to the MTU before they meet a queue: a whole
// TSO frame would be lost, or would block a slow line or fill a short queue, up to 64 kB at once.
bool NeedsMtuFrames(const Topology& topology, int node);

}  // namespace longhaul
