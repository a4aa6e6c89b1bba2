#pragma once

#include <string>

#include "absl/status/status.h"

namespace longhaul {

// ResourceExhausted, PermissionDenied: with the path.
absl::Status WriteReportFile(const std::string& path, const std::string& text);
absl::Status MakeReportFolder(const std::string& path);

// A figure from "<svg" on: what stands before it is an XML prologue that HTML does not take. "":
// not there.
std::string ReadSvg(const std::string& path);

}  // namespace longhaul
