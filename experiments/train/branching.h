#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

// Runs that share their first steps (train.schedule = "wsd") hand them over in files.
struct Branching {
  std::string begin_in;  // a folder with the checkpoint to begin from; empty: step 1
  std::string leave_in;  // where checkpoints of `leave_after` go, each in its own folder
  std::vector<int64_t> leave_after;  // finished steps, ascending
  std::string FolderAfter(int64_t step) const { return leave_in + "/" + std::to_string(step); }
};

}  // namespace longhaul
