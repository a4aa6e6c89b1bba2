#pragma once

namespace longhaul {

// What suits this processor best, where they differ in more than their instruction sets.
extern const bool fetch_to_first_cache;  // prefetch.h; else to the second
extern const bool add_apart;             // CodesOfManyBins (stat_bins.h)

}  // namespace longhaul
