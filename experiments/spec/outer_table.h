#pragma once

#include "experiments/spec/spec.h"
#include "experiments/spec/table_reader.h"

namespace longhaul {

// Figures of [outer] that the file leaves to its algorithm.
void TakeOuterDefaults(TableReader& r, RunSpec& spec);

// What keys of [outer], and of tables before it, must be to each other.
void CheckOuterTable(TableReader& r, const RunSpec& spec);

}  // namespace longhaul
