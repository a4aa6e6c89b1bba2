#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace longhaul {

// PermissionDenied: with the path.
absl::Status MakeReportFolder(const std::string& path);

// A figure from "<svg" on: what stands before it is an XML prologue that HTML does not take. "":
// not there.
std::string ReadSvg(const std::string& path);

// Runs the scripts of experiments/report/plots, which are embedded at build time, over the given
// folders of CSV files; it writes SVG files beside them. `python`: an interpreter with matplotlib.
// FailedPrecondition: it could not be started or it failed, with the last line it said; everything
// it said is in `log`.
absl::Status DrawPlots(const std::string& python, const std::vector<std::string>& folders,
                       const std::string& log);

}  // namespace longhaul
