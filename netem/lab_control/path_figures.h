#pragma once

#include <nlohmann/json.hpp>

#include "netem/emulator.h"
#include "netem/probes/probe.h"

namespace longhaul {

// What a lab says of its links, as JSON for its answers; units in the keys.

// Of a path: its nominal figures. `aqm`, `rate_trace` and `jitter_order` only where it has them.
nlohmann::json PathFigures(const Topology& topology, const PathSpec& path);
nlohmann::json AqmFigures(const QueueManagement& aqm);
nlohmann::json LineJson(const LineCounters& line);

// Of a probed path, beside its `figures`: what was measured, the bounds that it was judged by, and
// whether it is within them. A tail that is late is out of bounds.
nlohmann::json VerdictJson(const Topology& topology, const VerifyOptions& options,
                           const PathVerdict& verdict, nlohmann::json figures);

}  // namespace longhaul
