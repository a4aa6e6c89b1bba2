#pragma once

#include <span>
#include <vector>

#include "experiments/record/record_rows.h"

namespace longhaul {

// Adds what the crossings had counted in the steps before a run was resumed to what they have
// counted since: messages, bytes, times and hashes (a hash is a sum over messages). The
// prediction is for the whole run already and stays. A kernel's count that one part lacks is
// unknown for both.
// Rows that `since` lacks are added to it.
void AddEarlierCounts(std::span<const CrossingRow> earlier, std::vector<CrossingRow>& since);
// The same of one row with the same source, destination and direction.
void AddCounts(const CrossingRow& earlier, CrossingRow& row);

}  // namespace longhaul
