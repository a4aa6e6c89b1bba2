#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"
#include "netem/probes/probe.h"
#include "netem/topology/topology.h"

namespace longhaul {

// How much shaped traffic the tap emulator carries on this machine: TCP over a lab of two nodes and
// a link of 40 Gbit/s, 1 ms, with frames as the kernel hands them out (TSO) and cut to the MTU, as
// it does for slow or lossy links. `core_share`: part of one core that the emulating process used,
// so rate / share is what a core of it carries.
struct TapCeiling {
  BitsPerSecond tso, mtu_frames;
  double tso_core_share, mtu_core_share;
};
// It takes 2 x `measure` + 2 s, alone on the machine. Call as StartLab.
absl::StatusOr<TapCeiling> MeasureTapCeiling(absl::Duration measure);

// The same one number for the kernel's netem, in `measure` + 1 s.
absl::StatusOr<BitsPerSecond> MeasureNetemCeiling(absl::Duration measure);

// 200 idle echoes over a `regional` link: what the emulator adds on this machine, and its tail.
absl::StatusOr<RttSample> MeasureIdleRtt(EmulatorKind kind);

// OK when this machine can carry the topology: no single rate above the ceiling of its frames.
// FailedPrecondition: the path, its rate and the ceiling.
absl::Status CheckRates(const Topology& topology, const TapCeiling& ceiling);

// The last measured ceiling of this machine, $XDG_CACHE_HOME/longhaul/tap-ceiling or below
// ~/.cache; written by `longhaul doctor`. nullopt: none, or one of another kernel or number of
// cores.
std::optional<TapCeiling> LoadTapCeiling();
absl::Status StoreTapCeiling(const TapCeiling& ceiling);
std::string TapCeilingFile();  // "" without a home

}  // namespace longhaul
