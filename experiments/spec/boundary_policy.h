#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// [boundary.policy] of a run spec, whose other keys and [boundary.cuts] stand in `spec` already; and
// what boundary.warmup_steps and codecs that remember samples (aqsgd*) ask of other keys.
// InvalidArgument with the line.
absl::Status ReadBoundaryPolicy(const TomlValue& root, const SpecNames& names, RunSpec& spec);

// The table that ReadBoundaryPolicy reads back.
SpecLines BoundaryPolicyLines(const RunSpec& spec);

// Whether a codec of that name remembers what it sent of each sample.
bool RemembersSamples(std::string_view codec);

// Every boundary sends values as they are, in both directions, in all steps.
bool SendsExact(const RunSpec& spec);

}  // namespace longhaul
