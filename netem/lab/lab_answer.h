#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// Runs `question` inside a private lab of its own and returns its text; the lab is gone then. An
// error of the lab or of the question comes back as it is. Call as StartLab.
absl::StatusOr<std::string> AskInLab(const std::function<absl::StatusOr<std::string>()>& question);

}  // namespace longhaul
