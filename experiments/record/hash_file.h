#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// SHA-256 of a file's bytes, read a piece at a time. NotFound and FailedPrecondition with the path
// and what the system said.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace longhaul
