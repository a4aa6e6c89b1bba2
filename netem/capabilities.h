#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology.h"

namespace longhaul {

// One thing that the WAN lab needs or uses, as found on this machine.
struct Capability {
  std::string name;    // "sch_netem"
  std::string found;   // "absent", "loadable", "6.18.44"
  bool good;           // false: something does not work, or works less well
  std::string advice;  // what to do when not good; "" else
};

struct Capabilities {
  std::vector<Capability> items;
  // What BuildEmulator can use here, and what the probe said where it can use none.
  bool netem = false;
  bool tap = false;
  bool lab = false;  // namespaces, as root or through a user namespace
  std::string best;  // "netem", "tap", or "none: WHY"
};

// Kernel, namespaces, sch_netem, /dev/net/tun, real-time scheduling, clock source, cores,
// congestion controls and buffer limits. Builds scratch labs and takes them down again; under a
// second. Call from the main thread before other threads exist (StartLab does).
Capabilities ProbeCapabilities();

// How much shaped traffic the tap emulator carries on this machine: TCP over a lab of two nodes and
// a link of 40 Gbit/s, 1 ms, with frames as the kernel hands them out (TSO) and cut to the MTU, as
// it does for slow or lossy links. `core_share`: part of one core that the emulating process used.
// It takes 2 x `measure` + 2 s.
struct TapCeiling {
  BitsPerSecond tso, mtu_frames;
  double tso_core_share, mtu_core_share;
};
absl::StatusOr<TapCeiling> MeasureTapCeiling(absl::Duration measure);

// OK when this machine can carry the topology: no single rate above the ceiling of its frames.
// FailedPrecondition: the path, its rate and the ceiling.
absl::Status CheckRates(const Topology& topology, const TapCeiling& ceiling);

}  // namespace longhaul
