#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

struct FileDigest {
  int64_t bytes;
  std::string sha256;  // in lower-case hex, 64 digits
};
// Reads a regular file once. FailedPrecondition: it is not there, not regular, or cannot be read;
// the message names the file.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

// Regular files below `folder`, relative to it, sorted by bytes. InvalidArgument: there is none, or
// something is neither folder nor regular file (a link's target would not travel).
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder);

}  // namespace longhaul
