#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// The interpreter: LONGHAUL_PYTHON of the environment, which the package's own script sets, or the one whose torch the
// build found.
std::string ReaderPython();

// The words that start it with `main` of a module of the package, `words` behind them.
absl::StatusOr<std::vector<std::string>> CommandOfModule(const std::string& module,
                                                         std::vector<std::string> words);

// As exec and spawn want words: pointers into them, which end with a null.
std::vector<char*> Argv(std::vector<std::string>& words);

}  // namespace longhaul
