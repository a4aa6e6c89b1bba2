#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/lab_control/lab_store.h"

namespace longhaul {

// Runs a program inside a node of a lab that is up, with this process's environment, terminal and
// folder and $LONGHAUL_NODE = LAB/NODE, and waits for it. Returns its exit status, 128 + signal
// when a signal ended it: SIGKILL when the lab is taken down. argv[0] is looked for in $PATH. What
// folder, program and $PATH name under /run is the host's. FailedPrecondition: the folder is gone,
// or is not the same one inside the lab; the program runs nowhere else.
// It moves the calling process, which must have one thread, into the lab's user, mount and PID
// namespaces for good: call it last.
absl::StatusOr<int> RunInNode(const LabStore& store, const std::string& lab,
                              const std::string& node, const std::vector<std::string>& argv);

// Has a process that is in RunInNode end its program by SIGKILL and return. To kill that process
// itself would leave the program's remains to whoever reaps orphans, and until then the lab stays.
void KillProgramOf(pid_t waiting);

// Moves the calling process, which must have one thread, into the lab's user namespace, where it
// has one, and into the node's network namespace. `address`: the node's.
absl::Status EnterNodeNetwork(const LabStore& store, const std::string& lab,
                              const std::string& node, std::string& address);

}  // namespace longhaul
