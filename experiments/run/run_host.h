#pragma once

#include <string>

namespace longhaul {

// Where and from what a run was made; for its record. Empty or "unknown" where the machine does not
// say, never guessed.
struct RunHost {
  std::string host;
  std::string kernel;
  std::string cpu;
  int cores;
  double load_1min;
  std::string git_revision;  // of the source tree this binary was built from, "+" when modified
};
RunHost ReadRunHost();

}  // namespace longhaul
