#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// The steps of `text`, "A:B", for a run of that spec; of empty text the step before its first
// exchange between groups begins until the one after it is applied, or three steps behind the first.
// InvalidArgument: no two steps of the run in order; more than a trace keeps in memory, with both
// figures; a run that is not traced (of a program, or whose groups come and go).
absl::StatusOr<TraceSteps> ParseTraceSteps(const std::string& text, const RunSpec& spec);

}  // namespace longhaul
