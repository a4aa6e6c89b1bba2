#pragma once

namespace longhaul {

// What suits this processor best, where they differ in more than their instruction sets. No bit of
// a frame or a value depends on it. Tests set both to see that; nobody else does.
extern bool fetch_to_first_cache;  // prefetch.h; else to the second
extern bool add_apart;             // CodesOfManyBins (stat_bins.h)

}  // namespace longhaul
