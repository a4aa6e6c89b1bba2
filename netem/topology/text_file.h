#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// A text file that a person wrote, without the byte-order mark that some editors put first. One
// line that says what is wrong: NotFound: it cannot be opened, and why; InvalidArgument: a folder,
// UTF-16, bytes of zero, or more than 64 MiB.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace longhaul
