#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// What is left for new processes: of the machine, or of the strictest control group around this
// process. `by` names what sets the limit, for messages.
struct Remaining {
  int64_t amount;
  std::string by;
};

// Files are read below `root`: "" is the machine itself, tests bring their own. A file that is not
// there sets no limit.
Remaining RemainingMemory(const std::string& root = "");   // bytes; swap does not count
Remaining RemainingThreads(const std::string& root = "");  // processes and threads

// Cores that a run keeps busy: its threads, in each of its S x G processes over shaped links. One
// for its codecs where its compute is injected.
int64_t CoresNeeded(const RunSpec& spec);
int64_t CoresNeeded(const RunRow& run);

// Cores that this process may use (affinity, cpusets); at least 1.
int64_t CoresAllowed();

// Cores that living processes of `host` keep busy with these runs.
int64_t CoresBusy(const std::vector<RunRow>& runs, const std::string& host);

}  // namespace longhaul
