#pragma once

namespace longhaul {

// How a worker of a run ends that goes on without it; 0: the run is over, 1: it cannot go on.
inline constexpr int kExitGroupLost = 75;  // start the group anew
inline constexpr int kExitLeft = 76;       // in order, as its script says: it comes no more

}  // namespace longhaul
