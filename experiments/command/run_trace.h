#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "experiments/trace/trace_span.h"

namespace longhaul {

// Before anything is started: whether the file could be written. Unavailable: why not.
absl::Status CheckTraceFile(const std::string& path);

// Writes what a run with spec.trace told of itself, beside the file first, which is then renamed.
// What to say of it: where it is, and how much of the exchanges in it was exposed. FailedPrecondition:
// some rank did not come to the end of the last step that was asked for; nothing is written then.
absl::StatusOr<std::string> WriteTrace(const std::string& path, const Trace& trace,
                                       const RunSpec& spec);

}  // namespace longhaul
