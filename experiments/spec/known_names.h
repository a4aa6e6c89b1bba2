#pragma once

#include "experiments/spec/spec.h"

namespace longhaul {

// The names that exist: the codecs of compressors/catalog.h, the profiles of
// netem/topology/topology.h, the schedules of pp_group/schedule/catalog.h.
SpecNames CatalogNames();

}  // namespace longhaul
