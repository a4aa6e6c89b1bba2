#pragma once

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// `compute` of a run spec, whose other keys stand in `spec` already: "measured" (or nothing), or
// the table [compute]. InvalidArgument with the line: another text, seconds that are negative, not
// finite or above an hour, a list that is not one value a stage, a machine without seconds and
// without flops; what needs trained parameters or processes of their own beside slept compute:
// checkpoints, boundary.capture, net.transport = "loopback"; net.clock = "simulated" without the
// table, or with what that clock does not know.
absl::Status ReadComputeTable(const TomlValue& root, RunSpec& spec);

// The table that ReadComputeTable reads back; none for "measured".
SpecLines ComputeTableLines(const RunSpec& spec);

}  // namespace longhaul
