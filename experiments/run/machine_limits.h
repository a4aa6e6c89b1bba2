#pragma once

#include <cstdint>
#include <string>

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

}  // namespace longhaul
