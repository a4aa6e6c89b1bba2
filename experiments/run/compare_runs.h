#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"

namespace longhaul {

// Are two runs the same to the last bit? Compares per-step training losses and parameter hashes of
// every stage, the bytes of every crossing (count and hash), and the evaluations of both. Runs over
// loopback and over any links must be equal when their specs differ in [net] alone.
struct RunComparison {
  bool equal;
  // What was compared and what was not, or the first difference: step, group, stage or crossing.
  std::string text;
};

// InvalidArgument: a run has no steps, or the two trained a different number of them.
// FailedPrecondition with both hashes: their data or weights are other ones.
absl::StatusOr<RunComparison> CompareRuns(const Record& record, int64_t a, int64_t b);

}  // namespace longhaul
