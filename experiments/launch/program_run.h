#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// One run of a campaign's [program]: its S x G ranks over the loopback interface.

// The PID namespace of this process, by the kernel's name for it.
std::string PidNamespace();

// The body of a private lab that has the caller's network (netem/lab/lab.h): starts the ranks, waits
// for them, and writes what they told to `events_fd`, as a run of ours does. `outside`: the PID
// namespace of the command; what ranks leave behind is killed here, where that is another one.
int ProgramMain(const RunSpec& spec, int events_fd, const std::string& outside);

}  // namespace longhaul
