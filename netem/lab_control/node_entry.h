#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/lab_control/lab_store.h"

namespace longhaul {

// Runs a program inside a node of a lab that is up, with this process's environment, terminal and
// folder (the root folder where a lab's fresh /run hides it) and $LONGHAUL_NODE = LAB/NODE, and
// waits for it. Returns its exit status, 128 + signal when a signal ended it: SIGKILL when the lab
// is taken down. argv[0] is looked for in $PATH.
// It moves the calling process, which must have one thread, into the lab's user, mount and PID
// namespaces for good: call it last.
absl::StatusOr<int> RunInNode(const LabStore& store, const std::string& lab,
                              const std::string& node, const std::vector<std::string>& argv);

// Moves the calling process, which must have one thread, into the lab's user namespace, where it
// has one, and into the node's network namespace. `address`: the node's.
absl::Status EnterNodeNetwork(const LabStore& store, const std::string& lab,
                              const std::string& node, std::string& address);

}  // namespace longhaul
