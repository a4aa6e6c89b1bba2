#pragma once

#include <string>

#include "experiments/spec/spec.h"

namespace longhaul {

// The first process of a shaped run's lab: picks and builds the emulator, verifies the links,
// starts one worker per rank in its node, waits for them, verifies the links again. Everything it
// has to say goes to `events_fd` (event_stream.h). `command_stat_fd`: CommandWatch (stall_tracker.h). Returns the
// exit status of the process.
int LabMain(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd,
            int command_stat_fd);

}  // namespace longhaul
