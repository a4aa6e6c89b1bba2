#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/record/file_contents.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// All that a record knows of what a run's files held: its named files, and the hashes of tokens and
// weights that its workers told. Runs of older versions have those alone.
std::vector<FileContent> ContentsOf(const RunRow& run);

// Of the runs of one experiment whose figures count (ended ok or diverged): where one value of one
// key held different things, which key, both hashes and in how many runs each; else "". No figure
// may be made of such runs together.
std::string MixedContents(std::span<const RunRow> runs);

}  // namespace longhaul
