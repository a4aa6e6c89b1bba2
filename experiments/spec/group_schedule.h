#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/fault_script.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/toml_tree.h"

namespace longhaul {

// outer.schedule: [[0, 2], [200, 4]], pairs of a finished inner step and a number of groups. The
// first step is 0, steps ascend, are multiples of outer.inner_steps and less than the run's; one
// entry has all outer.groups, none fewer than outer.min_groups or as many as the one before.
// InvalidArgument with file and line. After the rest of the spec has been read.
absl::Status ReadGroupSchedule(const TomlValue& root, RunSpec& spec);

// The line that ReadGroupSchedule reads back; "": none.
std::string GroupScheduleText(const RunSpec& spec);

// The same as a script: who is not there at first joins when the round ends that ends with the
// entry's step; who goes leaves before the step after it, so that it is still a member of the outer
// step at which it goes.
std::vector<Fault> PlannedFaults(const RunSpec& spec);

}  // namespace longhaul
