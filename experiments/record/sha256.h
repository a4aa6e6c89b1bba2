#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longhaul {

// Lower-case hex, 64 digits.
std::string Sha256Hex(std::string_view text);

// The same of a file's bytes, a piece at a time. NotFound and FailedPrecondition with the path and
// what the system said.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace longhaul
